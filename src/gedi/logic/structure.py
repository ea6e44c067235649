"""What is in an expression: its variables, and a description to know it again by."""

from __future__ import annotations

from typing import Any

import numpy as np

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical
from gedi.logic.nodes import Node, postorder


def variables_in(root: Node) -> list[Categorical]:
    """The variables of an expression in the order they appear; one name must mean one domain."""
    found: dict[str, Categorical] = {}
    for node in postorder(root):
        if isinstance(node, Categorical):
            other = found.setdefault(node.name, node)
            if other.values != node.values:
                raise LogicError(
                    f"Two variables are named {node.name!r}, with domains of {other.size} and {node.size} "
                    "values: give them different names or the same domain."
                )
    return list(found.values())


def description(root: Node) -> list[list[Any]]:
    """The expression as plain lists, equal for equal expressions: what the cache's key is made of."""
    numbers: dict[int, int] = {}
    lines: list[list[Any]] = []
    for node in postorder(root):
        data = node.data.tolist() if isinstance(node.data, np.ndarray) else node.data
        numbers[id(node)] = len(lines)
        lines.append([node.op, [numbers[id(child)] for child in node.children], data])
    return lines
