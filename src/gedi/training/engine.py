"""The engine behind the recipe: a run's state, the loop of a stage, and the operations that Algorithm 2 consists of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from gedi.data.neighbours import main_directions
from gedi.data.scaled_rows import joined
from gedi.objectives.generative import denoising_error, density_of
from gedi.objectives.term import Loss, temperature, trains_clusters
from gedi.objectives.views import Views
from gedi.sampling import ReplayBuffer, distinct
from gedi.training.adam import rate
from gedi.training.build import Prepared, box_around, build_net, restart_box
from gedi.training.config import StageConfig
from gedi.training.encoder_registry import in_bfloat16
from gedi.training.guard import Guard, cold_sampler, divergence, worries
from gedi.training.journal import Hooks, Journal
from gedi.training.moves import langevin, walk
from gedi.training.recovery import Recovery, mixed_seed
from gedi.training.state import STAGES, Trained, TrainState, adam, averaged_copy, pack
from gedi.training.world import World

WINDOW = 50  # iterations between lines of history, and between checks for a settled curve
CURVES = {"step1": "denoising_error", "step2": "objective"}  # what has to settle before a stage may be shortened
PATIENCE = 3  # points without progress after which a curve has settled
LOOKED_AT, LOOKED_AT_NUMBERS = 1000, 2**18  # most rows that the density is evaluated on, and most values in them
RESOLUTION = 0.01  # noise on these rows, if the density learns from data without noise
ROWS_LOOKED_AT = 10_000  # enough to see which clusters are in use
SMOOTHING = 0.98  # decay of the smoothed objective


class Batch(NamedTuple):
    """Scaled rows and their indices in the data: this process's part of the global batch."""

    x: torch.Tensor
    rows: torch.Tensor


class Engine:
    """One run. Everything that changes while it trains is in its checkpoints."""

    def __init__(self, ready: Prepared, *, seed: int, world: World | None = None, hooks: Hooks | None = None) -> None:
        self.world = world or World()
        hooks = hooks or Hooks()
        self.config, self.n_clusters, self.seed = ready.config, ready.n_clusters, seed
        self.groups, self.words, self.augment_rows = ready.groups, ready.words, ready.augment
        self.x = ready.rows.to(self.world.device)
        self.in_bfloat16 = in_bfloat16(self.world.hardware.precision, self.config, self.world.device)
        self.journal = Journal(hooks, is_main=self.world.is_main)
        self.values = self.journal.values
        self.guard = Guard(self.config.guard)
        self.pairs_of_neighbours: dict[int, np.ndarray] = {}  # by the seed of the rows: see `neighbour_pairs`
        self.state = self._new_state(ready)
        self.recovery = Recovery(self.state, self.guard, self.journal, self.world, hooks, seed=seed)
        self.recovery.resume(self.config, rows=len(self.x))
        self.journal.open()
        if self.world.size > 1:  # another process may die at any time, so there is always a checkpoint
            self.recovery.save_if_due(stage_ended=True)

    def _new_state(self, ready: Prepared) -> TrainState:
        config, world = self.config, self.world
        generator = torch.Generator().manual_seed(self.seed)
        # Processes share one generator for what they must agree on, and each has its own for noise.
        alone = world.size == 1 and world.device.type == "cpu"
        noise = generator if alone else torch.Generator(world.device).manual_seed(mixed_seed(self.seed, 0, world.rank))
        box = box_around(self.x, config)
        net = build_net(config, self.x.shape[1], self.n_clusters, generator, box, ready.image_shape)
        net.slow_waves(ready.sparsity)
        if ready.base is not None:
            net.density.get_submodule("base").load_state_dict(ready.base.state_dict())
        if world.size > 1:  # the same seed need not give the same weights on machines that round differently
            net.load_state_dict(world.from_main(net.state_dict))
        net = net.to(world.device)
        size = math.ceil(config.sampler.buffer_size / world.size)
        return TrainState(
            net=net,
            average=averaged_copy(net),
            optimiser=adam(net, config.step1),
            buffer=ReplayBuffer(size, box, noise, restart_box(box, config)),
            generator=generator,
            noise=noise,
        )

    @cached_property
    def directions(self) -> np.ndarray:
        """The rows to look for clusters in: their main directions, if there are many; rows with words as they are."""
        rows = self.x.to(torch.device("cpu"))
        return np.asarray(rows[:]) if self.words else main_directions(rows)

    # -- stages -------------------------------------------------------------------------------------------------------

    def stage(self, name: Trained, config: StageConfig, *, turn: float = 1.0) -> Iterator[Batch]:
        """Yield one batch per iteration; schedule, averages, history, checkpoints and rollbacks happen around it.

        If the stage's curve settles before the share ``turn`` of its iterations, the stage is shortened so that this
        share ends there. A resumed run skips finished stages and continues where it stopped.
        """
        state = self.state
        if STAGES.index(state.stage) > STAGES.index(name):
            return
        if self.is_before(name):
            # Empty moments: those of the previous stage belong to other losses.
            state.optimiser = adam(state.net, config)
            state.stage, state.iteration, state.length = name, 0, config.iterations
            state.objective, state.judged = None, {}
            self.guard.begin_stage(pack(state))
            self.values.clear()  # a line of history covers its own stage only
            if name == "step1" and config.iterations and (symptom := cold_sampler(self.config.sampler)) is not None:
                self.recovery.warn(symptom)
        state.net.train()
        while state.iteration < state.length:
            scheduled = config.learning_rate * rate(state.iteration, config, state.length)
            state.optimiser.learning_rate = scheduled * self.guard.rate
            with self.journal.timed_as_loss():
                yield self._batch(config.batch_size)
            if self.recovery.went_wrong():
                continue
            state.iteration += 1
            # Averages decay faster at first, so that a stage's initial weights do not linger.
            state.update_average(min(config.average, state.iteration / (state.iteration + 10)))
            if state.iteration % WINDOW == 0 or state.iteration == state.length:
                self._look(name)
                self._shorten_if_settled(name, config, turn)
            self.journal.progress(self._doing(name), state.iteration, state.length)
            if state.iteration % self.config.guard.every == 0:
                self.recovery.remember_if_calm()
            self.recovery.save_if_due()
        self.journal.stages[name] = {"iterations": state.length, "limit": config.iterations}
        state.net.load_state_dict(state.average.state_dict())
        state.stage, state.iteration = STAGES[STAGES.index(name) + 1], 0
        self.recovery.save_if_due(stage_ended=config.iterations > 0)

    def _doing(self, name: str) -> str:
        """What a stage does, for the progress line."""
        if name == "step1":
            return "fitting the density"
        return "finding clusters" if trains_clusters(self.config.objective) else "learning the representation"

    def is_before(self, name: str) -> bool:
        """Whether the run has not entered the stage yet."""
        return STAGES.index(self.state.stage) < STAGES.index(name)

    def _batch(self, size: int) -> Batch:
        with self.journal.timed("data"):
            return Batch(self.x[rows := self._draw(size)], rows)

    def _draw(self, size: int) -> torch.Tensor:
        """Indices of rows drawn without replacement; with a constraint, those of whole groups."""
        groups, generator = self.groups, self.state.generator
        if groups is None:
            return self.world.part(distinct(len(self.x), size, generator))
        return groups[self.world.part(distinct(len(groups), max(1, size // groups.shape[1]), generator))].flatten()

    def _look(self, name: str) -> None:
        state = self.state
        if state.objective is not None:
            self.values["objective"] = float(state.objective.min())
        if density_of(self.config.objective):
            self.values["denoising_error"] = self._denoising_error()
        self.journal.record(state.where() | self.values)
        if name == "step2" and state.iteration == state.length:
            self._look_for_worries()

    @torch.no_grad()
    def _denoising_error(self) -> float:
        """The denoising error of the averaged density, on the same rows and with the same noise every time."""
        fixed = torch.Generator().manual_seed(0)
        noise, average = self.config.sampler.data_noise or RESOLUTION, self.state.average
        rows = min(LOOKED_AT, LOOKED_AT_NUMBERS // self.x.shape[1] + 1, average.encoder.rows_at_once)
        x = torch.as_tensor(self.x[distinct(len(self.x), rows, fixed)]).cpu()
        return float(denoising_error(lambda rows: average.score(rows.to(self.x.device)).cpu(), x, noise, fixed))

    def _shorten_if_settled(self, name: str, config: StageConfig, turn: float) -> None:
        state, curve = self.state, CURVES[name]
        if not config.settle or state.length < config.iterations or state.iteration >= turn * state.length:
            return
        seen = [line[curve] for line in self.journal.history if line["stage"] == name and curve in line]
        if self.world.from_main(lambda: has_settled(seen, config.settle)):
            state.length = math.ceil(state.iteration / turn)

    @torch.no_grad()
    def _look_for_worries(self) -> None:
        values = dict(self.values)
        if trains_clusters(self.config.objective):  # otherwise there are none yet
            average, places = self.state.average, torch.arange(0, len(self.x), math.ceil(len(self.x) / ROWS_LOOKED_AT))
            blocks = places.to(self.x.device).split(average.encoder.rows_at_once)
            used = torch.cat([average.scores(self.x[some]).argmax(1) for some in blocks]).unique()
            values["empty_clusters"] = float(self.n_clusters - len(used))
        for symptom in worries(values, n_clusters=self.n_clusters, max_drop=self.config.dam.max_drop):
            self.recovery.warn(symptom)

    # -- operations of the recipe -------------------------------------------------------------------------------------

    def samples(self, n: int) -> torch.Tensor | None:
        """Samples of p_Psi for its own loss, from persistent chains moved by SGLD (Sec. 3.1); None if it needs none."""
        state, c = self.state, self.config.sampler
        density = density_of(self.config.objective)
        if density is None or not density.needs_samples:
            return None
        with self.journal.timed("sgld"):
            state.net.refresh_density(self.x)
            box = state.buffer.box
            chains, places = state.buffer.draw(
                n,
                restart=c.restart,
                generator=state.noise,
                data=self.x,
                from_data=c.from_data,
                blur=c.data_noise or 0.0,
            )
            within = box if c.clamp else box.unbounded()
            samples = langevin(state.net, chains, c, within, state.noise, steps=c.steps)
            state.buffer.put(places, samples)
            state.gradient_evaluations += c.steps * len(samples) * self.world.size
            self.values["at_box"] = self._share_at_box(samples)
        return samples

    def _share_at_box(self, samples: torch.Tensor) -> float:
        """Share of coordinates at the edge of the box; above the limit, only those whose score points outwards."""
        box = self.state.buffer.box
        share = self.world.mean(float(box.reached(samples).float().mean()))
        if share <= self.config.guard.max_at_box:
            return share
        return self.world.mean(float(box.outward(samples, self.state.net.score(samples)).float().mean()))

    def walk(self, x: torch.Tensor, *, alone: bool = False) -> torch.Tensor:
        """x'' by DAM (Alg. 1), along the averaged density, whose tangents are steadier than the current one's.

        ``alone`` means that only this process walks.
        """
        c = self.config.dam
        with self.journal.timed("dam"):
            self.state.average.refresh_density(self.x)
            walked, info = walk(self.state.average, x, c, self.state.noise)
            self.state.gradient_evaluations += c.steps * len(x) * (1 if alone else self.world.size)
            self.values["walk_distance"] = float(info.distance.mean())
            self.values["walk_log_density_change"] = float(info.log_density_change.mean())
        return walked

    def augment(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Two views drawn from T(x'|x)."""
        with self.journal.timed("data"):
            return self.augment_rows(batch.x, batch.rows, self.state.noise, self.state.neighbours)

    def views(
        self,
        batch: Batch,
        first: torch.Tensor,
        second: torch.Tensor,
        walked: torch.Tensor | None = None,
        samples: torch.Tensor | None = None,
    ) -> Views:
        """What the terms see in this iteration."""
        config, state = self.config, self.state
        return Views(
            net=state.net,
            average=state.average,
            x=batch.x,
            rows=batch.rows,
            inputs=[first, second] + ([] if walked is None else [walked]),
            samples=samples,
            all_labels=state.labels,
            anchor=self._anchor(),
            marginals=state.marginals,
            competing=state.competing,
            tau=temperature(config.objective),
            data_noise=config.sampler.data_noise or 0.0,
            burn_in=config.sampler.burn_in,
            max_gap=config.sampler.max_gap,
            noise=state.noise,
            encode=self.encode,
            apply=self.apply,
            gather=self.world.gather,
            processes=self.world.size,
        )

    def apply(self, module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """A network's output, computed in the run's precision and returned in float32, so that losses stay exact."""
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            return module(x).float()

    def encode(self, *views: torch.Tensor) -> torch.Tensor:
        """Representations of the global batch, view after view, in one pass through the encoder.

        From here on every process sees the whole batch: batch norm and all losses are as on a single process.
        """
        h = self.apply(self.state.net.encoder, torch.cat(views))
        if self.world.size == 1:
            return h
        by_process = self.world.gather(h).unflatten(0, (self.world.size, len(views), -1))  # in one exchange
        return by_process.transpose(0, 1).flatten(0, 2)

    def of_all(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """Apply a function to all rows, in blocks that fit into a forward pass."""
        blocks = self.x.split(self.state.net.encoder.rows_at_once)
        return joined((function(x) for x in blocks), len(self.x))

    def descend(self, losses: dict[str, Loss]) -> None:
        """One optimiser step on the weighted sum of the losses, unless the guard detects divergence."""
        if not losses:  # no term is due in this iteration
            return
        optimiser = self.state.optimiser
        parameters = optimiser.parameters  # all of the net's, without a search through its modules
        loss = torch.stack([loss.weight * loss.value for loss in losses.values()]).sum()
        optimiser.zero_grad()
        self.world.backward(loss)
        self.world.average_gradients(parameters)
        norm = torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
        measured = torch.stack([*(loss.value.detach() for loss in losses.values()), norm])
        self.values.update(zip([*losses, "gradient_norm"], measured.tolist(), strict=True))
        symptom = divergence(self.values, self.config.guard)
        if symptom is not None and (self.guard.acts or not symptom.is_finite):
            self.recovery.symptom = symptom
            return
        if symptom is not None:
            self.recovery.warn(symptom)
        with self.journal.timed("optimiser"):
            optimiser.step()
        self._smooth_objective({name: loss.judges for name, loss in losses.items() if loss.judges is not None})

    def _anchor(self) -> float:
        """Weight of agreement with the chosen start in this iteration."""
        heads, state, n = self.config.heads, self.state, self.state.length
        if state.marginals is None:  # no start was chosen
            return 0.0
        passed = (state.iteration / n - heads.choose) / max(1e-9, heads.fade * (1 - heads.choose))
        return heads.anchor * max(0.0, 1.0 - passed)

    def _smooth_objective(self, judged: dict[str, torch.Tensor]) -> None:
        state = self.state
        if state.stage != "step2" or not judged:
            return
        state.judged |= judged
        now = torch.stack(list(state.judged.values())).mean(0)
        state.objective = now if state.objective is None else SMOOTHING * state.objective + (1 - SMOOTHING) * now


def has_settled(curve: Sequence[float], tolerance: float) -> bool:
    """Whether the latest points improve on the earlier best by less than ``tolerance``.

    >>> has_settled([0.9, 0.5, 0.3, 0.2], 0.01), has_settled([0.9, 0.3, 0.301, 0.299, 0.298], 0.01)
    (False, True)
    """
    if len(curve) <= PATIENCE:
        return False
    return min(curve[:-PATIENCE]) - min(curve[-PATIENCE:]) < tolerance
