"""Step 1 on many seeds: does the density's training ever leave its limits?"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from gedi.experiments.cells import Cell, Measured, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import write_json

NAME, TITLE = "table-stability", "Step 1 alone, default settings, many seeds"
DATASETS = {"moons": 2, "circles": 2, "digits": 10}


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and count what went wrong."""
    table = {
        # JEM is step 1 and nothing else, on the settings of GEDI.
        data: [
            Cell(data, c, seed, method="jem", preset=budget.preset, rows=budget.rows, iterations=budget.iterations)
            for seed in budget.seeds
        ]
        for data, c in DATASETS.items()
    }
    found = run_cells([cell for cells in table.values() for cell in cells], out, jobs, say)
    groups = {data: stability([found[cell] for cell in cells]) for data, cells in table.items()}
    rows = [
        [
            data,
            str(group["runs"]),
            str(group["non_finite"]),
            str(group["rolled_back"]),
            str(group["aborted"]),
            f"{group['largest_gap_median']:.3g}",
            f"{group['largest_gap']:.3g}",
            f"{group['largest_log_density']:.3g}",
        ]
        for data, group in groups.items()
    ]
    columns = ["data", "runs", "runs with non-finite values", "rolled back", "aborted"]
    columns += ["largest energy gap, median run", "worst run", "largest |log p|"]
    notes = [
        "Data and fit both change with the seed. A run is rolled back when a batch's energy gap, |log p|, gradient or "
        "share of samples at the box leaves its limit, and aborted when that happens again after three rollbacks.",
        "Energy gaps and |log p| (root mean square over data and samples) are looked at every 50 iterations.",
    ]
    outcome = Outcome(TITLE, columns, rows, notes)
    write_json(NAME, outcome, budget, out, found, [{"dataset": data, **group} for data, group in groups.items()])
    return outcome


def stability(runs: list[Measured]) -> dict[str, Any]:
    """Counts over runs, and how far their numbers went."""
    events = [run.get("guard") or [] for run in runs]
    gaps = [run["largest"]["generative"] for run in runs if run.get("largest")]
    sizes = [run["largest"]["energy_size"] for run in runs if run.get("largest")]
    return {
        "runs": len(runs),
        "non_finite": sum(any(_is_non_finite(event) for event in seen) for seen in events),
        "rolled_back": sum(any("rolled back" in event["action"] for event in seen) for seen in events),
        "aborted": sum("diverged" in run for run in runs),
        "largest_gap": max(gaps, default=float("nan")),
        "largest_gap_median": statistics.median(gaps) if gaps else float("nan"),
        "largest_log_density": max(sizes, default=float("nan")) ** 0.5,
    }


def _is_non_finite(event: dict[str, Any]) -> bool:
    return event["seen"].endswith((" is nan", " is inf", " is -inf"))
