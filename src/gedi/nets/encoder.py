"""Backbones: x -> representation (``enc`` in the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn


class SiLU(nn.SiLU):
    """SiLU that can give its own gradient."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.silu_backward(gradient, a)


class LeakyReLU(nn.LeakyReLU):
    """LeakyReLU that can give its own gradient."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.where(a > 0, gradient, self.negative_slope * gradient)


class Sine(nn.Module):
    """sin, for the first layer of waves."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.sin(a)

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return gradient * torch.cos(a)


Activation = SiLU | LeakyReLU | Sine
ACTIVATIONS: dict[str, type[SiLU] | type[LeakyReLU]] = {"silu": SiLU, "leaky_relu": LeakyReLU}


class MLPEncoder(nn.Module):
    """Plain MLP for rows (Appendix G: two hidden layers of 100 neurons), without normalisation layers.

    Batch norm is left out on purpose: the energy of one point must not depend on the other points of its batch.

    With ``frequency`` the first layer is sin(Wx + b), W started at N(0, frequency^2): random Fourier features that
    learn. A plain first layer sees coarse structure first, and thin valleys between components only after tens of
    thousands of iterations; waves of the data's own scale see both from the start.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int],
        out: int,
        activation: str = "silu",
        *,
        frequency: float | None = None,
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.activations = nn.ModuleList(ACTIVATIONS[activation]() for _ in hidden)
        self.last = nn.Linear(sizes[-1], out)
        if frequency is not None:
            self.activations[0] = Sine()
            nn.init.normal_(self.linears[0].weight, std=frequency)  # type: ignore[arg-type]
            nn.init.uniform_(self.linears[0].bias, 0.0, 2 * math.pi)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for linear, activation in zip(self.linears, self.activations, strict=True):
            x = activation(linear(x))
        return self.last(x)

    @torch.no_grad()
    def input_gradient(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """d (direction . enc(x)) / dx, one row a sample, in closed form.

        Samplers ask for this thousands of times; on nets of this size autograd's bookkeeping would double its price.
        """
        before = []
        for linear, activation in zip(self.linears, self.activations, strict=True):
            before.append(linear(x))
            x = activation(before[-1])
        gradient = (direction @ self.last.weight).expand_as(x)
        for linear, activation, a in zip(
            reversed(self.linears), reversed(self.activations), reversed(before), strict=True
        ):
            gradient = activation.backward_of(gradient, a) @ linear.weight  # type: ignore[operator]
        return gradient
