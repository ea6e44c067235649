"""An objective is a set of weighted terms, each with a family, a kind and settings of its own.

    objective: {generative: {kind: energy, weight: 1}, clustering: {kind: sinkhorn, weight: 1, tau: 0.1}}

To add a kind, write a dataclass in a file of this folder, derived from a family's base class or from `Term` with
``family="NAME"``, and give it a ``kind``; it registers itself. Another package lists its classes under the entry point
``gedi.terms``, as FAMILY.KIND, so that they are imported; the family may be a new one.
"""

from __future__ import annotations

import pkgutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gedi.errors import ConfigError
from gedi.settings import NotNegative

if TYPE_CHECKING:
    import torch

    from gedi.logic import Constraint
    from gedi.objectives.views import Views

ENTRY_POINTS = "gedi.terms"  # names are FAMILY.KIND
DEFAULT_TAU = 0.1  # temperature of p(y|x) if no cluster term sets one
TAU_OF = ("clustering", "symbolic", "contrastive")  # whose temperature counts if several families train cluster heads


class Loss(NamedTuple):
    """A loss on a batch, its weight in this iteration, and its score of each cluster head, [heads]: lower is better."""

    value: torch.Tensor
    weight: float
    judges: torch.Tensor | None = None


@dataclass
class Term(ABC):
    """One term of the objective: its settings, and its losses on a batch."""

    kind: str = ""  # its name within the family
    weight: NotNegative = 1.0  # weight of its loss; 0 removes the term
    family: ClassVar[str] = ""
    equation: ClassVar[str] = ""  # where it comes from: an equation of the paper, or another paper
    has_clusters: ClassVar[bool] = False  # it trains cluster heads; without such a term clusters come from k-means
    labels_rows: ClassVar[bool] = False  # it labels all rows by k-means, whose centres become prototypes

    def __init_subclass__(cls, family: str | None = None, **options: Any) -> None:
        """Register a class with a kind of its own in its family."""
        super().__init_subclass__(**options)
        cls.family = family or cls.family
        if not (kind := cls.__dict__.get("kind")):
            return
        if not cls.family:
            raise ConfigError(
                f"The term {_name(cls)} has a kind but no family: derive it from the family's base class, or write "
                f"class {cls.__name__}(Term, family=...)."
            )
        members = _KINDS.setdefault(cls.family, {})
        if kind in members and _name(members[kind]) != _name(cls):  # a class that is defined again replaces itself
            raise ConfigError(
                f"{_name(members[kind])} and {_name(cls)} are both the term {cls.family}.{kind}: rename one kind."
            )
        members[kind] = cls

    @abstractmethod
    def losses(self, views: Views) -> dict[str, Loss]:
        """The losses of a batch, by name; without side effects."""

    @property
    def is_active(self) -> bool:
        """Whether the term is used at all."""
        return bool(self.weight)

    @property
    def walks(self) -> bool:
        """Whether it compares rows with the ends of their walks (DAM)."""
        return False

    @property
    def constraint(self) -> Constraint | None:
        """The constraint on the rows of each group; None if there are no groups."""
        return None

    def is_due(self, iteration: int) -> bool:
        """Whether the term is used in this iteration of step 2."""
        return True

    def relabels(self, iteration: int) -> bool:
        """Whether every row gets a new label (k-means of the embeddings) before this iteration of step 2."""
        return False

    def check(self) -> None:  # noqa: B027  most terms have nothing to add
        """Raise a ConfigError if settings contradict each other; the fields' types define their ranges."""


Objective = dict[str, Term]
_KINDS: dict[str, dict[str, type[Term]]] = {}


@cache
def installed_terms() -> EntryPoints:
    """Terms of other packages; cached, because scanning all installed packages takes milliseconds."""
    return entry_points(group=ENTRY_POINTS)


def kinds() -> dict[str, dict[str, type[Term]]]:
    """All terms by family and kind, including those of other packages; each is checked to be complete."""
    import gedi.objectives

    for module in pkgutil.iter_modules(gedi.objectives.__path__):
        import_module(f"gedi.objectives.{module.name}")
    for entry in installed_terms():
        family, _, kind = entry.name.partition(".")
        try:
            term = entry.load()
        except Exception as error:  # whatever it is, say which entry point raised it
            raise ConfigError(f"The term {entry.name} of another package cannot be loaded: {error}") from error
        if _KINDS.get(family, {}).get(kind) is not term:
            raise ConfigError(f"The entry point {entry.name} must have the name FAMILY.KIND of the term it loads.")
    for members in _KINDS.values():
        for term in members.values():
            _check_complete(term)
    return {family: dict(members) for family, members in _KINDS.items()}


def _check_complete(term: type[Term]) -> None:
    """Refuse a class that lacks @dataclass or a method. Neither is known yet when it registers itself."""
    if "__dataclass_fields__" not in vars(term):
        raise ConfigError(f"The term {_name(term)} lacks @dataclass, so its settings would be ignored.")
    if missing := sorted(term.__abstractmethods__):
        raise ConfigError(f"The term {_name(term)} lacks the method {missing[0]}.")


def _name(term: type[Term]) -> str:
    return f"{term.__module__}.{term.__qualname__}"


def active(objective: Objective) -> Objective:
    """The terms that are used."""
    return {family: term for family, term in objective.items() if term.is_active}


def trains_clusters(objective: Objective) -> bool:
    """Whether a term that is used trains cluster heads."""
    return any(term.has_clusters for term in active(objective).values())


def uses_walks(objective: Objective) -> bool:
    """Whether a term that is used compares rows with the ends of their walks (DAM)."""
    return any(term.walks for term in active(objective).values())


def constraint_of(objective: Objective) -> Constraint | None:
    """The constraint of the active terms, if there is one."""
    found = [constraint for term in active(objective).values() if (constraint := term.constraint) is not None]
    if len(found) > 1:
        raise ConfigError("There are several constraints: put all lines into one constraint.")
    return found[0] if found else None


def temperature(objective: Objective) -> float:
    """The temperature of p(y|x): that of the active term that trains cluster heads, or of the first of `TAU_OF`."""
    taus = {family: getattr(term, "tau", None) for family, term in active(objective).items() if term.has_clusters}
    return next((tau for family in (*TAU_OF, *taus) if (tau := taus.get(family)) is not None), DEFAULT_TAU)
