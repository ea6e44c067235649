"""What a run will cost, said before it is paid: a few iterations of each stage, timed."""

from __future__ import annotations

import copy
import math
import statistics
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from gedi.training.config import TrainingConfig
from gedi.training.engine import Engine
from gedi.training.guard import GuardWarning
from gedi.training.model import Prepared, arrived_chains
from gedi.training.recipe import train
from gedi.training.world import World

FEWEST = 2  # iterations of each stage that are timed; the first of them warms up
TRIAL = 6  # ... where they are cheap
LONGEST_ROUND = 12  # iterations; what is due more seldom is not worth a longer trial
CHEAP = 3.0  # seconds that the fewest may take to be followed by more
STAGES = ("step1", "embedding", "step2")
Marks = list[tuple[str, float]]  # the stage and the time at the end of every iteration, and of every stage


@dataclass(frozen=True)
class Cost:
    """What is about to be paid."""

    seconds: float
    memory: int | None  # bytes at the peak; None where the system does not say


def estimate(
    ready: Prepared,
    config: TrainingConfig,
    n_clusters: int,
    image_shape: tuple[int, ...] | None = None,
    groups: np.ndarray | None = None,
    world: World | None = None,
) -> Cost:
    """The cost of training on prepared rows, on this machine, from a trial of a few iterations of each stage."""
    counts = {name: getattr(config, name).iterations for name in STAGES}
    # A density or walks that are due every few iterations make these dearer than the others: all of a round are timed.
    round_ = min(LONGEST_ROUND, math.lcm(getattr(config.objective.get("generative"), "every", 1), config.dam.every))
    trial = _trial(ready, n_clusters, image_shape, groups, world, 1 + max(FEWEST - 1, round_))
    if trial[-1][1] - trial[0][1] < CHEAP:
        trial = _trial(ready, n_clusters, image_shape, groups, world, 1 + max(TRIAL - 1, 2 * round_))
    return Cost(whole_time(trial, counts, config.n_init, round_), peak_memory())


def whole_time(marks: Marks, counts: dict[str, int], n_init: int, round_: int = 1) -> float:
    """Seconds of a run of ``counts`` iterations, from the marks of a short one.

    What is not an iteration is paid once, if it comes before the end of step 1 or after step 2, else at every start.
    Iterations are alike, or else every round of ``round_`` of them is like the next.
    """
    once = {"run": 0.0, "start": 0.0}
    steps: dict[str, list[float]] = {name: [] for name in STAGES}
    for (before, t0), (stage, t1) in pairwise(marks):
        if stage == before and stage in steps:
            steps[stage].append(t1 - t0)
        else:
            once["run" if stage in ("start", "step1", "after step1", "end") else "start"] += t1 - t0
    each = {name: _typical(found, round_) for name, found in steps.items()}
    for name, found in steps.items():
        if sum(stage == name for stage, _ in marks) > len(found):  # a stage's first iteration came with other work
            once["run" if name == "step1" else "start"] -= each[name]
    start = max(0.0, once["start"]) + each["embedding"] * counts["embedding"] + each["step2"] * counts["step2"]
    return max(0.0, once["run"]) + each["step1"] * counts["step1"] + start * n_init


def _typical(seconds: list[float], round_: int) -> float:
    """Seconds an iteration: the middle one where all are alike, else the mean over the last whole rounds."""
    whole = len(seconds) - len(seconds) % round_
    if round_ == 1 or not whole:
        return statistics.median(seconds) if seconds else 0.0
    return statistics.fmean(seconds[-whole:])


def _trial(
    ready: Prepared,
    n_clusters: int,
    image_shape: tuple[int, ...] | None,
    groups: np.ndarray | None,
    world: World | None,
    iterations: int,
) -> Marks:
    config = copy.deepcopy(ready.config)
    for name in STAGES:
        stage = getattr(config, name)
        stage.iterations = min(iterations, stage.iterations)
    config.n_init = 1
    marks: Marks = [("start", time.monotonic())]

    def mark() -> bool:
        marks.append((engine.state.stage, time.monotonic()))
        return False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)  # a few iterations are too few to judge
        engine = Engine(
            config,
            ready.rows,
            n_clusters,
            seed=0,
            augment=ready.augment,
            image_shape=image_shape,
            groups=groups,
            world=world,
            should_stop=mark,  # asked after every iteration
        )
        train(engine)
        state = engine.state
        arrived_chains(state.net.cpu(), ready.rows, state.buffer.chains.cpu(), config.sampler.burn_in)
    marks.append(("end", time.monotonic()))
    return marks


def peak_memory() -> int | None:
    """Bytes this process has held at most: after a trial, what the run itself will hold."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # not on this system
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
