"""Methods and ablations, as changes that apply to any preset. All are trained by the same recipe.

A method is an entry of `METHODS`, which the command line and the estimator list.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
        config.net.head = "nf_projector" if "negative_free" in terms else "projector"
        config.heads = replace(config.heads, random=1, starts=(), neutral=0)

    return change


def gedi_1(config: TrainingConfig) -> None:
    """Step 2 alone, with the density updated every other iteration, or as rarely as it already is.

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
    _random_heads(config)
    weight = config.objective["clustering"].weight
    config.objective = _terms(clustering=dict(kind="sinkhorn", weight=weight, dam=0.0))
    config.net.head = "projector"


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


def _random_heads(config: TrainingConfig) -> None:
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


# -- ablations --------------------------------------------------------------------------------------------------------


def no_nf(config: TrainingConfig) -> None:
    """Without L_NF, if there is one."""
    config.objective.pop("negative_free", None)


def with_nf(config: TrainingConfig) -> None:
    """With the paper's L_NF, if there is none: Eqs. 6-7 as means over samples and dimensions."""
    if "negative_free" not in config.objective:
        config.objective |= _terms(negative_free=dict(kind="gaussian", per_sample=True))


def no_step1(config: TrainingConfig) -> None:
    """Without step 1: at first, walks follow an energy that has not been trained."""
    config.step1.iterations = 0


def two_encoders(config: TrainingConfig) -> None:
    """A separate encoder for the energy."""
    config.net.two_encoders = True


def one_encoder(config: TrainingConfig) -> None:
    """One encoder for energy and clusters; the density keeps learning in step 2, so that it is not forgotten."""
    config.net.two_encoders = False
    generative = _term(config, "generative")
    config.objective["generative"] = replace(generative, every=max(1, generative.every))


def no_density(config: TrainingConfig) -> None:
    """No generative term, no step 1 and no walks; everything else is unchanged."""
    no_dam(config)
    no_step1(config)
    config.objective.pop("generative", None)
    config.net.two_encoders = False


def frozen_density(config: TrainingConfig) -> None:
    """The density learns in step 1 only. It needs its own encoder: step 2 would change a shared one."""
    two_encoders(config)
    config.objective["generative"] = replace(_term(config, "generative"), every=0)


def no_dam(config: TrainingConfig) -> None:
    """No walks, neither as views nor as a start; the views by T(x'|x) remain."""
    config.objective["clustering"] = replace(_term(config, "clustering"), dam=0.0)
    _without_start(config, "walks")


def no_neighbours(config: TrainingConfig) -> None:
    """Both views are of the row itself, and no start comes from neighbours."""
    config.augment.neighbours = 0
    _without_start(config, "neighbours")


def with_sinkhorn(config: TrainingConfig) -> None:
    """Assignments by Sinkhorn-Knopp instead of a prior on cluster sizes, with prototypes on a projector's sphere."""
    old = _term(config, "clustering")
    config.objective |= _terms(clustering=dict(kind="sinkhorn", weight=old.weight, dam=old.dam, neutral=old.neutral))
    config.net.head = "projector"


def starts_alone(config: TrainingConfig) -> None:
    """No random heads: the best of the starts is learned."""
    config.heads = replace(config.heads, random=0)


def no_anchor(config: TrainingConfig) -> None:
    """A start that wins gives the cluster sizes only: the head does not learn its labels."""
    config.heads = replace(config.heads, anchor=0.0)


def no_neutral(config: TrainingConfig) -> None:
    """No neutral head: while cluster heads compete, they train the encoder themselves."""
    config.heads = replace(config.heads, neutral=0)


def no_learned(config: TrainingConfig) -> None:
    """Neighbours are those of the input to the end; they are not searched again in the representation."""
    config.augment.learned = False


def no_contrastive(config: TrainingConfig) -> None:
    """No contrastive term, if there is one: the neutral head and the density train the encoder."""
    config.objective.pop("contrastive", None)


def half_prior(config: TrainingConfig) -> None:
    """Half the weight of the prior on cluster sizes."""
    prior = _term(config, "clustering")
    config.objective["clustering"] = replace(prior, prior=prior.prior / 2)


def prior_on_sphere(config: TrainingConfig) -> None:
    """The prior as it is, but on SwAV's heads: prototypes on a projector's sphere, at SwAV's temperature."""
    config.objective["clustering"] = replace(_term(config, "clustering"), tau=0.1)
    config.net.head = "projector"


def equal_weights(config: TrainingConfig) -> None:
    """The paper's terms as means over a batch, each with weight 1."""
    config.objective["clustering"] = replace(_term(config, "clustering"), weight=1.0, dam=1.0)
    embedding = _term(config, "negative_free")
    config.objective["negative_free"] = replace(embedding, weight=1 / config.step2.batch_size)


def short_step2(config: TrainingConfig) -> None:
    """A short step 2 with small steps, which ends before it can leave what it has found."""
    config.step2.iterations, config.step2.learning_rate = min(150, config.step2.iterations), 3e-4


def _term(config: TrainingConfig, family: str) -> Any:
    """The term of a family that a variant changes."""
    if family not in config.objective:
        raise ConfigError(f"This variant changes the {family} term, but the objective has none.")
    return config.objective[family]


def _without_start(config: TrainingConfig, kind: str) -> None:
    config.heads = replace(config.heads, starts=tuple(other for other in config.heads.starts if other != kind))


# What can be removed from any settings, or added to them; combine several with " + ".
VARIANT_CHANGES: dict[str, Change] = {
    "full": lambda config: None,
    "no density": no_density,
    "density frozen after step 1": frozen_density,
    "two encoders": two_encoders,
    "one encoder": one_encoder,
    "no DAM": no_dam,
    "no NF": no_nf,  # this and the next two: the paper's ablation (Sec. 5.1), by the names in its figure
    "no NF, no step 1": lambda config: ablate(config, "no NF + no step 1"),
    "no NF, 2 encoders": lambda config: ablate(config, "no NF + two encoders"),
    "with L_NF": with_nf,
    "no neighbours": no_neighbours,
    "Sinkhorn instead of the prior": with_sinkhorn,
    "random heads only": _random_heads,
    "starts alone": starts_alone,
    "no anchor": no_anchor,
    "no neutral head": no_neutral,
    "no learned neighbours": no_learned,
    "no contrastive term": no_contrastive,
    "half the prior": half_prior,
    "prior on a sphere": prior_on_sphere,
    "weights 1": equal_weights,
    "short step 2": short_step2,
    "no step 1": no_step1,
}


def ablate(config: TrainingConfig, variant: str) -> None:
    """Change ``config`` in place into a variant: names of `VARIANT_CHANGES`, joined by " + "."""
    for name in variant.split(" + "):
        if name not in VARIANT_CHANGES:
            raise ConfigError(f"There is no variant {name!r}{did_you_mean(name, VARIANT_CHANGES)}")
        VARIANT_CHANGES[name](config)
