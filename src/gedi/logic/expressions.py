"""The constraint language: variables with finite domains, arithmetic, comparisons and connectives."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gedi.errors import LogicError
from gedi.logic.nodes import Node, postorder

MAX_CALLS = 1_000_000  # combinations that a Python predicate may be called with
FEW_VALUES = 10  # values of a domain that are shown

Value = int | str


def _arithmetic(op: str) -> tuple[Callable[[Any, Operand], Expression], Callable[[Any, Operand], Expression]]:
    """The methods for ``self op other`` and ``other op self``."""

    def make(left: Operand, right: Operand) -> Expression:
        return Arithmetic(op, (_number_like(left), _number_like(right)))

    return make, lambda self, other: make(other, self)


def _comparison(op: str) -> Callable[[Any, Operand], Formula]:
    """The method for ``self op other``."""
    return lambda self, other: _compared(op, self, other)


class Expression(Node):
    """Anything with a value: a variable, a number, or arithmetic on them."""

    __slots__ = ()
    __hash__ = Node.__hash__  # == builds a formula, so expressions are hashed by identity

    __add__, __radd__ = _arithmetic("+")
    __sub__, __rsub__ = _arithmetic("-")
    __mul__, __rmul__ = _arithmetic("*")
    __floordiv__, __rfloordiv__ = _arithmetic("//")
    __mod__, __rmod__ = _arithmetic("%")

    def __neg__(self) -> Expression:
        return 0 - self

    def __abs__(self) -> Expression:
        return Arithmetic("abs", (_number_like(self),))

    def __truediv__(self, other: Operand) -> Expression:
        raise LogicError(f"{self} / {other} might not be a whole number: use //, or multiply the other side.")

    def __eq__(self, other: Operand) -> Formula:  # type: ignore[override]
        return _compared("==", self, other)

    def __ne__(self, other: Operand) -> Formula:  # type: ignore[override]
        return _compared("!=", self, other)

    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")


class Arithmetic(Expression):
    """A number, a constant value, or an operation on expressions.

    A sibling of Categorical, not its base: Python lets an operand on the right compare first if its class is a
    subclass of the left's, and that would reverse the order of the variables.
    """

    __slots__ = ()


class Categorical(Expression):
    """A variable with a finite domain: 0 to n - 1, or the given values (whole numbers or strings).

    >>> a, colour = Categorical("a", 10), Categorical("colour", ["red", "green"])
    >>> a, colour
    (Categorical('a', 10), Categorical('colour', ['red', 'green']))
    >>> a + 1 < 5, colour == "red"
    (((a + 1) < 5), (colour == 'red'))
    """

    __slots__ = ()

    def __init__(self, name: str, domain: int | Sequence[Value]) -> None:
        if not isinstance(name, str) or not name:
            raise LogicError(f"A variable's name is {name!r}: pass a non-empty string.")
        if isinstance(domain, int | np.integer):
            domain = range(int(domain))
        if not isinstance(domain, Iterable):
            raise LogicError(f"The domain of {name!r} is {domain!r}: pass the number of values, or a list of them.")
        values = tuple(domain)
        if len(values) < 2:
            raise LogicError(f"The domain of {name!r} has {len(values)} value(s): a variable needs at least 2.")
        if all(isinstance(v, int | np.integer) for v in values):
            values = tuple(map(int, values))
        elif not all(isinstance(v, str) for v in values):
            raise LogicError(
                f"The domain of {name!r} has other or mixed types: use only whole numbers or only strings."
            )
        if len(set(values)) < len(values):
            raise LogicError(f"The domain of {name!r} lists a value twice: list each value once.")
        super().__init__("variable", (), (name, values))

    def __repr__(self) -> str:
        shown = self.size if self.values == tuple(range(self.size)) else list(self.values)
        return f"Categorical({self.name!r}, {shown})"

    @property
    def name(self) -> str:
        return self.data[0]

    @property
    def values(self) -> tuple[Value, ...]:
        return self.data[1]

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def numeric(self) -> bool:
        return isinstance(self.values[0], int)


class Formula(Node):
    """Anything that is true or false."""

    __slots__ = ()
    __hash__ = Node.__hash__  # == builds a formula here too

    def __and__(self, other: Formula) -> Formula:
        return _chain("and", self, _formula(other))

    def __or__(self, other: Formula) -> Formula:
        return _chain("or", self, _formula(other))

    def __xor__(self, other: Formula) -> Formula:
        return exactly_one(self, other)

    def __eq__(self, other: Formula) -> Formula:  # type: ignore[override]
        return ~exactly_one(self, other)

    def __ne__(self, other: Formula) -> Formula:  # type: ignore[override]
        return exactly_one(self, other)

    def __invert__(self) -> Formula:
        return Formula("not", (self,))


Operand = Expression | int | str


def _chain(op: str, left: Formula, right: Formula) -> Formula:
    """One node for f & g & h: a longer chain is not a deeper one."""
    first, second = (f.children if f.op == op else (f,) for f in (left, right))
    if left.op == right.op == op:  # keep shared parts once: joining again and again would double them
        return Formula(op, tuple({id(part): part for part in (*first, *second)}.values()))
    return Formula(op, first + second)


def conjunction(formulas: Iterable[Formula]) -> Formula:
    """True where all of them hold; always true if there are none."""
    return Formula("and", tuple(_formula(f) for f in formulas))


def disjunction(formulas: Iterable[Formula]) -> Formula:
    """True where at least one of them holds; never true if there are none."""
    return Formula("or", tuple(_formula(f) for f in formulas))


def implies(condition: Formula, consequence: Formula) -> Formula:
    """If ``condition`` holds, so does ``consequence``."""
    return ~_formula(condition) | consequence


def exactly_one(*formulas: Formula) -> Formula:
    """Exactly one of the formulas holds."""
    return Formula("exactly_one", tuple(_formula(f) for f in formulas))


def all_different(*variables: Expression) -> Formula:
    """No two of the variables (or expressions) have the same value."""
    operands = tuple(_expression(v) for v in variables)
    if all(isinstance(t, Categorical) for t in operands):
        if len({t.data[0] for t in operands}) < len(operands):
            raise LogicError(f"all_different lists a variable twice ({', '.join(map(str, operands))}): list each once.")
        return Formula("all_different", operands)
    return conjunction(s != t for s, t in itertools.combinations(operands, 2))


def table(variables: Sequence[Categorical], rows: Iterable[Sequence[Value] | Value]) -> Formula:
    """The variables take the values of one of the rows. For a single variable, a row may be the bare value.

    >>> table([Categorical("a", 2), Categorical("b", ["x", "y"])], [(0, "x"), (1, "y")])
    table([a, b], 2 rows)
    """
    variables = tuple(_variable(v) for v in variables)
    if not variables or len({v.name for v in variables}) < len(variables):
        raise LogicError(f"table() needs different variables, got {list(variables)}: list each once.")
    places = [{value: i for i, value in enumerate(v.values)} for v in variables]
    indices: list[list[int]] = []
    for number, given in enumerate(rows):
        row = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
        if len(row) != len(variables):
            raise LogicError(
                f"Row {number} of the table has {len(row)} values for {len(variables)} variables: {row!r}."
            )
        for v, place, value in zip(variables, places, row, strict=True):
            if value not in place:
                raise LogicError(f"Row {number} of the table gives {v.name!r} the value {value!r}, {_outside(v)}.")
        indices.append([place[value] for place, value in zip(places, row, strict=True)])
    rows_array = np.asarray(indices, dtype=np.int64).reshape(-1, len(variables))
    return Formula("table", variables, np.unique(rows_array, axis=0))


def holds(predicate: Callable[..., Any], *variables: Categorical) -> Formula:
    """The Python function returns true; it is called once for every combination of the variables' values."""
    calls = math.prod(_variable(v).size for v in variables)
    if calls > MAX_CALLS:
        raise LogicError(
            f"The predicate would be called for {calls:,} combinations (at most {MAX_CALLS:,}): "
            "write it as an expression, or as several predicates over fewer variables."
        )
    rows = itertools.product(*(v.values for v in variables))
    return table(variables, [row for row in rows if predicate(*row)])


def variables_in(root: Node) -> list[Categorical]:
    """The variables of an expression in order of appearance. Variables of the same name must have the same domain."""
    found: dict[str, Categorical] = {}
    for node in postorder(root):
        if isinstance(node, Categorical):
            other = found.setdefault(node.name, node)
            if other.values != node.values:
                raise LogicError(f"Two variables named {node.name!r} have different domains: rename one of them.")
    return list(found.values())


def few_values(variable: Categorical, show: Callable[[Value], str] = str) -> str:
    """The variable's values; if there are many, only the first ones and the last."""
    values = list(map(show, variable.values))
    return ", ".join(values if len(values) <= FEW_VALUES else [*values[: FEW_VALUES - 1], "...", values[-1]])


def _compared(op: str, left: Operand, right: Operand) -> Formula:
    if op in ("==", "!="):
        left, right = _expression(left), _expression(right)
        for variable, constant in ((left, right), (right, left)):
            if isinstance(variable, Categorical) and constant.op in ("number", "text"):
                if constant.data not in variable.values:
                    raise LogicError(f"{variable.name!r} is compared with {constant.data!r}, {_outside(variable)}.")
                return Formula(op, (variable, constant))
        if isinstance(left, Categorical) and isinstance(right, Categorical):
            if left.numeric != right.numeric:
                raise LogicError(f"{left} and {right} cannot be compared: one has numbers, the other has strings.")
            return Formula(op, (left, right))
    return Formula(op, (_number_like(left), _number_like(right)))


def _expression(operand: Any) -> Expression:
    if isinstance(operand, Expression):
        return operand
    if isinstance(operand, int | np.integer):  # a bool is a 0 or a 1
        return Arithmetic("number", (), int(operand))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(operand, str):
        return Arithmetic("text", (), operand)
    raise LogicError(f"{operand!r} is not a variable, a whole number or a string: use one of these.")


def _number_like(operand: Any) -> Expression:
    found = _expression(operand)
    if found.op == "text" or (isinstance(found, Categorical) and not found.numeric):
        raise LogicError(f"{found} is not a number: use == or != to compare it with one of its values.")
    return found


def _variable(operand: Any) -> Categorical:
    if not isinstance(operand, Categorical):
        raise LogicError(f"{operand!r} is not a variable: pass a Categorical.")
    return operand


def _formula(operand: Any) -> Formula:
    if not isinstance(operand, Formula):
        raise LogicError(f"{operand!r} is not a formula: make a comparison first, as in (a == 1) & (b < c).")
    return operand


def _outside(variable: Categorical) -> str:
    return f"which is not in its domain ({few_values(variable, repr)}): use one of these"
