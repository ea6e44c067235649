"""Every setting of a training run, with its type, range, default and meaning."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, Literal

from gedi import settings
from gedi.data.augment import AugmentConfig
from gedi.errors import ConfigError
from gedi.objectives.generative import density_of
from gedi.objectives.term import Objective, kinds, uses_walks
from gedi.settings import Count, Layers, Natural, NotNegative, Outliers, Positive, Rule, Share, at_most
from gedi.training.encoder_registry import ENCODERS

LATEST = 0.9  # share of step 2 by which clusters must be chosen
DECAYS = Rule("lie in [0, 1)", lambda betas: all(0 <= beta < 1 for beta in betas))


@dataclass
class NetConfig:
    """Sizes of the networks (Appendix G). Other encoders ignore settings marked "mlp only"."""

    encoder: Literal["mlp", "resnet8", "convnet"] = "mlp"  # mlp for rows; images: resnet8 (paper) or the faster convnet
    hidden: Layers = (100, 100)  # mlp only: sizes of the hidden layers
    representation: Count | None = 64  # outputs of the encoder, F of resnet8 (paper: 2); None: mlp's last hidden layer
    embedding: Count = 8  # outputs of the projectors, for prototypes and for L_NF
    projector_hidden: Count = 16  # hidden neurons of both projectors
    activation: Literal["silu", "leaky_relu"] = "silu"  # mlp only: silu is smooth, as DAM needs (paper: leaky_relu)
    norm: Literal["none", "layer"] = "none"  # mlp only: layer norm in the hidden layers, except waves
    first: Literal["waves", "linear"] = "waves"  # mlp only: a first layer of sines, or one like the others (paper)
    frequency: Positive | None = None  # mlp only: the waves' typical frequency; None: 0.3 / the neighbour distance
    head: Literal["linear", "projector", "nf_projector"] = (
        "linear"  # clusters: linear layers on the representation, or prototypes on a projector's sphere (paper)
    )
    walls: bool = True  # log p falls off outside the sampler's box, where nothing was learned (paper: no)
    two_encoders: bool = False  # ablation 'no NF, 2 enc.': the energy gets its own encoder


@dataclass
class SamplerConfig:
    """SGLD and its replay buffer (Sec. 3.1). Lengths are in units of the scaled data."""

    steps: Count = 8  # Langevin steps per iteration
    noise: Positive | None = None  # noise of the first step; None: 3 x the data's resolution, 0.15 x if from_data is 1
    final_noise: Positive | None = (
        None  # noise of the last step; None: 0.75 x the data's resolution, 0.15 x if from_data is 1
    )
    step: Positive | None = None  # step size; None: noise**2 / 2, temperature 1 (paper: 1)
    max_drift: Positive | None = 1.5  # longest drift of a step, relative to the noise's length; None: unbounded (paper)
    buffer_size: Count = 2000  # number of persistent chains; fewer are fresher (paper: 10000)
    restart: Share = 0.05  # share of drawn chains restarted uniformly
    restart_within: Positive | None = None  # chains start between -this and this (paper: 1); None: in the box
    from_data: Share = 0.05  # share of drawn chains restarted from data (paper: 0); 1: contrastive divergence
    box_margin: NotNegative = 0.5  # how far the box reaches beyond the data
    clamp: bool = True  # samples stay in the box; False: they may leave it, and the guard watches them
    burn_in: NotNegative | None = 5.0  # chains this far below the least likely data are no samples; None: all count
    max_gap: Positive | None = 3.0  # the energy slows down when samples lag this far behind; None: never (paper)
    data_noise: NotNegative | None = None  # noise added to the energy's data; None: final_noise, 3 x if from_data is 1


@dataclass
class DamConfig:
    """DAM walks (Alg. 1)."""

    steps: Natural = 10  # T, the number of steps
    every: Count = 4  # iterations of step 2 between batches of walks (paper: 1)
    radius: NotNegative | None = None  # epsilon; None: the data's resolution
    max_drop: NotNegative | None = 3.0  # a walk ends before log p falls this far below its start; None: no limit


StartKind = Literal["walks", "neighbours", "kmeans", "mixture"]


@dataclass
class HeadsConfig:
    """Where clusters come from: cluster heads that start at random, and clusterings found in seconds.

    They compete in step 2 until the best one, chosen without labels, continues alone.
    """

    random: Natural = 16  # cluster heads that start at random; n_init sets this
    starts: tuple[StartKind, ...] = (  # quick clusterings that compete with the heads (paper: none):
        "walks",  # a cut of the graph of DAM's walks,
        "neighbours",  # a cut of the graph of neighbours,
        "kmeans",  # k-means,
        "mixture",  # a Gaussian mixture
    )
    neutral: Natural = 64  # clusters of the neutral head, which trains the encoder while heads compete; 0: the heads do
    choose: Share = 0.4  # share of step 2 after which the best continues alone and also trains the encoder
    anchor: NotNegative = 5.0  # initial weight of agreement with a chosen start, which its head has to learn
    fade: Share = 1.0  # share of the rest of step 2 over which that weight decays to zero


@dataclass
class StartConfig:
    """How to find the clusterings that compete with the heads."""

    nodes: Annotated[Count, at_most(10_000)] = 150  # micro-clusters: nodes of a graph, or what a constraint labels
    walks: Annotated[Count, at_most(1_000)] = 5  # number of walks from every row
    fewest: Natural = 5  # rows a micro-cluster needs to be a node; rows of smaller ones join the nearest
    repeats: Annotated[Count, at_most(10_000)] = 10  # k-means runs; the tightest is kept
    ground: Annotated[Natural, at_most(10_000)] = 30  # with a constraint: searches for the clusters' values; 0: none
    tries: Annotated[Count, at_most(1_000)] = 1  # with a constraint: clusterings made; the better half is averaged
    node_rows: Count = 50  # with a constraint: minimum mean number of rows per micro-cluster


@dataclass
class StageConfig:
    """One step of Alg. 2."""

    iterations: Natural = 800  # maximum number of batches; 0 skips the step
    settle: NotNegative = 0.0  # shorten the step once its curve falls by less than this in 150 iterations; 0: never
    batch_size: Count = 400  # rows per batch, capped at the number of rows
    learning_rate: Positive = 2e-3  # peak learning rate, between warm-up and decay
    betas: Annotated[tuple[float, float], DECAYS] = (0.9, 0.999)  # decay rates of Adam's moments
    warmup: Natural = 100  # iterations of linear warm-up
    decay_from: Share = 0.75  # share of the iterations after which the learning rate falls (1: never)
    final_rate: Share = 0.02  # final learning rate, relative to learning_rate
    average: Share = 0.995  # decay of the averaged weights that the step ends with (0: the last weights)


@dataclass
class GuardConfig:
    """What counts as divergence, and what is done about it. Limits apply to single batches."""

    action: Literal["rollback", "watch"] = "rollback"  # go back and try again, or only report
    tries: Natural = 3  # rollbacks before the run stops
    every: Count = 100  # iterations between states to go back to
    backoff: Positive = 0.5  # factor on the stage's learning rate at every rollback
    max_gap: Positive = 1e3  # largest |mean log p of data - mean log p of samples|
    max_energy: Positive = 3e3  # largest root mean square of log p
    max_gradient: Positive = 1e6  # largest norm of the loss's gradient
    max_at_box: Positive = 0.5  # largest share of the samples' coordinates at or beyond the box


def gedi_objective() -> Objective:
    """The terms of GEDI (Eq. 10), without L_NF: the neutral head shapes the representation in its place."""
    return read_objective(generative={"kind": "energy", "every": 2}, clustering={"kind": "prior"})


@dataclass
class TrainingConfig:
    """All settings of a run."""

    net: NetConfig = field(default_factory=NetConfig)  # networks
    sampler: SamplerConfig = field(default_factory=SamplerConfig)  # samples of p_Psi
    dam: DamConfig = field(default_factory=DamConfig)  # walks along the model's manifold
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # views of a row
    objective: dict[str, Any] = field(default_factory=gedi_objective)  # the terms of Eq. 10, by family
    heads: HeadsConfig = field(default_factory=HeadsConfig)  # where clusters come from
    start: StartConfig = field(default_factory=StartConfig)  # clusterings that compete with the heads
    step1: StageConfig = field(default_factory=lambda: StageConfig(settle=0.01))  # the density alone
    step2: StageConfig = field(  # all of Eq. 10
        default_factory=lambda: StageConfig(iterations=300, settle=0.01, batch_size=256, average=0.98)
    )
    guard: GuardConfig = field(default_factory=GuardConfig)  # how divergence is detected, undone and reported
    scaling: Literal["feature", "global", "pixels", "none"] = (
        "feature"  # one scale per column, one for all, black -1 and white 1, or unscaled (paper)
    )


def check(config: TrainingConfig) -> TrainingConfig:
    """Refuse values out of range and settings that contradict each other; returns the config unchanged."""
    settings.check_ranges(config, "training.")
    heads = config.heads
    if ENCODERS[config.net.encoder].needs_images and {"walks", "mixture"} & set(heads.starts):
        raise ConfigError(
            "training.heads.starts: walks between all images and mixtures of their pixels take too long; leave out "
            f"walks and mixture with training.net.encoder {config.net.encoder}."
        )
    if config.augment.resize < 1 and not ENCODERS[config.net.encoder].needs_images:
        raise ConfigError(
            f"training.augment.resize makes views of another size, which training.net.encoder {config.net.encoder} "
            "cannot read: set it to 1, or choose an encoder for images."
        )
    if config.augment.resize < 1 and uses_walks(config.objective):
        raise ConfigError(
            "training.augment.resize makes views of another size than the walks they are compared with: set it to 1, "
            "or training.objective.clustering.dam to 0."
        )
    if (heads.neutral or heads.starts) and heads.choose > LATEST:
        raise ConfigError(
            f"training.heads.choose must be at most {LATEST} with a neutral head or starts: the winner has to learn."
        )
    alone = heads.random <= 1 and not heads.starts and not heads.neutral
    term = next((term for term in config.objective.values() if term.labels_rows), None)
    if term is not None and not (alone and config.net.head != "linear"):
        raise ConfigError(
            f"training.objective.{term.family}.kind {term.kind} labels the rows itself, and moves prototypes to its "
            "centres: set heads.random 1, heads.starts [], heads.neutral 0 and net.head projector."
        )
    density = density_of(config.objective)
    if config.step1.iterations and density is None:
        raise ConfigError(
            "training.step1 trains a density, but training.objective has no generative term, or gives it weight 0: set "
            "training.step1.iterations to 0."
        )
    if density is not None and density.every == 0:  # it learns in step 1, and must not be forgotten in step 2
        only = "training.objective.generative.every 0 trains the density in step 1 only"
        if not config.step1.iterations:
            raise ConfigError(f"{only}, which has no iterations: set training.step1.iterations, or every to 1 or more.")
        shares = density.reads_encoder and not config.net.two_encoders
        if config.step2.iterations and shares:
            raise ConfigError(
                f"{only}, and the shared encoder would forget it in step 2: set training.net.two_encoders, or every to "
                "1 or more."
            )
    return config


def check_outliers(share: Any, config: TrainingConfig) -> None:
    """Refuse a share of outliers that is out of range, or that needs a density where none is trained."""
    if settings.checked(Outliers, share, "outliers") and density_of(config.objective) is None:
        raise ConfigError("Outliers are found by their density, but this method trains none: set outliers to 0.")


def with_iterations(config: TrainingConfig, iterations: tuple[int, int]) -> TrainingConfig:
    """A copy of ``config`` with these ``iterations`` of step 1 and step 2."""
    config = copy.deepcopy(config)
    config.step1.iterations, config.step2.iterations = iterations
    return config


def get(config: Any, path: str) -> Any:
    """The value at a dotted path; None for a setting of a missing term."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    return config


def paths(config: Any, prefix: str = "") -> list[str]:
    """All dotted paths of a config."""
    found: list[str] = []
    items = config if isinstance(config, dict) else {item.name: getattr(config, item.name) for item in fields(config)}
    for name, value in items.items():
        nested = is_dataclass(value) or isinstance(value, dict)
        found += paths(value, f"{prefix}{name}.") if nested else [prefix + name]
    return found


def to_dict(config: TrainingConfig) -> dict[str, Any]:
    """Plain dicts, lists and numbers, ready for YAML."""
    return json.loads(json.dumps(asdict(config)))


def from_dict(values: Mapping[str, Any]) -> TrainingConfig:
    """The inverse of `to_dict`: the terms are those given, and no others."""
    return override(TrainingConfig(objective={}), values)


def override(
    config: TrainingConfig, *changes: Mapping[str, Any], added: Mapping[str, Mapping[str, Any]] | None = None
) -> TrainingConfig:
    """A copy of ``config`` with changes, nested or by dotted path; names, types and ranges are checked.

    Later changes win. A term that gets another kind is replaced, with the defaults of that kind; None removes a term.
    A change that has every group of settings, as the file of a run has, also says which terms there are.
    ``added`` holds settings, by family, that a term starts with if a change adds it.

    >>> override(TrainingConfig(), {"sampler.steps": 5, "dam": {"steps": 2}}).sampler.steps
    5
    """
    config = copy.deepcopy(config)
    terms: dict[str, Any] = {family: asdict(term) for family, term in config.objective.items()}
    for change in changes:
        if not isinstance(change, Mapping):
            raise ConfigError(f"training must map settings to values, such as {{'dam.steps': 5}}, got {change!r}.")
        given = _nested(change, "training.")
        if given.keys() >= settings.types_of(TrainingConfig).keys():
            terms.clear()
        objective = settings.read(dict, given.pop("objective", {}), "training.objective")
        _set(config, given, "training.")
        for family, values in objective.items():
            values = settings.read(dict | None, values, f"training.objective.{family}")
            before = terms.get(family, (added or {}).get(family, {}))
            if values is None:
                terms.pop(family, None)
            elif "kind" in values and values["kind"] != before.get("kind", values["kind"]):
                terms[family] = values
            else:
                terms[family] = before | values
    config.objective = read_objective(**terms)
    return check(config)


def _nested(changes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Changes as nested dicts, without dots in their names."""
    made: dict[str, Any] = {}
    for path, value in changes.items():
        name, dot, rest = str(path).partition(".")
        value = {rest: value} if dot else value
        if isinstance(value, Mapping):
            before = made.setdefault(name, {})
            if not isinstance(before, dict):
                raise ConfigError(f"{prefix}{name} is given twice: as {before!r}, and with settings of its own.")
            value = before | dict(value)
        made[name] = value
    return {n: _nested(v, f"{prefix}{n}.") if isinstance(v, Mapping) else v for n, v in made.items()}


def _set(group: Any, values: Mapping[str, Any], prefix: str) -> None:
    """Set fields of a group of settings, and of the groups in it."""
    types = settings.types_of(type(group))
    for name, value in values.items():
        if name not in types:
            path = next(iter(paths({name: value})), name)
            raise settings.unknown("setting", path, paths(group), prefix)
        if is_dataclass(inner := getattr(group, name)):
            _set(inner, settings.read(dict, value, prefix + name), f"{prefix}{name}.")
        else:
            setattr(group, name, settings.read(types[name], value, prefix + name))


def read_objective(**terms: Any) -> Objective:
    """Terms by family, from their settings, one of which is the kind."""
    known, objective = kinds(), {}
    for family, values in terms.items():
        where = f"training.objective.{family}"
        if family not in known:
            raise settings.unknown("family of terms", repr(family), map(repr, known))
        if not isinstance(values.get("kind"), str):
            raise ConfigError(f"{where} needs a kind, one of: {', '.join(known[family])}.")
        if values["kind"] not in known[family]:
            raise settings.unknown(f"{where}.kind", repr(values["kind"]), map(repr, known[family]))
        objective[family] = settings.make(known[family][values["kind"]], values, f"{where}.")
        try:
            objective[family].check()
        except ConfigError as error:
            raise ConfigError(f"{where}.{error}.") from error
    return objective
