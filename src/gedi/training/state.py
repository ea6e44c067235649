"""All of a run's state: net, averaged net, optimiser, buffer, queue, random numbers, counters."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import torch

from gedi.nets import GediNet
from gedi.sampling import ReplayBuffer


@dataclass
class Best:
    """The state with the lowest smoothed objective of step 2 so far."""

    objective: float = math.inf
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    iteration: int = -1


@dataclass
class TrainState:
    """What a run would need to go on: nothing else changes while it trains."""

    net: GediNet
    average: GediNet  # exponentially averaged weights of `net`
    optimiser: torch.optim.Optimizer
    buffer: ReplayBuffer
    queue: torch.Tensor  # past embeddings for Sinkhorn, newest first
    generator: torch.Generator  # what all processes must agree on: batches, first weights
    noise: torch.Generator  # all other noise; the same as `generator` where one process trains on the CPU
    stage: str = "start"
    iteration: int = 0
    attempt: int = 0
    best: Best = field(default_factory=Best)  # of this attempt
    kept: Best = field(default_factory=Best)  # of all attempts so far
    after_step1: dict[str, torch.Tensor] = field(default_factory=dict)  # where every attempt starts
    objective: float | None = None  # smoothed objective of step 2
    marginals: torch.Tensor | None = None  # cluster sizes asked of Sinkhorn; None: equal
    start_labels: torch.Tensor | None = None  # the start's label of every row; None: no start
    gradient_evaluations: int = 0  # evaluations of d log p / dx, in rows

    @torch.no_grad()
    def update_average(self, decay: float) -> None:
        """Move the averaged weights towards the present ones; counters of batch norm are copied."""
        for mine, theirs in zip(self._tensors(self.average), self._tensors(self.net), strict=True):
            if mine.is_floating_point():
                mine.lerp_(theirs, 1.0 - decay)
            else:
                mine.copy_(theirs)

    @staticmethod
    def _tensors(net: GediNet) -> list[torch.Tensor]:
        return [*net.parameters(), *net.buffers()]

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of the averaged weights."""
        return {name: value.detach().clone() for name, value in self.average.state_dict().items()}

    def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        """Put weights into both the net and its average."""
        self.net.load_state_dict(weights)
        self.average.load_state_dict(weights)


def averaged_copy(net: GediNet) -> GediNet:
    """A copy of ``net`` that takes no gradients and stays in evaluation mode."""
    return copy.deepcopy(net).requires_grad_(False).eval()
