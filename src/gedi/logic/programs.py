"""ProbLog programs with neural predicates as formulas, grounded by problog."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gedi.errors import LogicError
from gedi.logic.dimacs import read_text
from gedi.logic.expressions import Categorical, Formula, Value, conjunction, disjunction
from gedi.logic.libraries import closed
from gedi.logic.structure import variables_in

NONE = "none of them"  # the value of an annotated disjunction whose probabilities leave some over


def read_problog(
    program: str | Path, query: str | None
) -> tuple[Formula, list[Categorical], dict[str, tuple[float, ...]]]:
    """The formula under which the query follows, its variables, and the distributions of those the program fixes.

    First come the inputs of nets, as the program's text first names them.
    """
    try:
        from problog.clausedb import ClauseDB
        from problog.engine import DefaultEngine
        from problog.errors import ProbLogError
        from problog.formula import LogicDAG
        from problog.program import PrologString
    except ImportError as error:
        raise LogicError("ProbLog programs need problog: pip install 'gedi[logic]'.") from error
    text = read_text(program)
    try:
        clauses = list(PrologString(text))
        if query is not None:
            clauses = [clause for clause in clauses if not str(clause).startswith("query(")]
            clauses += PrologString(f"query({query.rstrip('. ')}).")
        lines, domains = _rewritten(clauses)
        engine = DefaultEngine()
        database = closed(ClauseDB.createFrom(PrologString("\n".join(lines)), builtins=engine.get_builtins()))
        dag = LogicDAG.create_from(engine.ground_all(database))
    except ProbLogError as error:
        raise LogicError(f"problog cannot use the program: {error}".replace("\n", " ")) from error
    if list(dag.evidence()):
        raise LogicError("The program has evidence(...): make it part of the query, as in q :- this, that.")
    queries = list(dag.queries())
    if len(queries) != 1:
        found = ", ".join(str(name) for name, _ in queries) or "none"
        raise LogicError(f"The program must have one query with one ground answer, found {found}: pass query=.")
    name, root = queries[0]
    if root is None:
        raise LogicError(f"The query {name} can never follow from the program: correct it or the program.")
    if root == 0:
        raise LogicError(f"The query {name} always follows from the program: it does not constrain anything.")
    reader = _Reader(dag, domains)
    formula = reader.formula(root)
    return formula, reader.in_order(variables_in(formula), _places(clauses)), reader.fixed


def _places(clauses: Iterable[Any]) -> dict[str, int]:
    """Where in the program each term, however deep in others, is first named; the values of nets do not count."""
    places: dict[str, int] = {}
    stack = list(clauses)[::-1]
    while stack:
        term = stack.pop()
        if isinstance(term, list):  # the heads of an annotated disjunction
            stack.extend(reversed(term))
            continue
        if term.functor != ".":  # a list is named by what it holds
            places.setdefault(str(term), len(places))
        stack.extend(reversed(term.args))
        if _neural(term) and term.probability.arity > 1:
            stack.append(term.probability.args[1])
    return places


def _rewritten(clauses: Iterable[Any]) -> tuple[list[str], dict[str, tuple[Value, ...]]]:
    """The program with each neural predicate as an annotated disjunction, and each net's values.

    nn(net, [X], Y, [0, 1]) :: p(X, Y) becomes nn(net, [X], 0) :: p(X, 0); nn(net, [X], 1) :: p(X, 1): grounding fills
    in X and leaves the annotations alone, so each ground choice says which net, input and value it is.
    """
    from problog.logic import Clause, Var

    lines, domains = [], {}
    for clause in clauses:
        head = clause.head if isinstance(clause, Clause) else clause
        body = f" :- {clause.body}" if isinstance(clause, Clause) else ""
        annotation = getattr(head, "probability", None)
        if annotation is None or annotation.functor != "nn":
            lines.append(f"{clause}.")
            continue
        net = str(annotation.args[0]) if annotation.args else ""
        if annotation.arity == 2:
            values: list[Any] = []
        elif annotation.arity == 4:
            values = _elements(annotation.args[3], f"The values in {annotation}")
        else:
            raise LogicError(
                f"{annotation} is not a neural predicate: write nn(net, [X], Y, [values]) or nn(net, [X])."
            )
        domain = tuple(_value(v) for v in values) or (0, 1)
        if domains.setdefault(net, domain) != domain:
            raise LogicError(f"The net {net} is used with two lists of values: {domains[net]} and {domain}.")
        plain = head.with_probability(None)
        choices = []
        for value in values:
            bound = {name: Var(name) for name in map(str, plain.variables())} | {str(annotation.args[2]): value}
            choices.append(f"nn({net},{annotation.args[1]},{value})::{plain.apply(bound)}")
        lines.append("; ".join(choices or [f"{annotation}::{plain}"]) + body + ".")
    return lines, domains


class _Reader:
    """Reads problog's ground and-or graph."""

    def __init__(self, dag: Any, domains: dict[str, tuple[Value, ...]]) -> None:
        self.dag, self.domains = dag, domains
        self.fixed: dict[str, tuple[float, ...]] = {}
        self.drawn: dict[str, Any] = {}  # the choice each net and input belongs to
        self.inputs: dict[str, tuple[str, list[str]]] = {}  # the net and the inputs each variable is of
        self.groups: dict[Any, dict[str, float]] = {}  # choices of the program's own annotated disjunctions
        for _, node, kind in dag:
            if kind == "atom" and node.group is not None and not node.is_extra and not _neural(node):
                self.groups.setdefault(node.group, {})[str(node.name)] = _probability(node)

    def formula(self, root: int) -> Formula:
        known: dict[int, Formula] = {}
        for index, node, kind in self.dag:  # children come before their parents
            if kind == "atom":
                if not node.is_extra:
                    known[index] = self._atom(node)
                continue
            join = conjunction if kind == "conj" else disjunction
            known[index] = join([_signed(known, child) for child in node.children])
        return _signed(known, root)

    def in_order(self, variables: list[Categorical], places: dict[str, int]) -> list[Categorical]:
        """By the places of their inputs in the program, which may only make them up as it is grounded, then by net."""

        def place(variable: Categorical) -> Any:
            net, inputs = self.inputs[variable.name]
            named = [(places.get(text, math.inf), _natural(text)) for text in inputs]
            return named, list(self.domains).index(net)

        neural = [v for v in variables if v.name in self.inputs]
        return sorted(neural, key=place) + [v for v in variables if v.name not in self.inputs]

    def _atom(self, node: Any) -> Formula:
        if _neural(node):
            return self._neural_choice(node)
        if node.group is None:
            name = f"{node.name} ({node.identifier})"  # two facts may have the same name
            self.fixed[name] = _distribution([_probability(node)], name)[::-1]
            return Categorical(name, 2) == 1
        # Only choices that the query needs are in the graph: the rest share what is left over.
        choices = self.groups[node.group]
        name = " or ".join(choices)
        self.fixed[name] = _distribution(list(choices.values()), name)
        return Categorical(name, [*choices, NONE]) == str(node.name)

    def _neural_choice(self, node: Any) -> Formula:
        net, inputs, *value = node.probability.args
        named = [str(term) for term in _elements(inputs, f"The inputs in {node.probability}")]
        name = f"{net}({', '.join(named)})"
        if str(net) not in self.domains:
            raise LogicError(
                f"{node.probability} stands among other choices: write nn(net, [X], Y, [values]) :: p(X, Y)."
            )
        self.inputs[name] = str(net), named
        # In ProbLog every clause, and every binding of its variables, is a draw of its own.
        if self.drawn.setdefault(name, node.group) != node.group:
            raise LogicError(
                f"The program draws from {name} more than once, and it is not said whether with the same result: "
                "write one neural predicate whose inputs are all its other arguments, and derive the rest from it."
            )
        return Categorical(name, self.domains[str(net)]) == (_value(value[0]) if value else 1)


def _elements(term: Any, what: str) -> list[Any]:
    from problog.logic import term2list

    try:
        return term2list(term, False)
    except ValueError as error:
        raise LogicError(f"{what} are not a list: write nn(net, [X], Y, [v1, v2, ...]) :: p(X, Y).") from error


def _probability(node: Any) -> float:
    from problog.errors import ProbLogError

    try:
        return float(node.probability)
    except (ProbLogError, TypeError, ValueError) as error:
        raise LogicError(f"{node.probability} is no probability of {node.name}: write a number.") from error


def _distribution(probabilities: list[float], name: str) -> tuple[float, ...]:
    """The probabilities, and what they leave over."""
    left = 1 - math.fsum(probabilities)
    if min(probabilities) < 0 or left < -1e-9:
        raise LogicError(f"The probabilities of {name} in the program are not between 0 and 1 or sum to more than 1.")
    return (*probabilities, max(left, 0.0))


def _neural(node: Any) -> bool:
    return node.probability.functor == "nn" if hasattr(node.probability, "functor") else False


def _signed(known: dict[int, Formula], index: int) -> Formula:
    return known[index] if index > 0 else ~known[-index]


def _natural(text: str) -> list[int | str]:
    """To sort by: x2 comes before x10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", text))]


def _value(term: Any) -> Value:
    value = getattr(term, "value", None) if getattr(term, "is_constant", lambda: False)() else None
    return value if isinstance(value, int) else str(term)
