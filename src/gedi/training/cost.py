"""What a run will cost, said before it is paid: a few iterations of each stage, timed."""

from __future__ import annotations

import copy
import time

import numpy as np

from gedi.training.config import TrainingConfig
from gedi.training.model import fit_rows

TRIAL = 6  # iterations of each stage that are timed


def estimate_seconds(rows: np.ndarray, config: TrainingConfig, n_clusters: int) -> float:
    """Seconds a whole fit will take on this machine, from a trial of a few iterations of each stage."""
    stages = ("step1", "embedding", "step2")
    short = {name: min(TRIAL, getattr(config, name).iterations) for name in stages}
    fixed = _trial(rows, config, n_clusters, dict.fromkeys(stages, 0))
    seconds = fixed
    for name in stages:
        if short[name]:
            alone = dict.fromkeys(stages, 0) | {name: short[name]}
            each = max(0.0, _trial(rows, config, n_clusters, alone) - fixed) / short[name]
            repeats = 1 if name == "step1" else config.n_init
            seconds += each * getattr(config, name).iterations * repeats
    return seconds


def _trial(rows: np.ndarray, config: TrainingConfig, n_clusters: int, iterations: dict[str, int]) -> float:
    config = copy.deepcopy(config)
    for name, count in iterations.items():
        getattr(config, name).iterations = count
    config.n_init = 1
    began = time.monotonic()
    fit_rows(rows, n_clusters=n_clusters, config=config, seed=0)
    return time.monotonic() - began
