"""Commands to paste, to repeat a run with something changed."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gedi import runs
from gedi.data.checks import comma_separated
from gedi.report.look import finite_number
from gedi.runs import Plan
from gedi.training.config import TrainingConfig, get
from gedi.training.model import TrainedModel

MINUTES = "minutes"  # among changes: the flag, which is not a setting


@dataclass(frozen=True)
class Rerun:
    """How a run was started, as far as its folder shows."""

    data: str = "DATA"
    n_clusters: int = 2
    out: str = "RUN-2"
    about_data: tuple[str, ...] = ()  # flags about the data, the method and the seed
    about_settings: tuple[str, ...] = ()  # flags that bring back settings that are not the default
    minutes: float | None = None  # the time budget; it decides how many iterations there are
    config: TrainingConfig | None = None

    def fit(
        self, changes: Mapping[str, float] | None = None, *, n_clusters: int | None = None, afresh: bool = False
    ) -> str:
        """The command that fits the same data with changed settings; ``afresh``: starting from the defaults.

        >>> Rerun("rows.csv", 3).fit({"heads.random": 64}, n_clusters=4)
        'gedi fit rows.csv --n-clusters 4 --training.heads.random 64 --out RUN-2'
        """
        words = ["gedi", "fit", self.data, "--n-clusters", str(n_clusters or self.n_clusters), *self.about_data]
        words += () if afresh else self.about_settings
        budget = {} if afresh or self.minutes is None else {MINUTES: self.minutes}
        for name, value in (budget | dict(changes or {})).items():
            flag = f"--{name}" if name == MINUTES else f"--training.{name}"
            words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join([*words, "--out", self.out])

    def times(self, factor: float, *paths: str) -> dict[str, float]:
        """Settings multiplied by a factor; those that the run does not use are left out.

        A run with a time budget gets a longer one instead of more iterations, which the budget would cut again.

        >>> Rerun(minutes=10, config=TrainingConfig()).times(3, "step2.iterations")
        {'minutes': 30}
        """
        changes: dict[str, float] = {}
        for path in paths:
            value = get(self.config, path)
            if self.minutes is not None and path.endswith(".iterations"):
                changes[MINUTES] = factor * self.minutes
            elif now := finite_number(value):
                changes[path] = round(factor * now) if isinstance(value, int) else factor * now
        return changes


def rerun_of(folder: Path, plan: Plan | None, config: TrainingConfig | None, model: TrainedModel | None) -> Rerun:
    """How to start a run again. A folder without a plan, such as one that `GEDI.save` made, does not know its data."""
    out = _next_to(folder)
    if plan is None:
        return Rerun(n_clusters=2 if model is None else model.n_clusters, out=out, config=config)
    flags = [] if plan.method == "gedi" else ["--method", plan.method]
    flags += [] if plan.label_column is None else ["--label-column", plan.label_column]
    flags += ["--drop", comma_separated(plan.drop)] if plan.drop else []
    flags += ["--raw"] if plan.raw else []
    flags += ["--skip-broken"] if plan.skip_broken else []
    flags += ["--outliers", f"{plan.outliers:g}"] if plan.outliers else []
    flags += ["--seed", str(plan.seed)] if plan.seed else []
    chosen = [] if plan.preset is None else ["--preset", plan.preset]
    chosen += ["--config", from_here((folder / runs.PLAN).resolve())] if plan.is_changed else []
    n_clusters = plan.n_clusters if model is None else model.n_clusters
    return Rerun(from_here(plan.data), n_clusters, out, tuple(flags), tuple(chosen), plan.minutes, config)


def _next_to(folder: Path) -> str:
    """The first of RUN-2, RUN-3, ... that does not exist."""
    folder = folder.resolve()
    free = (folder.with_name(f"{folder.name}-{k}") for k in range(2, 1000))
    return from_here(next((path for path in free if not os.path.lexists(path)), folder))


def from_here(data: str | Path) -> str:
    """Relative inside the current folder, where the command is likely to be pasted; absolute elsewhere.

    The name of a known data set, which is not an absolute path, stays as it is.
    """
    path, here = Path(data), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
