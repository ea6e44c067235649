"""Settings of the addition experiment (Sec. 5.3 and Appendix K): its three variants at every scale, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gedi.errors import ConfigError
from gedi.training.config import (
    AugmentConfig,
    DamConfig,
    NetConfig,
    SamplerConfig,
    StageConfig,
    StartConfig,
    TrainingConfig,
)
from gedi.training.presets import digits
from gedi.training.terms import Energy, Gaussian, Sinkhorn, Symbolic

EPOCHS = {100: 100, 1_000: 30, 10_000: 5}  # of both steps, by the number of triplets (Appendix K)


def laptop(n: int) -> TrainingConfig:
    """MNIST's images as rows: as `digits`, with views that move as far in 28 pixels as they do there in 8."""
    config = digits()
    config.augment = replace(config.augment, shift=1.4)
    return config


def paper(n: int) -> TrainingConfig:
    """The table of Appendix G, column Addition, for n triplets."""
    epochs = EPOCHS[min(EPOCHS, key=lambda known: abs(known - n))]
    stage = StageConfig(
        iterations=epochs * max(1, 3 * n // 60),
        batch_size=60,
        learning_rate=1e-4,
        warmup=0,
        decay_from=1.0,
        average=0.0,
    )
    sampler = SamplerConfig(steps=10, noise=0.01, final_noise=0.01, step=1.0, max_drift=None, burn_in=None)
    sampler = replace(sampler, max_gap=None, buffer_size=10_000, from_data=0.0, data_noise=0.0)
    return TrainingConfig(
        net=NetConfig(hidden=(128, 128), representation=128, embedding=128, projector_hidden=256, first="linear"),
        sampler=sampler,
        dam=DamConfig(radius=0.03, max_drop=None),
        augment=AugmentConfig(noise=0.3, shift=4.0),
        objective={
            "generative": Energy(size=0.0),
            "negative_free": Gaussian(),
            "clustering": Sinkhorn(weight=1000.0, dam=500.0, anchor=0.0, firmness=1.0, marginals="uniform"),
        },
        start=StartConfig(kind="none"),
        scaling="global",
        keep_best=False,
        step1=stage,
        step2=replace(stage),
    )


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
