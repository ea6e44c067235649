"""Settings of the addition experiment (Sec. 5.3 and Appendix K): its three variants at every scale, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gedi.errors import ConfigError
from gedi.training.config import TrainingConfig
from gedi.training.image_presets import paper_mnist
from gedi.training.presets import digits
from gedi.training.terms import Symbolic

EPOCHS = {100: 100, 1_000: 30, 10_000: 5}  # of both steps, by the number of triplets (Appendix K)


def laptop(n: int) -> TrainingConfig:
    """MNIST's images as rows: as `digits`, with views that move as far in 28 pixels as they do there in 8."""
    config = digits()
    config.augment = replace(config.augment, shift=1.4)
    return config


def paper(n: int) -> TrainingConfig:
    """The table of Appendix G, column Addition, for n triplets."""
    config = paper_mnist()
    epochs = EPOCHS[min(EPOCHS, key=lambda known: abs(known - n))]
    for stage in (config.step1, config.step2):
        stage.iterations = epochs * max(1, 3 * n // stage.batch_size)
    return config


def smoke(n: int) -> TrainingConfig:
    """Seconds: to see that all runs."""
    config = laptop(n)
    config.net = replace(config.net, hidden=(32, 32), representation=16, embedding=8, projector_hidden=16)
    config.sampler = replace(config.sampler, steps=2, buffer_size=100)
    config.dam.steps = 2
    config.start.repeats = 2
    for stage in (config.step1, config.embedding, config.step2):
        stage.iterations, stage.batch_size, stage.warmup = 10, 60, 2
    return config


SCALES: dict[str, Callable[[int], TrainingConfig]] = {"smoke": smoke, "laptop": laptop, "paper": paper}
WEIGHTS = {"smoke": 3.0, "laptop": 3.0, "paper": 3000.0}  # of -log P(a + b = c); the paper's is 3 times that of L_DI


def addition(scale: str, n: int, variant: str, rule: str) -> TrainingConfig:
    """The settings for n triplets of a variant of the paper's table."""
    config = SCALES[scale](n)
    if variant == "without constraint":
        return config
    config.objective["symbolic"] = Symbolic(weight=WEIGHTS[scale], rule=rule)
    if variant == "without GEDI":
        # The constraint alone, for as many iterations as all of GEDI's.
        config.step2.iterations += config.step1.iterations + config.embedding.iterations
        config.step1.iterations = config.embedding.iterations = 0
        config.objective = {"symbolic": config.objective["symbolic"]}
        return config
    if variant != "with constraint":
        raise ConfigError(f"There is no variant {variant!r} of the addition experiment.")
    return config
