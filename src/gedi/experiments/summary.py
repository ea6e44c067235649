"""From cells to what is shown: means over seeds, their text, and the JSON file of an experiment."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gedi import runs
from gedi.experiments.cells import Cell, Measured
from gedi.experiments.outcome import Budget, Outcome
from gedi.files.writing import finite, replace_text

SCORES = ("nmi", "accuracy", "symbol_accuracy", "ari", "nmi_batch64", "objective", "walk_crossing", "seconds")
SCORES += ("nmi_of_representation", "probe", "knn", "auroc_noise", "gradient_evaluations")
NOTE_JEM = "JEM has no cluster head (the paper gives it one output neuron): it predicts one cluster, NMI 0."
NOTE_NEAREST = (
    "Spectral clustering and Ward cannot label new points: a test point gets the label of its nearest training point."
)


def summary(found: Sequence[Measured], scores_of: Sequence[str] = SCORES) -> dict[str, Any]:
    """Mean, standard deviation, lowest and highest of every score over the cells of a group."""
    scores: dict[str, Any] = {"n": len(found), "diverged": sum("diverged" in m for m in found)}
    for name in scores_of:
        values = [m[name] for m in found if m.get(name) is not None]
        if values:
            scores[name] = {
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else 0.0,
                "min": min(values),
                "max": max(values),
            }
    return scores


def mean_std(group: dict[str, Any], score: str = "nmi", digits: int = 2) -> str:
    """'0.98 ± 0.02', '0.98' of one fit, and how many diverged if any did; a dash if none has this score."""
    if score not in group:
        return "–"
    s = group[score]
    diverged = f" ({group['diverged']} of {group['n']} diverged)" if group["diverged"] else ""
    deviation = f" ± {s['std']:.{digits}f}" if group["n"] > 1 else ""
    return f"{s['mean']:.{digits}f}{deviation}{diverged}"


def lowest(group: dict[str, Any], score: str = "nmi") -> str:
    """The lowest of the seeds."""
    return f"{group[score]['min']:.2f}"


def spread_note(budget: Budget, seeds: str | None = None) -> str:
    """What the numbers are means of."""
    n = len(budget.seeds)
    seeds = seeds or (f"{n} seeds" if n > 1 else "one seed")
    note = f"Mean ± standard deviation (n - 1) over {seeds}; data and fit both change with the seed."
    return note + (
        " Scale 'smoke' only shows that all runs: its numbers mean nothing." if budget.scale == "smoke" else ""
    )


def divergence_notes(found: dict[Cell, Measured]) -> list[str]:
    """One note for all fits that diverged, with the first message."""
    diverged = {cell: m["diverged"] for cell, m in found.items() if "diverged" in m}
    if not diverged:
        return []
    cell, message = next(iter(diverged.items()))
    return [
        f"{len(diverged)} of {len(found)} fits diverged and count as one cluster, NMI 0. The first ({cell}): {message}"
    ]


def write_json(
    name: str,
    outcome: Outcome,
    budget: Budget,
    out: Path,
    found: dict[Cell, Measured],
    groups: list[dict[str, Any]],
) -> None:
    """``out/NAME.json``: the table, the means, every cell's numbers and settings, and where they come from."""
    names = settings_names(found)
    cells = [_short(measured, names[cell]) for cell, measured in found.items()]
    settings = {names[cell]: cell.settings() for cell in found}
    content = {
        "name": name,
        "title": outcome.title,
        "scale": budget.scale,
        "seeds": sorted({cell.seed for cell in found}),
        "table": {"columns": outcome.columns, "rows": outcome.rows},
        "notes": outcome.notes,
        "files": [path.name for path in outcome.files],
        "groups": groups,
        "cells": cells,
        "settings": settings,
        "provenance": runs.provenance(),
    }
    path = out / f"{name}.json"
    replace_text(path, json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n")
    outcome.files.append(path)


def _short(measured: Measured, settings: str) -> dict[str, Any]:
    """A cell for reading: its settings are named, and its labels left in the file of cells."""
    left_out = ("cell", "config", "labels", "provenance")
    shown = {k: v for k, v in measured.items() if k not in left_out}
    return {
        "cell": measured["cell"],
        "settings": settings,
        **shown,
        "date": measured["provenance"]["date"],
        "versions": measured["provenance"]["versions"],
    }


def settings_names(cells: Iterable[Cell]) -> dict[Cell, str]:
    """What the settings of each cell are called; where a data set has some of its own, it is part of the name."""
    short = {cell: _settings_name(cell) for cell in cells}
    called: dict[str, list[dict[str, Any]]] = {}
    for cell, name in short.items():
        called.setdefault(name, []).append(cell.settings())
    differ = {name for name, settings in called.items() if any(one != settings[0] for one in settings)}
    return {cell: f"{name}, {cell.dataset}" if name in differ else name for cell, name in short.items()}


def _settings_name(cell: Cell) -> str:
    parts = [cell.method, cell.preset or "default", cell.variant]
    parts += [f"{cell.rows} rows"] if cell.dataset == "addition" else []  # on which they depend
    parts += [f"T={cell.dam_steps}"] if cell.dam_steps is not None else []
    return ", ".join([*parts, "images"] if cell.dataset == "digits" else parts)
