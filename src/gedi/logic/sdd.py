"""Constraints over many combinations: compiled to a sentential decision diagram (PySDD), then to a circuit.

A variable with k values is encoded in ceil(log2 k) bits. Codes past the last value mean the last value: every code is
valid, so negation needs no special care. The vtree is right-linear and keeps each variable's bits together: read one
variable at a time, the diagram is a decision diagram with k-way branches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gedi.errors import LogicError
from gedi.logic.circuit import Circuit, from_diagram
from gedi.logic.enumeration import COMPARISON, calculate
from gedi.logic.expressions import Categorical, Formula, variables_in
from gedi.logic.nodes import Node, fold, postorder

MAX_STEPS = 20_000_000  # for one diagram or arithmetic operation: minutes of work and gigabytes of nodes

Linear = tuple[dict[str, int], int]  # a coefficient for each variable, and a constant


def available() -> bool:
    """Whether PySDD is installed."""
    try:
        import pysdd.sdd  # noqa: F401
    except ImportError:
        return False
    return True


def compile_formula(formula: Formula, variables: Sequence[Categorical]) -> Circuit | None:
    """The formula's circuit over ``variables`` (all that it mentions), or None if it is unsatisfiable."""
    if not available():
        raise LogicError("The constraint has to be compiled, which needs PySDD: pip install 'gedi-ssl[logic]'.")
    order = variable_order(formula, variables)
    compiler = _Compiler([variables[i] for i in order])
    root = fold(formula, compiler.formula)
    return None if root.is_false() else from_diagram(root, compiler.first_bit, [v.size for v in variables], order)


def variable_order(formula: Formula, variables: Sequence[Categorical]) -> list[int]:
    """Smallest coefficient first, then by appearance. In sums, digits of equal place meet, so only a carry remains."""
    appears = {v.name: i for i, v in enumerate(variables_in(formula))}
    place = {v.name: math.inf for v in variables}
    for node in postorder(formula):
        if node.op in COMPARISON and (linear := _linear(node)) is not None:
            for name, coefficient in linear[0].items():
                place[name] = min(place[name], abs(coefficient))
    return sorted(range(len(variables)), key=lambda i: (place[variables[i].name], appears[variables[i].name]))


class _Compiler:
    """Builds the diagram of a formula; ``variables`` are in the diagram's order."""

    def __init__(self, variables: Sequence[Categorical]) -> None:
        from pysdd.sdd import SddManager, Vtree

        self.variables = list(variables)
        self.position = {v.name: i for i, v in enumerate(self.variables)}
        widths = [(v.size - 1).bit_length() for v in self.variables]
        self.first_bit = [1 + sum(widths[:i]) for i in range(len(widths) + 1)]
        bits = sum(widths)
        # Without automatic minimisation the bits keep their places, and nodes need no reference counts.
        self.manager = SddManager.from_vtree(Vtree(bits, list(range(1, bits + 1)), "right"))
        self._sets: dict[tuple[int, frozenset[int]], Any] = {}

    def formula(self, node: Node, parts: list[Any]) -> Any:
        """The diagram of where a formula holds, from those of its parts."""
        manager = self.manager
        match node.op:
            case "not":
                return ~parts[0]
            case "and":
                return _balanced(parts, manager.conjoin, manager.true())
            case "or":
                return _balanced(parts, manager.disjoin, manager.false())
            case "exactly_one":
                none, one = manager.true(), manager.false()
                for part in parts:
                    none, one = none & ~part, (one & ~part) | (none & part)
                return one
            case "all_different":
                return self._all_different(node)
            case "table":
                return self._table(node)
        # An expression is compiled with its comparison.
        return self._comparison(node) if node.op in COMPARISON else None

    def member(self, i: int, values: frozenset[int]) -> Any:
        """The diagram of where variable i (in the diagram's order) has one of the values (indices)."""
        if (i, values) not in self._sets:
            size, first, width = self.variables[i].size, self.first_bit[i], self.first_bit[i + 1] - self.first_bit[i]
            result = self.manager.false()
            for code in range(2**width):
                if min(code, size - 1) in values:
                    bits = [first + b if code >> (width - 1 - b) & 1 else -(first + b) for b in range(width)]
                    result |= _balanced([self.manager.literal(b) for b in bits], self.manager.conjoin, None)
            self._sets[i, values] = result
        return self._sets[i, values]

    def decide(self, i: int, branches: Sequence[Any]) -> Any:
        """The diagram that continues with ``branches[k]`` where variable i has value k."""
        targets: dict[int, tuple[Any, list[int]]] = {}
        for k, branch in enumerate(branches):
            targets.setdefault(branch.id, (branch, []))[1].append(k)
        result = self.manager.false()
        for branch, values in targets.values():
            result |= self.member(i, frozenset(values)) & branch
        return result

    def diagram(self, scope: Sequence[int], start: Hashable, step: Callable[[Any, int, int], Hashable]) -> Any:
        """The diagram of a recurrence: ``step(state, place in scope, value index)`` is the next state, or a bool."""
        levels: list[dict[Hashable, list[Hashable]]] = []
        states: set[Hashable] = set() if isinstance(start, bool) else {start}
        work = 0
        for place, i in enumerate(scope):
            level = {state: [step(state, place, k) for k in range(self.variables[i].size)] for state in states}
            work += len(level) * self.variables[i].size
            _check_work(work)
            levels.append(level)
            states = {s for branches in level.values() for s in branches if not isinstance(s, bool)}
        known: dict[Hashable, Any] = {}
        ends = {True: self.manager.true(), False: self.manager.false()}
        for i, level in zip(reversed(scope), reversed(levels), strict=True):
            known = {
                state: self.decide(i, [ends[s] if isinstance(s, bool) else known[s] for s in branches])
                for state, branches in level.items()
            }
        return ends[start] if isinstance(start, bool) else known[start]

    def _all_different(self, node: Node) -> Any:
        scope = sorted(self.position[child.data[0]] for child in node.children)

        def step(used: frozenset[Any], place: int, k: int) -> Hashable:
            value = self.variables[scope[place]].values[k]
            if value in used:
                return False
            return place == len(scope) - 1 or used | {value}

        return self.diagram(scope, frozenset() if scope else True, step)

    def _table(self, node: Node) -> Any:
        columns = sorted(range(len(node.children)), key=lambda c: self.position[node.children[c].data[0]])
        scope = [self.position[node.children[c].data[0]] for c in columns]
        rows = node.data[:, columns].tolist()
        prefixes = {tuple(row[:n]) for row in rows for n in range(len(scope) + 1)}

        def step(prefix: tuple[int, ...], place: int, k: int) -> Hashable:
            longer = (*prefix, k)
            return longer in prefixes and (place == len(scope) - 1 or longer)

        return self.diagram(scope, (), step)

    def _comparison(self, node: Node) -> Any:
        linear = _linear(node)
        if linear is not None and linear[0]:
            return self._linear_comparison(node.op, *linear)
        left, right = (fold(child, self.expression) for child in node.children)
        _check_work(len(left) * len(right))
        holds = COMPARISON[node.op]
        pairs = [p & q for x, p in left.items() for y, q in right.items() if holds(x, y)]
        return _balanced(pairs, self.manager.disjoin, self.manager.false())

    def _linear_comparison(self, op: str, coefficients: dict[str, int], constant: int) -> Any:
        """Compare sum(coefficient * value) + constant with 0; the state is what is still missing."""
        if op in (">", ">="):
            negated = {name: -coefficient for name, coefficient in coefficients.items()}
            return self._linear_comparison("<" if op == ">" else "<=", negated, -constant)
        scope = sorted(self.position[name] for name in coefficients)
        weights = [[coefficients[self.variables[i].name] * int(v) for v in self.variables[i].values] for i in scope]
        left = -constant - sum(map(min, weights)) - (op == "<")
        weights = [[w - min(ws) for w in ws] for ws in weights]
        most = [sum(map(max, weights[place:])) for place in range(len(scope) + 1)]
        shared = [math.gcd(*(w for ws in weights[place:] for w in ws)) or 1 for place in range(len(scope) + 1)]

        def settle(left: int, place: int) -> Hashable:
            """The state after a value. States with the same future are made equal, so that they share a diagram."""
            if op in ("<", "<="):
                if left < 0 or left >= most[place]:
                    return left >= 0
                return ("left", left // shared[place] * shared[place])
            if left < 0 or left > most[place] or left % shared[place]:
                return op == "!="
            return (op == "==") if place == len(scope) else ("left", left)

        def step(state: tuple[str, int], place: int, k: int) -> Hashable:
            return settle(state[1] - weights[place][k], place + 1)

        return self.diagram(scope, settle(left, 0), step)

    def expression(self, node: Node, parts: list[dict[Any, Any]]) -> dict[Any, Any]:
        """The diagram of where an expression has each of its possible values, by value."""
        result: dict[Any, list[Any]] = {}
        if node.op == "variable":
            i = self.position[node.data[0]]
            result = {value: [self.member(i, frozenset([k]))] for k, value in enumerate(node.data[1])}
        elif node.op in ("number", "text"):
            result = {node.data: [self.manager.true()]}
        elif node.op == "abs":
            for x, p in parts[0].items():
                result.setdefault(abs(x), []).append(p)
        else:
            _check_work(len(parts[0]) * len(parts[1]))
            for x, p in parts[0].items():
                for y, q in parts[1].items():
                    result.setdefault(calculate(node, x, y), []).append(p & q)
        joined = {x: _balanced(ps, self.manager.disjoin, self.manager.false()) for x, ps in result.items()}
        return {x: p for x, p in joined.items() if not p.is_false()}


def _linear(comparison: Node) -> Linear | None:
    """left - right of a comparison, or None if it is not linear in numbers."""
    return fold(comparison, _linear_part)


def _linear_part(node: Node, parts: list[Linear | None]) -> Linear | None:
    if node.op == "variable":
        return ({node.data[0]: 1}, 0) if isinstance(node.data[1][0], int) else None
    if node.op == "number":
        return {}, node.data
    if len(parts) != 2 or parts[0] is None or parts[1] is None:
        return None
    left, a = parts[0]
    right, b = parts[1]
    if node.op == "*" and not (left and right):
        terms, factor = (left, b) if left else (right, a)
        return {name: c * factor for name, c in terms.items() if c * factor}, a * b
    if node.op not in ("+", "-", *COMPARISON):
        return None
    sign = 1 if node.op == "+" else -1
    names = {**left, **right}
    total = {name: left.get(name, 0) + sign * right.get(name, 0) for name in names}
    return {name: c for name, c in total.items() if c}, a + sign * b


def _balanced(parts: Sequence[Any], join: Callable[[Any, Any], Any], empty: Any) -> Any:
    """Join in pairs, not in a chain, so that small diagrams meet small ones."""
    parts = list(parts)
    while len(parts) > 1:
        odd = parts[-1:] if len(parts) % 2 else []
        parts = [join(p, q) for p, q in zip(parts[::2], parts[1::2], strict=False)] + odd
    return parts[0] if parts else empty


def _check_work(steps: int) -> None:
    if steps > MAX_STEPS:
        raise LogicError(
            f"Compiling one comparison would take {steps:,} steps (at most {MAX_STEPS:,}): "
            "split it, for example with carry variables or intermediate sums."
        )
