"""Products of matrices, by whichever of torch's two libraries is faster on this processor.

torch multiplies float32 matrices with MKL, which uses only half of the vector unit of AMD processors with AVX-512.
oneDNN, which torch has for convolutions and bfloat16, uses all of it and takes less than half the time.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

WORTHWHILE = 1 << 20  # multiplications: fewer take less time than oneDNN needs to prepare


class Linear(nn.Linear):
    """A linear layer that multiplies with `product`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return product(input, self.weight, self.bias)


def product(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """a @ b.T + bias for matrices a [n, k] and b [m, k], differentiable any number of times."""
    if len(a) * b.numel() < WORTHWHILE or not _is_for_onednn(a):
        return F.linear(a, b, bias)
    if not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)):
        return _multiply(a, b, bias)
    found = _Product.apply(a, b)
    return found if bias is None else found + bias


def _is_for_onednn(a: torch.Tensor) -> bool:
    is_plain = a.dtype == torch.float32 and a.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
    return is_plain and prefers_onednn()


@cache
def prefers_onednn() -> bool:
    """Whether oneDNN multiplies float32 matrices faster than MKL on this processor."""
    found = torch.cpu.get_capabilities()
    is_there = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    return is_there and bool(found.get("avx512_f")) and "AMD" in str(found.get("cpu_name"))


def _multiply(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return torch.ops.mkldnn._linear_pointwise(a, b, bias, "none", [], "")


class _Product(torch.autograd.Function):
    """a @ b.T by oneDNN. Its gradients are such products, too."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return _multiply(a, b, None)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        a, b = ctx.saved_tensors
        for_a, for_b = ctx.needs_input_grad
        return product(gradient, b.T) if for_a else None, product(gradient.T, a.T) if for_b else None
