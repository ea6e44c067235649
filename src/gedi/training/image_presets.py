"""Named settings for images: one that a laptop's CPU can pay for, and the paper's own for each of its data sets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gedi.data.augment import PAPER
from gedi.objectives.clustering import Sinkhorn
from gedi.objectives.generative import Energy
from gedi.objectives.negative_free import Gaussian
from gedi.training.config import (
    AugmentConfig,
    DamConfig,
    GuardConfig,
    NetConfig,
    SamplerConfig,
    StageConfig,
    StartConfig,
    TrainingConfig,
)


def images() -> TrainingConfig:
    """Images of more than 16 pixels a side, on a CPU: the structure of `digits`, with two narrow ResNet-8s.

    Gradients with respect to images are what costs here. So the sampler is a cold one: with the few steps there are, a
    chain at temperature 1 would not leave the noise it starts from. What keeps a cold sampler from blowing the energy
    up is the bound on its drift, which all steps reach: they are of one length, however steep the energy is. Log p is
    known up to its scale only, then.

    The density has an encoder of its own: 32 features are too few for both. In one encoder either the clusters lose
    what the density needs, or the density is forgotten after step 1. Nothing else trains that encoder, so step 2 leaves
    the density as step 1 made it: seldom updates at step 2's learning rate made it worse.
    """
    stage = StageConfig(batch_size=64, learning_rate=2e-3, warmup=20)
    return TrainingConfig(
        net=NetConfig(encoder="resnet8", representation=32, embedding=32, projector_hidden=64, two_encoders=True),
        sampler=SamplerConfig(
            steps=5,
            noise=0.03,
            final_noise=0.03,
            step=5.0,
            buffer_size=1000,
            restart=0.05,
            from_data=0.1,
            box_margin=0.25,
            data_noise=0.03,
        ),
        dam=DamConfig(steps=3, radius=0.1, every=3),
        augment=AugmentConfig(noise=0.03, crop=4, jitter=0.1, gray=0.1),
        objective={
            "generative": Energy(weight=0.5, size=1e-4, every=0),
            "negative_free": Gaussian(beta=0.1, invariance=3.0, per_sample=True),
            "clustering": Sinkhorn(dam=0.5, queue=1280, iterations=5),
        },
        start=StartConfig(kind="kmeans", repeats=10, heads=True),
        step1=replace(stage, iterations=200, batch_size=32, learning_rate=1e-3),
        embedding=replace(stage, iterations=600),
        step2=replace(stage, iterations=100, learning_rate=5e-4, average=0.98),
        scaling="pixels",
    )


def smoke_images() -> TrainingConfig:
    """The preset `smoke` where it meets images: the parts of `images` on a small MLP, in seconds."""
    config = images()
    config.net = NetConfig(hidden=(32, 32), first="linear", two_encoders=True)
    config.sampler = replace(config.sampler, steps=2, buffer_size=200)
    config.dam.steps = 2
    config.start.repeats = 3
    config.step1, config.embedding, config.step2 = (
        replace(stage, iterations=30, average=0.9) for stage in (config.step1, config.embedding, config.step2)
    )
    return config


def paper_svhn() -> TrainingConfig:
    """The paper's settings for SVHN, as literally as they run (its table of hyper-parameters)."""
    return _paper("svhn", width=128, iterations=100_000)


def paper_cifar10() -> TrainingConfig:
    """The paper's settings for CIFAR-10."""
    return _paper("cifar10", width=128, iterations=70_000)


def paper_cifar100() -> TrainingConfig:
    """The paper's settings for CIFAR-100."""
    return _paper("cifar100", width=256, iterations=70_000)


def paper_mnist() -> TrainingConfig:
    """The paper's settings for MNIST, its column 'Addition': 5 epochs of 10,000 triplets, 20 of them a batch."""
    return _paper("mnist", width=128, iterations=2_500, batch_size=60, steps=10)


def _paper(name: str, *, width: int, iterations: int, batch_size: int = 64, steps: int = 20) -> TrainingConfig:
    stage = StageConfig(
        iterations=iterations, batch_size=batch_size, learning_rate=1e-4, warmup=0, decay_from=1.0, average=0.0
    )
    return TrainingConfig(
        net=NetConfig(
            encoder="resnet8", representation=width, embedding=width, projector_hidden=2 * width, walls=False
        ),
        # The buffer starts from U(-1, 1) and data are shown with a little noise, as in the code the paper builds on.
        sampler=SamplerConfig(
            steps=steps,
            noise=0.01,
            final_noise=0.01,
            step=1.0,
            max_drift=None,
            burn_in=None,
            max_gap=None,
            buffer_size=10_000,
            restart=0.05,
            from_data=0.0,
            box_margin=0.0,
            data_noise=0.03,
        ),
        dam=DamConfig(steps=10, radius=0.03, max_drop=None),
        augment=replace(PAPER[name]),
        objective={
            "generative": Energy(size=0.0),
            "negative_free": Gaussian(),
            "clustering": Sinkhorn(weight=1000.0, dam=500.0, anchor=0.0, firmness=1.0, marginals="uniform"),
        },
        start=StartConfig(kind="none"),
        step1=stage,
        embedding=replace(stage, iterations=0),
        step2=replace(stage),
        # Black and white lie on the box: samples that reach it are no symptom.
        guard=GuardConfig(max_at_box=1.0),
        scaling="pixels",
        keep_best=False,
    )


IMAGE_PRESETS: dict[str, Callable[[], TrainingConfig]] = {
    "images": images,
    "paper-svhn": paper_svhn,
    "paper-cifar10": paper_cifar10,
    "paper-cifar100": paper_cifar100,
    "paper-mnist": paper_mnist,
}
