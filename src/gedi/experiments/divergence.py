"""The paper's sampler, taken literally, with the guard and without: what diverges, and how soon it is noticed."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch

from gedi import runs
from gedi.data import load
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.files.writing import finite, replace_text
from gedi.training.config import TrainingConfig, override, to_dict
from gedi.training.fit import fit_rows
from gedi.training.guard import DivergedError, GuardWarning
from gedi.training.presets import preset

NAME, TITLE = "table-divergence", "One Langevin step of size 1, noise 0.01, no clamp: with the guard and without"
DATASETS = ("moons", "circles")
ALONE = 1000  # iterations of the run that nobody watches


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Train step 1 twice for every seed, and list what the guard saw. One process: it takes a minute a seed."""
    torch.set_num_threads(1)
    settings = literal(budget)
    cells = [_measure(data, seed, settings, budget, say) for data in DATASETS for seed in budget.seeds]
    rows = [
        [
            cell["data"],
            str(cell["seed"]),
            f"{cell['gap_alone']:.2g}",
            str(cell["warned"]),
            str(cell["first_seen"]),
            ", ".join(str(event["iteration"]) for event in cell["events"] if event["action"] != "warned"),
            cell["end"],
        ]
        for cell in cells
    ]
    columns = ["data", "seed", f"energy gap after {ALONE} iterations, unwatched"]
    columns += ["warned of at iteration", "first left its limits at", "all events at", "the run"]
    notes = [
        "The paper's settings for synthetic data, samples free to leave the box; step 1 only. The warning is of the "
        "sampler's temperature, and needs no iteration. Every event but the last is a rollback that halves the "
        "learning rate, so later ones come later.",
    ]
    outcome = Outcome(TITLE, columns, rows, notes)
    content = {"name": NAME, "title": TITLE, "scale": budget.scale, "seeds": list(budget.seeds)}
    content |= {"table": {"columns": columns, "rows": rows}, "notes": notes, "cells": cells}
    content |= {"settings": to_dict(settings), "provenance": runs.provenance()}
    path = out / f"{NAME}.json"
    replace_text(path, json.dumps(finite(content), indent=1, ensure_ascii=False) + "\n")
    outcome.files.append(path)
    return outcome


def literal(budget: Budget) -> TrainingConfig:
    """The paper's settings without the box, and without step 2."""
    config = preset("paper", n_features=2)
    most = budget.iterations or config.step1.iterations
    return override(config, {"sampler.clamp": False, "step1.iterations": most, "step2.iterations": 0})


def _measure(data: str, seed: int, settings: TrainingConfig, budget: Budget, say: Say) -> dict[str, Any]:
    x = load(data, n=budget.rows, seed=seed).x
    alone = override(settings, {"guard.action": "watch", "step1.iterations": min(ALONE, settings.step1.iterations)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        history = fit_rows(x, n_clusters=2, config=alone, seed=seed).history
        try:
            events, end = fit_rows(x, n_clusters=2, config=settings, seed=seed).results["guard"], "finished"
        except DivergedError as error:
            events, end = error.events, "stopped with a report"
    gap = [line["generative"] for line in history if "generative" in line][-1]
    warned = next((event["iteration"] for event in events if event["action"] == "warned"), None)
    first = next((event["iteration"] for event in events if event["action"] != "warned"), None)
    say(f"{data} seed {seed}: warned of at iteration {warned}, first left its limits at {first}, {end}")
    seen = {"warned": warned, "first_seen": first, "events": events}
    return {"data": data, "seed": seed, "gap_alone": gap, **seen, "end": end}
