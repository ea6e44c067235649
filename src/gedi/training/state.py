"""All of a run's state: net, averaged net, optimiser, buffer, random numbers, counters; and how it is packed."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, get_args

import torch

from gedi.errors import CheckpointError
from gedi.files.reading import FAILURES, shown
from gedi.nets import GediNet
from gedi.sampling import ReplayBuffer
from gedi.settings import Natural, Rule
from gedi.training.adam import Adam
from gedi.training.config import StageConfig

Tensors = dict[str, torch.Tensor]
Trained = Literal["step1", "step2"]  # the stages that have settings
TRAINED: tuple[Trained, ...] = get_args(Trained)
Stage = Literal["start", "step1", "after step1", "step2", "after step2"]  # in order
STAGES: tuple[Stage, ...] = get_args(Stage)
# Tensors that are None until they are known.
OPTIONAL = ("objective", "starts", "pairs", "labels", "marginals", "neighbours")
# Of a dictionary or list of plain values.
ONLY_NUMBERS = Rule("hold only numbers", lambda values: all(type(value) in (int, float) for value in values.values()))
LINES = Rule("hold only mappings", lambda lines: all(isinstance(line, dict) for line in lines))


@dataclass(kw_only=True)
class Counters:
    """The plain part of a `TrainState`."""

    stage: Stage = "start"
    iteration: Natural = 0
    length: Natural = 0  # iterations of the current stage: those of its settings, or fewer once its curve has settled
    competing: bool = True  # no cluster head has been chosen yet
    candidates: Annotated[dict, ONLY_NUMBERS] = field(default_factory=dict)  # what competed, and how it was judged
    winner: str | None = None  # which of them was chosen
    gradient_evaluations: Natural = 0  # evaluations of d log p / dx, in rows

    def where(self) -> dict[str, Any]:
        """The current stage and iteration, as in a line of history."""
        return {"stage": self.stage, "iteration": self.iteration}


@dataclass
class TrainState(Counters):
    """What training changes and a run needs to resume; the guard and the journal keep their own state."""

    net: GediNet
    average: GediNet  # exponentially averaged weights of `net`
    optimiser: Adam
    buffer: ReplayBuffer
    generator: torch.Generator  # for what all processes must agree on: batches, initial weights
    noise: torch.Generator  # all other noise; the same object as `generator` when one process trains on the CPU
    objective: torch.Tensor | None = None  # smoothed objective of every head, [heads]; later, of the chosen one
    judged: Tensors = field(default_factory=dict)  # latest values, [heads], of its parts
    starts: torch.Tensor | None = None  # the labels of every row by each start, [starts, rows], until one is chosen
    pairs: torch.Tensor | None = None  # rows nearest to the ends of walks from some rows, [some, walks], until then
    labels: torch.Tensor | None = None  # the label of every row, from k-means or the chosen start
    marginals: torch.Tensor | None = None  # expected cluster sizes; None: equal
    neighbours: torch.Tensor | None = None  # of every row in the representation, [rows, k]; None: those in the data

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
    counters = {field.name: getattr(state, field.name) for field in fields(Counters)}
    # Contiguous copies: safetensors refuses tensors that share memory, as the net and its average may.
    return {name: value.detach().clone().contiguous() for name, value in tensors.items()}, counters


def unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
    """Restore a packed state; the optimiser must already be that of the packed stage."""
    try:
        _unpack(state, tensors, counters)
    except FAILURES as error:
        why = shown(str(error), 250).rstrip(".")
        raise CheckpointError(f"The checkpoint does not belong to this run: {why}.") from error


def group(tensors: Tensors, name: str) -> Tensors:
    """The tensors NAME/..., without NAME/."""
    return {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}


def _unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
    state.net.load_state_dict(group(tensors, "net"))
    state.average.load_state_dict(group(tensors, "average"))
    device = state.buffer.chains.device
    state.optimiser.moments = {}
    for key, value in group(tensors, "optimiser").items():
        place, name = key.split("/")
        # Copies, here and below: the optimiser must not change the packed state, which a rollback may need.
        state.optimiser.moments.setdefault(int(place), {})[name] = value.to(device, copy=True)
    state.buffer.chains = tensors["buffer"].to(device, copy=True)
    state.generator.set_state(tensors["rng"])
    state.judged = {name: value.to(device, copy=True) for name, value in group(tensors, "judged").items()}
    for name in OPTIONAL:
        setattr(state, name, tensors[name].to(device, copy=True) if name in tensors else None)
    for known in fields(Counters):
        setattr(state, known.name, counters[known.name])
