"""Constraints as text: declarations and formulas, read without running any of it, and written."""

from __future__ import annotations

import ast
import keyword
import operator
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from gedi.errors import LogicError
from gedi.logic.expressions import (
    Categorical,
    Formula,
    Value,
    all_different,
    conjunction,
    disjunction,
    exactly_one,
    implies,
    table,
)
from gedi.logic.nodes import Node, cut, fold, written

VALUES_OF_VARIABLE = 10_000  # of a variable
LONGEST_SETTING = 100_000  # characters; anything longer is data, not a setting
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Invert: operator.invert,
    ast.Not: operator.invert,
    ast.USub: operator.neg,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "all_different": all_different,
    "exactly_one": exactly_one,
    "implies": implies,
}


def read_text(source: str | Path) -> str:
    """The text itself, or the contents of the file at a Path."""
    if not isinstance(source, Path):
        return source
    try:
        return source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LogicError(f"The file {source} cannot be read ({error}): check its path.") from error


def check_text(text: str) -> None:
    """Refuse what is too long for a setting, or is not plain text."""
    if len(text) > LONGEST_SETTING:
        raise LogicError(f"The constraint has more than {LONGEST_SETTING:,} characters as text: shorten it.")
    if not all(line.isprintable() for line in text.splitlines()):
        raise LogicError("The constraint has characters that cannot be printed: save it as plain text.")


# -- reading ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)  # a run reads its rule as it is given, checked and compiled
def read_constraint(text: str) -> tuple[Formula, tuple[Categorical, ...]]:
    """The conjunction of the formulas in the text, and the variables as declared.

    The line "a, b : 10" declares variables with values 0 to 9; "c : 1..6" and "d : red, green" list other values. Every
    other line is a formula, and all of them must hold. A comment starts with #.

    >>> read_constraint("a, b : 10  # digits\\na < b")
    (((a < b)), (Categorical('a', 10), Categorical('b', 10)))
    """
    variables: dict[str, Categorical] = {}
    formulas = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        try:
            if ":" in line:
                names, domain = line.split(":", 1)
                for name in (n.strip() for n in names.split(",")):
                    if not name.isidentifier() or name in FUNCTIONS or name in variables:
                        raise LogicError(f"{name!r} cannot be declared: use a new name of letters, digits and _.")
                    variables[name] = Categorical(name, _read_domain(domain))
            else:
                formulas.append(_read_formula(line, variables))
        except LogicError as error:
            raise LogicError(f"Line {number} of the constraint: {error}") from error
    if not formulas:
        raise LogicError("The constraint has no formula: add a line such as a + b == c.")
    return conjunction(formulas), tuple(variables.values())


def _read_domain(text: str) -> list[Value]:
    words = [word.strip() for word in text.split(",")] if "," in text else text.split()
    low, dots, high = text.partition("..")
    try:
        if dots:
            values = range(int(low), int(high) + 1)
        elif len(words) == 1:
            values = range(int(words[0]))
        elif not all(len(word.split()) == 1 for word in words):
            raise ValueError("a comma is missing or superfluous")
        else:
            numbers = all(word.lstrip("-").isdigit() for word in words)
            values = [int(word) if numbers else word for word in words]
    except ValueError as error:
        raise LogicError(
            f"{text.strip()!r} is not a domain: write 10, 1..6, or the values (1 2 3 or 1, 2, 3)."
        ) from error
    # Checked before the values are listed: a few digits of text must not exhaust the memory.
    if values and (values[-1] - values[0] if isinstance(values, range) else len(values)) >= VALUES_OF_VARIABLE:
        raise LogicError(f"{text.strip()!r} has more than {VALUES_OF_VARIABLE:,} values: use fewer.")
    return list(values)


def _read_formula(line: str, variables: dict[str, Categorical]) -> Formula:
    try:
        value = _read(ast.parse(line, mode="eval").body, variables)
    except LogicError:
        raise
    except (SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError | MemoryError) else error.args[0]
        raise LogicError(f"{cut(line)!r} is not a formula: {why}.") from error
    if not isinstance(value, Formula):
        raise LogicError(f"{cut(line)!r} is not a formula: compare something, as in a + b == c.")
    return value


def _read(node: ast.AST, variables: dict[str, Categorical]) -> Any:
    """The value of a syntax tree made of the operations above; anything else is refused."""

    def read(part: ast.AST) -> Any:
        return _read(part, variables)

    match node:
        case ast.Constant(value=int() | str() as value):
            return value
        case ast.Name(id=name) if name in variables:
            return variables[name]
        case ast.Name(id=name):
            raise LogicError(f"{name!r} is not declared: add a line such as '{name} : 10' above.")
        case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATORS:
            return OPERATORS[type(op)](read(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            operands = read(left), read(right)
            if any(isinstance(operand, str) for operand in operands):  # Python would repeat or format the text
                raise LogicError(f"{ast.unparse(node)!r} does arithmetic on text: compare it with == or != instead.")
            return OPERATORS[type(op)](*operands)
        case ast.BoolOp(op=op, values=values):
            return (conjunction if isinstance(op, ast.And) else disjunction)(map(read, values))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in OPERATORS for op in ops):
            terms = [read(part) for part in (left, *others)]
            steps = [OPERATORS[type(op)](x, y) for op, x, y in zip(ops, terms[:-1], terms[1:], strict=True)]
            return steps[0] if len(steps) == 1 else conjunction(steps)
        case ast.Compare(left=left, ops=[ast.In()], comparators=[ast.Tuple(elts=values) | ast.List(elts=values)]):
            return disjunction(read(left) == read(value) for value in values)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*map(read, arguments))
        case ast.Call(func=ast.Name(id="table"), args=[ast.List(elts=names), ast.List(elts=rows)], keywords=[]):
            cells = [row.elts if isinstance(row, ast.Tuple | ast.List) else [row] for row in rows]
            return table([*map(read, names)], [[*map(read, row)] for row in cells])
    raise LogicError(f"{ast.unparse(node)!r} is not part of the constraint language: see docs/logic.md.")


# -- writing ----------------------------------------------------------------------------------------------------------


def write_constraint(formula: Formula, variables: Sequence[Categorical]) -> str:
    """The text that `read_constraint` reads back as the same formula over the same variables (with plain names)."""
    names = _plain_names(variables)
    declarations = [f"{names[v.name]} : {_written_domain(v.values)}" for v in variables]
    parts = formula.children if formula.op == "and" else (formula,)

    def write(node: Node, texts: list[str]) -> str:
        text = written(node, texts)
        if node.op == "variable":
            text = names[node.data[0]]
        elif node.op == "table":
            domains = [child.data[1] for child in node.children]
            rows = [tuple(d[i] for d, i in zip(domains, row, strict=True)) for row in node.data.tolist()]
            text = f"table([{', '.join(texts)}], {rows})"
        check_text(text)  # at every node: shared parts double with every level
        return text

    text = "\n".join([*declarations, *(fold(part, write) for part in parts)])
    check_text(text)
    if [v.values for v in read_constraint(text)[1]] != [v.values for v in variables]:
        raise LogicError("The variables' values cannot be written as text: use numbers, or words without spaces.")
    return text


def _plain_names(variables: Sequence[Categorical]) -> dict[str, str]:
    """A unique name of letters, digits and _ for each variable."""
    names: dict[str, str] = {}
    for v in variables:
        name = re.sub(r"\W+", "_", v.name).strip("_") or "v"
        if not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
            name = f"v_{name}"
        while name in names.values():
            name += "_"
        names[v.name] = name
    return names


def _written_domain(values: Sequence[Value]) -> str:
    if isinstance(values[0], int) and list(values) == list(range(values[0], values[0] + len(values))):
        return str(len(values)) if values[0] == 0 else f"{values[0]}..{values[-1]}"
    return " ".join(map(str, values))
