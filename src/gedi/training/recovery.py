"""Rollbacks when a run diverges, warnings, checkpoints, and resuming from them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gedi.errors import GediError
from gedi.settings import Count
from gedi.training.config import TrainingConfig
from gedi.training.guard import Guard, GuardCounters, Packed, Symptom, is_calm
from gedi.training.journal import Hooks, Journal, JournalCounters
from gedi.training.state import TRAINED, Counters, TrainState, adam, pack, unpack
from gedi.training.world import World

OWN = ("buffer", "noise")  # checkpoint tensors that differ between processes


class StoppedError(GediError):
    """Training was asked to stop; its state is saved if the run has checkpoints."""


@dataclass(kw_only=True)
class RunCounters(Counters, JournalCounters):
    """All plain values of a checkpoint."""

    guard: GuardCounters
    processes: Count


class Recovery:
    """Takes a run back to its last calm state, and saves and restores its checkpoints."""

    def __init__(
        self, state: TrainState, guard: Guard, journal: Journal, world: World, hooks: Hooks, *, seed: int
    ) -> None:
        self.state, self.guard, self.journal, self.world, self.hooks = state, guard, journal, world, hooks
        self.seed = seed
        self.symptom: Symptom | None = None  # of divergence, seen in this iteration by this process
        self._saved = time.monotonic()

    def went_wrong(self) -> bool:
        """Whether this batch diverged on any process; if so, the run is taken back to its last calm state."""
        state, guard, journal = self.state, self.guard, self.journal
        (wrong,) = self.world.any([self.symptom is not None])
        if not wrong:
            return False
        symptom, self.symptom = self.world.first(self.symptom), None
        assert symptom is not None
        try:
            calm = guard.back_off(state.where(), symptom)
        finally:
            journal.record(guard.events[-1])
        journal.tell("{stage}, iteration {iteration}: {seen}; {action}.".format(**guard.events[-1]))
        paid = state.gradient_evaluations
        unpack(state, *calm)
        state.gradient_evaluations = paid
        state.generator.manual_seed(mixed_seed(self.seed, guard.total, 0))
        if state.noise is not state.generator:
            state.noise.manual_seed(mixed_seed(self.seed, guard.total, 1 + self.world.rank))
        journal.values.clear()
        state.judged.clear()
        return True

    def remember_if_calm(self) -> None:
        """Keep this state to go back to, if it is far from all limits on every process."""
        (restless,) = self.world.any([not is_calm(self.journal.values, self.guard.config)])
        if not restless:
            self.guard.good = pack(self.state)

    def warn(self, symptom: Symptom) -> None:
        """Warn of each problem once per stage."""
        guard, stage = self.guard, self.state.stage
        if not guard.has_noted(stage, symptom):
            guard.note(self.state.where(), symptom, "warned")
            self.journal.record(guard.events[-1])
            self.journal.tell(f"{stage}: {symptom.seen}. Remedy: {symptom.remedy}.")

    def save_if_due(self, *, stage_ended: bool = False) -> None:
        """Write a checkpoint if a stage has ended, the last one is old, or the run has to stop; stop in that case."""
        hooks, checkpoints = self.hooks, self.hooks.checkpoints
        is_late = time.monotonic() - self._saved >= hooks.save_every
        stop, is_due = self.world.any([hooks.should_stop(), is_late and checkpoints is not None])
        if checkpoints is not None and (stop or is_due or stage_ended):
            tensors, counters = self._packed()
            if self.world.is_main:
                checkpoints.save(tensors, counters)
            self._saved = time.monotonic()
            self.world.any([False])  # every process waits until it is on disk
        if stop:
            raise StoppedError(f"Stopped in {self.state.stage} at iteration {self.state.iteration}.")

    def _packed(self) -> Packed:
        """All state of all processes."""
        tensors, counters = pack(self.state)
        if self.state.noise is not self.state.generator:
            tensors["noise"] = self.state.noise.get_state()
        good, guard = self.guard.pack()
        whole = counters | guard | self.journal.pack() | {"processes": self.world.size}
        return self.world.gathered(tensors | good, OWN), whole

    def resume(self, config: TrainingConfig, *, rows: int) -> None:
        """Restore the newest checkpoint, if there is one."""
        state, world, checkpoints = self.state, self.world, self.hooks.checkpoints
        if checkpoints is None or not world.from_main(checkpoints.exists):
            return
        tensors, counters = world.from_main(lambda: checkpoints.load(state=state, rows=rows, processes=world.size))
        tensors = world.own_parts(tensors, OWN)
        if counters["stage"] in TRAINED:
            state.optimiser = adam(state.net, getattr(config, counters["stage"]))
        unpack(state, tensors, counters)
        if "noise" in tensors:
            state.noise.set_state(tensors["noise"])
        self.guard.unpack(tensors, counters)
        self.journal.unpack(counters)
        for line in checkpoints.skipped:
            self.journal.tell(f"a damaged checkpoint was skipped: {line}")


def mixed_seed(seed: int, *parts: int) -> int:
    """A seed for a combination of numbers, unrelated to the seeds of others."""
    for part in parts:
        seed = (seed * 6_364_136_223_846_793_005 + part + 1_442_695_040_888_963_407) % 2**63
    return seed
