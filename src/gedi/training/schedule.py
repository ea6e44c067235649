"""The optimiser of a stage and its learning rate."""

from __future__ import annotations

import math

import torch

from gedi.training.config import StageConfig


def adam(net: torch.nn.Module, config: StageConfig) -> torch.optim.Adam:
    """Adam with empty moments."""
    return torch.optim.Adam(net.parameters(), lr=config.learning_rate, betas=config.betas, foreach=True)


def rate(iteration: int, config: StageConfig) -> float:
    """Learning rate relative to its top: linear warm-up, plateau, cosine decay to ``final_rate``."""
    warm = min(1.0, (iteration + 1) / max(1, min(config.warmup, config.iterations // 10)))
    decay_from = config.decay_from * config.iterations
    if iteration < decay_from:
        return warm
    share = (iteration - decay_from) / max(1.0, config.iterations - decay_from)
    return warm * (config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * share)) / 2)
