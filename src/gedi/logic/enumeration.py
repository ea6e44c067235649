"""Constraints over few combinations: list every model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical
from gedi.logic.nodes import Node, postorder

MAX_COMBINATIONS = 2_000_000  # of values of all variables: 2 MB of booleans a formula, a fraction of a second

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
}
COMPARISON: dict[str, Callable[[Any, Any], Any]] = {
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
}


def combinations(variables: Sequence[Categorical]) -> int:
    """How many joint values the variables have."""
    return math.prod(v.size for v in variables)


def models(formula: Node, variables: Sequence[Categorical]) -> np.ndarray:
    """All satisfying rows of value indices, [models, variables]; the caller has looked at ``combinations`` first."""
    columns = {}
    for i, v in enumerate(variables):
        shape = [1] * len(variables)
        shape[i] = v.size
        columns[v.name] = np.arange(v.size).reshape(shape)
    known: dict[int, Any] = {}
    for node in postorder(formula):
        known[id(node)] = _value(node, [known[id(child)] for child in node.children], columns)
    return np.argwhere(np.broadcast_to(known[id(formula)], [v.size for v in variables]))


def divide(op: str, x: Any, y: Any, node: Node) -> Any:
    """// and % as Python has them; a divisor that can be zero is the writer's mistake, not a false formula."""
    if np.any(np.equal(y, 0)):
        raise LogicError(f"{node} divides by {node.children[1]}, which can be 0: rule that out in its domain.")
    return ARITHMETIC[op](x, y)


def _value(node: Node, parts: list[Any], columns: dict[str, np.ndarray]) -> Any:
    """The node's value at every combination, as an array that broadcasts against the others."""
    match node.op:
        case "variable":
            name, values = node.data
            # Objects, not machine integers: Python's numbers do not overflow.
            small = isinstance(values[0], int) and max(map(abs, values)) < 2**20
            return np.array(values, dtype=np.int64 if small else object)[columns[name]]
        case "number" | "text":
            return node.data
        case "abs":
            return abs(parts[0])
        case "//" | "%":
            above, below = _roomy(parts)
            return divide(node.op, above, below, node)
        case "+" | "-" | "*":
            return ARITHMETIC[node.op](*_roomy(parts))
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            return COMPARISON[node.op](*parts)
        case "not":
            return np.logical_not(parts[0])
        case "and":
            return _fold(np.logical_and, parts, True)
        case "or":
            return _fold(np.logical_or, parts, False)
        case "exactly_one":
            return _fold(np.add, [np.asarray(p).astype(np.int64) for p in parts], 0) == 1
        case "all_different":
            pairs = [parts[i] != parts[j] for i in range(len(parts)) for j in range(i)]
            return _fold(np.logical_and, pairs, True)
        case "table":
            allowed = np.zeros([len(child.data[1]) for child in node.children], dtype=bool)
            allowed[tuple(node.data.T)] = True
            return allowed[tuple(columns[child.data[0]] for child in node.children)]
    raise AssertionError(f"unknown operation {node.op}")


def _fold(operation: Callable[[Any, Any], Any], parts: list[Any], start: Any) -> Any:
    result = np.asarray(start)
    for part in parts:
        result = operation(result, part)
    return result


def _roomy(parts: list[Any]) -> list[Any]:
    """Arithmetic that might leave 64 bits is done on Python's integers instead."""
    largest = [int(np.max(np.abs(np.asarray(p)))) for p in parts]
    if (largest[0] + 1) * (largest[1] + 1) < 2**62:
        return parts
    return [np.asarray(p).astype(object) for p in parts]
