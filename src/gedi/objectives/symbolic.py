"""The symbolic term: -log P(constraint), the semantic loss, and the groups of rows that a constraint applies to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch

from gedi.errors import ConfigError, DataError, LogicError
from gedi.logic import Constraint
from gedi.logic.constraint import constraint_text
from gedi.logic.text import check_text, read_constraint
from gedi.objectives.clustering import cluster_log_probs
from gedi.objectives.term import DEFAULT_TAU, Loss, Objective, Term, constraint_of
from gedi.settings import Positive

if TYPE_CHECKING:
    from gedi.objectives.views import Views


def symbolic_loss(log_prob: torch.Tensor) -> torch.Tensor:
    """-log P(constraint), averaged over groups, from ``Constraint.log_prob`` [..., groups].

    Zero if the predictions satisfy the constraint with certainty; infinite if they cannot.

    >>> symbolic_loss(torch.tensor([0.5, 0.5]).log())
    tensor(0.6931)
    """
    return -log_prob.mean(-1)


@dataclass
class Symbolic(Term, family="symbolic"):
    """The semantic loss: -log P(constraint) under the predictions p(y|x), averaged over groups of rows."""

    kind: str = "constraint"
    rule: str = ""  # the constraint as text (docs/logic.md); its variables are the rows of a group, in order
    views: Literal["x", "both"] = "x"  # apply the rule to the rows only, or also to their augmented views x'
    tau: Positive = DEFAULT_TAU  # temperature of p(y|x); the cluster term's is used instead, if there is one
    equation: ClassVar[str] = "Sec. 5.3"
    has_clusters: ClassVar[bool] = True

    @property
    def constraint(self) -> Constraint:
        """The rule, compiled once per process."""
        return compiled(self.rule)

    def losses(self, views: Views) -> dict[str, Loss]:
        """Groups are consecutive rows of the batch, and of its augmented views."""
        names = self.constraint.inputs
        scores = views.scores_by_view[0] if self.views == "x" else torch.cat(views.scores_by_view[:2], dim=1)
        log_p = cluster_log_probs(scores, views.tau)
        by_variable = log_p.reshape(-1, len(names), log_p.shape[-1]).unbind(1)
        log_prob = self.constraint.log_prob(dict(zip(names, by_variable, strict=True)), check=False)
        by_head = symbolic_loss(log_prob.view(len(scores), -1))
        return {"symbolic": Loss(by_head.mean(), self.weight, judges=by_head.detach())}

    def check(self) -> None:
        if not self.rule.strip():
            raise ConfigError("rule is empty: give a constraint, as text or with --constraint FILE")
        try:
            check_text(self.rule)
            read_constraint(self.rule)  # not compiled here: loading a finished model does not need it
        except LogicError as error:
            raise ConfigError(f"rule: {str(error).rstrip('.')}") from error


def constraint_change(source: Constraint | str | Path) -> dict[str, Any]:
    """The change of settings that adds a constraint, given as an object, a path, or text."""
    return {"objective.symbolic": {"kind": "constraint", "rule": constraint_text(source)}}


@lru_cache(maxsize=8)
def compiled(rule: str) -> Constraint:
    """The constraint written as text, compiled."""
    formula, variables = read_constraint(rule)
    return Constraint(formula, variables=variables)


# -- rows that belong together ----------------------------------------------------------------------------------------


def find_groups(objective: Objective, n_rows: int, n_clusters: int, given: Any = None) -> torch.Tensor | None:
    """Row indices of every group, [groups, variables]; None if there is no active constraint.

    ``given`` are the groups that came with the data. Without them, every k consecutive rows form a group, for a
    constraint of k variables.
    """
    constraint = constraint_of(objective)
    if constraint is None:
        return None
    for v in constraint.variables:
        if v.size != n_clusters:
            raise ConfigError(
                f"The constraint's variable {v.name!r} has {v.size} values, but there are {n_clusters} clusters, and "
                "each value is a cluster: use as many values, or set n_clusters to their number."
            )
    names, k = ", ".join(v.name for v in constraint.variables), len(constraint.variables)
    if given is not None:
        return _checked(np.asarray(given), n_rows, k, names)
    if n_rows % k:
        raise DataError(
            f"The data has {n_rows} rows, which is not a multiple of the constraint's {k} variables ({names}). Put the "
            f"{k} rows of each group one after the other, or say with 'groups' which rows belong together."
        )
    return torch.arange(n_rows).view(-1, k)


def groups_line(objective: Objective) -> str | None:
    """Which row of a group is which variable, in one line; None if there is no active constraint."""
    constraint = constraint_of(objective)
    return constraint and f"the rows of each group are, in this order: {', '.join(constraint.inputs)}"


def _checked(groups: np.ndarray, n_rows: int, k: int, names: str) -> torch.Tensor:
    if groups.dtype.kind not in "iu" or groups.ndim != 2 or groups.shape[1] != k or not len(groups):
        raise DataError(
            f"'groups' has type {groups.dtype} and shape {groups.shape}: it must hold whole numbers [groups, {k}], the "
            f"indices of the rows that are {names}."
        )
    if groups.min() < 0 or groups.max() >= n_rows:
        raise DataError(f"'groups' names rows {groups.min()} to {groups.max()}, but rows are 0 to {n_rows - 1}.")
    alone = np.setdiff1d(np.arange(n_rows), groups)
    if len(alone):
        raise DataError(
            f"{len(alone)} rows are in none of the 'groups' (the first is row {alone[0]}), so nothing would train on "
            "them: remove them from the data, or give each a group."
        )
    return torch.from_numpy(groups.astype(np.int64))
