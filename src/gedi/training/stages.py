"""The stages of a run and what happens around every iteration: schedule, averages, history, rollbacks, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from gedi.data.scaled_rows import Rows, joined
from gedi.errors import GediError
from gedi.sampling import ReplayBuffer
from gedi.training.build import box_around, build_net
from gedi.training.config import StageConfig, TrainingConfig, longest_queue
from gedi.training.groups import find_groups
from gedi.training.guard import DivergedError, Guard, Packed, Symptom, cold_sampler, is_calm, worries
from gedi.training.journal import Checkpoints, Journal, Log, Progress
from gedi.training.schedule import adam, rate
from gedi.training.state import Best, Tensors, TrainState, averaged_copy, pack, unpack
from gedi.training.world import World

STAGES = ("start", "step1", "after step1", "embedding", "after embedding", "step2", "after step2")
WINDOW = 50  # iterations between two lines of history, and two looks at the best state
BLOCK, IMAGE_BLOCK = 4096, 256  # rows of a forward pass over all data
OWN = ("buffer", "noise", "queue")  # tensors of a checkpoint of which every process has its own


class StoppedError(GediError):
    """Training was asked to stop; its state is saved if there is a place for it."""


class Batch(NamedTuple):
    """Rows of the scaled data and their places in it: this process's part of the global batch."""

    x: torch.Tensor
    rows: torch.Tensor


Augment = Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]


class Stages:
    """A run's state, and the order of its stages; `Engine` adds what is done within one."""

    def __init__(
        self,
        config: TrainingConfig,
        x: Rows,
        n_clusters: int,
        *,
        seed: int,
        augment: Augment,
        image_shape: tuple[int, ...] | None = None,
        groups: Any = None,
        world: World | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        log: Log | None = None,
        checkpoints: Checkpoints | None = None,
        save_every: float = 30.0,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.world = world = world or World()
        self.config, self.n_clusters, self.seed, self.augment_rows = config, n_clusters, seed, augment
        self.image_shape = image_shape
        self.x = x.to(world.device)
        self.groups = find_groups(config.objective, len(x), n_clusters, groups)
        self.journal = Journal(is_main=world.is_main, on_progress=on_progress, log=log)
        self.guard = Guard(config.guard)
        self.walk_crossing: float | None = None  # share of the start's walks that change cluster
        generator = torch.Generator().manual_seed(seed)
        # Several processes share one stream for what they must agree on, and have one each for their noise.
        alone = world.size == 1 and world.device.type == "cpu"
        noise = generator if alone else torch.Generator(world.device).manual_seed(mixed(seed, 0, world.rank))
        box = box_around(self.x, config)
        net = build_net(config, x.shape[1], n_clusters, generator, box, image_shape)
        if world.size > 1:  # the same seed need not give the same weights on machines that round differently
            net.load_state_dict(world.from_main(net.state_dict))
        net = net.to(world.device)
        self.state = TrainState(
            net=net,
            average=averaged_copy(net),
            optimiser=adam(net, config.step1),
            buffer=ReplayBuffer(math.ceil(config.sampler.buffer_size / world.size), box, noise),
            queue=torch.empty(0, config.net.embedding, device=world.device),
            generator=generator,
            noise=noise,
        )
        self.checkpoints, self.save_every, self.should_stop = checkpoints, save_every, should_stop
        self._symptom: Symptom | None = None
        self._saved = time.monotonic()
        if checkpoints is not None and world.from_main(checkpoints.exists):
            rows, queue = len(x), longest_queue(config)
            self._restore(
                *world.from_main(
                    lambda: checkpoints.load(
                        state=self.state, stages=STAGES, rows=rows, queue=queue, processes=world.size
                    )
                )
            )
            for line in checkpoints.skipped:
                self.journal.tell(f"a damaged checkpoint was passed over: {line}")
        self.journal.open()
        if world.size > 1:  # another process may be lost at any time: there is always something to go on from
            self._save_if_due(stage_ended=True)

    @property
    def values(self) -> dict[str, float]:
        """The latest value of everything measured in this stage."""
        return self.journal.values

    def stage(self, name: str, config: StageConfig) -> Iterator[Batch]:
        """Yield one batch an iteration; schedule, averages, history, checkpoints and rollbacks happen around it.

        A resumed run passes over stages it had finished, and enters the one it was in where it stopped.
        """
        state = self.state
        if STAGES.index(state.stage) > STAGES.index(name):
            return
        if self.is_before(name):
            # Empty moments: those of the stage before belong to other losses.
            state.optimiser = adam(state.net, config)
            state.stage, state.iteration, state.objective = name, 0, None
            self.guard.begin_stage(pack(state))
            if name == "step1" and config.iterations and (symptom := cold_sampler(self.config.sampler)) is not None:
                self._warn(symptom)
        self.values.clear()  # a line of history tells of its own stage only
        state.net.train()
        while state.iteration < config.iterations:
            for group in state.optimiser.param_groups:
                group["lr"] = config.learning_rate * rate(state.iteration, config) * self.guard.rate
            with self.journal.timed_as_loss():
                yield self._batch(config.batch_size)
            if self._went_wrong():
                if state.stage != name:  # this attempt was given up
                    return
                continue
            state.iteration += 1
            # Young averages forget faster, so that a stage's first weights do not linger in its last.
            state.update_average(min(config.average, state.iteration / (state.iteration + 10)))
            if state.iteration % WINDOW == 0 or state.iteration == config.iterations:
                self._look(name, config)
            if state.iteration % self.config.guard.every == 0:
                self._remember_if_calm()
            self._save_if_due()
        state.load_weights(state.weights())
        if name == "step1":
            state.after_step1 = state.weights()
        if name == "step2" and state.best.objective < state.kept.objective:
            state.kept = state.best
        state.stage, state.iteration = f"after {name}", 0
        self._save_if_due(stage_ended=config.iterations > 0)

    def of_all(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """A function of all rows, in blocks that a forward pass can hold."""
        blocks = self.x.split(BLOCK if self.config.net.encoder == "mlp" else IMAGE_BLOCK)
        return joined((function(x) for x in blocks), len(self.x))

    def attempts(self) -> Iterator[int]:
        """The starts of step 2 still to be tried, each from the weights of step 1."""
        config = self.config
        last = config.n_init if config.step2.iterations else min(1, config.embedding.iterations)
        for attempt in range(self.state.attempt, last):
            if attempt > self.state.attempt or self.state.stage == "after step1":
                self._begin_attempt(attempt)
            yield attempt

    def is_before(self, name: str) -> bool:
        """Whether this attempt has not yet entered the stage."""
        return STAGES.index(self.state.stage) < STAGES.index(name)

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _begin_attempt(self, attempt: int) -> None:
        """Back to the weights of step 1 with new heads, so that attempts differ in their clusters alone."""
        state = self.state
        state.attempt, state.best, state.stage = attempt, Best(), "after step1"
        state.queue = state.queue[:0]
        weights = state.after_step1
        generative = self.config.objective.get("generative")
        if attempt and not (generative and generative.reads_heads):  # else step 1's density would be lost with them
            made = build_net(
                self.config, self.x.shape[1], self.n_clusters, state.generator, image_shape=self.image_shape
            )
            fresh = made.state_dict()
            heads = ("projector.", "nf_projector.", "prototypes.")
            weights = {k: fresh[k] if k.startswith(heads) else v for k, v in weights.items()}
        state.load_weights(weights)

    def _batch(self, size: int) -> Batch:
        with self.journal.timed("data"):
            return Batch(self.x[rows := self._draw(size)], rows)

    def _draw(self, size: int) -> torch.Tensor:
        """Places of rows drawn without replacement; where a constraint groups them, of whole groups."""
        groups, generator = self.groups, self.state.generator
        if groups is None:
            rows = torch.randperm(len(self.x), generator=generator)[: min(size, len(self.x))]
            return self.world.part(rows)
        count = max(1, size // groups.shape[1])
        return groups[self.world.part(torch.randperm(len(groups), generator=generator)[:count])].flatten()

    def _look(self, name: str, config: StageConfig) -> None:
        state = self.state
        self.journal.record(self._where() | self.values)
        faded = state.iteration >= self.config.start.fade * config.iterations
        objective = state.objective if name == "step2" and faded else None
        if objective is not None and (objective < state.best.objective or not self.config.keep_best):
            state.best = Best(objective, state.weights(), state.iteration)
        if name == "step2" and state.iteration == config.iterations:
            self._look_for_worries()
        self.journal.progress(name, state.attempt, state.iteration, config.iterations)

    def _where(self) -> dict[str, Any]:
        return {"stage": self.state.stage, "attempt": self.state.attempt, "iteration": self.state.iteration}

    # -- the guard ----------------------------------------------------------------------------------------------------

    def _went_wrong(self) -> bool:
        """Whether this batch diverged, on any process; then the run is back at the last calm state."""
        (wrong,) = self.world.any([self._symptom is not None])
        if not wrong:
            return False
        state, guard = self.state, self.guard
        symptom, self._symptom = self.world.first(self._symptom), None
        assert symptom is not None
        try:
            calm = guard.back_off(self._where(), symptom)
        except DivergedError:
            if not state.kept.weights:
                raise
            # Other starts got through: theirs is kept, and this one is over.
            self.journal.tell(f"start {state.attempt + 1} diverged and is given up; the best of the others is kept.")
            state.stage, state.iteration = STAGES[-1], 0
            return True
        finally:
            self.journal.record(guard.events[-1])
        self.journal.tell("{stage}, iteration {iteration}: {seen}; {action}.".format(**guard.events[-1]))
        paid = state.gradient_evaluations
        unpack(state, *calm)
        state.gradient_evaluations = paid
        state.generator.manual_seed(mixed(self.seed, guard.total, 0))
        if state.noise is not state.generator:
            state.noise.manual_seed(mixed(self.seed, guard.total, 1 + self.world.rank))
        self.values.clear()
        return True

    def _remember_if_calm(self) -> None:
        """Keep this state to go back to, if it is far from all limits on every process."""
        (restless,) = self.world.any([not is_calm(self.values, self.config.guard)])
        if not restless:
            self.guard.good = pack(self.state)

    def _warn(self, symptom: Symptom) -> None:
        """Say once a stage what looks wrong."""
        if not self.guard.has_noted(self.state.stage, symptom):
            self.guard.note(self._where(), symptom, "warned")
            self.journal.record(self.guard.events[-1])
            self.journal.tell(f"{self.state.stage}: {symptom.seen}. To change: {symptom.remedy}.")

    @torch.no_grad()
    def _look_for_worries(self) -> None:
        used = self.of_all(lambda x: self.state.average.scores(x).argmax(1)).unique()
        values = self.values | {"empty_clusters": float(self.n_clusters - len(used))}
        for symptom in worries(values, n_clusters=self.n_clusters, max_drop=self.config.dam.max_drop):
            self._warn(symptom)

    # -- checkpoints --------------------------------------------------------------------------------------------------

    def _save_if_due(self, *, stage_ended: bool = False) -> None:
        is_late = time.monotonic() - self._saved >= self.save_every
        stop, is_due = self.world.any([self.should_stop(), is_late and self.checkpoints is not None])
        if self.checkpoints is not None and (stop or is_due or stage_ended):
            tensors, counters = self._packed()
            if self.world.is_main:
                self.checkpoints.save(tensors, counters)
            self._saved = time.monotonic()
            self.world.any([False])  # nobody goes on, or away, before it is on disk
        if stop:
            raise StoppedError(f"Stopped in {self.state.stage} at iteration {self.state.iteration}.")

    def _packed(self) -> Packed:
        """All state of all processes."""
        tensors, counters = pack(self.state)
        if self.state.noise is not self.state.generator:
            tensors["noise"] = self.state.noise.get_state()
        good, guard = self.guard.pack()
        extra = {"history": self.journal.history, "seconds": self.journal.seconds, "walk_crossing": self.walk_crossing}
        extra |= {"elapsed": self.journal.elapsed()}
        return self.world.gathered(tensors | good, OWN), counters | guard | extra | {"processes": self.world.size}

    def _restore(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        tensors = self.world.own_parts(tensors, OWN)
        stages = {"step1": self.config.step1, "embedding": self.config.embedding, "step2": self.config.step2}
        if counters["stage"] in stages:
            self.state.optimiser = adam(self.state.net, stages[counters["stage"]])
        unpack(self.state, tensors, counters)
        if "noise" in tensors:
            self.state.noise.set_state(tensors["noise"])
        self.guard.unpack(tensors, counters)
        self.journal.go_on_from(counters["history"], self.journal.seconds | counters["seconds"], counters["elapsed"])
        self.walk_crossing = counters["walk_crossing"]


def mixed(seed: int, *parts: int) -> int:
    """A seed for every combination of numbers, far from those of others."""
    for part in parts:
        seed = (seed * 6_364_136_223_846_793_005 + part + 1_442_695_040_888_963_407) % 2**63
    return seed
