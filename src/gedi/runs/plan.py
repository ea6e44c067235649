"""plan.yaml: what a run was asked to do, written before it trains, so that it can be resumed."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

import torch
import yaml

from gedi.data import NAMES
from gedi.errors import RunError
from gedi.files.reading import FAILURES, read_yaml, shown, unreadable
from gedi.files.writing import replace_text
from gedi.runs.folder import PLAN, existing
from gedi.runs.layout import typed
from gedi.settings import Count, Minutes, Outliers, Rule, Seed
from gedi.training.config import TrainingConfig, to_dict, with_iterations
from gedi.training.hardware import Hardware

NEEDED = {"data", "rows_sha256", "n_clusters", "method", "seed", "training"}


def _is_data(data: str) -> bool:
    path = Path(data)
    is_path = path.is_absolute() and ".." not in path.parts and (path.is_file() or path.is_dir() or not path.exists())
    return data.lower() in NAMES or is_path


def _is_affordable(hardware: Hardware) -> bool:
    """Each device is a process: an untrusted file may not ask for more than this machine has cores or devices."""
    return hardware.devices <= max(os.cpu_count() or 1, torch.cuda.device_count())


KNOWN_DATA = Rule("be a known data set, or the absolute path of a regular file or a folder", _is_data)
ONLY_NAMES = Rule("contain only names", lambda names: all(isinstance(name, str) for name in names))
ITERATIONS = Rule("lie between 0 and 10**9", lambda iterations: all(0 <= n <= 10**9 for n in iterations))
AFFORDABLE = Rule("not ask for more devices than there are", _is_affordable)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run as it was requested."""

    data: Annotated[str, KNOWN_DATA]
    label_column: str | None = None
    drop: Annotated[list, ONLY_NAMES] = field(default_factory=list)  # columns to exclude
    raw: bool = False  # the table must contain only numbers
    skip_broken: bool = False  # skip image files that cannot be read
    rows_sha256: str
    groups_sha256: str | None = None  # of the groups that came with the rows
    n_clusters: Count
    number: dict = field(default_factory=dict)  # how n_clusters was found, if it was not given
    outliers: Outliers = 0.0  # share of rows left outside all clusters
    method: str
    seed: Seed
    hardware: Annotated[Hardware, AFFORDABLE] = field(default_factory=Hardware)
    tensorboard: bool = False
    minutes: Minutes | None = None  # time budget
    iterations: Annotated[tuple[int, int], ITERATIONS] | None = None  # of both steps, once the budget has set them
    preset: str | None = None  # None: the one for the shape of the data
    is_changed: bool = True  # the training settings are not just those of the preset and method
    training: TrainingConfig

    @property
    def settings(self) -> TrainingConfig:
        """The settings the run trains with: those requested, with the iterations that its budget allows."""
        return self.training if self.iterations is None else with_iterations(self.training, self.iterations)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments with which `gedi.data.load` reads the run's data again."""
        names = ("data", "seed", "label_column", "drop", "raw", "skip_broken")
        return {name: getattr(self, name) for name in names}

    def write(self, folder: Path) -> None:
        values = asdict(self) | {"training": to_dict(self.training)}
        replace_text(folder / PLAN, yaml.safe_dump(values, sort_keys=False))

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """Read the plan of a run from an untrusted folder. Unknown entries are ignored."""
        path = existing(folder) / PLAN
        if not os.path.lexists(path):
            raise RunError(f"{shown(str(folder), 150)} is not a run that can be resumed: it has no {PLAN}.")
        values = read_yaml(path)
        if not isinstance(values, dict) or not values.keys() >= NEEDED:
            raise RunError(f"{shown(str(path), 150)} is not the plan of a run.")
        try:
            return typed(cls, values)
        except FAILURES as error:
            raise unreadable(path, error) from error
