"""What a run will cost, said before it is paid: a few iterations of each stage, timed."""

from __future__ import annotations

import copy
import time
import warnings

import numpy as np

from gedi.training.config import TrainingConfig
from gedi.training.guard import GuardWarning
from gedi.training.model import fit_rows

TRIAL = 6  # iterations of each stage that are timed


def estimate_seconds(
    rows: np.ndarray,
    config: TrainingConfig,
    n_clusters: int,
    image_shape: tuple[int, ...] | None = None,
    groups: np.ndarray | None = None,
) -> float:
    """Seconds a whole fit will take on this machine, from a trial of a few iterations of each stage."""
    stages = ("step1", "embedding", "step2")
    # Without step 2 there is neither embedding nor start: one iteration of it is part of what is paid once.
    least = dict.fromkeys(stages, 0) | {"step2": min(1, config.step2.iterations)}

    def trial(iterations: dict[str, int]) -> float:
        return _trial(rows, config, n_clusters, image_shape, groups, iterations)

    bare = trial(dict.fromkeys(stages, 0))
    once = trial(least) if least["step2"] else bare
    seconds = bare + max(0.0, once - bare) * config.n_init
    for name in stages:
        count = getattr(config, name).iterations
        if count and (name == "step1" or config.step2.iterations):
            timed = trial(least | {name: least[name] + min(TRIAL, count)})
            repeats = 1 if name == "step1" else config.n_init
            seconds += max(0.0, timed - once) / min(TRIAL, count) * count * repeats
    return seconds


def _trial(
    rows: np.ndarray,
    config: TrainingConfig,
    n_clusters: int,
    image_shape: tuple[int, ...] | None,
    groups: np.ndarray | None,
    iterations: dict[str, int],
) -> float:
    config = copy.deepcopy(config)
    for name, count in iterations.items():
        getattr(config, name).iterations = count
    config.n_init = 1
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)  # a few iterations are too few to judge
        fit_rows(rows, n_clusters=n_clusters, config=config, seed=0, image_shape=image_shape, groups=groups)
    return time.monotonic() - began
