"""Experiments: the tables and figures of the paper, and a few tables of our own. Nothing heavy is imported here.

An experiment is a list of *cells* (one fit each, see `cells`) and a layout for their numbers (see `tabulate`).
``gedi reproduce table-nesy`` calls the function ``table_nesy(request) -> Outcome``. ``EXPERIMENTS`` names its
module. To add an experiment, write such a function and list it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from gedi.errors import ConfigError, did_you_mean

SCALES = ("smoke", "laptop", "paper")
Say = Callable[[str], None]  # takes one line of progress


@dataclass(frozen=True)
class Budget:
    """What a scale means for an experiment's cells."""

    scale: str
    seeds: tuple[int, ...]
    gives_seeds: bool  # the user chose the number of seeds
    preset: str | None = None  # our settings; None: the defaults
    rows: int | None = None  # training points, and as many test points; None: all
    iterations: int | None = None  # cap on each step's iterations, even in the paper's settings; None: no cap
    dam_steps: tuple[int, ...] | None = None  # the values of T in figures; None: the paper's


class Request(NamedTuple):
    """One call of `gedi reproduce`: the experiment, its budget, where files go, and what shows progress."""

    name: str
    budget: Budget
    out: Path
    jobs: int  # worker processes
    say: Say
    data: Path | None = None  # folder of a public benchmark; None: in the data folder


@dataclass
class Outcome:
    """A table to print, notes on how to read it, and the files written."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def budget(scale: str, seeds: int | None, *, laptop_seeds: int) -> Budget:
    """The budget of a scale: smoke takes seconds, laptop suits two CPU cores, paper uses 5 seeds everywhere."""
    if scale not in SCALES:
        raise ConfigError(f"There is no scale {scale!r}{did_you_mean(scale, SCALES)}")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"The number of seeds must be at least 1, got {seeds}.")
    n = seeds or {"smoke": 1, "laptop": laptop_seeds, "paper": 5}[scale]
    given = Budget(scale, tuple(range(n)), gives_seeds=seeds is not None)
    return replace(given, preset="smoke", rows=300, iterations=40, dam_steps=(1, 2)) if scale == "smoke" else given


@dataclass(frozen=True)
class Experiment:
    """A table or figure: the function called ``name`` in ``module``."""

    name: str
    module: str
    laptop_seeds: int = 1
    takes_data: bool = False  # reads a public benchmark, from the folder given with --data

    def run(
        self, scale: str, seeds: int | None, out: Path, jobs: int, say: Say, *, data: Path | None = None
    ) -> Outcome:
        """Run the fits that are missing, write ``out/NAME.json`` and the pictures, and return the table."""
        if jobs < 1:
            raise ConfigError(f"The number of worker processes must be at least 1, got {jobs}.")
        if data is not None and not self.takes_data:
            others = ", ".join(name for name, experiment in EXPERIMENTS.items() if experiment.takes_data)
            raise ConfigError(f"{self.name} has its own data: --data is for {others}.")
        request = Request(self.name, budget(scale, seeds, laptop_seeds=self.laptop_seeds), out, jobs, say, data)
        out.mkdir(parents=True, exist_ok=True)
        # Imported late: torch and matplotlib take seconds to import, and `gedi --help` must not wait for them.
        module = import_module(f"gedi.experiments.{self.module}")
        return getattr(module, self.name.replace("-", "_"))(request)


EXPERIMENTS: dict[str, Experiment] = {
    e.name: e
    for e in (
        Experiment("table1", "table1", laptop_seeds=5),
        Experiment("fig-clusters", "toy_figures"),
        Experiment("fig-steps", "toy_figures", laptop_seeds=5),
        Experiment("fig-ablation", "toy_figures", laptop_seeds=5),
        Experiment("fig-classes", "toy_figures", laptop_seeds=5),
        Experiment("fig-landscapes", "toy_figures"),
        Experiment("table-digits", "small_tables", laptop_seeds=5),
        Experiment("table-mnist", "small_tables", laptop_seeds=3),
        Experiment("table-foreign", "table_foreign", laptop_seeds=3),
        Experiment("table2", "image_tables", laptop_seeds=3),
        Experiment("table3", "image_tables", laptop_seeds=3),
        Experiment("table-probe", "image_tables", laptop_seeds=3),
        Experiment("table-fid", "image_tables", laptop_seeds=3),
        Experiment("table-ood", "image_tables", laptop_seeds=3),
        Experiment("table-nesy", "table_nesy", laptop_seeds=5),
        Experiment("table-methods", "small_tables", laptop_seeds=3),
        Experiment("table-one-step", "small_tables", laptop_seeds=5),
        Experiment("table-parts", "ablation_tables", laptop_seeds=5),
        Experiment("table-robustness", "ablation_tables", laptop_seeds=2),
        Experiment("table-stability", "stability_tables", laptop_seeds=100),
        Experiment("table-divergence", "stability_tables", laptop_seeds=3),
        Experiment("table-mixed", "table_mixed", laptop_seeds=3),
        Experiment("table-clustering", "public_tables", takes_data=True),
        Experiment("table-verdict", "table_verdict", laptop_seeds=2, takes_data=True),
        Experiment("table-anomaly", "public_tables", laptop_seeds=5, takes_data=True),
    )
}


def find(name: str) -> Experiment:
    """The experiment with this name; an unknown name is a ConfigError with a suggestion."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"There is no experiment {name!r}{did_you_mean(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
