"""Constraints over few combinations: list every model."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical
from gedi.logic.nodes import Node, fold

MAX_COMBINATIONS = 2_000_000  # of values: 2 MB of booleans per formula, a fraction of a second

ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
COMPARISON = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def models(formula: Node, variables: Sequence[Categorical]) -> np.ndarray:
    """All satisfying rows of value indices, [models, variables]; callers check MAX_COMBINATIONS first."""
    columns = {}
    for i, v in enumerate(variables):
        shape = [1] * len(variables)
        shape[i] = v.size
        columns[v.name] = np.arange(v.size).reshape(shape)
    truth = fold(formula, lambda node, parts: _value(node, parts, columns))
    return np.argwhere(np.broadcast_to(truth, [v.size for v in variables]))


def calculate(node: Node, x: Any, y: Any) -> Any:
    """Python's arithmetic. A divisor that can be zero is an error in the constraint, not a false formula."""
    if node.op in ("//", "%") and np.any(np.equal(y, 0)):
        raise LogicError(f"{node} divides by {node.children[1]}, which can be 0: exclude 0 from its domain.")
    return ARITHMETIC[node.op](x, y)


def _value(node: Node, parts: list[Any], columns: dict[str, np.ndarray]) -> Any:
    """The node's value at every combination, as an array that broadcasts against the others."""
    match node.op:
        case "variable":
            name, values = node.data
            # Large values become Python integers, which do not overflow.
            small = isinstance(values[0], int) and max(map(abs, values)) < 2**20
            return np.array(values, dtype=np.int64 if small else object)[columns[name]]
        case "number" | "text":
            return node.data
        case "abs":
            return abs(parts[0])
        case "not":
            return np.logical_not(parts[0])
        case "and":
            return reduce(np.logical_and, parts, np.asarray(True))
        case "or":
            return reduce(np.logical_or, parts, np.asarray(False))
        case "exactly_one":
            return reduce(np.add, [np.asarray(p).astype(np.int64) for p in parts], np.asarray(0)) == 1
        case "all_different":
            pairs = [parts[i] != parts[j] for i in range(len(parts)) for j in range(i)]
            return reduce(np.logical_and, pairs, np.asarray(True))
        case "table":
            allowed = np.zeros([len(child.data[1]) for child in node.children], dtype=bool)
            allowed[tuple(node.data.T)] = True
            return allowed[tuple(columns[child.data[0]] for child in node.children)]
    if node.op in COMPARISON:
        return COMPARISON[node.op](*parts)
    return calculate(node, *_roomy(parts))


def _roomy(parts: list[Any]) -> list[Any]:
    """Operands as Python integers if the result might not fit in 64 bits."""
    largest = [int(np.max(np.abs(np.asarray(p)))) for p in parts]
    if (largest[0] + 1) * (largest[1] + 1) < 2**62:
        return parts
    return [np.asarray(p).astype(object) for p in parts]
