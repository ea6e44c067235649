"""Ablations: what can be removed from the settings of any preset and method, or added to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gedi.errors import ConfigError, did_you_mean
from gedi.training.config import TrainingConfig, read_objective
from gedi.training.methods import Change, random_heads


def no_nf(config: TrainingConfig) -> None:
    """Without L_NF, if there is one."""
    config.objective.pop("negative_free", None)


def with_nf(config: TrainingConfig) -> None:
    """With the paper's L_NF, if there is none: Eqs. 6-7 as means over samples and dimensions."""
    if "negative_free" not in config.objective:
        config.objective |= read_objective(negative_free=dict(kind="gaussian", per_sample=True))


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


def with_dam(config: TrainingConfig) -> None:
    """Walks as views, if there are none; where data have many columns, the default has none."""
    clustering = _term(config, "clustering")
    config.objective["clustering"] = replace(clustering, dam=clustering.dam or clustering.weight)


def no_neighbours(config: TrainingConfig) -> None:
    """Both views are of the row itself, and no start comes from neighbours."""
    config.augment.neighbours = 0
    _without_start(config, "neighbours")


def with_sinkhorn(config: TrainingConfig) -> None:
    """Assignments by Sinkhorn-Knopp instead of a prior on cluster sizes, with prototypes on a projector's sphere."""
    old = _term(config, "clustering")
    config.objective |= read_objective(
        clustering=dict(kind="sinkhorn", weight=old.weight, dam=old.dam, neutral=old.neutral)
    )
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


def long_step2(config: TrainingConfig) -> None:
    """A step 2 as long as both steps, to its last iteration: for fits whose step 1 does not train the clusters."""
    config.step2.iterations += config.step1.iterations
    config.step2.settle = 0.0


def _term(config: TrainingConfig, family: str) -> Any:
    """The term of a family that a variant changes."""
    if family not in config.objective:
        raise ConfigError(f"This variant changes the {family} term, but the objective has none.")
    return config.objective[family]


def _without_start(config: TrainingConfig, kind: str) -> None:
    config.heads = replace(config.heads, starts=tuple(other for other in config.heads.starts if other != kind))


# Combine several with " + ".
VARIANT_CHANGES: dict[str, Change] = {
    "full": lambda config: None,
    "no density": no_density,
    "density frozen after step 1": frozen_density,
    "two encoders": two_encoders,
    "one encoder": one_encoder,
    "no DAM": no_dam,
    "with DAM": with_dam,
    "no NF": no_nf,  # this and the next two: the paper's ablation (Sec. 5.1), by the names in its figure
    "no NF, no step 1": lambda config: ablate(config, "no NF + no step 1"),
    "no NF, 2 encoders": lambda config: ablate(config, "no NF + two encoders"),
    "with L_NF": with_nf,
    "no neighbours": no_neighbours,
    "Sinkhorn instead of the prior": with_sinkhorn,
    "random heads only": random_heads,
    "starts alone": starts_alone,
    "no anchor": no_anchor,
    "no neutral head": no_neutral,
    "no learned neighbours": no_learned,
    "no contrastive term": no_contrastive,
    "half the prior": half_prior,
    "prior on a sphere": prior_on_sphere,
    "weights 1": equal_weights,
    "short step 2": short_step2,
    "long step 2": long_step2,  # before a change that removes step 1
    "no step 1": no_step1,
}


def ablate(config: TrainingConfig, variant: str) -> None:
    """Change ``config`` in place into a variant: names of `VARIANT_CHANGES`, joined by " + "."""
    for name in variant.split(" + "):
        if name not in VARIANT_CHANGES:
            raise ConfigError(f"There is no variant {name!r}{did_you_mean(name, VARIANT_CHANGES)}")
        VARIANT_CHANGES[name](config)
