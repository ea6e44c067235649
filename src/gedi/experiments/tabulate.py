"""From fits to a table: run the cells, take means over seeds, lay out the rows, and write NAME.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from gedi import runs
from gedi.experiments import Budget, Outcome, Request, plots
from gedi.experiments.cells import Cell, Measured, run_cells
from gedi.files.writing import finite, replace_text

Entry = tuple[Any, ...]  # the names of one entry of a table, such as ("moons", "gedi")
Group = dict[str, Any]  # statistics over the cells of one entry

SCORES = ("nmi", "ami", "accuracy", "symbol_accuracy", "ari", "nmi_batch64", "objective", "walk_crossing", "seconds")
SCORES += ("nmi_of_representation", "probe", "sgd_probe", "knn", "gradient_evaluations")
SCORES += ("auroc_uniform", "auroc_shuffled")
HEADINGS = {"nmi": "NMI", "ami": "AMI", "accuracy": "accuracy", "ari": "ARI", "nmi_of_representation": "NMI of enc"}
HEADINGS |= {"probe": "probe", "sgd_probe": "probe by SGD", "knn": "kNN"}
HEADINGS |= {"auroc_uniform": "AUROC, noise", "auroc_shuffled": "AUROC, shuffled"}
DENSITY = ("auroc_uniform", "auroc_shuffled")
NAMES = {"jem": "JEM", "barlow": "Barlow", "swav": "SwAV", "gedi": "GEDI"}
NAMES |= {"kmeans": "k-means", "spectral": "spectral", "ward": "Ward", "untrained": "untrained encoder"}
RANDOM = "random labels"  # what the row of chance is called

NOTE_JEM = "JEM has no cluster head (the paper gives it one output neuron): it predicts one cluster, so its NMI is 0."
NOTE_CHANCE = (
    "AMI is mutual information corrected for chance; NMI is not. 'random labels' are GEDI's clusters in random order; "
    "'k-means' is that of the raw input; 'untrained encoder' is k-means of enc(x) in GEDI's net as it starts."
)
NOTE_AUROC = (
    "AUROC of log p: the chance that a test row is more likely than a row of uniform noise in the test rows' box, and "
    "than a test row with every column shuffled."
)
NOTE_SMOKE = "The smoke scale only checks that everything runs: its numbers mean nothing."


class Results(NamedTuple):
    """What a table is laid out from, by entry."""

    cells: Mapping[Entry, Sequence[Cell]]  # one per seed
    found: dict[Cell, Measured]
    groups: dict[Entry, Group]

    def first(self, *entry: Any) -> Measured:
        """The numbers of an entry's first seed."""
        return self.found[self.cells[entry][0]]


Text = Callable[[Results, Entry], str]  # what a column shows in a row
Note = str | Callable[[Results], str]


def tabulate(
    request: Request,
    name: str,
    title: str,
    *,
    parts: Sequence[str],
    cells: Mapping[Entry, Sequence[Cell]],
    columns: dict[str, Text],
    notes: Iterable[Note],
    rows: Iterable[Entry] | None = None,
    chance: Mapping[Entry, Entry] | None = None,
    summarise: Callable[[list[Measured]], Group] | None = None,
    draw: Callable[[Results], Figure] | None = None,
    pictures: Iterable[Path] = (),
    **fitting: Any,
) -> Outcome:
    """Fit the ``cells`` that are missing, and make the table and ``out/NAME.json`` of them all.

    ``parts`` says what the names in an entry are, such as ("dataset", "method"). There is one row per entry unless
    ``rows`` lists others: a row is a tuple of names too, which each column turns into text. ``chance`` adds entries for
    random labels, each at the cluster sizes of the entry it is mapped to. ``draw`` makes ``out/NAME.png``; ``pictures``
    are files that fits may have drawn. ``fitting`` is passed to `run_cells`.
    """
    found = run_cells(
        [cell for group in cells.values() for cell in group], request.out, request.jobs, request.say, **fitting
    )
    summarise = summarise or summary
    groups = {entry: summarise([found[cell] for cell in group]) for entry, group in cells.items()}
    for entry, source in (chance or {}).items():
        groups[entry] = summarise([found[cell]["random_labels"] for cell in cells[source]])
    results = Results(cells, found, groups)
    lines = [[text(results, row) for text in columns.values()] for row in (groups if rows is None else rows)]
    said = [note if isinstance(note, str) else note(results) for note in notes]
    said += [NOTE_SMOKE] if request.budget.scale == "smoke" else []
    said += divergence_notes(found)
    files = [path for path in pictures if path.is_file()]
    files += [plots.save(draw(results), request.out / f"{name}.png")] if draw else []
    names = settings_names(found)
    return write_json(
        request,
        name,
        Outcome(title, list(columns), lines, said, files),
        seeds=sorted({cell.seed for cell in found}),
        files=[path.name for path in files],
        groups=[dict(zip(parts, entry, strict=True)) | group for entry, group in groups.items()],
        cells=[_short(measured, names[cell]) for cell, measured in found.items()],
        settings={names[cell]: cell.settings() for cell in found},
    )


def write_json(request: Request, name: str, outcome: Outcome, *, seeds: Sequence[int], **content: Any) -> Outcome:
    """Write ``out/NAME.json``: the table, what it was made from, and the versions used."""
    everything = {
        "name": name,
        "title": outcome.title,
        "scale": request.budget.scale,
        "seeds": seeds,
        "table": {"columns": outcome.columns, "rows": outcome.rows},
        "notes": outcome.notes,
        **content,
        "provenance": runs.provenance(),
    }
    path = request.out / f"{name}.json"
    replace_text(path, json.dumps(finite(everything), indent=1, ensure_ascii=False) + "\n")
    outcome.files.append(path)
    return outcome


# ---- columns ----


def of_row(text: Callable[..., object]) -> Text:
    """A column that depends on the names in the row alone."""
    return lambda results, row: str(text(*row))


def mean(score: str = "nmi", *at: Any, digits: int = 2) -> Text:
    """Mean and deviation of a score, for the entry named by the row followed by ``at``."""
    return lambda results, row: mean_std(results.groups[*row, *at], score, digits)


def means(*scores: str) -> dict[str, Text]:
    """A column for each of the scores, under its usual heading."""
    return {HEADINGS[score]: mean(score) for score in scores}


def lowest(*at: Any) -> Text:
    """NMI of the worst seed."""
    return lambda results, row: f"{results.groups[*row, *at]['nmi']['min']:.2f}"


def seconds(digits: int = 0) -> Text:
    """Mean time of a fit; a dash for what is not fitted."""

    def text(results: Results, row: Entry) -> str:
        group = results.groups[row]
        return f"{group['seconds']['mean']:.{digits}f}" if "seconds" in group else "–"

    return text


# ---- statistics and their text ----


def summary(found: Sequence[Measured], scores: Sequence[str] = SCORES) -> Group:
    """Mean, standard deviation, lowest and highest of every score over the cells of an entry."""
    group: Group = {"n": len(found), "diverged": sum("diverged" in m for m in found)}
    for name in scores:
        values = [m[name] for m in found if m.get(name) is not None]
        if values:
            group[name] = {
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else 0.0,
                "min": min(values),
                "max": max(values),
            }
    return group


def mean_std(group: Group, score: str = "nmi", digits: int = 2) -> str:
    """'0.98 ± 0.02', or '0.98' for one fit, and how many diverged if any did; a dash if no fit has this score."""
    if score not in group:
        return "–"
    s = group[score]
    diverged = f" ({group['diverged']} of {group['n']} diverged)" if group["diverged"] else ""
    deviation = f" ± {s['std']:.{digits}f}" if group["n"] > 1 else ""
    return f"{s['mean']:.{digits}f}{deviation}{diverged}"


def spread_note(budget: Budget, *, varies: str = "data and fit both change", seeds: str | None = None) -> str:
    """What the numbers are means of, and what changes with the seed."""
    n = len(budget.seeds)
    if n == 1 and seeds is None:
        return "One seed, so no standard deviation."
    return f"Mean ± standard deviation (n - 1) over {seeds or f'{n} seeds'}; {varies} with the seed."


def divergence_notes(found: dict[Cell, Measured]) -> list[str]:
    """One note about all fits that diverged, with the first message."""
    diverged = {cell: m["diverged"] for cell, m in found.items() if "diverged" in m}
    if not diverged:
        return []
    cell, message = next(iter(diverged.items()))
    return [
        f"{len(diverged)} of {len(found)} fits diverged and count as one cluster, NMI 0. The first ({cell}): {message}"
    ]


# ---- NAME.json ----


def _short(measured: Measured, settings: str) -> dict[str, Any]:
    """A cell for reading: its settings are named, and its labels stay in the file of cells."""
    left_out = ("cell", "config", "labels", "random_labels", "provenance")
    shown = {k: v for k, v in measured.items() if k not in left_out}
    source = {name: measured["provenance"][name] for name in ("date", "versions")}
    return {"cell": measured["cell"], "settings": settings, **shown, **source}


def settings_names(cells: Iterable[Cell]) -> dict[Cell, str]:
    """What the settings of each cell are called; the data set is part of the name where its settings are its own."""
    short = {cell: _settings_name(cell) for cell in cells}
    called: dict[str, list[dict[str, Any]]] = {}
    for cell, name in short.items():
        called.setdefault(name, []).append(cell.settings())
    differ = {name for name, settings in called.items() if any(one != settings[0] for one in settings)}
    return {cell: f"{name}, {cell.dataset}" if name in differ else name for cell, name in short.items()}


def _settings_name(cell: Cell) -> str:
    parts = [cell.method, cell.preset or "default", cell.variant]
    parts += [f"{cell.rows} rows"] if cell.dataset == "addition" else []  # its settings depend on them
    parts += [f"{cell.columns} columns"] if cell.columns else []
    parts += [f"T={cell.dam_steps}"] if cell.dam_steps is not None else []
    return ", ".join([*parts, "images"] if cell.dataset == "digits" else parts)
