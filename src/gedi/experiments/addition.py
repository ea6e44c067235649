"""Settings of the addition experiment (Sec. 5.3 and Appendix K): its three variants at every scale, in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

from gedi.errors import ConfigError
from gedi.objectives.clustering import Sinkhorn
from gedi.objectives.generative import Energy
from gedi.objectives.negative_free import Gaussian
from gedi.objectives.symbolic import Symbolic
from gedi.training.config import (
    AugmentConfig,
    DamConfig,
    NetConfig,
    SamplerConfig,
    StageConfig,
    StartConfig,
    TrainingConfig,
)
from gedi.training.image_presets import paper_mnist
from gedi.training.presets import CONSTRAINT_WEIGHTS, random_start

Entry = TypeVar("Entry")
EPOCHS = {100: 100, 1_000: 30, 10_000: 5}  # of both steps, by the number of triplets (Appendix K)


class Size(NamedTuple):
    """What the number of triplets decides on a laptop."""

    width: int  # of the ResNet
    nodes: int  # micro-clusters that are named
    tries: int  # micro-clusterings: with few rows, chance decides what they look like
    iterations: int  # of step 2
    anchor: float = 1.0  # weight of the start's values at first


LAPTOP = {
    # Where many of the start's values contradict each other, the constraint must not pull before the network tells the
    # images apart: it would be met by calling them 0, 2 and 4 alone.
    100: Size(width=16, nodes=20, tries=10, iterations=500, anchor=10.0),
    1_000: Size(width=16, nodes=100, tries=3, iterations=500),
    10_000: Size(width=32, nodes=300, tries=1, iterations=2_000),
}


def laptop(n: int) -> TrainingConfig:
    """The paper's ResNet-8, a quarter or an eighth as wide; clusters start from the graph of neighbours, named by EM.

    Gradients with respect to images are what costs here: the density is trained and walked along every few iterations.
    """
    size = _nearest(LAPTOP, n)
    stage = StageConfig(batch_size=60, learning_rate=2e-3, warmup=50)
    return TrainingConfig(
        net=NetConfig(encoder="resnet8", representation=size.width, embedding=32, projector_hidden=64),
        sampler=SamplerConfig(
            steps=5, noise=0.05, final_noise=0.05, data_noise=0.1, buffer_size=1000, restart=0.0, box_margin=0.25
        ),
        dam=DamConfig(steps=3, radius=0.1, every=32),
        augment=AugmentConfig(noise=0.1, shift=2.0, rotate=10.0, scale=0.1, shear=0.1),
        objective={
            "generative": Energy(weight=0.01, size=1e-5, every=32),
            "negative_free": Gaussian(beta=0.1, invariance=10.0, per_sample=True),
            "clustering": Sinkhorn(dam=0.5, anchor=size.anchor, queue=1280, iterations=5),
        },
        start=StartConfig(kind="neighbours", nodes=size.nodes, tries=size.tries, node_rows=15, repeats=5),
        step1=replace(stage, iterations=50),
        embedding=replace(stage, iterations=0),
        step2=replace(stage, iterations=size.iterations, average=0.98),
        scaling="pixels",
    )


def paper(n: int) -> TrainingConfig:
    """The table of Appendix G, column Addition, for n triplets."""
    config = paper_mnist()
    for stage in (config.step1, config.step2):
        stage.iterations = _nearest(EPOCHS, n) * max(1, 3 * n // stage.batch_size)
    return config


def smoke(n: int) -> TrainingConfig:
    """Seconds: to see that all runs."""
    config = laptop(n)
    config.net = NetConfig(encoder="resnet8", representation=4, embedding=8, projector_hidden=16)
    config.sampler = replace(config.sampler, steps=2, buffer_size=100)
    config.dam.steps = 2
    config.start.tries = config.start.repeats = 2
    for stage in (config.step1, config.step2):
        stage.iterations, stage.batch_size, stage.warmup = 10, 60, 2
    return config


def _nearest(known: dict[int, Entry], n: int) -> Entry:
    return known[min(known, key=lambda size: abs(size - n))]


SCALES: dict[str, Callable[[int], TrainingConfig]] = {"smoke": smoke, "laptop": laptop, "paper": paper}
# Of -log P(a + b = c): three times that of L_DI everywhere.
WEIGHTS = {"smoke": 3.0, "laptop": 3.0, "paper": CONSTRAINT_WEIGHTS["paper-mnist"]}
ALONE = {"laptop": 200}  # iterations of the constraint alone, which holds for certain within a hundred
VIEWS: dict[str, Literal["x", "both"]] = {"smoke": "both", "laptop": "both", "paper": "x"}  # that must add up


def _unnamed(config: TrainingConfig) -> None:
    """Clusters start from the graph of neighbours, under numbers that mean nothing."""
    config.start.ground = False


# The variant with all of it, and two of ours that show what its start does.
STARTS: dict[str, Callable[[TrainingConfig], None]] = {
    "with constraint": lambda config: None,
    "with constraint, start not named": _unnamed,
    "with constraint, random start": random_start,
}


def addition(scale: str, n: int, variant: str, rule: str) -> TrainingConfig:
    """The settings for n triplets of a variant of the paper's table."""
    config = SCALES[scale](n)
    if variant.startswith("with constraint"):
        config.objective["symbolic"] = Symbolic(weight=WEIGHTS[scale], rule=rule, views=VIEWS[scale])
    if variant in STARTS:
        STARTS[variant](config)
    elif variant == "without GEDI":
        # As DeepProbLog has it: the same encoder under a linear layer and a softmax, and the constraint alone.
        config.step1.iterations = config.embedding.iterations = 0
        config.step2.iterations = min(config.step2.iterations, ALONE.get(scale, config.step2.iterations))
        config.net.head = "classifier"
        config.objective = {"symbolic": Symbolic(weight=WEIGHTS[scale], rule=rule, tau=1.0)}
    elif variant != "without constraint":
        raise ConfigError(f"There is no variant {variant!r} of the addition experiment.")
    return config
