"""Commands to paste, to repeat a run with something changed."""

from __future__ import annotations

import csv
import io
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gedi import runs
from gedi.errors import GediError
from gedi.report.look import finite_number, setting
from gedi.runs import Plan
from gedi.training.presets import PRESETS, configure


@dataclass(frozen=True)
class Rerun:
    """How a run was started, as far as its folder shows."""

    data: str = "DATA"
    n_clusters: int = 2
    out: str = "RUN-2"
    about_data: tuple[str, ...] = ()  # flags about the data, the method and the seed
    about_settings: tuple[str, ...] = ()  # flags that bring back settings that are not the default
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])  # as in config.yaml, under 'training'

    def fit(
        self, changes: Mapping[str, float] | None = None, *, n_clusters: int | None = None, afresh: bool = False
    ) -> str:
        """The command that fits the same data with changed settings; ``afresh``: starting from the defaults.

        >>> Rerun("rows.csv", 3).fit({"heads.random": 64}, n_clusters=4)
        'gedi fit rows.csv --n-clusters 4 --training.heads.random 64 --out RUN-2'
        """
        words = ["gedi", "fit", self.data, "--n-clusters", str(n_clusters or self.n_clusters), *self.about_data]
        words += () if afresh else self.about_settings
        for path, value in (changes or {}).items():
            words += [f"--training.{path}", f"{value:g}" if isinstance(value, float) else str(value)]
        return shlex.join([*words, "--out", self.out])

    def times(self, factor: float, *paths: str) -> dict[str, float]:
        """Settings multiplied by a factor; those that the run does not use are left out."""
        changes: dict[str, float] = {}
        for path in paths:
            value = setting(self.settings, *path.split("."))
            if now := finite_number(value):
                changes[path] = round(factor * now) if isinstance(value, int) else factor * now
        return changes


def rerun_of(
    folder: Path,
    settings: Mapping[str, Any],
    n_clusters: int | None = None,
    n_features: int | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> Rerun:
    """How to start a run again. A folder without a plan, such as one that `GEDI.save` made, does not know its data."""
    out = _next_to(folder)
    try:
        plan = Plan.read(folder)
    except GediError:
        return Rerun(n_clusters=n_clusters or 2, out=out, settings=settings)
    flags = [] if plan.method == "gedi" else ["--method", plan.method]
    flags += [] if plan.label_column is None else ["--label-column", plan.label_column]
    flags += ["--drop", _comma_separated(plan.drop)] if plan.drop else []
    flags += ["--raw"] if plan.raw else []
    flags += ["--skip-broken"] if plan.skip_broken else []
    flags += ["--seed", str(plan.seed)] if plan.seed else []
    chosen = _settings_flags(folder, plan, n_features, image_shape)
    chosen += [] if plan.minutes is None else ["--minutes", f"{plan.minutes:g}"]
    data = _from_here(Path(plan.data)) if Path(plan.data).is_absolute() else plan.data
    return Rerun(data, n_clusters or plan.n_clusters, out, tuple(flags), tuple(chosen), settings)


def _settings_flags(folder: Path, plan: Plan, n_features: int | None, image_shape: tuple[int, ...] | None) -> list[str]:
    """Nothing for default settings, the name of a preset, or the plan itself."""
    itself = ["--config", _from_here(folder / runs.PLAN)]
    if n_features is None:  # the run has no model
        return itself
    for name in (None, *PRESETS):
        with suppress(GediError):  # a preset for other data
            if configure(name, plan.method, n_features=n_features, image_shape=image_shape) == plan.training:
                return [] if name is None else ["--preset", name]
    return itself


def _next_to(folder: Path) -> str:
    """The first of RUN-2, RUN-3, ... that does not exist."""
    folder = folder.resolve()
    free = (folder.with_name(f"{folder.name}-{k}") for k in range(2, 1000))
    return _from_here(next((path for path in free if not os.path.lexists(path)), folder))


def _from_here(path: Path) -> str:
    """Relative inside the current folder, where the command is likely to be pasted; absolute elsewhere."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _comma_separated(names: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()
