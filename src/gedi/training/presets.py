"""Named settings: budgets by the data's shape, methods, and the paper's ablations. Configurations, not copies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gedi.errors import ConfigError
from gedi.objectives.clustering import Sinkhorn
from gedi.objectives.contrastive import NtXent, ProtoCpc
from gedi.objectives.generative import ContrastiveEnergy, Energy
from gedi.objectives.negative_free import Barlow, Gaussian, Vicreg, WMse
from gedi.objectives.term import Term
from gedi.training.config import (
    AugmentConfig,
    DamConfig,
    NetConfig,
    SamplerConfig,
    StageConfig,
    StartConfig,
    TrainingConfig,
    override,
)
from gedi.training.image_presets import IMAGE_PRESETS, smoke_images


def toy() -> TrainingConfig:
    """Rows of a few features: the default for up to 8 columns."""
    return TrainingConfig()


def rows() -> TrainingConfig:
    """Rows of many features: the default above 8 columns.

    In many dimensions DAM's walks are short against the distance between rows, so views towards mutual neighbours and
    L_NF shape the space first, and the clusters start from k-means in it.
    """
    return TrainingConfig(
        net=NetConfig(
            hidden=(256, 256), representation=128, embedding=64, projector_hidden=128, activation="silu", first="linear"
        ),
        sampler=SamplerConfig(noise=0.1, final_noise=0.1, data_noise=0.3, buffer_size=1000, restart=0.0),
        dam=DamConfig(radius=0.1),
        augment=AugmentConfig(noise=0.1, neighbours=12, towards=1.0),
        objective={
            "generative": Energy(weight=0.01, size=1e-5),
            "negative_free": Gaussian(beta=0.1, invariance=10.0, per_sample=True),
            "clustering": Sinkhorn(dam=0.5, queue=1280, iterations=5),
        },
        start=StartConfig(kind="kmeans"),
        step1=StageConfig(iterations=300, batch_size=256, learning_rate=1e-3, warmup=20),
        embedding=StageConfig(iterations=1000, batch_size=256, learning_rate=1e-3, warmup=20),
        step2=StageConfig(iterations=500, batch_size=256, learning_rate=1e-3, warmup=20, average=0.98),
    )


def digits() -> TrainingConfig:
    """Small grey images, stored as rows: as `rows`, with one unit for all pixels and slight affine views."""
    config = rows()
    config.scaling = "global"
    config.augment = replace(config.augment, shift=0.4, rotate=8.0, scale=0.05, shear=0.05)
    return config


def smoke() -> TrainingConfig:
    """Seconds instead of minutes: for tests and first tries."""
    config = TrainingConfig()
    config.net.hidden = (32, 32)
    config.sampler.steps = 3
    config.sampler.buffer_size = 400
    config.dam.steps = 3
    config.start.nodes = 40
    config.start.walks = 2
    config.step1 = StageConfig(iterations=60, batch_size=128, average=0.9)
    config.step2 = StageConfig(iterations=60, batch_size=128, learning_rate=3e-3, average=0.9)
    return config


def paper() -> TrainingConfig:
    """The paper's settings for synthetic data, as literally as they run (Sec. 5.1 and Appendix G)."""
    return TrainingConfig(
        net=NetConfig(
            representation=2, embedding=2, projector_hidden=4, activation="leaky_relu", first="linear", walls=False
        ),
        sampler=SamplerConfig(
            steps=1,
            noise=0.01,
            final_noise=0.01,
            step=1.0,
            max_drift=None,
            burn_in=None,
            max_gap=None,
            buffer_size=10_000,
            from_data=0.0,
            data_noise=0.0,
        ),
        dam=DamConfig(radius=0.03, max_drop=None),
        augment=AugmentConfig(noise=0.03),
        objective={
            "generative": Energy(size=0.0),
            "negative_free": Gaussian(),
            "clustering": Sinkhorn(weight=1000.0, dam=500.0, anchor=0.0, firmness=1.0, marginals="uniform"),
        },
        start=StartConfig(kind="none"),
        scaling="none",
        keep_best=False,
        step1=StageConfig(iterations=7000, learning_rate=1e-3, warmup=0, decay_from=1.0, average=0.0),
        step2=StageConfig(iterations=7000, learning_rate=1e-3, warmup=0, decay_from=1.0, average=0.0),
    )


PRESETS: dict[str, Callable[[], TrainingConfig]] = {
    "toy": toy,
    "rows": rows,
    "digits": digits,
    "smoke": smoke,
    "paper": paper,
} | IMAGE_PRESETS
CONSTRAINT_WEIGHTS = {"paper-mnist": 3000.0}  # Appendix G; of a constraint that is given without one
SMALL_SIDE = 16  # pixels: up to here an MLP does, and takes minutes less
FEW_PIXELS = 1024  # of grey images: up to here, too
SHIFT = 0.05  # of the preset `digits`, as a share of the image's side
BUFFER_NUMBERS = 2**26  # of a replay buffer, 256 MB: of larger rows it holds fewer, down to a batch of them
FEW_FEATURES = 8  # up to here walks reach further than the gaps between neighbours


def preset(name: str | None, *, n_features: int, image_shape: tuple[int, ...] | None = None) -> TrainingConfig:
    """Settings by name, or by the data's shape if ``name`` is None."""
    if name is None:
        name = _by_shape(n_features, image_shape)
    if name not in PRESETS:
        raise ConfigError(f"There is no preset {name!r}; there are: {', '.join(PRESETS)}.")
    if name == "smoke" and image_shape is not None and min(image_shape[:2]) > SMALL_SIDE:
        return smoke_images()
    config = PRESETS[name]()
    if name == "digits" and image_shape is not None:
        config.augment.shift = SHIFT * min(image_shape[:2])
    fitting = max(config.step1.batch_size, BUFFER_NUMBERS // n_features)
    config.sampler.buffer_size = min(config.sampler.buffer_size, fitting)
    return config


def _by_shape(n_features: int, image_shape: tuple[int, ...] | None) -> str:
    if image_shape is not None:
        is_grey = image_shape[2] == 1 and n_features <= FEW_PIXELS
        return "digits" if is_grey or min(image_shape[:2]) <= SMALL_SIDE else "images"
    return "toy" if n_features <= FEW_FEATURES else "rows"


def jem(config: TrainingConfig) -> None:
    """JEM: the generative term alone. It has no cluster head, so every row is of one cluster."""
    config.embedding.iterations = config.step2.iterations = 0
    config.objective = {"generative": config.objective["generative"]}
    config.net.two_encoders = False


def swav(config: TrainingConfig) -> None:
    """SwAV: L_DI(Theta; T) alone, equal cluster sizes asked of every batch, random start, all iterations."""
    config.step2.iterations += config.step1.iterations + config.embedding.iterations
    _step2_alone(config)
    config.step1.iterations = 0
    config.start.kind = "none"
    clustering = replace(config.objective["clustering"], dam=0.0, anchor=0.0, firmness=1.0, marginals="uniform")
    config.objective = {"clustering": clustering}
    config.net.two_encoders = False


def _step2_alone(config: TrainingConfig) -> None:
    """No stage before the clusters': what it would have taught the encoder, step 2 has to, and at its rate."""
    if config.embedding.iterations:
        config.step2.learning_rate = config.embedding.learning_rate
    config.embedding.iterations = 0


def gedi(config: TrainingConfig) -> None:
    """GEDI: the density first, then density, L_NF and clusters together."""


def gedi_1(config: TrainingConfig) -> None:
    """GEDI in one step: density and clusters together from the start, with fewer evaluations of the density.

    The density is updated every other iteration. Walks are short, as they lead along a density that is only growing:
    at the start they are steps to neighbours, and the first clusters a cut of the neighbours' graph.
    """
    config.step2.iterations += config.step1.iterations // 2
    config.step1.iterations = 0
    config.dam.steps = min(config.dam.steps, 3)
    config.objective["generative"] = replace(config.objective["generative"], every=2)


def _embedding_alone(config: TrainingConfig, family: str, term: Term) -> None:
    """One term that needs no clusters, for all iterations; clusters by k-means of the embeddings."""
    total = config.step1.iterations + config.embedding.iterations + config.step2.iterations
    config.embedding = replace(config.embedding if config.embedding.iterations else config.step2, iterations=total)
    config.step1.iterations = config.step2.iterations = 0
    config.objective = {family: term}
    config.net.two_encoders = False
    config.net.head = "nf_projector" if family == "negative_free" else "projector"


def barlow(config: TrainingConfig) -> None:
    """Barlow Twins: features of two views correlate each with itself and no other; clusters by k-means."""
    _embedding_alone(config, "negative_free", Barlow())


def vicreg(config: TrainingConfig) -> None:
    """VICReg: views close, features spread and uncorrelated; clusters by k-means."""
    _embedding_alone(config, "negative_free", Vicreg())


def w_mse(config: TrainingConfig) -> None:
    """W-MSE: whitened views close; clusters by k-means."""
    _embedding_alone(config, "negative_free", WMse())


def simclr(config: TrainingConfig) -> None:
    """SimCLR: two views of a row told from all other rows; clusters by k-means."""
    _embedding_alone(config, "contrastive", NtXent())


def protocpc(config: TrainingConfig) -> None:
    """ProtoCPC: prototypes of one view predicted by an averaged teacher from the other."""
    _embedding_alone(config, "contrastive", ProtoCpc())


def ebclr(config: TrainingConfig) -> None:
    """EBCLR: SimCLR on squared distances, with the density it implies (Eq. 9) as generative term; clusters by k-means.

    Embeddings are on the unit sphere here, as everywhere; the original has a small penalty on their length instead.
    """
    _embedding_alone(config, "contrastive", NtXent(similarity="negative_squared_distance", tau=0.2))
    config.objective["generative"] = ContrastiveEnergy(weight=0.1, tau=0.2, size=0.0)


METHODS: dict[str, Callable[[TrainingConfig], None]] = {
    "gedi": gedi,
    "gedi-1": gedi_1,
    "jem": jem,
    "swav": swav,
    "barlow": barlow,
    "vicreg": vicreg,
    "w-mse": w_mse,
    "simclr": simclr,
    "protocpc": protocpc,
    "ebclr": ebclr,
}


SELDOM = 16  # iterations between updates of a density that would else be left as step 1 made it


def no_nf(config: TrainingConfig) -> None:
    """Without L_NF, and with one encoder for all: a density that shares it has to go on learning, or is forgotten."""
    no_nf_two_encoders(config)
    config.net.two_encoders = False
    generative = config.objective["generative"]
    config.objective["generative"] = replace(generative, every=generative.every or SELDOM)


def no_nf_no_step1(config: TrainingConfig) -> None:
    """Without L_NF and without step 1: DAM walks on an energy that has not been trained."""
    no_nf(config)
    config.step1.iterations = 0


def no_nf_two_encoders(config: TrainingConfig) -> None:
    """Without L_NF, and with an encoder of its own for the energy."""
    del config.objective["negative_free"]
    _step2_alone(config)
    config.net.two_encoders = True


def random_start(config: TrainingConfig) -> None:
    """All terms, but clusters that start at random, as in the paper: what step 2 does without the cut of the walks."""
    config.start.kind = "none"
    config.objective["clustering"] = replace(config.objective["clustering"], marginals="uniform", anchor=0.0)


# The four variants of the paper's ablation (Sec. 5.1), by the names of its figure, and one of ours.
ABLATIONS: dict[str, Callable[[TrainingConfig], None]] = {
    "full": lambda config: None,
    "no NF": no_nf,
    "no NF, no step 1": no_nf_no_step1,
    "no NF, 2 encoders": no_nf_two_encoders,
    "random start": random_start,
}


def with_method(config: TrainingConfig, method: str) -> TrainingConfig:
    """A copy of ``config`` turned into a method."""
    if method not in METHODS:
        raise ConfigError(f"There is no method {method!r}; there are: {', '.join(METHODS)}.")
    config = copy.deepcopy(config)
    METHODS[method](config)
    return config


def configure(
    name: str | None,
    method: str,
    *changes: Mapping[str, Any],
    n_features: int,
    image_shape: tuple[int, ...] | None = None,
) -> TrainingConfig:
    """The settings of a run: a preset, turned into a method, with changes on top."""
    config = with_method(preset(name, n_features=n_features, image_shape=image_shape), method)
    for change in changes:
        before, config = config, override(config, change)
        if name in CONSTRAINT_WEIGHTS and "symbolic" in config.objective and "symbolic" not in before.objective:
            config = override(before, {"objective.symbolic.weight": CONSTRAINT_WEIGHTS[name], **change})
    if config.net.encoder == "resnet8" and image_shape is None:
        asked = "" if name is None else f"The preset {name} is for images, and "
        raise ConfigError(
            f"{asked}training.net.encoder resnet8 takes images, but the data are rows of {n_features} features: give "
            "an array [n, height, width, channels], or choose another preset."
        )
    if "symbolic" in config.objective and not config.step2.iterations:
        raise ConfigError(f"A constraint acts in step 2, and here (method {method}) step 2 has no iterations.")
    if method == "jem" and config.embedding.iterations + config.step2.iterations:
        raise ConfigError("The method jem is step 1 alone: leave training.embedding and step2.iterations at 0.")
    return config
