"""What a method's training costs, in passes of images through the encoder, and iterations that cost as much."""

from __future__ import annotations

from gedi.training.config import TrainingConfig

STAGES = ("step1", "embedding", "step2")
LEARN, LOOK, SLOPE = 3, 1, 2  # forward passes that these cost: weights learn, log p is asked for, its gradient is


def passes(config: TrainingConfig) -> float:
    """Forward passes of one image through an encoder in all of training, backward passes counted as such.

    A backward pass costs two where weights learn, and one where only the image's own gradient is asked for.
    """
    return sum(getattr(config, name).iterations * per_iteration(config, name) for name in STAGES)


def per_iteration(config: TrainingConfig, stage: str) -> float:
    """Those of one iteration of a stage, on average."""
    terms = config.objective
    density, every = 0, 1
    if "generative" in terms:  # data and samples, and the way of the latter
        density, every = 2 * LEARN + SLOPE * config.sampler.steps, terms["generative"].every
    if stage == "step1":
        return getattr(config, stage).batch_size * density
    views: float = 2 * LEARN
    if stage == "step2" and any(term.walks for term in terms.values()):
        views += (LEARN + (SLOPE + LOOK) * config.dam.steps) / config.dam.every
    return getattr(config, stage).batch_size * (views + (density / every if every else 0))


def hold_to(config: TrainingConfig, total: float) -> None:
    """Give the last stage as many iterations as make all of training cost ``total`` passes."""
    last = next(name for name in reversed(STAGES) if getattr(config, name).iterations)
    stage = getattr(config, last)
    stage.iterations = 0
    stage.iterations = max(1, round((total - passes(config)) / per_iteration(config, last)))
