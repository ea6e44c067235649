"""How long a stage lasts, and its learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gedi.training.config import StageConfig

PATIENCE = 3  # points without progress after which a curve has settled


def rate(iteration: int, config: StageConfig, length: int | None = None) -> float:
    """Learning rate relative to its peak: linear warm-up, plateau, cosine decay to ``final_rate``.

    ``length`` is the number of iterations of the stage, if it is lower than in its settings.
    """
    n = config.iterations if length is None else length
    warm = min(1.0, (iteration + 1) / max(1, min(config.warmup, config.iterations // 10)))
    decay_from = config.decay_from * n
    if iteration < decay_from:
        return warm
    share = (iteration - decay_from) / max(1.0, n - decay_from)
    return warm * (config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * share)) / 2)


def has_settled(curve: Sequence[float], tolerance: float) -> bool:
    """Whether the last points of a falling curve are hardly lower than the best before them.

    >>> has_settled([0.9, 0.5, 0.3, 0.2], 0.01), has_settled([0.9, 0.3, 0.301, 0.299, 0.298], 0.01)
    (False, True)
    """
    if len(curve) <= PATIENCE:
        return False
    return min(curve[:-PATIENCE]) - min(curve[-PATIENCE:]) < tolerance
