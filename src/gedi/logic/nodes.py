"""The nodes expressions are made of. They share their parts and may be deep, so nothing here calls itself."""

from __future__ import annotations

from typing import Any

from gedi.errors import LogicError

LONGEST_TEXT = 500  # characters of an expression that are shown: written out, shared parts double with every level


class Node:
    """A part of an expression, never changed: what it does, to what, and (variables, numbers, tables) its own data."""

    __slots__ = ("children", "data", "op")

    def __init__(self, op: str, children: tuple[Node, ...] = (), data: Any = None) -> None:
        self.op, self.children, self.data = op, children, data

    def __bool__(self) -> bool:
        raise LogicError(
            f"The expression {self} has no truth value of its own: write & | ~ for and, or, not, "
            "and (a < b) & (b < c) for a < b < c."
        )

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        text = ""
        rest: list[Node | str] = [self]
        while rest:
            part = rest.pop()
            if isinstance(part, Node):
                rest.extend(reversed(_pieces(part)))
                continue
            text += part
            if len(text) > LONGEST_TEXT:
                return text[:LONGEST_TEXT] + " ..."
        return text

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, every node once, as it would else call itself for each level."""
        order = postorder(self)
        places = {id(node): i for i, node in enumerate(order)}
        lines = [(type(node), node.op, [places[id(child)] for child in node.children], node.data) for node in order]
        return _rebuilt, (lines,)


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


def _rebuilt(lines: list[tuple[type[Node], str, list[int], Any]]) -> Node:
    nodes: list[Node] = []
    for kind, op, children, data in lines:
        node = kind.__new__(kind)
        Node.__init__(node, op, tuple(nodes[i] for i in children), data)
        nodes.append(node)
    return nodes[-1]


def _pieces(node: Node) -> list[Node | str]:
    """What a node is written with: text, and its children in between."""
    listed = [piece for child in node.children for piece in (", ", child)][1:]
    match node.op:
        case "variable":
            return [node.data[0]]
        case "number" | "text":
            return [str(node.data)]
        case "table":
            return ["table([", *listed, f"], {len(node.data)} rows)"]
        case "not" | "abs" | "and" | "or" | "exactly_one" | "all_different":
            return [f"{node.op}(", *listed, ")"]
    return ["(", node.children[0], f" {node.op} ", node.children[1], ")"]
