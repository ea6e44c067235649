"""Answers about a program's inputs alone, its own facts summed out, by listing the inputs' values.

A circuit is read off from the leaves to the root, and the best values of some variables are not to be had that way
after a sum over others. Listed, they are: what the facts add to each row of values is the same for every batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from gedi.errors import LogicError
from gedi.logic import evaluation
from gedi.logic.expressions import Categorical

MOST_ROWS = 10_000
ROWS_AT_ONCE = 256  # put through the circuit, whose nodes are many


class Listed(NamedTuple):
    """Values of the inputs under which the rule can hold, and the log-probability that the facts then make it hold."""

    names: list[str]
    rows: torch.Tensor  # [rows, inputs] of value indices
    log_weights: torch.Tensor  # [rows]

    def log_joint(self, log_probs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """log P(inputs = row, rule), [batch, rows]."""
        device = log_probs[self.names[0]].device
        joint = self.log_weights.to(device, dtype)
        for name, column in zip(self.names, self.rows.to(device).unbind(1), strict=True):
            joint = joint + log_probs[name].to(dtype)[:, column]
        return joint


def listed(layers: evaluation.Layers, variables: Sequence[Categorical], fixed: Mapping[str, torch.Tensor]) -> Listed:
    """Every row of values of the variables that are not ``fixed``; ``layers`` are on the CPU."""
    inputs = [v for v in variables if v.name not in fixed]
    count = math.prod(v.size for v in inputs)
    if count > MOST_ROWS:
        raise LogicError(
            f"The program has facts of its own, and its inputs {count:,} joint values: the most likely values and the "
            f"entropy sum the facts out for each, and for {MOST_ROWS:,} at most. Use marginals or sample instead."
        )
    rows = torch.tensor(list(itertools.product(*(range(v.size) for v in inputs))))
    columns = {v.name: rows[:, i] for i, v in enumerate(inputs)}
    parts = [
        fixed[v.name].expand(count, -1)
        if v.name in fixed
        else torch.nn.functional.one_hot(columns[v.name], v.size).double().log()
        for v in variables
    ]
    pieces = torch.cat(parts, dim=1).T.split(ROWS_AT_ONCE, dim=1)
    weights = torch.cat([evaluation.upward(layers, piece)[-1] for piece in pieces])
    some = ~weights.isneginf()
    return Listed([v.name for v in inputs], rows[some], weights[some])


def entropy(log_joint: torch.Tensor) -> torch.Tensor:
    """In nats, of each row's distribution, [batch]; differentiable, and values of probability 0 add nothing."""
    log_given = log_joint.log_softmax(1)
    return -(log_given.exp() * torch.where(log_given.isneginf(), 0.0, log_given)).sum(1)
