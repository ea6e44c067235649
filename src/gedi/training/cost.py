"""Estimate the cost of a run before it starts, by timing a few iterations of each stage."""

from __future__ import annotations

import math
import statistics
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from gedi.errors import ConfigError
from gedi.objectives.generative import density_of
from gedi.objectives.term import uses_walks
from gedi.progress import duration
from gedi.training.build import Prepared
from gedi.training.config import TrainingConfig, with_iterations
from gedi.training.encoder_registry import threads_for
from gedi.training.engine import Engine
from gedi.training.fit import arrived_chains
from gedi.training.guard import GuardWarning
from gedi.training.journal import Hooks
from gedi.training.recipe import train
from gedi.training.state import TRAINED
from gedi.training.world import World

FEWEST_ITERATIONS = 3  # iterations of each stage in a trial; the first warms up, the last ends the stage
TRIAL_ITERATIONS = 6  # ... if they are cheap
LONGEST_TRIAL = 16  # longest cycle of terms that a trial covers, in iterations
LONGEST_ROUND = 1000  # longest cycle of terms that is considered
LEAST_SHARE, MOST_TIMES = 0.05, 10  # range in which a time budget may scale the iterations of the settings
ROOM = 1.1  # the next estimate may be a little higher: ask for this many times the shortest time
CHEAP = 1.5  # a stage whose fewest iterations take longer than this many seconds is not timed any further
Marks = list[tuple[str, float]]  # the stage and the time at the end of every iteration, and of every stage


@dataclass(frozen=True)
class Cost:
    """The estimated cost."""

    seconds: float
    each: dict[str, float]  # mean seconds of an iteration of each stage
    memory: int | None  # peak memory in bytes; None if the system does not report it

    def in_words(self, config: TrainingConfig) -> str:
        """'about 4 min to train, 909 MB of memory (200 + 600 iterations of 0.11 + 0.35 s)'."""
        memory = "" if self.memory is None else f", {self.memory / 1e6:,.0f} MB of memory"
        each = " + ".join(f"{self.each[name]:.2g}" for name in _trained(config))
        return f"about {duration(self.seconds)} to train{memory} ({iterations_in_words(config)} of {each} s)"

    def within(self, minutes: float, config: TrainingConfig) -> tuple[tuple[int, int], Cost]:
        """The iterations of both steps that fit in ``minutes``, in the proportion of ``config``, and their cost."""
        n1, n2 = config.step1.iterations, config.step2.iterations
        for_all = self.each["step1"] * n1 + self.each["step2"] * n2
        once = self.seconds - for_all
        share = min(MOST_TIMES, (60 * minutes - once) / for_all) if for_all else 1.0
        if share < LEAST_SHARE:
            shortest = once + LEAST_SHARE * for_all
            enough = math.ceil(ROOM * shortest / 6) / 10
            raise ConfigError(
                f"--minutes {minutes:g} is too short: even {100 * LEAST_SHARE:g}% of {iterations_in_words(config)} "
                f"takes about {duration(shortest)}. Use --minutes {enough:g} or more."
            )
        scaled = (math.ceil(share * n1), math.ceil(share * n2))
        return scaled, replace(self, seconds=once + self.each["step1"] * scaled[0] + self.each["step2"] * scaled[1])


def iterations_in_words(config: TrainingConfig) -> str:
    """'200 + 1,600 iterations'."""
    return " + ".join(f"{getattr(config, name).iterations:,}" for name in _trained(config)) + " iterations"


def _trained(config: TrainingConfig) -> list[str]:
    return [name for name in TRAINED if getattr(config, name).iterations]


def estimate(ready: Prepared, world: World | None = None) -> Cost:
    """The cost of training on prepared rows, on this machine, from a trial of a few iterations of each stage."""
    config = ready.config
    counts = {name: getattr(config, name).iterations for name in TRAINED}
    rounds = {name: round_of(config, name) for name in TRAINED}
    longest = min(LONGEST_TRIAL, max(len(kinds) for kinds in rounds.values()))
    trial = _trial(ready, world, max(FEWEST_ITERATIONS, 2 + longest), max(TRIAL_ITERATIONS, 2 + 2 * longest))
    return Cost(*whole_time(trial, counts, rounds), peak_memory())


def round_of(config: TrainingConfig, stage: str) -> list[str]:
    """One cycle of the kinds of iterations of a stage: some terms are due only every few iterations."""
    density = density_of(config.objective)
    every = {"density": 1 if density is None or stage == "step1" else density.every}
    every["walks"] = config.dam.every if uses_walks(config.objective) and stage == "step2" else 1
    length = min(LONGEST_ROUND, math.lcm(*(n or 1 for n in every.values())))
    return [" ".join(name for name, n in every.items() if n and i % n == 0) for i in range(length)]


def whole_time(
    marks: Marks, counts: dict[str, int], rounds: Mapping[str, Sequence[str]]
) -> tuple[float, dict[str, float]]:
    """Seconds of a run of ``counts`` iterations, and of one iteration of each stage, from the marks of a short run.

    Work between stages counts once. ``rounds`` has the kinds of iterations of each stage: see `round_of`.
    """
    once = 0.0
    steps: dict[str, list[float]] = {name: [] for name in TRAINED}
    for (before, t0), (stage, t1) in pairwise(marks):
        if stage == before and stage in steps:
            steps[stage].append(t1 - t0)
        else:
            once += t1 - t0
    each: dict[str, float] = {}
    for name, found in steps.items():
        kinds = rounds[name]
        middle = found[:-1] or found
        by_kind = _of_kind(middle, kinds)
        each[name] = statistics.fmean(by_kind[kind] for kind in kinds)
        # A stage's first and last iterations do extra work: in its last, step 2 goes through all rows.
        if sum(stage == name for stage, _ in marks) > len(found):
            once -= by_kind[kinds[0]]
        if len(found) > len(middle):
            once += found[-1] - by_kind[kinds[len(found) % len(kinds)]]
    return max(0.0, once) + sum(each[name] * counts[name] for name in TRAINED), each


def _of_kind(seconds: list[float], kinds: Sequence[str]) -> dict[str, float]:
    """The median time of each kind of iteration, which ignores interrupted ones.

    ``seconds`` does not include the first iteration of the stage.
    """
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for place, taken in enumerate(seconds, start=1):
        found[kinds[place % len(kinds)]].append(taken)
    return {kind: statistics.median(of or seconds or [0.0]) for kind, of in found.items()}


def _trial(ready: Prepared, world: World | None, fewest: int, most: int) -> Marks:
    """The marks of a few iterations of each stage, without the search for starts and the choice between clusters.

    Those take seconds in a run, but longer on a net that has hardly trained: counting them made estimates worse. A
    stage has ``most`` iterations if they are cheap, ``fewest`` otherwise.
    """
    planned = ready.config
    short = (min(most, planned.step1.iterations), min(most, planned.step2.iterations))
    config = with_iterations(planned, short)
    config.heads.starts = ()
    marks: Marks = [("start", time.monotonic())]

    def mark() -> bool:
        state = run.state
        marks.append((state.stage, time.monotonic()))
        taken = [moment for stage, moment in marks if stage == state.stage]
        # Without the first iteration, which may wait for imports.
        if len(taken) == fewest - 1 and taken[-1] - taken[0] > CHEAP:
            state.length = min(fewest, state.length)
        return False

    def continue_with_the_first_head(run: Engine) -> None:
        run.state.competing, run.state.objective, run.state.judged = False, None, {}

    with warnings.catch_warnings(), threads_for(config.net):
        warnings.simplefilter("ignore", GuardWarning)  # a few iterations are too few to judge
        run = Engine(replace(ready, config=config), seed=0, world=world, hooks=Hooks(should_stop=mark))
        train(run, choose=continue_with_the_first_head)
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
