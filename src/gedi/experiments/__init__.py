"""Experiments: one file a table or figure of the paper, and a few tables of our own.

An experiment is a list of *cells* (one fit each, see `cells`) and a way to lay their numbers out. To add one, write a
module with a function ``run(budget, out, jobs, say) -> Outcome`` and name it in ``EXPERIMENTS``.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from gedi.errors import ConfigError
from gedi.experiments.outcome import SCALES, Outcome, Say, budget


class Run(Protocol):
    """Fit what is missing, write ``out/NAME.json`` and the pictures, give back the table."""

    def __call__(self, scale: str, seeds: int | None, out: Path, jobs: int, say: Say) -> Outcome: ...


@dataclass(frozen=True)
class Experiment:
    """A table or figure: ``run(scale, seeds, out, jobs, say)`` makes it."""

    name: str
    title: str
    run: Run


def _experiment(name: str, title: str, module: str, laptop_seeds: int = 2) -> Experiment:
    def run(scale: str, seeds: int | None, out: Path, jobs: int, say: Say) -> Outcome:
        if jobs < 1:
            raise ConfigError(f"The number of worker processes must be at least 1, got {jobs}.")
        plan = budget(scale, seeds, laptop_seeds=laptop_seeds)
        out.mkdir(parents=True, exist_ok=True)
        # Imported only here: torch and matplotlib take seconds, and `gedi --help` should not wait for them.
        return import_module(f"gedi.experiments.{module}").run(plan, out, jobs, say)

    return Experiment(name, title, run)


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        _experiment("table1", "NMI on moons and circles (Table 1)", "table1", laptop_seeds=5),
        _experiment("fig-clusters", "Clusters found on moons and circles", "fig_clusters", laptop_seeds=1),
        _experiment("fig-steps", "NMI against the number of DAM steps T", "fig_steps"),
        _experiment("fig-ablation", "Ablation: NMI of four variants against T", "fig_ablation"),
        _experiment("fig-classes", "NMI against T for 2, 4 and 6 clusters (Appendix H)", "fig_classes"),
        _experiment(
            "fig-landscapes", "Clusters, energy landscapes, DAM walks and samples", "landscapes", laptop_seeds=1
        ),
        _experiment("table-digits", "Handwritten digits against k-means, spectral and Ward", "digits", laptop_seeds=5),
        _experiment("table-mnist", "MNIST as a whole, without labels", "table_mnist", laptop_seeds=1),
        _experiment("table2", "Clusters on SVHN, CIFAR-10 and CIFAR-100 (Table 2)", "table2", laptop_seeds=1),
        _experiment("table3", "Ablation on SVHN, CIFAR-10 and CIFAR-100 (Table 3)", "table3", laptop_seeds=1),
        _experiment("table-probe", "Linear probe on images (Appendix J)", "table_probe", laptop_seeds=1),
        _experiment("table-fid", "Samples of images, FID (Appendix J)", "table_fid", laptop_seeds=1),
        _experiment("table-ood", "Foreign images told from own ones (Appendix J)", "table_ood", laptop_seeds=1),
        _experiment("table-nesy", "MNIST addition: symbols grounded by a constraint (Table 4)", "table_nesy", 3),
        _experiment("table-methods", "Every method on digits and MNIST", "table_methods", laptop_seeds=1),
        _experiment("table-one-step", "GEDI in one step and in two", "one_step", laptop_seeds=5),
        _experiment("table-robustness", "The same defaults beyond Table 1", "robustness"),
        _experiment("table-stability", "Step 1 on many seeds: nothing diverges", "stability", laptop_seeds=100),
        _experiment("table-divergence", "The paper's sampler: what the guard sees", "divergence", laptop_seeds=3),
    )
}


def find(name: str) -> Experiment:
    """The experiment of that name; an unknown one is a ConfigError that says what there is."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(EXPERIMENTS)}."
        raise ConfigError(f"There is no experiment {name!r}; {hint}")
    return EXPERIMENTS[name]


__all__ = ["EXPERIMENTS", "SCALES", "Experiment", "Outcome", "Say", "find"]
