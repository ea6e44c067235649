"""An objective is a set of weighted terms, each of a family and a kind, with settings of its own.

    objective: {generative: {kind: energy, weight: 1}, clustering: {kind: sinkhorn, weight: 1, tau: 0.1}}

To add a kind: write a `Term` (see `terms/`) and name it in `KINDS`, or in the entry point ``gedi.terms`` of a package
of your own. A family that is none of ours is as good: its name is up to you.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, ClassVar

from jsonargparse import ArgumentError, ArgumentParser

from gedi.errors import ConfigError

if TYPE_CHECKING:
    import torch

    from gedi.training.views import Views

ENTRY_POINTS = "gedi.terms"  # names are FAMILY.KIND
DEFAULT_TAU = 0.1  # temperature of p(y|x) where no cluster term says another


@dataclass
class Term(ABC):
    """One term of the objective; subclasses add settings, and say what the loss is."""

    kind: str = ""  # its name within the family
    weight: float = 1.0  # of its loss; 0 leaves the term out
    equation: ClassVar[str] = ""  # where it comes from
    has_clusters: ClassVar[bool] = False  # it needs clusters to start from: it has to wait for step 2
    trains_prototypes: ClassVar[bool] = False  # clusters are read from its prototypes, and need no k-means

    @abstractmethod
    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        """The losses of a batch by name, unweighted."""

    def weights(self) -> dict[str, float]:
        """The weight of every loss, by name."""
        return {name: self.weight for name in self.names()}

    def names(self) -> tuple[str, ...]:
        """The losses this term may give."""
        return (self.kind,)

    def is_due(self, iteration: int) -> bool:
        """Whether it takes part in this iteration of a stage in which several terms train."""
        return True

    def holds_prototypes(self, iteration: int) -> bool:
        """Whether the prototypes have to stay where they are in this iteration of step 2."""
        return False

    def check(self) -> None:
        """Raise a ConfigError for settings that cannot work."""
        if not self.weight >= 0:
            raise ConfigError(f"weight must not be negative, got {self.weight}")


def positive(**values: float) -> None:
    """Refuse values that are not above zero, NaN included."""
    for name, value in values.items():
        if not value > 0:
            raise ConfigError(f"{name} must be positive, got {value}")


Objective = dict[str, Term]


def kinds() -> dict[str, dict[str, type[Term]]]:
    """All terms by family and kind, those of other packages included."""
    from gedi.training.terms import KINDS

    known = {family: dict(members) for family, members in KINDS.items()}
    for entry in entry_points(group=ENTRY_POINTS):
        family, _, kind = entry.name.partition(".")
        try:
            term = entry.load()
        except Exception as error:  # whatever a stranger's module raises, the name of the entry point helps
            raise ConfigError(f"The term {entry.name} of another package cannot be loaded: {error}") from error
        known.setdefault(family, {})[kind] = term
    return known


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


def active(objective: Objective) -> Objective:
    """The terms that count."""
    return {family: term for family, term in objective.items() if any(term.weights().values())}


def temperature(objective: Objective) -> float:
    """Of p(y|x): the cluster term's own, if there is one, else the constraint's."""
    terms = (objective.get("clustering"), objective.get("symbolic"))
    return next((tau for term in terms if (tau := getattr(term, "tau", None)) is not None), DEFAULT_TAU)


def _nearest(name: str, known: Any) -> str:
    return difflib.get_close_matches(name, list(known), n=1, cutoff=0.0)[0]
