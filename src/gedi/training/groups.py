"""Rows that belong together because a constraint speaks of them: groups, and the checks that they fit it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gedi.errors import ConfigError, DataError
from gedi.training.objective import Objective, active
from gedi.training.terms.symbolic import Symbolic


def find_groups(objective: Objective, n_rows: int, n_clusters: int, given: Any = None) -> torch.Tensor | None:
    """Places of the rows of every group, [groups, variables]; None if no constraint counts.

    ``given`` are the groups the data came with. Without them rows that follow each other are a group: 0 to k-1 are
    the first, for a constraint of k variables.
    """
    term = _active_term(objective)
    if term is None:
        return None
    variables = term.constraint.variables
    for v in variables:
        if v.size != n_clusters:
            raise ConfigError(
                f"The constraint's variable {v.name!r} has {v.size} values, but there are {n_clusters} clusters, and "
                "each value is a cluster: use as many values, or set n_clusters to their number."
            )
    names, k = ", ".join(v.name for v in variables), len(variables)
    if given is not None:
        return _checked(np.asarray(given), n_rows, k, names)
    if n_rows % k:
        raise DataError(
            f"There are {n_rows} rows, which is no multiple of the constraint's {k} variables ({names}): put the rows "
            f"of a group one after the other, {k} each, or say with 'groups' which rows belong together."
        )
    return torch.arange(n_rows).view(-1, k)


def groups_line(objective: Objective) -> str | None:
    """Which row of a group is which variable, in one line; None if no constraint counts."""
    term = _active_term(objective)
    return None if term is None else f"the rows of each group are, in this order: {', '.join(term.constraint.inputs)}"


def _active_term(objective: Objective) -> Symbolic | None:
    terms = [term for term in active(objective).values() if isinstance(term, Symbolic)]
    if len(terms) > 1:
        raise ConfigError("There are several constraints: join them in one, every line of which must hold.")
    return terms[0] if terms else None


def _checked(groups: np.ndarray, n_rows: int, k: int, names: str) -> torch.Tensor:
    if groups.dtype.kind not in "iu" or groups.ndim != 2 or groups.shape[1] != k or not len(groups):
        raise DataError(
            f"'groups' has type {groups.dtype} and shape {groups.shape}: it must hold whole numbers [groups, {k}], the "
            f"places of the rows that are {names}."
        )
    if groups.min() < 0 or groups.max() >= n_rows:
        raise DataError(f"'groups' names rows {groups.min()} to {groups.max()}, but rows are 0 to {n_rows - 1}.")
    alone = np.setdiff1d(np.arange(n_rows), groups)
    if len(alone):
        raise DataError(
            f"{len(alone)} rows, row {alone[0]} the first, are in none of the 'groups' and would not be trained on: "
            "leave them out of the data, or give each a group."
        )
    return torch.from_numpy(groups.astype(np.int64))
