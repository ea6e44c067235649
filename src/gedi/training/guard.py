"""Detects divergence, reports it, and keeps a state to go back to.

Nothing is masked: no step is taken on a batch that exceeds a limit. The run goes back to the last calm state,
draws new noise and takes smaller steps; after some tries it stops and says what it saw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from gedi.errors import GediError
from gedi.settings import Natural, Positive, Rule, at_most
from gedi.training.config import GuardConfig, SamplerConfig
from gedi.training.state import LINES, Counters, Tensors, group

Packed = tuple[Tensors, dict[str, Any]]  # a packed TrainState: tensors and counters
COLDEST = 0.01  # warn about samplers colder than this
CALM = 0.1  # a state is worth going back to if every number is below this share of its limit
# How two warnings begin: the report recognises them and words them differently.
UNLEARNED, STRAYING = "the cluster loss is", "DAM's walks end"


class DivergedError(GediError):
    """Training exceeded its limits repeatedly; ``events`` records what was seen and done."""

    def __init__(self, message: str, events: list[dict[str, Any]] | None = None) -> None:
        super().__init__(message)
        self.events = events or []


class GuardWarning(UserWarning):
    """Training continues, but something looks wrong; the text names the remedy."""


class Symptom(NamedTuple):
    """What was seen, and which setting to change."""

    seen: str
    remedy: str
    is_finite: bool = True


COOLER = "lower the stage's learning_rate, or keep the sampler at temperature 1 (sampler.step unset)"

WALLS = "if it happens from the first iteration, raise sampler.box_margin or lower sampler.data_noise"


def divergence(values: Mapping[str, float], limits: GuardConfig) -> Symptom | None:
    """The first sign that a batch's numbers have left their limits; None if there is none."""
    for name, value in values.items():
        if not math.isfinite(value):
            return Symptom(f"{name} is {value}", COOLER, is_finite=False)
    for name, (label, value, limit, remedy) in _measures(values, limits).items():
        if value > limit:
            return Symptom(f"{label} is {value:.3g}, above guard.{name} = {limit:g}", remedy)
    return None


def is_calm(values: Mapping[str, float], limits: GuardConfig) -> bool:
    """Whether all numbers are far from their limits."""
    finite = all(math.isfinite(value) for value in values.values())
    measures = _measures(values, limits)
    del measures["max_at_box"]  # with few rows or many columns, noise alone moves some samples to the edge
    return finite and all(value <= CALM * limit for _, value, limit, _ in measures.values())


def _measures(values: Mapping[str, float], limits: GuardConfig) -> dict[str, tuple[str, float, float, str]]:
    """For each limit: what it bounds, the current value, the limit, and the remedy."""
    gap, energy = abs(values.get("generative", 0.0)), math.sqrt(values.get("energy_size", 0.0))
    smaller = "lower the stage's learning_rate or the largest of the weights"
    return {
        "max_gap": ("the energy gap between data and samples", gap, limits.max_gap, f"{COOLER}; {WALLS}"),
        "max_energy": ("|log p|", energy, limits.max_energy, f"{COOLER}, or raise objective.generative.size"),
        "max_gradient": ("the gradient's norm", values.get("gradient_norm", 0.0), limits.max_gradient, smaller),
        "max_at_box": (
            "the share of the samples' coordinates at the box",
            values.get("at_box", 0.0),
            limits.max_at_box,
            f"{COOLER}; the samples have left the data",
        ),
    }


def cold_sampler(sampler: SamplerConfig) -> Symptom | None:
    """The symptom of a sampler that climbs rather than samples, from its settings, before the first iteration.

    If its drift is bounded, it climbs no faster than noise spreads, however steep the energy becomes.
    """
    if sampler.step is None or sampler.noise is None or sampler.max_drift is not None:
        return None
    temperature = sampler.noise**2 / (2 * sampler.step)
    if temperature >= COLDEST:
        return None
    return Symptom(
        f"the sampler's temperature, noise**2 / (2 step), is {temperature:.2g}, but sampling the density needs 1: it "
        "climbs rather than samples, and the energy may grow without bound",
        "leave sampler.step unset, or bound the drift with sampler.max_drift",
    )


def worries(values: Mapping[str, float], *, n_clusters: int, max_drop: float | None) -> list[Symptom]:
    """What looks wrong at the end of step 2, although training can continue."""
    found = []
    stuck = [name for name in ("clustering_augment", "clustering_dam") if name in values]
    if n_clusters > 1 and stuck and min(values[name] for name in stuck) > 0.95 * math.log(n_clusters):
        seen = (
            f"{UNLEARNED} {values[stuck[0]]:.3g}, about that of guessing (ln {n_clusters} = "
            f"{math.log(n_clusters):.3g}): no clusters were learned"
        )
        found.append(Symptom(seen, "raise step2.iterations or step2.learning_rate, or lower objective.clustering.tau"))
    drop = values.get("walk_log_density_change", 0.0)
    if drop < -(5.0 if max_drop is None else max_drop / 2):
        found.append(
            Symptom(
                f"{STRAYING} where log p is {-drop:.3g} lower: they leave the density",
                "lower dam.radius or dam.steps, set dam.max_drop, or train step 1 for longer",
            )
        )
    if empty := int(values.get("empty_clusters", 0)):
        found.append(
            Symptom(
                f"{empty} of {n_clusters} clusters {'has' if empty == 1 else 'have'} no rows",
                "use fewer clusters, or raise heads.random",
            )
        )
    return found


EVENTS = Rule("be a list of events", lambda events: all({"stage", "remedy"} <= {*event} for event in events))


@dataclass(kw_only=True)
class GuardCounters:
    """The plain part of a `Guard`, in a checkpoint."""

    events: Annotated[list, LINES, EVENTS]
    tries: Natural
    total: Natural
    rate: Annotated[Positive, at_most(1)]
    good: Counters | None


class Guard:
    """The guard of one run: its state is part of every checkpoint."""

    def __init__(self, config: GuardConfig) -> None:
        self.config = config
        self.events: list[dict[str, Any]] = []  # what was seen and done, for the log and results.json
        self.tries = 0  # rollbacks of this stage
        self.total = 0  # rollbacks of the run: seeds the noise of the next try
        self.rate = 1.0  # factor on this stage's learning rate
        self.good: Packed | None = None  # the last calm state of this stage

    @property
    def acts(self) -> bool:
        return self.config.action == "rollback"

    def begin_stage(self, packed: Packed) -> None:
        """Reset the back-off; the run can always go back to the beginning of the stage."""
        self.tries, self.rate, self.good = 0, 1.0, packed

    def note(self, where: Mapping[str, Any], symptom: Symptom, action: str) -> None:
        """Record what was seen and done."""
        self.events.append({**where, "seen": symptom.seen, "action": action, "remedy": symptom.remedy})

    def has_noted(self, stage: str, symptom: Symptom) -> bool:
        """Whether this remedy was already named in this stage."""
        return any(event["stage"] == stage and event["remedy"] == symptom.remedy for event in self.events)

    def back_off(self, where: Mapping[str, Any], symptom: Symptom) -> Packed:
        """The state to go back to, for a try with smaller steps; raises `DivergedError` once the tries are used up."""
        limits = self.config
        if not self.acts or self.tries >= limits.tries or self.good is None:
            tried = f" after {self.tries} rollbacks" if self.tries else ""
            self.note(where, symptom, "stopped")
            raise DivergedError(
                f"Training diverged in {where['stage']} at iteration {where['iteration']}{tried}: {symptom.seen}. "
                f"Remedy: {symptom.remedy}.",
                self.events,
            )
        self.tries, self.total, self.rate = self.tries + 1, self.total + 1, self.rate * limits.backoff
        back = f"rolled back to iteration {self.good[1]['iteration']}, new noise, learning rate x {self.rate:g}"
        self.note(where, symptom, f"{back} (try {self.tries} of {limits.tries})")
        return self.good

    # -- as part of a checkpoint --------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        tensors, good = self.good if self.good is not None else ({}, None)
        counters = {"events": self.events, "tries": self.tries, "total": self.total, "rate": self.rate, "good": good}
        return {f"good/{name}": value for name, value in tensors.items()}, {"guard": counters}

    def unpack(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        kept = counters["guard"]
        self.events, self.tries, self.total, self.rate = kept["events"], kept["tries"], kept["total"], kept["rate"]
        self.good = (group(tensors, "good"), kept["good"]) if kept["good"] is not None else None
