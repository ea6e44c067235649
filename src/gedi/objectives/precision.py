"""Float32 or wider for terms that half precision would spoil: sums of exponentials, determinants, correlations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def full_precision(function: AnyFunction) -> AnyFunction:
    """The same function, with half-precision tensors widened to float32 and autocast switched off inside.

    >>> full_precision(lambda z: z.T @ z)(torch.ones(3, 2, dtype=torch.bfloat16)).dtype
    torch.float32
    """

    def widen(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.to(torch.promote_types(value.dtype, torch.float32))
        return value

    @functools.wraps(function)
    def wide(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        # Widening is not enough: autocast would cast the operands of every matrix product back to half precision.
        with torch.autocast(tensors[0].device.type, enabled=False):
            return function(*map(widen, args), **{name: widen(value) for name, value in kwargs.items()})

    return cast("AnyFunction", wide)
