"""Encoders, ``enc`` in the paper: what all have in common, and an MLP for rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional as F

SLOPE = 0.2  # of leaky ReLUs, as in the paper's table of the ResNet and in the code it builds on
FEW_COLUMNS = 16  # of a matrix product


class SiLU(nn.SiLU):
    """SiLU with its gradient in closed form."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        """The gradient with respect to ``a`` of what has ``gradient`` with respect to this function's output."""
        return torch.ops.aten.silu_backward(gradient, a)


class LeakyReLU(nn.LeakyReLU):
    """LeakyReLU with its gradient in closed form."""

    def __init__(self) -> None:
        super().__init__(SLOPE)

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.leaky_relu_backward(gradient, a, self.negative_slope, False)


class Sine(nn.Module):
    """sin, for the first layer of waves."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.sin(a)

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.cos(a).mul_(gradient)


class LayerNorm(nn.LayerNorm):
    """Layer norm with its gradient in closed form: it looks at one row at a time, so an energy may have it."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        shape, weight, bias = self.normalized_shape, self.weight, self.bias
        _, mean, scale = torch.native_layer_norm(a, shape, weight, bias, self.eps)
        wanted = (True, False, False)  # not the gradients of weight and bias
        return torch.ops.aten.native_layer_norm_backward(gradient, a, shape, mean, scale, weight, bias, wanted)[0]


class Identity(nn.Identity):
    """Nothing, and its gradient."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return gradient


ACTIVATIONS: dict[str, type[SiLU] | type[LeakyReLU]] = {"silu": SiLU, "leaky_relu": LeakyReLU}


class Encoder(nn.Module):
    """Flat rows [n, d] -> representations [n, size]; each depends on its own row alone, so there is no batch norm.

    An encoder that knows d u^T enc(x) / dx in closed form has a method ``input_gradient(x, u)``; samplers then use it.
    """

    rows_at_once: ClassVar[int] = 1024  # of one pass over many rows: more would leave the processor's cache
    is_exact: ClassVar[bool] = True  # a row's answer does not depend on its batch: passes are filled up to that size
    input_gradient: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None


class MLPEncoder(Encoder):
    """Plain MLP for rows (Appendix G: two hidden layers of 100 neurons).

    There is deliberately no batch norm: the energy of one point must not depend on the other points of its batch.
    ``norm="layer"`` puts layer norm, which looks at one row at a time, before the activation of every hidden layer but
    one of waves. With ``out=None`` the representation is the last hidden layer itself.

    With ``frequency`` the first layer is sin(Wx + b), with W initialised from N(0, frequency^2): trainable random
    Fourier features. A plain first layer learns coarse structure first, and thin valleys between components only after
    tens of thousands of iterations. Waves at the data's own scale see both from the start.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int],
        out: int | None,
        activation: str = "silu",
        *,
        frequency: float | None = None,
        norm: str = "none",
    ) -> None:
        super().__init__()
        sizes = [n_features, *hidden]
        self.linears = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(LayerNorm(size) if norm == "layer" else Identity() for size in hidden)
        self.activations = nn.ModuleList(ACTIVATIONS[activation]() for _ in hidden)
        self.last = nn.Identity() if out is None else nn.Linear(sizes[-1], out)
        if frequency is not None:
            self.norms[0], self.activations[0] = Identity(), Sine()
            first = cast("nn.Linear", self.linears[0])
            if not first.weight.is_meta:  # shapes without numbers: drawing them would import torch's compiler
                nn.init.normal_(first.weight, std=frequency)
            nn.init.uniform_(first.bias, 0.0, 2 * math.pi)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for linear, norm, activation in zip(self.linears, self.norms, self.activations, strict=True):
            x = activation(norm(linear(x)))
        return self.last(x)

    @torch.no_grad()
    def input_gradient(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """d (direction . enc(x)) / dx, one row per sample, in closed form.

        Samplers compute this thousands of times. On nets of this size autograd's bookkeeping would double the time.
        """
        layers: list[Any] = list(zip(self.linears, self.norms, self.activations, strict=True))
        seen = []
        for linear, norm, activation in layers:
            summed = linear(x)
            normed = norm(summed)
            seen.append((summed, normed))
            if linear is not layers[-1][0]:  # the gradient does not need the last one's output
                x = activation(normed)
        outwards = direction if isinstance(self.last, nn.Identity) else direction @ self.last.weight
        gradient = outwards.expand_as(seen[-1][1])
        for (linear, norm, activation), (summed, normed) in zip(reversed(layers), reversed(seen), strict=True):
            gradient = norm.backward_of(activation.backward_of(gradient, normed), summed)
            gradient = product(gradient, linear.weight)
        return gradient


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b. If it has few columns, BLAS takes a quarter of the time when the numbers of b are in the other order."""
    return F.linear(a, b.T.contiguous()) if b.shape[1] < FEW_COLUMNS else a @ b
