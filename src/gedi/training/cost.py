"""Estimate the cost of a run before it starts, by timing a few iterations of each stage."""

from __future__ import annotations

import copy
import math
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from gedi.training.build import Prepared
from gedi.training.config import TrainingConfig
from gedi.training.guard import GuardWarning
from gedi.training.journal import Hooks
from gedi.training.state import TRAINED
from gedi.training.threads import threads_for
from gedi.training.world import World

FEWEST = 3  # iterations of each stage in a trial; the first of them warms up, the last ends the stage
TRIAL = 6  # ... where they are cheap
LONGEST = 16  # longest trial, in iterations, to see a term that is computed only every few
LONGEST_ROUND = 1000  # longest cycle of terms that is considered
CHEAP = 3.0  # if the shortest trial takes less than this many seconds, time more iterations
Marks = list[tuple[str, float]]  # the stage and the time at the end of every iteration, and of every stage


@dataclass(frozen=True)
class Cost:
    """The estimated cost."""

    seconds: float
    each: dict[str, float]  # seconds of one iteration of each stage, on average
    memory: int | None  # bytes at the peak; None where the system does not say

    def in_words(self, config: TrainingConfig) -> str:
        """'200 + 600 iterations of 0.11 + 0.35 s, about 4 min, 909 MB of memory'."""
        memory = "" if self.memory is None else f", {self.memory / 1e6:,.0f} MB of memory"
        each = " + ".join(f"{self.each[name]:.2g}" for name in _trained(config))
        return f"{iterations_in_words(config)} of {each} s, about {duration(self.seconds)}{memory}"


def iterations_in_words(config: TrainingConfig) -> str:
    """'200 + 600 iterations'."""
    return " + ".join(f"{getattr(config, name).iterations}" for name in _trained(config)) + " iterations"


def duration(seconds: float) -> str:
    """'90 s', '4 min', '11 h'."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{seconds / 3600:,.0f} h"


def _trained(config: TrainingConfig) -> list[str]:
    return [name for name in TRAINED if getattr(config, name).iterations]


def estimate(ready: Prepared, world: World | None = None) -> Cost:
    """The cost of training on prepared rows, on this machine, from a trial of a few iterations of each stage."""
    config = ready.config
    counts = {name: getattr(config, name).iterations for name in TRAINED}
    rounds = {name: round_of(config, name) for name in TRAINED}
    longest = min(LONGEST, max(len(kinds) for kinds in rounds.values()))
    trial = _trial(ready, world, max(FEWEST, 2 + longest))
    if trial[-1][1] - trial[0][1] < CHEAP:
        trial = _trial(ready, world, max(TRIAL, 2 + 2 * longest))
    return Cost(*whole_time(trial, counts, rounds), peak_memory())


def round_of(config: TrainingConfig, stage: str) -> list[str]:
    """The kinds of iterations of a stage, in their order, until they repeat: some terms are due every few only."""
    generative = config.objective.get("generative")
    every = {"density": 1 if generative is None or stage == "step1" else generative.every}
    walks = any(term.walks for term in config.objective.values())
    every["walks"] = config.dam.every if walks and stage == "step2" else 1
    length = min(LONGEST_ROUND, math.lcm(*(n or 1 for n in every.values())))
    return [" ".join(name for name, n in every.items() if n and i % n == 0) for i in range(length)]


def whole_time(
    marks: Marks, counts: dict[str, int], rounds: Mapping[str, Sequence[str]] | None = None
) -> tuple[float, dict[str, float]]:
    """Seconds of a run of ``counts`` iterations, and of one of each stage, from the marks of a short run.

    Work between stages counts once. Iterations of a stage are alike, or of the kinds that its `rounds` say.
    """
    once = 0.0
    steps: dict[str, list[float]] = {name: [] for name in TRAINED}
    for (before, t0), (stage, t1) in pairwise(marks):
        if stage == before and stage in steps:
            steps[stage].append(t1 - t0)
        else:
            once += t1 - t0
    kinds = {name: (rounds or {}).get(name, [""]) for name in TRAINED}
    each: dict[str, float] = {}
    for name, found in steps.items():
        middle = found[:-1] or found
        by_kind = _of_kind(middle, kinds[name])
        each[name] = statistics.fmean(by_kind[kind] for kind in kinds[name])
        # A stage's first and last iterations do extra work: in its last, step 2 goes through all rows.
        if sum(stage == name for stage, _ in marks) > len(found):
            once -= by_kind[kinds[name][0]]
        if len(found) > len(middle):
            once += found[-1] - by_kind[kinds[name][len(found) % len(kinds[name])]]
    return max(0.0, once) + sum(each[name] * counts[name] for name in TRAINED), each


def _of_kind(seconds: list[float], kinds: Sequence[str]) -> dict[str, float]:
    """The median time of each kind of iteration, which ignores interrupted ones; the first is excluded."""
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for i, taken in enumerate(seconds, start=1):
        found[kinds[i % len(kinds)]].append(taken)
    return {kind: statistics.median(of or seconds or [0.0]) for kind, of in found.items()}


def _trial(ready: Prepared, world: World | None, iterations: int) -> Marks:
    from gedi.training.engine import Engine
    from gedi.training.fit import arrived_chains
    from gedi.training.recipe import train

    config = copy.deepcopy(ready.config)
    for name in TRAINED:
        stage = getattr(config, name)
        stage.iterations = min(iterations, stage.iterations)
    marks: Marks = [("start", time.monotonic())]

    def mark() -> bool:
        marks.append((run.state.stage, time.monotonic()))
        return False

    with warnings.catch_warnings(), threads_for(config.net):
        warnings.simplefilter("ignore", GuardWarning)  # a few iterations are too few to judge
        run = Engine(replace(ready, config=config), seed=0, world=world, hooks=Hooks(should_stop=mark))
        train(run)
        buffer = run.state.buffer
        arrived_chains(run.state.net.cpu(), ready.rows, buffer.chains.cpu(), buffer.box.cpu(), config)
    marks.append(("end", time.monotonic()))
    return marks


def peak_memory() -> int | None:
    """Peak memory of this process in bytes; after a trial, an estimate for the run."""
    if torch.cuda.is_available() and torch.cuda.max_memory_allocated():
        return torch.cuda.max_memory_allocated()
    try:
        import resource
    except ImportError:  # not on this system
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
