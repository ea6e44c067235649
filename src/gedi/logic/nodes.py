"""The nodes that expressions are made of. Expressions share parts and can be deep, so nothing here is recursive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gedi.errors import LogicError

LONGEST_TEXT = 500  # characters shown of an expression; written out in full, shared parts double with every level


class Node:
    """An immutable part of an expression: an operation, its operands, and the data of a variable, number or table."""

    __slots__ = ("children", "data", "op")

    def __init__(self, op: str, children: tuple[Node, ...] = (), data: Any = None) -> None:
        self.op, self.children, self.data = op, children, data

    def __bool__(self) -> bool:
        raise LogicError(
            f"The expression {self} has no truth value of its own: use & | ~ instead of and, or, not, "
            "and (a < b) & (b < c) instead of a < b < c."
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return cut(fold(self, lambda node, parts: written(node, parts)[: LONGEST_TEXT + 1]), LONGEST_TEXT)

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a flat list of the nodes: by default, pickle recurses once per level."""
        return _rebuilt, ([(type(node), node.op, places, node.data) for node, places in _numbered(self)],)


def postorder(root: Node) -> list[Node]:
    """Every node once, children first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))
    return order


def fold(root: Node, value: Callable[[Node, list[Any]], Any]) -> Any:
    """The root's value, bottom-up: ``value(node, values of its children)`` is called once for every node."""
    values: list[Any] = []
    for node, places in _numbered(root):
        values.append(value(node, [values[place] for place in places]))
    return values[-1]


def description(root: Node) -> list[list[Any]]:
    """The expression as plain lists, equal for equal expressions; the cache key is made from it."""
    return [
        [node.op, places, node.data.tolist() if isinstance(node.data, np.ndarray) else node.data]
        for node, places in _numbered(root)
    ]


def cut(text: str, longest: int = 200) -> str:
    """The text as part of a message, shortened to at most ``longest`` characters."""
    return text if len(text) <= longest else text[:longest] + " ..."


def _numbered(root: Node) -> list[tuple[Node, list[int]]]:
    """Every node once, children first, with the positions of its children in this list."""
    order = postorder(root)
    places = {id(node): place for place, node in enumerate(order)}
    return [(node, [places[id(child)] for child in node.children]) for node in order]


def _rebuilt(lines: list[tuple[type[Node], str, list[int], Any]]) -> Node:
    nodes: list[Node] = []
    for kind, op, children, data in lines:
        node = kind.__new__(kind)
        Node.__init__(node, op, tuple(nodes[i] for i in children), data)
        nodes.append(node)
    return nodes[-1]


def written(node: Node, parts: list[str]) -> str:
    """The node in the constraint language, from the texts of its children; a table only says how many rows it has."""
    match node.op:
        case "variable":
            return node.data[0]
        case "number" | "text":
            return repr(node.data)
        case "table":
            return f"table([{', '.join(parts)}], {len(node.data)} rows)"
        case "not":
            return f"(not {parts[0]})"
        case "abs" | "exactly_one" | "all_different":
            return f"{node.op}({', '.join(parts)})"
        case "and" | "or" if not parts:  # always and never true
            return "exactly_one()" if node.op == "or" else "(not exactly_one())"
    return f"({f' {node.op} '.join(parts)})"
