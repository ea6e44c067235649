"""Encoders (``enc`` in the paper): the base class, and an MLP for rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn import functional as F

SLOPE = 0.2  # of leaky ReLUs for x < 0, as in the paper's table of the ResNet and in the code it builds on
FEW_COLUMNS = 16  # see `product`


class SiLU(nn.SiLU):
    """SiLU with its gradient in closed form."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        """Backpropagate ``gradient`` from this function's output to its input ``a``."""
        return torch.ops.aten.silu_backward(gradient, a)


class LeakyReLU(nn.LeakyReLU):
    """LeakyReLU with its gradient in closed form."""

    def __init__(self) -> None:
        super().__init__(SLOPE)

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten.leaky_relu_backward(gradient, a, self.negative_slope, False)


class Sine(nn.Module):
    """The sine, for a first layer of waves."""

    def forward(self, a: torch.Tensor) -> torch.Tensor:
        return torch.sin(a)

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return torch.cos(a).mul_(gradient)


class LayerNorm(nn.LayerNorm):
    """Layer norm with its gradient in closed form. It normalises each row by itself, so an energy may use it."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        shape, weight, bias = self.normalized_shape, self.weight, self.bias
        _, mean, scale = torch.native_layer_norm(a, shape, weight, bias, self.eps)
        wanted = (True, False, False)  # the gradient of the input, not of weight and bias
        return torch.ops.aten.native_layer_norm_backward(gradient, a, shape, mean, scale, weight, bias, wanted)[0]


class Identity(nn.Identity):
    """The identity with its gradient."""

    def backward_of(self, gradient: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        return gradient


ACTIVATIONS: dict[str, type[SiLU] | type[LeakyReLU]] = {"silu": SiLU, "leaky_relu": LeakyReLU}


class Encoder(nn.Module):
    """Maps flat rows [n, d] to representations [n, size], each from its own row alone: there is no batch norm.

    An encoder with a closed form of d u^T enc(x) / dx has a method ``input_gradient(x, u)``, which samplers then use.
    """

    rows_at_once: ClassVar[int] = 1024  # rows per pass over many rows: more would not fit the CPU's cache
    is_exact: ClassVar[bool] = True  # pad passes to that size, so that a row's output does not depend on its batch
    input_gradient: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None

    def slow_waves(self, ratio: float) -> None:
        """Slow down some of the waves, if there are any, the slowest by ``ratio``."""


class MLPEncoder(Encoder):
    """Plain MLP for rows (Appendix G: two hidden layers of 100 neurons).

    There is deliberately no batch norm: the energy of a point must not depend on the rest of its batch.
    ``norm="layer"`` puts layer norm, which looks at one row at a time, before the activation of every hidden layer
    except a first layer of waves. With ``out=None`` the representation is the last hidden layer itself.

    With ``frequency`` the first layer is sin(Wx + b), with W initialised from N(0, frequency^2): trainable random
    Fourier features. With a plain first layer, the net learns coarse structure first, and thin valleys between
    components only after tens of thousands of iterations. Waves at the data's own scale capture both from the start.
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
            if not first.weight.is_meta:  # on the meta device, drawing would import torch's compiler
                nn.init.normal_(first.weight, std=frequency)
            nn.init.uniform_(first.bias, 0.0, 2 * math.pi)

    @torch.no_grad()
    def slow_waves(self, ratio: float) -> None:
        """Divide the frequencies of a first layer of waves by 1 to ``ratio``, evenly on a logarithmic scale.

        Rows that are many wavelengths apart have nothing in common for the layers above. If the data have regions that
        are much sparser than the rest, no single frequency suits all of them.
        """
        if ratio > 1 and isinstance(self.activations[0], Sine):
            weight = cast("nn.Linear", self.linears[0]).weight
            weight /= torch.logspace(0, math.log10(ratio), len(weight), device=weight.device)[:, None]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for linear, norm, activation in zip(self.linears, self.norms, self.activations, strict=True):
            x = activation(norm(linear(x)))
        return self.last(x)

    @torch.no_grad()
    def input_gradient(self, x: torch.Tensor, direction: torch.Tensor) -> torch.Tensor:
        """d (direction . enc(x)) / dx, one row per sample, in closed form.

        Samplers call this thousands of times, and on nets this small autograd's bookkeeping would double the time.
        """
        layers: list[Any] = list(zip(self.linears, self.norms, self.activations, strict=True))
        seen = []
        for linear, norm, activation in layers:
            summed = linear(x)
            normed = norm(summed)
            seen.append((summed, normed))
            if linear is not layers[-1][0]:  # the gradient does not need the last layer's output
                x = activation(normed)
        outwards = direction if isinstance(self.last, nn.Identity) else direction @ self.last.weight
        gradient = outwards.expand_as(seen[-1][1])
        for (linear, norm, activation), (summed, normed) in zip(reversed(layers), reversed(seen), strict=True):
            gradient = norm.backward_of(activation.backward_of(gradient, normed), summed)
            gradient = product(gradient, linear.weight)
        return gradient


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b; if b has few columns, BLAS takes a quarter of the time when b is stored transposed."""
    return F.linear(a, b.T.contiguous()) if b.shape[1] < FEW_COLUMNS else a @ b
