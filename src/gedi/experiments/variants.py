"""Ablations: what can be removed from the settings of any preset and method, or added to them."""

from __future__ import annotations

from typing import Any

from gedi.errors import ConfigError, did_you_mean
from gedi.training.config import TrainingConfig, get, read_objective
from gedi.training.methods import Change, random_heads, widen_projectors, with_projector


def sets(path: str, value: Any) -> Change:
    """A setting by its dotted path; for a term, None removes it, if it is there."""
    group, name = path.rsplit(".", 1)

    def change(config: TrainingConfig) -> None:
        if group == "objective":
            config.objective.pop(name, None)
        else:
            setattr(get(config, group), name, value)

    return change


def with_nf(config: TrainingConfig) -> None:
    """With the paper's L_NF, if there is none: Eqs. 6-7 as means over samples and dimensions."""
    if "negative_free" not in config.objective:
        widen_projectors(config)
        config.objective |= read_objective(negative_free=dict(kind="gaussian", per_sample=True))


def one_encoder(config: TrainingConfig) -> None:
    """One encoder for energy and clusters; the density keeps learning in step 2, so that it is not forgotten."""
    config.net.two_encoders = False
    generative = _term(config, "generative")
    generative.every = max(1, generative.every)


def no_density(config: TrainingConfig) -> None:
    """No generative term, no step 1 and no walks; everything else is unchanged."""
    no_dam(config)
    config.step1.iterations = 0
    config.objective.pop("generative", None)
    config.net.two_encoders = False


def frozen_density(config: TrainingConfig) -> None:
    """The density learns in step 1 only. It needs its own encoder: step 2 would change a shared one."""
    config.net.two_encoders = True
    _term(config, "generative").every = 0


def no_dam(config: TrainingConfig) -> None:
    """No walks, neither as views nor as a start; the views by T(x'|x) remain."""
    _term(config, "clustering").dam = 0.0
    _without_start(config, "walks")


def with_dam(config: TrainingConfig) -> None:
    """Walks as views, if there are none; where data have many columns, the default has none."""
    clustering = _term(config, "clustering")
    clustering.dam = clustering.dam or clustering.weight


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
    with_projector(config, "projector")


def half_prior(config: TrainingConfig) -> None:
    """Half the weight of the prior on cluster sizes."""
    _term(config, "clustering").prior /= 2


def prior_on_sphere(config: TrainingConfig) -> None:
    """The prior as it is, but on SwAV's heads: prototypes on a projector's sphere, at SwAV's temperature."""
    _term(config, "clustering").tau = 0.1
    with_projector(config, "projector")


def equal_weights(config: TrainingConfig) -> None:
    """The paper's terms as means over a batch, each with weight 1."""
    clustering, embedding = _term(config, "clustering"), _term(config, "negative_free")
    clustering.weight = clustering.dam = 1.0
    embedding.weight = 1 / config.step2.batch_size


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
    config.heads.starts = tuple(other for other in config.heads.starts if other != kind)


# Combine several with " + ", such as "no NF + two encoders" of the paper's ablation (Sec. 5.1).
VARIANT_CHANGES: dict[str, Change] = {
    "full": lambda config: None,
    "no density": no_density,
    "density frozen after step 1": frozen_density,
    "two encoders": sets("net.two_encoders", True),
    "one encoder": one_encoder,
    "no DAM": no_dam,
    "with DAM": with_dam,
    "no NF": sets("objective.negative_free", None),
    "with L_NF": with_nf,
    "no neighbours": no_neighbours,
    "Sinkhorn instead of the prior": with_sinkhorn,
    "random heads only": random_heads,
    "starts alone": sets("heads.random", 0),  # the best of them is learned
    "no anchor": sets("heads.anchor", 0.0),  # a start that wins gives only its cluster sizes, not its labels
    "no neutral head": sets("heads.neutral", 0),  # while cluster heads compete, they train the encoder themselves
    "no learned neighbours": sets("augment.learned", False),  # to the end, neighbours are those of the input
    "no contrastive term": sets("objective.contrastive", None),
    "half the prior": half_prior,
    "prior on a sphere": prior_on_sphere,
    "weights 1": equal_weights,
    "short step 2": short_step2,
    "long step 2": long_step2,  # before a change that removes step 1
    "no step 1": sets("step1.iterations", 0),  # at first, walks follow an energy that has not been trained
}


def ablate(config: TrainingConfig, variant: str) -> None:
    """Change ``config`` in place into a variant: names of `VARIANT_CHANGES`, joined by " + "."""
    for name in variant.split(" + "):
        if name not in VARIANT_CHANGES:
            raise ConfigError(f"There is no variant {name!r}{did_you_mean(name, VARIANT_CHANGES)}")
        VARIANT_CHANGES[name](config)
