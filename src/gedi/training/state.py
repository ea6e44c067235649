"""All of a run's state: net, averaged net, optimiser, buffer, random numbers, counters; and how it is packed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from gedi.errors import CheckpointError
from gedi.files.reading import FAILURES, shown
from gedi.nets import GediNet
from gedi.sampling import ReplayBuffer
from gedi.training.adam import Adam
from gedi.training.config import StageConfig

Tensors = dict[str, torch.Tensor]
TRAINED = ("step1", "step2")  # the stages that have settings
# Tensors that are None until they are known.
OPTIONAL = ("objective", "starts", "pairs", "labels", "marginals", "neighbours")
STAGES = ("start", *(name for stage in TRAINED for name in (stage, f"after {stage}")))  # in order


@dataclass
class TrainState:
    """What training changes and a run needs to resume; the guard and the journal keep their own state."""

    net: GediNet
    average: GediNet  # exponentially averaged weights of `net`
    optimiser: Adam
    buffer: ReplayBuffer
    generator: torch.Generator  # for what all processes must agree on: batches, initial weights
    noise: torch.Generator  # all other noise; the same object as `generator` when one process trains on the CPU
    stage: str = "start"
    iteration: int = 0
    length: int = 0  # iterations of the current stage: those of its settings, or fewer once its curve has settled
    competing: bool = True  # no cluster head has been chosen yet
    objective: torch.Tensor | None = None  # smoothed objective of every head, [heads]; later, of the chosen one
    judged: Tensors = field(default_factory=dict)  # latest values, [heads], of its parts
    starts: torch.Tensor | None = None  # the labels of every row by each start, [starts, rows], until one is chosen
    pairs: torch.Tensor | None = None  # rows nearest to the ends of walks from some rows, [some, walks], until then
    labels: torch.Tensor | None = None  # the label of every row, from k-means or the chosen start
    marginals: torch.Tensor | None = None  # expected cluster sizes; None: equal
    neighbours: torch.Tensor | None = None  # of every row in the representation, [rows, k]; None: those in the data
    gradient_evaluations: int = 0  # evaluations of d log p / dx, in rows

    @torch.no_grad()
    def update_average(self, decay: float) -> None:
        """Move the averaged weights towards the current ones; counters of batch norm are copied."""
        (mine, my_counters), (theirs, their_counters) = self._tensors
        torch._foreach_lerp_(mine, theirs, 1.0 - decay)  # pyright: ignore[reportPrivateImportUsage]
        for counter, now in zip(my_counters, their_counters, strict=True):
            counter.copy_(now)

    @cached_property
    def _tensors(self) -> list[tuple[list[torch.Tensor], list[torch.Tensor]]]:
        """Floats and counters of the average, then of the net; loading weights keeps the same tensors."""
        every = [[*net.parameters(), *net.buffers()] for net in (self.average, self.net)]
        return [
            ([t for t in of if t.is_floating_point()], [t for t in of if not t.is_floating_point()]) for of in every
        ]


def averaged_copy(net: GediNet) -> GediNet:
    """A copy of ``net`` that takes no gradients and stays in evaluation mode."""
    return copy.deepcopy(net).requires_grad_(False).eval()


def adam(net: torch.nn.Module, config: StageConfig) -> Adam:
    """Adam with empty moments."""
    return Adam(net.parameters(), learning_rate=config.learning_rate, betas=config.betas)


# -- as tensors and counters -------------------------------------------------------------------------------------------


def pack(state: TrainState) -> tuple[Tensors, dict[str, Any]]:
    """Everything in a `TrainState`, as named tensors and plain numbers."""
    tensors: Tensors = {"buffer": state.buffer.chains, "rng": state.generator.get_state()}
    groups = {"net": state.net.state_dict(), "average": state.average.state_dict(), "judged": state.judged}
    for group, values in groups.items():
        tensors |= {f"{group}/{name}": value for name, value in values.items()}
    for place, moments in state.optimiser.moments.items():
        tensors |= {f"optimiser/{place}/{name}": value for name, value in moments.items()}
    tensors |= {name: value for name in OPTIONAL if (value := getattr(state, name)) is not None}
    counters = {
        "stage": state.stage,
        "iteration": state.iteration,
        "length": state.length,
        "competing": state.competing,
        "gradient_evaluations": state.gradient_evaluations,
    }
    # Contiguous copies: safetensors refuses tensors that share memory, as the net and its average may.
    return {name: value.detach().clone().contiguous() for name, value in tensors.items()}, counters


def unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
    """Restore a packed state; the optimiser must already be that of the packed stage."""
    try:
        _unpack(state, tensors, counters)
    except FAILURES as error:
        why = shown(str(error), 250).rstrip(".")
        raise CheckpointError(f"The checkpoint does not belong to this run: {why}.") from error


def _unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
    def group(name: str) -> Tensors:
        return {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}

    state.net.load_state_dict(group("net"))
    state.average.load_state_dict(group("average"))
    device = state.buffer.chains.device
    state.optimiser.moments = {}
    for key, value in group("optimiser").items():
        place, name = key.split("/")
        # Copies, here and below: the optimiser must not change the packed state, which a rollback may need.
        state.optimiser.moments.setdefault(int(place), {})[name] = value.to(device, copy=True)
    state.buffer.chains = tensors["buffer"].to(device, copy=True)
    state.generator.set_state(tensors["rng"])
    state.judged = {name: value.to(device, copy=True) for name, value in group("judged").items()}
    for name in OPTIONAL:
        setattr(state, name, tensors[name].to(device, copy=True) if name in tensors else None)
    state.stage, state.competing = counters["stage"], counters["competing"]
    state.iteration, state.length = counters["iteration"], counters["length"]
    state.gradient_evaluations = counters["gradient_evaluations"]
