"""Constraints as text in the language of `files`: what a run keeps of them, whatever they were made from."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence
from pathlib import Path

from gedi.errors import LogicError
from gedi.logic.constraint import Constraint
from gedi.logic.dimacs import read_text
from gedi.logic.expressions import Categorical, Value
from gedi.logic.files import FUNCTIONS, read_constraint
from gedi.logic.nodes import Node, postorder

LONGEST = 100_000  # characters; beyond that a formula is data, not a setting


def constraint_text(source: Constraint | str | Path) -> str:
    """The text of a constraint: one already made, a file's path, or the text itself (it has more than one line).

    >>> a, b = Categorical("a", 3), Categorical("b", 3)
    >>> constraint_text(Constraint(a < b))
    'a : 3\\nb : 3\\n(a < b)'
    """
    if isinstance(source, str) and "\n" not in source:
        source = Path(source).expanduser()
    if isinstance(source, Path) and source.suffix in (".cnf", ".dimacs", ".pl", ".problog"):
        source = Constraint.from_file(source)
    text = _written(source) if isinstance(source, Constraint) else read_text(source).expandtabs()
    check_text(text)
    read_constraint(text)
    return text


def check_text(text: str) -> None:
    """Refuse what is too long for a setting, or no text at all."""
    if len(text) > LONGEST:
        raise LogicError(
            f"The constraint has {len(text):,} characters as text, the most is {LONGEST:,}: write it more briefly."
        )
    if not all(line.isprintable() for line in text.splitlines()):
        raise LogicError("The constraint holds characters that cannot be printed: save it as plain text.")


def _written(constraint: Constraint) -> str:
    if len(constraint.inputs) < len(constraint.variables):
        raise LogicError(
            "The program has facts with probabilities of their own, which cannot be written as a constraint of a run: "
            "leave them out, or make them neural predicates."
        )
    names = _names(constraint.variables)
    formula = constraint.formula
    lines = [f"{names[v.name]} : {_domain(v.values)}" for v in constraint.variables]
    parts = formula.children if formula.op == "and" else (formula,)
    text = "\n".join([*lines, *(_formula(part, names) for part in parts)])
    read = [v.values for v in read_constraint(text)[1]]
    if read != [v.values for v in constraint.variables]:
        raise LogicError("The values of the variables cannot be written as text: use numbers, or plain words.")
    return text


def _names(variables: Sequence[Categorical]) -> dict[str, str]:
    """A name of letters, digits and _ for each variable."""
    names: dict[str, str] = {}
    for v in variables:
        name = re.sub(r"\W+", "_", v.name).strip("_") or "v"
        if not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
            name = f"v_{name}"
        while name in names.values():
            name += "_"
        names[v.name] = name
    return names


def _domain(values: Sequence[Value]) -> str:
    if isinstance(values[0], int) and list(values) == list(range(values[0], values[0] + len(values))):
        return str(len(values)) if values[0] == 0 else f"{values[0]}..{values[-1]}"
    return " ".join(map(str, values))


def _formula(root: Node, names: dict[str, str]) -> str:
    """Without recursion: programs make deep formulas, and share their parts."""
    known: dict[int, str] = {}
    for node in postorder(root):
        known[id(node)] = text = _node(node, [known[id(child)] for child in node.children], names)
        if len(text) > LONGEST:
            raise LogicError(f"The constraint is longer than {LONGEST:,} characters as text: write it more briefly.")
    return known[id(root)]


def _node(node: Node, parts: list[str], names: dict[str, str]) -> str:
    match node.op:
        case "variable":
            return names[node.data[0]]
        case "number":
            return str(node.data)
        case "text":
            return repr(node.data)
        case "table":
            domains = [child.data[1] for child in node.children]
            rows = [tuple(d[i] for d, i in zip(domains, row, strict=True)) for row in node.data.tolist()]
            return f"table([{', '.join(parts)}], {rows})"
        case "not":
            return f"(not {parts[0]})"
        case "abs" | "exactly_one" | "all_different":
            return f"{node.op}({', '.join(parts)})"
        case "and" | "or" if parts:
            return f"({f' {node.op} '.join(parts)})"
        case "and" | "or":  # of none: always, and never
            return "exactly_one()" if node.op == "or" else "(not exactly_one())"
    return f"({parts[0]} {node.op} {parts[1]})"
