"""Methods, as changes that apply to any preset. All are trained by the same recipe.

A method is an entry of `METHODS`, which the command line and the estimator list.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from gedi.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from gedi.objectives.term import Objective
    from gedi.training.config import TrainingConfig

Change = Callable[["TrainingConfig"], None]


@dataclass(frozen=True)
class Method:
    """A named method."""

    summary: str  # one line for `gedi methods`
    change: Change


def with_method(config: TrainingConfig, method: str) -> TrainingConfig:
    """A copy of ``config`` turned into a method."""
    if method not in METHODS:
        raise ConfigError(f"There is no method {method!r}{did_you_mean(method, METHODS)}")
    config = copy.deepcopy(config)
    METHODS[method].change(config)
    return config


def embedding_alone(**terms: dict[str, Any]) -> Change:
    """Only these terms, which need no clusters, in step 2 alone; clusters by k-means of the embeddings."""

    def change(config: TrainingConfig) -> None:
        _step2_alone(config)
        config.objective = _terms(**terms)
        with_projector(config, "nf_projector" if "negative_free" in terms else "projector")
        config.heads = replace(config.heads, random=1, starts=(), neutral=0)

    return change


def gedi_1(config: TrainingConfig) -> None:
    """Step 2 alone, with the density updated at most every other iteration.

    Walks are short because the density they follow is still being learned.
    """
    generative = config.objective["generative"]
    config.step2.iterations += config.step1.iterations // 2
    config.step1.iterations = 0
    config.dam.steps = min(config.dam.steps, 3)
    config.objective["generative"] = replace(generative, every=max(2, generative.every))


def jem(config: TrainingConfig) -> None:
    """Step 1 alone, with the iterations of both steps."""
    config.step1.iterations += config.step2.iterations
    config.step2.iterations = 0
    config.objective = {"generative": config.objective["generative"]}
    config.net.two_encoders = False


def swav(config: TrainingConfig) -> None:
    """Step 2 alone, with the iterations of both steps, random heads, and the same views as GEDI."""
    _step2_alone(config)
    random_heads(config)
    weight = config.objective["clustering"].weight
    config.objective = _terms(clustering=dict(kind="sinkhorn", weight=weight, dam=0.0))
    with_projector(config, "projector")


def simclr(config: TrainingConfig) -> None:
    """NT-Xent alone, as the preset has it, if it does."""
    own = config.objective.get("contrastive")
    embedding_alone(contrastive=dict(kind="nt-xent"))(config)
    if own is not None and own.kind == "nt-xent":
        config.objective["contrastive"] = own


def _terms(**settings: dict[str, Any]) -> Objective:
    from gedi.training.config import read_objective  # imports torch, which takes seconds

    return read_objective(**settings)


def _step2_alone(config: TrainingConfig) -> None:
    """No density, and so no step 1; step 2 gets its iterations."""
    config.step2.iterations += config.step1.iterations
    config.step1.iterations = 0
    config.net.two_encoders = False


def with_projector(config: TrainingConfig, head: Literal["projector", "nf_projector"]) -> None:
    """Embeddings by a projector."""
    widen_projectors(config)
    config.net.head = head


def widen_projectors(config: TrainingConfig) -> None:
    """On encoders for rows of many columns: projectors as wide as the encoder, with a quarter of its outputs.

    With the 8 outputs that are enough in the plane, methods that need a projector learn far less from images of digits.
    """
    net = config.net
    if net.representation is None and net.head == "linear":
        net.projector_hidden = max(net.projector_hidden, net.hidden[-1])
        net.embedding = max(net.embedding, net.hidden[-1] // 4)


def random_heads(config: TrainingConfig) -> None:
    """No starts: all heads begin at random, as in the paper."""
    config.heads = replace(config.heads, random=max(1, config.heads.random), starts=())


METHODS: dict[str, Method] = {
    "gedi": Method("GEDI: the density first, then density and clusters together.", lambda config: None),
    "gedi-1": Method("GEDI in one step: density and clusters together, with fewer evaluations of the density.", gedi_1),
    "jem": Method("JEM: the generative term alone. There are no clusters: every row is in cluster 0.", jem),
    "swav": Method("SwAV: L_DI(Theta; T) alone, with equal cluster sizes in every batch and random heads.", swav),
    "barlow": Method(
        "Barlow Twins: makes features of two views correlate one to one; clusters by k-means.",
        embedding_alone(negative_free=dict(kind="barlow")),
    ),
    "vicreg": Method(
        "VICReg: keeps views close, and features spread and uncorrelated; clusters by k-means.",
        embedding_alone(negative_free=dict(kind="vicreg")),
    ),
    "w-mse": Method(
        "W-MSE: keeps whitened views close; clusters by k-means.", embedding_alone(negative_free=dict(kind="w-mse"))
    ),
    "simclr": Method("SimCLR: tells the two views of a row from all other rows; clusters by k-means.", simclr),
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
