"""Every setting of a training run, typed, with its meaning beside it. ``None`` means: chosen from the data."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, Literal

from jsonargparse import ArgumentError, ArgumentParser

from gedi.data.augment import AugmentConfig
from gedi.errors import ConfigError
from gedi.objectives.clustering import Sinkhorn
from gedi.objectives.generative import Energy
from gedi.objectives.negative_free import Gaussian
from gedi.objectives.term import Objective, Term, kinds


@dataclass
class NetConfig:
    """Sizes of the networks (Appendix G)."""

    encoder: Literal["mlp", "resnet8"] = "mlp"  # for rows, or for images of at least 8 x 8 pixels
    hidden: tuple[int, ...] = (100, 100)  # hidden layers of the mlp encoder
    representation: int = 8  # outputs of the encoder, the F of resnet8 (the paper: 2; wider has fewer local minima)
    embedding: int = 8  # size of the unit sphere the clusters live on
    projector_hidden: int = 16  # hidden neurons of both projectors
    activation: Literal["silu", "leaky_relu"] = "silu"  # smooth: DAM needs smooth tangents (paper: leaky_relu)
    first: Literal["waves", "linear"] = "waves"  # first layer: sines of random frequencies, or as the others (paper)
    frequency: float | None = None  # typical frequency of the waves; None: 0.3 / the data's neighbour distance
    head: Literal["projector", "nf_projector", "classifier"] = (
        "projector"  # what embeddings and clusters are read from; classifier: one linear layer on the representation
    )
    walls: bool = True  # log p falls off outside the sampler's box, where nothing was learned (paper: no)
    two_encoders: bool = False  # ablation 'no NF, 2 enc.': the energy gets an encoder of its own


@dataclass
class SamplerConfig:
    """SGLD and its replay buffer (Sec. 3.1). Lengths are in units of the scaled data."""

    steps: int = 8  # Langevin steps an iteration
    noise: float | None = None  # noise of the first step; None: 3 x the data's resolution
    final_noise: float | None = None  # noise of the last step; None: 0.75 x the data's resolution
    step: float | None = None  # step size; None: noise**2 / 2, temperature 1 (the paper: 1)
    max_drift: float | None = 1.5  # longest deterministic move, in lengths of the noise; None: unbounded (paper)
    buffer_size: int = 2000  # persistent chains; fewer are fresher (the paper: 10000)
    restart: float = 0.05  # share of drawn chains restarted uniformly in the box
    from_data: float = 0.05  # share of drawn chains restarted from data (the paper: 0)
    box_margin: float = 0.5  # how far the box reaches beyond the data
    clamp: bool = True  # samples stay in the box; False: they may go anywhere, and the guard watches them
    burn_in: float | None = 5.0  # chains this far below the least likely data are still on their way: not counted
    max_gap: float | None = (
        3.0  # while samples lag this far behind data, the energy waits for them; None: never (paper)
    )
    data_noise: float | None = None  # noise on data shown to the energy; None: final_noise, what the sampler resolves


@dataclass
class DamConfig:
    """DAM walks (Alg. 1)."""

    steps: int = 10  # T
    every: int = 1  # iterations of step 2 from one batch of walks to the next
    radius: float | None = None  # epsilon; None: the data's resolution
    max_drop: float | None = 3.0  # a step may not leave log p this much below the walk's start; None: no limit


@dataclass
class StartConfig:
    """Where the clusters start in step 2: what k-means++ is to k-means. No labels are involved."""

    kind: Literal["walks", "kmeans", "neighbours", "none"] = (
        "walks"  # cut the graph of DAM walks; k-means of L_NF's space; cut the neighbours' graph; random (paper)
    )
    nodes: int = 150  # walks: micro-clusters that are the graph's nodes; with a constraint, those it is grounded on
    walks: int = 5  # walks: how many from every row
    fewest: int = 5  # walks: a micro-cluster of fewer rows is no node; its rows go with the nearest one
    repeats: int = 40  # kmeans: runs, of which the tightest is kept
    heads: bool = False  # kmeans: projector and prototypes start as L_NF's projector and the centres, not at random
    ground: int = 30  # with a constraint: tries at which cluster is which of its values, the likeliest is kept; 0: none
    tries: int = 1  # with a constraint: micro-clusterings that are named, of which the better half is asked
    node_rows: int = 50  # with a constraint: rows a micro-cluster has at least, on average
    fade: float = 0.5  # share of step 2 after which the start has no more say


@dataclass
class StageConfig:
    """One step of Alg. 2."""

    iterations: int = 1500  # batches seen; 0 leaves the step out
    batch_size: int = 400  # never more than there are rows
    learning_rate: float = 2e-3  # at its top, between warm-up and decay
    betas: tuple[float, float] = (0.9, 0.999)  # Adam
    warmup: int = 100  # iterations of linear warm-up
    decay_from: float = 0.5  # share of the iterations after which the learning rate falls (1: never)
    final_rate: float = 0.02  # what it falls to, relative to learning_rate
    average: float = 0.995  # decay of the averaged weights that the stage hands on (0: the last weights)


@dataclass
class GuardConfig:
    """What counts as divergence, and what is done about it. Values are those of a batch."""

    action: Literal["rollback", "watch"] = "rollback"  # go back and try again, or only say what is seen
    tries: int = 3  # rollbacks before the run stops
    every: int = 100  # iterations between two states to go back to
    backoff: float = 0.5  # what a rollback multiplies the stage's learning rate with
    max_gap: float = 1e3  # largest |mean log p of data - mean log p of samples|
    max_energy: float = 3e3  # largest root mean square of log p
    max_gradient: float = 1e6  # largest norm of the loss's gradient
    max_at_box: float = 0.5  # largest share of the samples' coordinates at or beyond the box


def gedi_objective() -> Objective:
    """The terms of GEDI (Eq. 10)."""
    return {"generative": Energy(), "negative_free": Gaussian(), "clustering": Sinkhorn()}


@dataclass
class TrainingConfig:
    """All of a run's settings."""

    net: NetConfig = field(default_factory=NetConfig)  # networks
    sampler: SamplerConfig = field(default_factory=SamplerConfig)  # samples of p_Psi
    dam: DamConfig = field(default_factory=DamConfig)  # walks along the model's manifold
    augment: AugmentConfig = field(default_factory=AugmentConfig)  # views of a row
    objective: dict[str, Any] = field(default_factory=lambda: gedi_objective())  # the terms of Eq. 10, by family
    start: StartConfig = field(default_factory=StartConfig)  # first labels of step 2
    step1: StageConfig = field(default_factory=StageConfig)  # the density alone
    embedding: StageConfig = field(
        default_factory=lambda: StageConfig(iterations=0)
    )  # step 2 before its clusters: L_NF, CE
    step2: StageConfig = field(default_factory=lambda: StageConfig(iterations=800, average=0.98))  # all of Eq. 10
    guard: GuardConfig = field(default_factory=GuardConfig)  # divergence: noticed, undone, reported
    keep_best: bool = True  # step 2 hands on the state with the lowest smoothed objective (paper: the last one)
    n_init: int = 1  # runs of start and step 2 on the same energy; the lowest objective is kept
    scaling: Literal["feature", "global", "pixels", "none"] = (
        "feature"  # one unit a column, one for all, black -1 and white 1, or as is (paper)
    )


def check(config: TrainingConfig) -> TrainingConfig:
    """Refuse values that cannot work, naming the setting; returns the config unchanged."""
    stages = ("step1", "embedding", "step2")
    positive = ["sampler.steps", "sampler.buffer_size", "n_init", "sampler.noise", "sampler.final_noise"]
    positive += ["dam.every", "start.tries"]
    positive += ["net.representation", "net.embedding", "net.projector_hidden", "net.frequency"]
    positive += ["start.nodes", "start.walks", "start.repeats", "start.node_rows", "guard.every", "guard.backoff"]
    positive += ["guard.max_gap", "guard.max_energy", "guard.max_gradient", "guard.max_at_box"]
    positive += [f"{stage}.{name}" for stage in stages for name in ("batch_size", "learning_rate")]
    not_negative = ["dam.steps", "dam.radius", "sampler.data_noise", "sampler.box_margin"]
    not_negative += ["augment.noise", "augment.neighbours", "start.fewest", "start.ground", "guard.tries"]
    not_negative += [f"{stage}.{name}" for stage in stages for name in ("iterations", "warmup")]
    not_negative += ["augment.crop"]
    shares = ["augment.jitter", "augment.gray", "augment.brightness", "augment.contrast", "augment.saturation"]
    shares += ["sampler.restart", "sampler.from_data", "start.fade", *(f"{stage}.average" for stage in stages)]
    # Written so that NaN fails every comparison; None is a length still to be set from the data.
    for path in positive:
        if (value := get(config, path)) is not None and not value > 0:
            raise ConfigError(f"training.{path} must be positive, got {value}.")
    for path in not_negative:
        if (value := get(config, path)) is not None and not value >= 0:
            raise ConfigError(f"training.{path} must not be negative, got {value}.")
    most_of = {"start.nodes": 10_000, "start.walks": 1_000, "start.repeats": 10_000}
    most_of |= {"start.ground": 10_000, "start.tries": 1_000}
    for path, most in most_of.items():
        if get(config, path) > most:
            raise ConfigError(f"training.{path} must not be above {most:,}, got {get(config, path):,}.")
    for path in shares:
        if not 0 <= get(config, path) <= 1:
            raise ConfigError(f"training.{path} must lie between 0 and 1, got {get(config, path)}.")
    for path in (f"{stage}.betas" for stage in stages):
        if not all(0 <= beta < 1 for beta in get(config, path)):
            raise ConfigError(f"training.{path} must lie in [0, 1), got {get(config, path)}.")
    if not 0 <= config.augment.hue <= 0.5:
        raise ConfigError(f"training.augment.hue must lie between 0 and 0.5, got {config.augment.hue}.")
    if config.net.encoder == "resnet8" and config.start.kind == "walks" and config.step2.iterations:
        raise ConfigError(
            "training.start.kind walks cuts a graph of walks between all rows, which images are too long for: "
            "use kmeans or none with training.net.encoder resnet8."
        )
    if not config.net.hidden or min(config.net.hidden) < 1:
        raise ConfigError(f"training.net.hidden must name at least one layer of neurons, got {config.net.hidden}.")
    if config.step2.iterations and not any(term.has_clusters for term in config.objective.values()):
        raise ConfigError(
            "training.step2 trains clusters, but training.objective has no term for them: add clustering."
        )
    if config.step1.iterations and "generative" not in config.objective:
        raise ConfigError("training.step1 trains a density, but training.objective has no generative term.")
    if get(config, "objective.generative.every") == 0:
        _check_density_of_step1(config)
    return config


def _check_density_of_step1(config: TrainingConfig) -> None:
    """A density that learns in step 1 only has to learn there, and must not be forgotten after it."""
    name = "training.objective.generative.every 0 trains the density in step 1 only"
    if not config.step1.iterations:
        raise ConfigError(f"{name}, which has no iterations: set training.step1.iterations, or every to 1 or more.")
    later = config.embedding.iterations + config.step2.iterations
    if later and isinstance(config.objective["generative"], Energy) and not config.net.two_encoders:
        raise ConfigError(
            f"{name}, and the encoder it shares would forget it after: set training.net.two_encoders, or every to 1 "
            "or more."
        )


def longest_queue(config: TrainingConfig) -> int:
    """Past embeddings that any term of the objective keeps."""
    return max((term.memory for term in config.objective.values()), default=0)


def get(config: Any, path: str) -> Any:
    """The value at a dotted path; None for a setting of a term that is not there."""
    for name in path.split("."):
        config = config.get(name) if isinstance(config, dict) else getattr(config, name, None)
    return config


def paths(config: Any, prefix: str = "") -> list[str]:
    """All dotted paths of a config, for messages that name the nearest real key."""
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


def override(config: TrainingConfig, changes: Mapping[str, Any]) -> TrainingConfig:
    """A copy of ``config`` with other values, given nested or by dotted path; names and types are checked.

    A term of the objective that is given a kind is a new one, with that kind's own defaults; one that is given as
    None is left out.

    >>> override(TrainingConfig(), {"sampler.steps": 5, "dam": {"steps": 2}}).sampler.steps
    5
    """
    values = to_dict(config)
    objective = values.pop("objective")
    known = [path for path in paths(config) if not path.startswith("objective.")]
    given: dict[str, Any] = {}
    for path, value in _flatten(changes):
        *groups, name = path.split(".")
        if groups[:1] == ["objective"] or path == "objective":
            _give(given, path.split(".")[1:], value)
            continue
        if path not in known:
            near = difflib.get_close_matches(path, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"There is no setting training.{path}; the nearest is training.{near}.")
        place = values
        for group in groups:
            place = place[group]
        place[name] = value
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--training", type=TrainingConfig)
    try:
        parsed = parser.instantiate(parser.parse_object({"training": values | {"objective": {}}}))["training"]
    except ArgumentError as error:
        raise ConfigError(_first_sentence(str(error))) from error
    for family, settings in given.items():
        if settings is None:
            objective.pop(family, None)
        elif "kind" in settings and settings["kind"] != objective.get(family, {}).get("kind"):
            objective[family] = settings
        else:
            objective[family] = objective.get(family, {}) | settings
    parsed.objective = {family: read_term(family, settings) for family, settings in objective.items()}
    return check(parsed)


def _give(given: dict[str, Any], path: list[str], value: Any) -> None:
    """Put a change of the objective under its family."""
    if len(path) == 1 and value is None:
        given[path[0]] = None
    elif len(path) == 2:
        family = given.setdefault(path[0], {})
        if family is None:
            raise ConfigError(f"training.objective.{path[0]} is both left out and changed.")
        family[path[1]] = value
    else:
        where = ".".join(["training.objective", *path])
        raise ConfigError(f"{where} is not a setting of a term, which are training.objective.FAMILY.NAME.")


def _flatten(changes: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    flat: list[tuple[str, Any]] = []
    for key, value in changes.items():
        path = f"{prefix}{key}"
        flat += _flatten(value, f"{path}.") if isinstance(value, Mapping) else [(path, value)]
    return flat


def _first_sentence(message: str) -> str:
    """jsonargparse explains over many indented lines: keep the parts that name the key and the value."""
    lines = [line.strip(" -") for line in message.splitlines() if line.strip(" -")]
    return " ".join(lines[:3])[:400]


def read_term(family: str, settings: Any) -> Term:
    """A term from plain settings; kind, names, types and values are checked."""
    where, known = f"training.objective.{family}", kinds()
    if family not in known:
        raise ConfigError(f"There is no family of terms {family!r}; the nearest is {_nearest(family, known)!r}.")
    if not isinstance(settings, Mapping) or not isinstance(settings.get("kind"), str):
        names = ", ".join(known[family])
        raise ConfigError(f"{where} needs a kind, one of: {names}.")
    kind = settings["kind"]
    if kind not in known[family]:
        near = _nearest(kind, known[family])
        raise ConfigError(f"There is no {where}.kind {kind!r}; the nearest is {near!r}.")
    term_type = known[family][kind]
    names = [field.name for field in fields(term_type)]
    for name in settings:
        if name not in names:
            raise ConfigError(f"There is no setting {where}.{name}; the nearest is {where}.{_nearest(name, names)}.")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--term", type=term_type)
    try:
        term = parser.instantiate(parser.parse_object({"term": dict(settings)}))["term"]
        term.check()
    except ArgumentError as error:
        lines = [line.strip(" -") for line in str(error).splitlines() if line.strip(" -")]
        raise ConfigError(f"{where}: {' '.join(lines[:3])[:400]}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}.") from error
    return term


def _nearest(name: str, known: Any) -> str:
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]
