"""Does training the density diverge? Our settings on many seeds, and the paper's sampler."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gedi.data import load
from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import as_measured
from gedi.experiments.cells import NON_FINITE, SMALL_SETS, Cell, Measured, cells_of
from gedi.experiments.tabulate import Entry, Results, Text, part, tabulate
from gedi.training.build import prepare
from gedi.training.config import TrainingConfig, override
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, GuardWarning

UNWATCHED = 1000  # iterations of the run without the guard


def table_stability(request: Request) -> Outcome:
    """Step 1 on many seeds: how often something went wrong."""
    return tabulate(
        request,
        "Step 1 alone, default settings, many seeds",
        parts=("dataset",),
        # JEM is GEDI's step 1 alone, with the same settings.
        cells={(data,): Cell(data, n_clusters, method="jem") for data, n_clusters in SMALL_SETS.items()},
        columns={
            "data": part(),
            "runs": _number("runs"),
            "runs with non-finite values": _number("non_finite"),
            "rolled back": _number("rolled_back"),
            "aborted": _number("aborted"),
            "largest energy gap, median run": _number("largest_gap_median"),
            "worst run": _number("largest_gap"),
            "largest |log p|": _number("largest_log_density"),
        },
        notes=[
            "Data and fit both change with the seed. A run is rolled back when a batch's energy gap, |log p|, gradient "
            "or share of samples at the edge of the box exceeds its limit. It is aborted if that happens again after "
            "three rollbacks.",
            "Energy gaps and |log p| (root mean square over data and samples) are recorded every 50 iterations. "
            "Digits have none: their density learns by denoising, without samples.",
        ],
        varies=None,
    )


def _number(key: str) -> Text:
    def text(results: Results, row: Entry) -> str:
        value = counts_of_runs([results.found[cell] for cell in results.cells[row]])[key]
        return "–" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)

    return text


def counts_of_runs(runs: list[Measured]) -> dict[str, Any]:
    """Counts over runs, and their largest values."""
    events = [run.get("guard") or [] for run in runs]
    largest = [run.get("largest") or {} for run in runs]
    # Denoising, the default for many columns, has neither samples nor an energy gap.
    gaps, sizes = (
        [one[name] for one in largest if one.get(name) is not None] for name in ("generative", "energy_size")
    )
    return {
        "runs": len(runs),
        "non_finite": sum(any(event["seen"].endswith(NON_FINITE) for event in seen) for seen in events),
        "rolled_back": sum(any("rolled back" in event["action"] for event in seen) for seen in events),
        "aborted": sum("diverged" in run for run in runs),
        "largest_gap": max(gaps, default=None),
        "largest_gap_median": statistics.median(gaps) if gaps else None,
        "largest_log_density": max(sizes) ** 0.5 if sizes else None,
    }


@dataclass(frozen=True)
class LiteralCell(Cell):
    """Step 1 with the paper's sampler, taken literally, once without the guard for a while and once with it."""

    preset: str | None = "paper"

    def config(self) -> TrainingConfig:
        return override(super().config(), {"sampler.clamp": False, "step2.iterations": 0})


def table_divergence(request: Request) -> Outcome:
    """Step 1 with the paper's sampler, with and without the guard: what diverges, and when."""
    cells = [cell for data in ("moons", "circles") for cell in cells_of(request.budget, LiteralCell(data, 2))]

    def found(text: Callable[[Measured], object]) -> Text:
        return lambda results, row: str(text(results.first(*row)))

    return tabulate(
        request,
        "One Langevin step of size 1, noise 0.01, no clamp: with the guard and without",
        parts=("data", "seed"),
        cells={(cell.dataset, cell.seed): [cell] for cell in cells},
        columns={
            "data": part(0),
            "seed": part(1),
            f"energy gap after {UNWATCHED} iterations, unwatched": found(lambda fit: f"{fit['gap_alone']:.2g}"),
            "first warning at iteration": found(lambda fit: fit["warned"]),
            "first limit exceeded at": found(lambda fit: fit["first_seen"]),
            "all events at": found(
                lambda fit: ", ".join(str(e["iteration"]) for e in fit["events"] if e["action"] != "warned")
            ),
            "outcome": found(lambda fit: fit["end"]),
        },
        notes=[
            "The paper's settings for synthetic data, step 1 only, with samples free to leave the box. The warning is "
            "about the sampler's temperature and comes before the first iteration. Every event but the last is a "
            "rollback that halves the learning rate, so the intervals grow.",
        ],
        varies=None,
        measure=measure_divergence,
    )


def measure_divergence(cell: Cell) -> Measured:
    """The energy gap at the end of an unwatched run, and what the guard saw in another."""
    x, settings, began = load(cell.dataset, n=cell.rows, seed=cell.seed).x, cell.config(), time.process_time()
    most = min(UNWATCHED, settings.step1.iterations)
    unwatched = override(settings, {"guard.action": "watch", "step1.iterations": most})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        history = fit_prepared(prepare(x, unwatched, cell.n_clusters), seed=cell.seed).history
        try:
            model = fit_prepared(prepare(x, settings, cell.n_clusters), seed=cell.seed)
            events, end = model.results["guard"], "finished"
        except DivergedError as error:
            events, end = error.events, "stopped with a report"
    gap = [line["generative"] for line in history if "generative" in line][-1]
    warned = next((event["iteration"] for event in events if event["action"] == "warned"), None)
    first = next((event["iteration"] for event in events if event["action"] != "warned"), None)
    seen = {"warned": warned, "first_seen": first, "events": events, "end": end}
    return as_measured(cell, time.process_time() - began, {"gap_alone": gap, **seen})
