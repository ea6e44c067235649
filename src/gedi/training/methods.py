"""Methods and ablations: what turns any preset into one of them. All are trained by the same recipe.

A method is one entry of `METHODS`; the command line and the estimator list what is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gedi.errors import ConfigError

if TYPE_CHECKING:
    from gedi.training.config import TrainingConfig

Change = Callable[["TrainingConfig"], None]
SELDOM = 16  # iterations between updates of a density that step 2 would otherwise not train at all


@dataclass(frozen=True)
class Method:
    """A named method."""

    summary: str  # one line for `gedi methods`
    change: Change


def with_method(config: TrainingConfig, method: str) -> TrainingConfig:
    """A copy of ``config`` turned into a method."""
    if method not in METHODS:
        raise ConfigError(f"There is no method {method!r}; there are: {', '.join(METHODS)}.")
    config = copy.deepcopy(config)
    METHODS[method].change(config)
    return config


def embedding_alone(**terms: dict[str, Any]) -> Change:
    """Terms that need no clusters, for all iterations; clusters by k-means of the embeddings."""

    def change(config: TrainingConfig) -> None:
        from gedi.training.config import read_objective

        total = config.step1.iterations + config.embedding.iterations + config.step2.iterations
        config.embedding = replace(config.embedding if config.embedding.iterations else config.step2, iterations=total)
        config.step1.iterations = config.step2.iterations = 0
        config.objective = read_objective(**terms)
        config.net.two_encoders = False
        config.net.head = "nf_projector" if "negative_free" in terms else "projector"

    return change


def gedi_1(config: TrainingConfig) -> None:
    """The density is updated every other iteration.

    Walks are short because the density they follow is still growing. At first they are steps to neighbours, and the
    first clusters are a cut of the graph of neighbours.
    """
    config.step2.iterations += config.step1.iterations // 2
    config.step1.iterations = 0
    config.dam.steps = min(config.dam.steps, 3)
    config.objective["generative"] = replace(config.objective["generative"], every=2)


def jem(config: TrainingConfig) -> None:
    """Step 1 is all there is."""
    config.embedding.iterations = config.step2.iterations = 0
    config.objective = {"generative": config.objective["generative"]}
    config.net.two_encoders = False


def swav(config: TrainingConfig) -> None:
    """Step 2 gets the iterations of all stages."""
    config.step2.iterations += config.step1.iterations + config.embedding.iterations
    _step2_alone(config)
    config.step1.iterations = 0
    config.start.kind = "none"
    clustering = replace(config.objective["clustering"], dam=0.0, anchor=0.0, firmness=1.0, marginals="uniform")
    config.objective = {"clustering": clustering}
    config.net.two_encoders = False


def _step2_alone(config: TrainingConfig) -> None:
    """No stage before the clusters': step 2 has to teach the encoder in its place, and at its learning rate."""
    if config.embedding.iterations:
        config.step2.learning_rate = config.embedding.learning_rate
    config.embedding.iterations = 0


METHODS: dict[str, Method] = {
    "gedi": Method("GEDI: the density first, then density, L_NF and clusters together.", lambda config: None),
    "gedi-1": Method("GEDI in one step: density and clusters together, with fewer evaluations of the density.", gedi_1),
    "jem": Method("JEM: the generative term alone. There are no clusters: every row is in cluster 0.", jem),
    "swav": Method("SwAV: L_DI(Theta; T) alone, with equal cluster sizes in every batch and a random start.", swav),
    "barlow": Method(
        "Barlow Twins: features of two views correlate one to one; clusters by k-means.",
        embedding_alone(negative_free=dict(kind="barlow")),
    ),
    "vicreg": Method(
        "VICReg: views close, features spread and uncorrelated; clusters by k-means.",
        embedding_alone(negative_free=dict(kind="vicreg")),
    ),
    "w-mse": Method(
        "W-MSE: whitened views close; clusters by k-means.", embedding_alone(negative_free=dict(kind="w-mse"))
    ),
    "simclr": Method(
        "SimCLR: two views of a row told from all other rows; clusters by k-means.",
        embedding_alone(contrastive=dict(kind="nt-xent")),
    ),
    "protocpc": Method(
        "ProtoCPC: an averaged teacher predicts the prototypes of one view from the other.",
        embedding_alone(contrastive=dict(kind="protocpc")),
    ),
    # Embeddings are on the unit sphere, as everywhere here; the original penalises their length slightly instead.
    "ebclr": Method(
        "EBCLR: SimCLR on squared distances, with the density it implies (Eq. 9); clusters by k-means.",
        embedding_alone(
            contrastive=dict(kind="nt-xent", similarity="negative_squared_distance", tau=0.2),
            generative=dict(kind="contrastive", weight=0.1, tau=0.2, size=0.0),
        ),
    ),
}


def no_nf(config: TrainingConfig) -> None:
    """Without L_NF, and with one encoder: a density that shares it must keep training, or it is forgotten."""
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


# The four variants of the paper's ablation (Sec. 5.1), by the names in its figure, and one of ours.
ABLATIONS: dict[str, Change] = {
    "full": lambda config: None,
    "no NF": no_nf,
    "no NF, no step 1": no_nf_no_step1,
    "no NF, 2 encoders": no_nf_two_encoders,
    "random start": random_start,
}
