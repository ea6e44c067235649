"""DAM, data augmentation based on manifold structure (Alg. 1): walks along the model's own manifold."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from gedi.sampling.sgld import Gradient

LogDensity = Callable[[torch.Tensor], torch.Tensor]


class DamInfo(NamedTuple):
    """Per-walk diagnostics: straight-line distance travelled, and change of log p from start to end.

    ``path``, if it was asked for, has the steps + 1 points of every walk [n, steps + 1, ...]; a walk that ended stays.
    """

    distance: torch.Tensor
    log_density_change: torch.Tensor
    path: torch.Tensor | None = None


def uniform_in_ball(x: torch.Tensor, radius: float, generator: torch.Generator) -> torch.Tensor:
    """One uniform draw from the ball B_radius for each row of ``x``."""
    direction = torch.randn(x.shape, generator=generator, device=x.device, dtype=x.dtype).flatten(1)
    direction = direction / direction.norm(dim=1, keepdim=True).clamp_min(1e-12)
    share = torch.rand((len(x), 1), generator=generator, device=x.device, dtype=x.dtype)
    return (radius * share ** (1 / direction.shape[1]) * direction).view_as(x)


def tangent(delta: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Delta_parallel of Eq. 11: ``delta`` without its part along the gradient.

    The projection does not depend on the gradient's length, so the gradient of log p can stand in for that of p. Where
    the gradient vanishes, every direction is tangent and ``delta`` is unchanged.
    """
    flat, normal = delta.flatten(1), gradient.flatten(1)
    # Divide by the largest entry first: squares of 1e-20 or 1e20 under- or overflow in float32.
    largest = torch.linalg.vector_norm(normal, ord=math.inf, dim=1, keepdim=True)
    unit = F.normalize(normal / largest.clamp_min(torch.finfo(normal.dtype).tiny), dim=1)
    return torch.addcmul(flat, (flat * unit).sum(1, keepdim=True), unit, value=-1).view_as(delta)


@torch.no_grad()
def dam(
    log_density: LogDensity,
    x: torch.Tensor,
    *,
    radius: float,
    steps: int,
    generator: torch.Generator,
    gradient: Gradient,
    max_drop: float | None = None,
    keep_path: bool = False,
) -> tuple[torch.Tensor, DamInfo]:
    """Take ``steps`` tangent steps from ``x`` (Alg. 1, Eq. 11); returns x'' and diagnostics.

    Delta is drawn once, uniformly from the ball of ``radius``, and reused in every step, as in Alg. 1. A walk ends
    before the first step that would take log p more than ``max_drop`` below its start, so it cannot cross a valley of
    the density that is wider than one step. ``max_drop=None`` is the paper's walk. ``gradient`` is d log p / dx.

    >>> g = torch.Generator().manual_seed(0)
    >>> ring = lambda x: -((x.norm(dim=1) - 1) ** 2) / 0.01
    >>> slope = lambda x: 200 * (1 / x.norm(dim=1, keepdim=True) - 1) * x
    >>> x = torch.tensor([[1.0, 0.0]])
    >>> y, info = dam(ring, x, radius=0.03, steps=10, generator=g, gradient=slope, max_drop=2.0)
    >>> bool((y.norm(dim=1) - 1).abs() < 0.1)
    True
    """
    x = x.detach()
    delta = uniform_in_ball(x, radius, generator)
    points = [x]
    for _ in range(steps):
        points.append(points[-1] + tangent(delta, gradient(points[-1] + delta)))
    # Delta is fixed, so the path does not depend on where the walk ends: cut it afterwards.
    if max_drop is None and not keep_path:
        points = [x, points[-1]]
    path, values = torch.stack(points), torch.stack([log_density(point) for point in points])
    lowest = values[0] - (math.inf if max_drop is None else max_drop)
    ends = (values[1:] >= lowest).cumprod(0).sum(0)
    walks = torch.arange(len(x), device=x.device)
    end = path[ends, walks]
    taken = torch.arange(len(path), device=x.device)[:, None].minimum(ends)  # [steps + 1, n]
    kept = path[taken, walks].transpose(0, 1) if keep_path else None
    return end, DamInfo((end - x).flatten(1).norm(dim=1), values[ends, walks] - values[0], kept)
