"""The engine under the recipe: batches, samplers, optimiser steps, averages, progress. Only this room knows Fabric."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from lightning_fabric import Fabric

from gedi.errors import GediError
from gedi.objectives import sinkhorn
from gedi.sampling import Box, DamInfo, ReplayBuffer, dam, sgld
from gedi.training.build import build_net
from gedi.training.checkpoint import Checkpoints, pack, unpack
from gedi.training.config import StageConfig, TrainingConfig
from gedi.training.expected import ExpectedCheckpoint
from gedi.training.state import Best, TrainState, averaged_copy

STAGES = ("start", "step1", "after step1", "embedding", "after embedding", "step2", "after step2")
WINDOW = 50  # iterations between two lines of history, and two looks at the best state
SMOOTHING = 0.98  # decay of the smoothed objective


class DivergedError(GediError):
    """Training left the finite numbers."""


class StoppedError(GediError):
    """Training was asked to stop; its state is saved if there is a place for it."""


class Batch(NamedTuple):
    """Rows of the scaled data and their places in it."""

    x: torch.Tensor
    rows: torch.Tensor


class Progress(NamedTuple):
    """What a progress bar shows."""

    stage: str
    attempt: int
    iteration: int
    total: int
    values: dict[str, float]
    seconds: float


Augment = Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]


class Engine:
    """Holds a run's state and offers the verbs Algorithm 2 is written in."""

    def __init__(
        self,
        config: TrainingConfig,
        x: torch.Tensor,
        n_clusters: int,
        *,
        seed: int,
        augment: Augment,
        on_progress: Callable[[Progress], None] | None = None,
        checkpoints: Checkpoints | None = None,
        save_every: float = 30.0,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.fabric = Fabric(accelerator="cpu", devices=1)
        self.config, self.n_clusters, self.augment_rows = config, n_clusters, augment
        self.x = self.fabric.to_device(x)
        self.on_progress = on_progress
        self.history: list[dict[str, float | str]] = []
        self.walk_crossing: float | None = None  # share of the start's walks that change cluster
        self.seconds = {"sgld": 0.0, "dam": 0.0, "step": 0.0}
        generator = torch.Generator().manual_seed(seed)
        box = Box.around(self.x, config.sampler.box_margin)
        net = build_net(config.net, x.shape[1], n_clusters, generator, box)
        self.fabric.to_device(net)
        self.state = TrainState(
            net=net,
            average=averaged_copy(net),
            optimiser=_adam(net, config.step1),
            buffer=ReplayBuffer(config.sampler.buffer_size, box, generator),
            queue=torch.empty(0, config.net.embedding),
            generator=generator,
        )
        self.checkpoints, self.save_every, self.should_stop = checkpoints, save_every, should_stop
        self._values: dict[str, float] = {}
        self._began = self._saved = time.monotonic()
        if checkpoints is not None and checkpoints.exists():
            self._restore(checkpoints)

    # -- the verbs of Algorithm 2 -------------------------------------------------------------------------------------

    def stage(self, name: str, config: StageConfig) -> Iterator[Batch]:
        """Yield one batch an iteration; warm-up, decay, averaging, history, progress and checkpoints happen around it.

        A resumed run passes over stages it had finished, and enters the one it was in where it stopped.
        """
        state = self.state
        if STAGES.index(state.stage) > STAGES.index(name):
            return
        if self.is_before(name):
            # Empty moments: those of the stage before belong to other losses.
            state.optimiser = _adam(state.net, config)
            state.stage, state.iteration, state.objective = name, 0, None
        self._values.clear()  # a line of history tells of its own stage only
        state.net.train()
        while state.iteration < config.iterations:
            for group in state.optimiser.param_groups:
                group["lr"] = config.learning_rate * rate(state.iteration, config)
            yield self._batch(config.batch_size)
            state.iteration += 1
            # Young averages forget faster, so that a stage's first weights do not linger in its last.
            state.update_average(min(config.average, state.iteration / (state.iteration + 10)))
            if state.iteration % WINDOW == 0 or state.iteration == config.iterations:
                self._look(name, config)
            self._save_if_due()
        state.load_weights(state.weights())
        if name == "step1":
            state.after_step1 = state.weights()
        if name == "step2" and state.best.objective < state.kept.objective:
            state.kept = state.best
        state.stage, state.iteration = f"after {name}", 0
        self._save_if_due(stage_ended=config.iterations > 0)

    def attempts(self) -> Iterator[int]:
        """The starts of step 2 still to be tried, each from the weights of step 1."""
        last = self.config.n_init if self.config.step2.iterations else 0
        for attempt in range(self.state.attempt, last):
            if attempt > self.state.attempt or self.state.stage == "after step1":
                self._begin_attempt(attempt)
            yield attempt

    def is_before(self, name: str) -> bool:
        """Whether this attempt has not yet entered the stage."""
        return STAGES.index(self.state.stage) < STAGES.index(name)

    def langevin(self, n: int) -> torch.Tensor:
        """Samples of p_Psi: persistent chains moved by SGLD (Sec. 3.1)."""
        began, state, c = time.monotonic(), self.state, self.config.sampler
        assert c.noise is not None
        chains, places = state.buffer.draw(
            n, restart=c.restart, generator=state.generator, data=self.x, from_data=c.from_data
        )
        samples, info = sgld(
            state.net.log_density,
            chains,
            steps=c.steps,
            noise=c.noise,
            final_noise=c.final_noise,
            step=c.step,
            max_drift=math.inf if c.max_drift is None else c.max_drift,
            box=state.buffer.box,
            generator=state.generator,
            gradient=state.net.score,
        )
        state.buffer.put(places, samples)
        state.gradient_evaluations += c.steps * len(samples)
        self._values["at_box"] = info.at_box
        self.seconds["sgld"] += time.monotonic() - began
        return samples

    def walk(self, x: torch.Tensor) -> tuple[torch.Tensor, DamInfo]:
        """x'' by DAM (Alg. 1), along the averaged energy: its tangents are steadier than the present one's."""
        began, c = time.monotonic(), self.config.dam
        assert c.radius is not None
        walked, info = dam(
            self.state.average.log_density,
            x,
            radius=c.radius,
            steps=c.steps,
            generator=self.state.generator,
            max_drop=math.inf if c.max_drop is None else c.max_drop,
            gradient=self.state.average.score,
        )
        self.state.gradient_evaluations += c.steps * len(x)
        self._values["walk_distance"] = float(info.distance.mean())
        self._values["walk_log_density_change"] = float(info.log_density_change.mean())
        self.seconds["dam"] += time.monotonic() - began
        return walked, info

    def augment(self, batch: Batch) -> torch.Tensor:
        """x' drawn from T(x'|x)."""
        return self.augment_rows(batch.x, batch.rows, self.state.generator)

    def with_data_noise(self, x: torch.Tensor) -> torch.Tensor:
        """Data as the energy sees it: blurred by no more than the sampler's own resolution."""
        kick = torch.randn(x.shape, generator=self.state.generator, dtype=x.dtype)
        return x + (self.config.sampler.data_noise or 0.0) * kick

    def assign(self, scores: torch.Tensor) -> torch.Tensor:
        """Sinkhorn assignments q(y|x) of a batch, with the queue's past embeddings beside it."""
        state, c = self.state, self.config.clustering
        pool = scores
        if len(state.queue):
            with torch.no_grad():
                pool = torch.cat([scores, state.net.prototypes(state.queue)])
        q = sinkhorn(pool, epsilon=c.epsilon, iterations=c.iterations, marginals=state.marginals, firmness=c.firmness)
        return q[: len(scores)]

    def remember(self, embeddings: torch.Tensor) -> None:
        """Put embeddings at the head of the queue."""
        if self.config.clustering.queue:
            self.state.queue = torch.cat([embeddings.detach(), self.state.queue])[: self.config.clustering.queue]

    def descend(self, terms: dict[str, torch.Tensor], weights: dict[str, float]) -> None:
        """One optimiser step on the weighted sum of the terms."""
        began = time.monotonic()
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        if not torch.isfinite(loss):
            raise DivergedError(self._diverged(terms))
        self.state.optimiser.zero_grad()
        self.fabric.backward(loss)
        self.state.optimiser.step()
        for name, term in terms.items():
            self._values[name] = float(term.detach())
        self._smooth_objective()
        self.seconds["step"] += time.monotonic() - began

    # -- bookkeeping --------------------------------------------------------------------------------------------------

    def _begin_attempt(self, attempt: int) -> None:
        """Back to the weights of step 1 with new heads, so that attempts differ in their clusters alone."""
        state = self.state
        state.attempt, state.best, state.stage = attempt, Best(), "after step1"
        state.queue = state.queue[:0]
        weights = state.after_step1
        if attempt:
            fresh = build_net(self.config.net, self.x.shape[1], self.n_clusters, state.generator).state_dict()
            heads = ("projector.", "nf_projector.", "prototypes.")
            weights = {k: fresh[k] if k.startswith(heads) else v for k, v in weights.items()}
        state.load_weights(weights)

    def _batch(self, size: int) -> Batch:
        rows = torch.randperm(len(self.x), generator=self.state.generator)[: min(size, len(self.x))]
        return Batch(self.x[rows], rows)

    def _smooth_objective(self) -> None:
        parts = [v for k, v in self._values.items() if k.startswith("clustering_")]
        if self.state.stage == "step2" and parts:
            now, old = sum(parts) / len(parts), self.state.objective
            self.state.objective = now if old is None else SMOOTHING * old + (1 - SMOOTHING) * now
            self._values["objective"] = self.state.objective

    def _save_if_due(self, *, stage_ended: bool = False) -> None:
        stop = self.should_stop()
        is_due = stop or stage_ended or time.monotonic() - self._saved >= self.save_every
        if self.checkpoints is not None and is_due:
            tensors, counters = pack(self.state)
            extra = {"history": self.history, "seconds": self.seconds, "walk_crossing": self.walk_crossing}
            self.checkpoints.save(tensors, counters | extra)
            self._saved = time.monotonic()
        if stop:
            raise StoppedError(f"Stopped in {self.state.stage} at iteration {self.state.iteration}.")

    def _restore(self, checkpoints: Checkpoints) -> None:
        queue = self.config.clustering.queue
        tensors, counters = checkpoints.load(ExpectedCheckpoint(self.state, STAGES, len(self.x), queue))
        stages = {"step1": self.config.step1, "embedding": self.config.embedding, "step2": self.config.step2}
        if counters["stage"] in stages:
            self.state.optimiser = _adam(self.state.net, stages[counters["stage"]])
        unpack(self.state, tensors, counters)
        self.history, self.seconds = counters["history"], self.seconds | counters["seconds"]
        self.walk_crossing = counters["walk_crossing"]

    def _look(self, name: str, config: StageConfig) -> None:
        state = self.state
        line: dict[str, float | str] = {"stage": name, "attempt": state.attempt, "iteration": state.iteration}
        self.history.append(line | self._values)
        faded = state.iteration >= self.config.start.fade * config.iterations
        objective = state.objective if name == "step2" and faded else None
        if objective is not None and (objective < state.best.objective or not self.config.keep_best):
            state.best = Best(objective, state.weights(), state.iteration)
        if self.on_progress is not None:
            seconds = time.monotonic() - self._began
            values = dict(self._values)
            self.on_progress(Progress(name, state.attempt, state.iteration, config.iterations, values, seconds))

    def _diverged(self, terms: dict[str, torch.Tensor]) -> str:
        seen = ", ".join(f"{k} = {float(v.detach()):.3g}" for k, v in terms.items())
        return (
            f"Training diverged in {self.state.stage} at iteration {self.state.iteration}: {seen}. "
            "Lower the learning rate or keep the sampler at temperature 1 (sampler.step unset)."
        )


def rate(iteration: int, config: StageConfig) -> float:
    """Learning rate relative to its top: linear warm-up, plateau, cosine decay to ``final_rate``."""
    warm = min(1.0, (iteration + 1) / max(1, min(config.warmup, config.iterations // 10)))
    decay_from = config.decay_from * config.iterations
    if iteration < decay_from:
        return warm
    share = (iteration - decay_from) / max(1.0, config.iterations - decay_from)
    return warm * (config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * share)) / 2)


def _adam(net: torch.nn.Module, config: StageConfig) -> torch.optim.Adam:
    return torch.optim.Adam(net.parameters(), lr=config.learning_rate, betas=config.betas, foreach=True)
