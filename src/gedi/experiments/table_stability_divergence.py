"""Does training the density diverge? Our settings on many seeds, and the paper's sampler."""

from __future__ import annotations

import statistics
import warnings
from typing import Any

import torch

from gedi.data import load
from gedi.experiments import Budget, Outcome, Request
from gedi.experiments.cells import NON_FINITE, Cell, Measured
from gedi.experiments.tabulate import Entry, Results, Text, part, tabulate, write_json
from gedi.training.build import prepare
from gedi.training.config import TrainingConfig, override, to_dict
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, GuardWarning
from gedi.training.presets import preset

DATASETS = {"moons": 2, "circles": 2, "digits": 10}  # and their clusters
UNWATCHED = 1000  # iterations of the run without the guard


def table_stability(request: Request) -> Outcome:
    """Step 1 on many seeds: how often something went wrong."""
    return tabulate(
        request,
        "Step 1 alone, default settings, many seeds",
        parts=("dataset",),
        # JEM is GEDI's step 1 alone, with the same settings.
        cells={(data,): Cell(data, n_clusters, method="jem") for data, n_clusters in DATASETS.items()},
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
        summarise=counts_of_runs,
    )


def _number(key: str) -> Text:
    def text(results: Results, row: Entry) -> str:
        value = results.groups[row][key]
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


def table_divergence(request: Request) -> Outcome:
    """Step 1 with the paper's sampler, taken literally, with and without the guard: what diverges, and when.

    These fits are not cells. They run in one process and take about a minute per seed.
    """
    torch.set_num_threads(1)
    budget = request.budget
    settings = literal_settings(budget)
    fits = [_diverge(request, data, seed, settings) for data in ("moons", "circles") for seed in budget.seeds]
    columns = ["data", "seed", f"energy gap after {UNWATCHED} iterations, unwatched"]
    columns += ["first warning at iteration", "first limit exceeded at", "all events at", "outcome"]
    rows = []
    for fit in fits:
        events = ", ".join(str(event["iteration"]) for event in fit["events"] if event["action"] != "warned")
        seen = [str(fit["warned"]), str(fit["first_seen"]), events]
        rows.append([fit["data"], str(fit["seed"]), f"{fit['gap_alone']:.2g}", *seen, fit["end"]])
    notes = [
        "The paper's settings for synthetic data, step 1 only, with samples free to leave the box. The warning is "
        "about the sampler's temperature and comes before the first iteration. Every event but the last is a rollback "
        "that halves the learning rate, so the intervals grow.",
    ]
    title = "One Langevin step of size 1, noise 0.01, no clamp: with the guard and without"
    outcome = Outcome(title, columns, rows, notes)
    return write_json(request, outcome, seeds=budget.seeds, cells=fits, settings=to_dict(settings))


def literal_settings(budget: Budget) -> TrainingConfig:
    """The paper's settings without the box, and without step 2."""
    config = preset("paper", n_features=2)
    most = budget.iterations or config.step1.iterations
    return override(config, {"sampler.clamp": False, "step1.iterations": most, "step2.iterations": 0})


def _diverge(request: Request, data: str, seed: int, settings: TrainingConfig) -> dict[str, Any]:
    x = load(data, n=request.budget.rows, seed=seed).x
    most = min(UNWATCHED, settings.step1.iterations)
    unwatched = override(settings, {"guard.action": "watch", "step1.iterations": most})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        history = fit_prepared(prepare(x, unwatched, 2), seed=seed).history
        try:
            events, end = fit_prepared(prepare(x, settings, 2), seed=seed).results["guard"], "finished"
        except DivergedError as error:
            events, end = error.events, "stopped with a report"
    gap = [line["generative"] for line in history if "generative" in line][-1]
    warned = next((event["iteration"] for event in events if event["action"] == "warned"), None)
    first = next((event["iteration"] for event in events if event["action"] != "warned"), None)
    request.say(f"{data} seed {seed}: first warning at iteration {warned}, first limit exceeded at {first}, {end}")
    seen = {"warned": warned, "first_seen": first, "events": events}
    return {"data": data, "seed": seed, "gap_alone": gap, **seen, "end": end}
