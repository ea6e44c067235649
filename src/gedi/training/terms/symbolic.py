"""Symbolic terms: what must hold between the classes of rows that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch

from gedi.errors import ConfigError, LogicError
from gedi.logic import Constraint
from gedi.logic.files import read_constraint
from gedi.logic.writing import check_text, constraint_text
from gedi.objectives import cluster_log_probs, symbolic_loss
from gedi.training.objective import DEFAULT_TAU, Term, positive, temperature

if TYPE_CHECKING:
    from gedi.training.views import Views


@dataclass
class Symbolic(Term):
    """-log P(constraint) of the predictions p(y|x) of every group of rows, the semantic loss."""

    kind: str = "constraint"
    rule: str = ""  # the constraint as text (docs/logic.md); its variables are the rows of a group, in this order
    views: Literal["x", "both"] = "x"  # of the rows as they are, or of their augmented views x' too
    tau: float = DEFAULT_TAU  # temperature of p(y|x) where there is no cluster term, whose own it is else
    equation: ClassVar[str] = "Sec. 5.3"
    has_clusters: ClassVar[bool] = True
    trains_prototypes: ClassVar[bool] = True

    @property
    def constraint(self) -> Constraint:
        """The rule, compiled once a process."""
        return compiled(self.rule)

    def names(self) -> tuple[str, ...]:
        return ("symbolic",)

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        """Groups stand one after the other in a batch, and so they do in its augmented views."""
        names = self.constraint.inputs
        scores = views.scores_by_view[0] if self.views == "x" else torch.cat(views.scores_by_view[:2])
        log_p = cluster_log_probs(scores, temperature(views.run.config.objective))
        by_variable = log_p.view(-1, len(names), log_p.shape[1]).unbind(1)
        log_prob = self.constraint.log_prob(dict(zip(names, by_variable, strict=True)), check=False)
        return {"symbolic": symbolic_loss(log_prob)}

    def check(self) -> None:
        super().check()
        positive(tau=self.tau)
        if not self.rule.strip():
            raise ConfigError("rule is empty: give a constraint, as text or with --constraint FILE")
        try:
            check_text(self.rule)
            read_constraint(self.rule)  # not compiled here: a finished model is read without it
        except LogicError as error:
            raise ConfigError(f"rule: {str(error).rstrip('.')}") from error


def constraint_change(source: Constraint | str | Path) -> dict[str, Any]:
    """The change of settings that adds a constraint: made already, a file's path, or its text."""
    return {"objective.symbolic": {"kind": "constraint", "rule": constraint_text(source)}}


@lru_cache(maxsize=8)
def compiled(rule: str) -> Constraint:
    """The constraint of a text."""
    formula, variables = read_constraint(rule)
    return Constraint(formula, variables=variables)
