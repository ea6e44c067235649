"""Rollbacks when a run diverges, warnings, checkpoints, and resuming from them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from gedi.errors import GediError
from gedi.training.guard import Packed, Symptom, is_calm
from gedi.training.state import STAGES, TRAINED, Tensors, adam, pack, unpack

if TYPE_CHECKING:
    from gedi.training.engine import Engine

OWN = ("buffer", "noise")  # checkpoint tensors that differ between processes


class StoppedError(GediError):
    """Training was asked to stop; its state is saved if the run has checkpoints."""


class Recovery:
    """Takes a run back to its last calm state, and saves and restores its checkpoints."""

    def __init__(self, run: Engine) -> None:
        self.run = run
        self.symptom: Symptom | None = None  # of divergence, seen in this iteration by this process
        self._saved = time.monotonic()

    def went_wrong(self) -> bool:
        """Whether this batch diverged on any process; if so, the run is taken back to its last calm state."""
        run, state, guard, journal = self.run, self.run.state, self.run.guard, self.run.journal
        (wrong,) = run.world.any([self.symptom is not None])
        if not wrong:
            return False
        symptom, self.symptom = run.world.first(self.symptom), None
        assert symptom is not None
        try:
            calm = guard.back_off(run.where(), symptom)
        finally:
            journal.record(guard.events[-1])
        journal.tell("{stage}, iteration {iteration}: {seen}; {action}.".format(**guard.events[-1]))
        paid = state.gradient_evaluations
        unpack(state, *calm)
        state.gradient_evaluations = paid
        state.generator.manual_seed(mixed_seed(run.seed, guard.total, 0))
        if state.noise is not state.generator:
            state.noise.manual_seed(mixed_seed(run.seed, guard.total, 1 + run.world.rank))
        run.values.clear()
        state.judged.clear()
        return True

    def remember_if_calm(self) -> None:
        """Keep this state to go back to, if it is far from all limits on every process."""
        run = self.run
        (restless,) = run.world.any([not is_calm(run.values, run.config.guard)])
        if not restless:
            run.guard.good = pack(run.state)

    def warn(self, symptom: Symptom) -> None:
        """Warn of each problem once per stage."""
        guard, stage = self.run.guard, self.run.state.stage
        if not guard.has_noted(stage, symptom):
            guard.note(self.run.where(), symptom, "warned")
            self.run.journal.record(guard.events[-1])
            self.run.journal.tell(f"{stage}: {symptom.seen}. Remedy: {symptom.remedy}.")

    def save_if_due(self, *, stage_ended: bool = False) -> None:
        """Write a checkpoint if a stage has ended, the last one is old, or the run has to stop; stop in that case."""
        run, hooks, checkpoints = self.run, self.run.hooks, self.run.hooks.checkpoints
        is_late = time.monotonic() - self._saved >= hooks.save_every
        stop, is_due = run.world.any([hooks.should_stop(), is_late and checkpoints is not None])
        if checkpoints is not None and (stop or is_due or stage_ended):
            tensors, counters = self._packed()
            if run.world.is_main:
                checkpoints.save(tensors, counters)
            self._saved = time.monotonic()
            run.world.any([False])  # every process waits until it is on disk
        if stop:
            raise StoppedError(f"Stopped in {run.state.stage} at iteration {run.state.iteration}.")

    def _packed(self) -> Packed:
        """All state of all processes."""
        run = self.run
        tensors, counters = pack(run.state)
        if run.state.noise is not run.state.generator:
            tensors["noise"] = run.state.noise.get_state()
        good, guard = run.guard.pack()
        extra = {"candidates": run.candidates, "winner": run.winner, "processes": run.world.size}
        return run.world.gathered(tensors | good, OWN), counters | guard | run.journal.pack() | extra

    def resume(self) -> None:
        """Restore the newest checkpoint, if there is one."""
        run, world, checkpoints = self.run, self.run.world, self.run.hooks.checkpoints
        if checkpoints is None or not world.from_main(checkpoints.exists):
            return
        of_this_run = {"state": run.state, "stages": STAGES, "rows": len(run.x), "processes": world.size}
        self._restore(*world.from_main(lambda: checkpoints.load(**of_this_run)))
        for line in checkpoints.skipped:
            run.journal.tell(f"a damaged checkpoint was skipped: {line}")

    def _restore(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        run, state = self.run, self.run.state
        tensors = run.world.own_parts(tensors, OWN)
        if counters["stage"] in TRAINED:
            state.optimiser = adam(state.net, getattr(run.config, counters["stage"]))
        unpack(state, tensors, counters)
        if "noise" in tensors:
            state.noise.set_state(tensors["noise"])
        run.guard.unpack(tensors, counters)
        run.journal.unpack(counters)
        run.candidates, run.winner = counters["candidates"], counters["winner"]


def mixed_seed(seed: int, *parts: int) -> int:
    """A seed for a combination of numbers, unrelated to the seeds of others."""
    for part in parts:
        seed = (seed * 6_364_136_223_846_793_005 + part + 1_442_695_040_888_963_407) % 2**63
    return seed
