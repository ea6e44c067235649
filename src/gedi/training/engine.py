"""The engine under the recipe: samplers, walks, views, encodings, assignments and optimiser steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from gedi.sampling import DamInfo, dam, sgld
from gedi.training.guard import divergence
from gedi.training.stages import Batch, Stages

SMOOTHING = 0.98  # decay of the smoothed objective


class Engine(Stages):
    """The verbs Algorithm 2 is written in, on a run's state."""

    def samples(self, n: int) -> torch.Tensor | None:
        """Samples of p_Psi for its own loss; None if it learns without."""
        return self.langevin(n) if self.state.net.density.needs_samples else None

    def langevin(self, n: int) -> torch.Tensor:
        """Samples of p_Psi: persistent chains moved by SGLD (Sec. 3.1)."""
        state, c = self.state, self.config.sampler
        assert c.noise is not None
        with self.journal.timed("sgld"):
            state.net.refresh_density(self.x)
            box = state.buffer.box
            chains, places = state.buffer.draw(
                n, restart=c.restart, generator=state.noise, data=self.x, from_data=c.from_data
            )
            samples, _ = sgld(
                state.net.log_density,
                chains,
                steps=c.steps,
                noise=c.noise,
                final_noise=c.final_noise,
                step=c.step,
                max_drift=math.inf if c.max_drift is None else c.max_drift,
                box=box if c.clamp else box.unbounded(),
                generator=state.noise,
                gradient=state.net.score,
            )
            state.buffer.put(places, samples)
            state.gradient_evaluations += c.steps * len(samples) * self.world.size
            self.values["at_box"] = self._share_at_box(samples)
        return samples

    def _share_at_box(self, samples: torch.Tensor) -> float:
        """Share of the coordinates at the box. Where it is large, only those the energy drives there, not the noise."""
        box = self.state.buffer.box
        at_box = box.reached(samples)
        if self.world.mean(float(at_box.float().mean())) > self.config.guard.max_at_box:
            at_box = box.outward(samples, self.state.net.score(samples))
        return self.world.mean(float(at_box.float().mean()))

    def walk(self, x: torch.Tensor, *, alone: bool = False) -> tuple[torch.Tensor, DamInfo]:
        """x'' by DAM (Alg. 1), along the averaged energy: its tangents are steadier than the present one's.

        ``alone``: this process walks, and the others do not.
        """
        c = self.config.dam
        assert c.radius is not None
        with self.journal.timed("dam"):
            self.state.average.refresh_density(self.x)
            walked, info = dam(
                self.state.average.log_density,
                x,
                radius=c.radius,
                steps=c.steps,
                generator=self.state.noise,
                max_drop=math.inf if c.max_drop is None else c.max_drop,
                gradient=self.state.average.score,
            )
            self.state.gradient_evaluations += c.steps * len(x) * (1 if alone else self.world.size)
            self.values["walk_distance"] = float(info.distance.mean())
            self.values["walk_log_density_change"] = float(info.log_density_change.mean())
        return walked, info

    def augment(self, batch: Batch) -> torch.Tensor:
        """x' drawn from T(x'|x)."""
        with self.journal.timed("data"):
            return self.augment_rows(batch.x, batch.rows, self.state.noise)

    def with_data_noise(self, x: torch.Tensor) -> torch.Tensor:
        """Data as the energy sees it: blurred by no more than the sampler's own resolution."""
        kick = torch.randn(x.shape, generator=self.state.noise, dtype=x.dtype, device=x.device)
        return x + (self.config.sampler.data_noise or 0.0) * kick

    def apply(self, module: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        """A network's output, computed in the run's precision and handed on in float32: losses stay exact."""
        with self.world.fabric.autocast():
            return module(x).float()

    def encode(self, *views: torch.Tensor) -> torch.Tensor:
        """Representations of the global batch, view after view, in one pass through the encoder.

        From here on every process sees the whole batch: batch norm and all losses are those of a single process.
        """
        h = self.apply(self.state.net.encoder, torch.cat(views))
        if self.world.size == 1:
            return h
        return torch.cat([self.world.gather(part) for part in h.split(len(views[0]))])

    def descend(self, terms: dict[str, torch.Tensor], weights: dict[str, float]) -> None:
        """One optimiser step on the weighted sum of the terms; none if the guard sees them diverge."""
        net, optimiser = self.state.net, self.state.optimiser
        loss = torch.stack([weights[name] * term for name, term in terms.items()]).sum()
        optimiser.zero_grad()
        with self.world.together():  # gathered representations send their gradients back
            self.world.fabric.backward(loss)
        self.world.average_gradients(net.parameters())
        if self._holds_prototypes():
            net.prototypes.directions.grad = None  # not zero: Adam would count the iterations without one
        gradients = [p.grad for p in net.parameters() if p.grad is not None]
        self.values.update({name: float(term.detach()) for name, term in terms.items()})
        self.values["gradient_norm"] = float(torch.nn.utils.get_total_norm(gradients))
        symptom = divergence(self.values, self.config.guard)
        if symptom is not None and (self.guard.acts or not symptom.is_finite):
            self._symptom = symptom
            return
        if symptom is not None:
            self._warn(symptom)
        with self.journal.timed("optimiser"):
            optimiser.step()
        self._smooth_objective()

    def _holds_prototypes(self) -> bool:
        state, terms = self.state, self.config.objective.values()
        return state.stage == "step2" and any(term.holds_prototypes(state.iteration) for term in terms)

    def _smooth_objective(self) -> None:
        parts = [v for k, v in self.values.items() if k.startswith("clustering_") or k == "symbolic"]
        if self.state.stage == "step2" and parts:
            now, old = sum(parts) / len(parts), self.state.objective
            self.state.objective = now if old is None else SMOOTHING * old + (1 - SMOOTHING) * now
            self.values["objective"] = self.state.objective
