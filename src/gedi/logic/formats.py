"""Constraints in other formats, read as formulas: DIMACS CNFs, and ProbLog programs with neural predicates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical, Formula, Value, conjunction, disjunction, variables_in
from gedi.logic.text import read_text

MOST_VARIABLES = 100_000  # of a CNF: a few digits of text must not exhaust the memory
NONE = "none of them"  # the value of an annotated disjunction if none of its choices is made
READS_FILES = "db"  # the problog library that opens tables and databases


# -- DIMACS -----------------------------------------------------------------------------------------------------------


def read_dimacs(cnf: str | Path) -> tuple[Formula, list[Categorical]]:
    """The conjunction of the clauses, and all declared variables in the order of their numbers.

    >>> read_dimacs("p cnf 2 1\\n-2 1 0")
    ((((2 == 0) or (1 == 1))), [Categorical('1', 2), Categorical('2', 2)])
    """
    declared, numbers = _numbers(read_text(cnf))
    if declared is None:
        raise LogicError("The DIMACS text has no line 'p cnf VARIABLES CLAUSES': add it before the clauses.")
    if numbers and numbers[-1] != 0:
        raise LogicError("The last DIMACS clause does not end with 0: the file may be truncated.")
    if declared[0] > MOST_VARIABLES:
        raise LogicError(f"The DIMACS text declares {declared[0]:,} variables (at most {MOST_VARIABLES:,}): split it.")
    clauses: list[Formula] = []
    clause: list[Formula] = []
    variables = [Categorical(str(number), 2) for number in range(1, declared[0] + 1)]
    for number in numbers:
        if number == 0:
            clauses.append(disjunction(clause))
            clause = []
            continue
        if abs(number) > declared[0]:
            raise LogicError(
                f"A DIMACS clause uses variable {abs(number)}, but only {declared[0]} are declared: correct its p line."
            )
        clause.append(variables[abs(number) - 1] == int(number > 0))
    if len(clauses) != declared[1]:
        raise LogicError(f"The DIMACS text declares {declared[1]} clauses and has {len(clauses)}: correct its p line.")
    mentioned = {abs(number) for number in numbers}
    free = [disjunction([v == 0, v == 1]) for number, v in enumerate(variables, start=1) if number not in mentioned]
    return conjunction(clauses + free), variables


def _numbers(text: str) -> tuple[tuple[int, int] | None, list[int]]:
    """The counts of variables and clauses in the 'p' line, and the literals of the clauses with their closing zeros."""
    declared, numbers = None, []
    for line, words in enumerate((row.split() for row in text.splitlines()), start=1):
        if words[:1] == ["%"]:  # how SATLIB's files end
            break
        if not words or words[0].startswith("c"):
            continue
        if words[0] == "p" and words[1:2] != ["cnf"]:
            raise LogicError(f"Line {line} of the DIMACS text is {' '.join(words)!r}: only 'p cnf ...' can be read.")
        try:
            if words[0] == "p":
                _, _, variables, clauses = words
                declared = int(variables), int(clauses)
            else:
                numbers.extend(int(word) for word in words)
        except ValueError as error:
            raise LogicError(f"Line {line} of the DIMACS text is {' '.join(words)!r}: write whole numbers.") from error
    return declared, numbers


# -- ProbLog ----------------------------------------------------------------------------------------------------------


def read_problog(
    program: str | Path, query: str | None
) -> tuple[Formula, list[Categorical], dict[str, tuple[float, ...]]]:
    """The formula under which the query follows, its variables, and the distributions of the program's own facts.

    Variables of neural predicates come first, in the order in which the program's text first mentions their inputs.
    """
    try:
        from problog.clausedb import ClauseDB
        from problog.engine import DefaultEngine
        from problog.errors import ProbLogError
        from problog.formula import LogicDAG
        from problog.program import PrologString
    except ImportError as error:
        raise LogicError("ProbLog programs need problog: pip install 'gedi-ssl[logic]'.") from error
    text = read_text(program)
    try:
        clauses = list(PrologString(text))
        if query is not None:
            clauses = [clause for clause in clauses if not str(clause).startswith("query(")]
            clauses += PrologString(f"query({query.rstrip('. ')}).")
        lines, domains = _rewritten(clauses)
        engine = DefaultEngine()
        database = _closed(ClauseDB.createFrom(PrologString("\n".join(lines)), builtins=engine.get_builtins()))
        dag = LogicDAG.create_from(engine.ground_all(database))
    except ProbLogError as error:
        raise LogicError(f"problog cannot use the program: {error}".replace("\n", " ")) from error
    if list(dag.evidence()):
        raise LogicError("The program contains evidence(...): make it part of the query, as in q :- this, that.")
    queries = list(dag.queries())
    if len(queries) != 1:
        found = ", ".join(str(name) for name, _ in queries) or "none"
        raise LogicError(f"The program must have one query with one ground answer, found {found}: pass one as query=.")
    name, root = queries[0]
    if root is None:
        raise LogicError(f"The query {name} never follows from the program: check both.")
    if root == 0:
        raise LogicError(f"The query {name} always follows from the program, so it constrains nothing: check both.")
    reader = _GroundProgram(dag, domains)
    formula = reader.formula(root)
    variables = reader.in_order(variables_in(formula), _places(clauses))
    facts = {v.name: reader.fixed[v.name] for v in variables if v.name in reader.fixed}
    if len(facts) == len(variables):
        raise LogicError("The query uses no neural predicate, so there is nothing to train: check the program.")
    return formula, variables, facts


def _closed(database: Any) -> Any:
    """The database, changed to load problog's own libraries and no other file.

    ``use_module`` and ``consult`` read any file and run it if it is Python, but a constraint is data and must not run
    code. Every directive and call goes through ``resolve_filename``; findall runs its goals in an extended copy.
    """
    import problog

    library = (Path(problog.__file__).parent / "library").resolve()
    resolve, extend = database.resolve_filename, database.extend

    def resolve_inside(name: Any) -> str:
        path = Path(resolve(name) or "").resolve()
        if not path.is_relative_to(library) or not path.is_file() or path.stem == READS_FILES:
            raise LogicError(
                f"The program loads {name}: it may only use problog's own libraries, such as library(lists). "
                "Copy what it needs into the program."
            )
        return str(path)

    database.resolve_filename = resolve_inside
    database.extend = lambda: _closed(extend())
    return database


def _places(clauses: Iterable[Any]) -> dict[str, int]:
    """Where the program first mentions each term, nested or not; values of nets do not count."""
    places: dict[str, int] = {}
    stack = list(clauses)[::-1]
    while stack:
        term = stack.pop()
        if isinstance(term, list):  # the heads of an annotated disjunction
            stack.extend(reversed(term))
            continue
        if term.functor != ".":  # a list counts by its elements
            places.setdefault(str(term), len(places))
        stack.extend(reversed(term.args))
        if _neural(term) and term.probability.arity > 1:
            stack.append(term.probability.args[1])
    return places


def _rewritten(clauses: Iterable[Any]) -> tuple[list[str], dict[str, tuple[Value, ...]]]:
    """The program with its neural predicates as annotated disjunctions, and the values of each net.

    nn(net, [X], Y, [0, 1]) :: p(X, Y) becomes nn(net, [X], 0) :: p(X, 0); nn(net, [X], 1) :: p(X, 1). Grounding binds X
    and keeps the annotations, so each ground choice names its net, input and value.
    """
    from problog.logic import Clause, Var

    lines, domains = [], {}
    for clause in clauses:
        head = clause.head if isinstance(clause, Clause) else clause
        body = f" :- {clause.body}" if isinstance(clause, Clause) else ""
        if not _neural(head):
            lines.append(f"{clause}.")
            continue
        annotation = head.probability
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
            raise LogicError(f"The net {net} has two lists of values, {domains[net]} and {domain}: use one.")
        plain = head.with_probability(None)
        choices = []
        for value in values:
            bound = {name: Var(name) for name in map(str, plain.variables())} | {str(annotation.args[2]): value}
            choices.append(f"nn({net},{annotation.args[1]},{value})::{plain.apply(bound)}")
        lines.append("; ".join(choices or [f"{annotation}::{plain}"]) + body + ".")
    return lines, domains


class _GroundProgram:
    """Reads problog's ground and-or graph."""

    def __init__(self, dag: Any, domains: dict[str, tuple[Value, ...]]) -> None:
        self.dag, self.domains = dag, domains
        self.fixed: dict[str, tuple[float, ...]] = {}
        self.drawn: dict[str, Any] = {}  # the group of choices that each net and input belongs to
        self.inputs: dict[str, tuple[str, list[str]]] = {}  # the net and the inputs of each variable
        self.groups: dict[Any, dict[str, float]] = {}  # of the program's own annotated disjunctions
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
        """By the places of their inputs in the program's text, then by net; inputs without a place come last."""

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
        # The graph only has the choices that the query needs; the others share the remaining probability.
        choices = self.groups[node.group]
        name = " or ".join(choices)
        self.fixed[name] = _distribution(list(choices.values()), name)
        return Categorical(name, [*choices, NONE]) == str(node.name)

    def _neural_choice(self, node: Any) -> Formula:
        net, inputs, *value = node.probability.args
        named = [str(term) for term in _elements(inputs, f"The inputs in {node.probability}")]
        name = f"{net}({', '.join(named)})"
        if str(net) not in self.domains:
            raise LogicError(f"{node.probability} has alternatives: write nn(net, [X], Y, [values]) :: p(X, Y).")
        self.inputs[name] = str(net), named
        # In ProbLog, every clause and every binding of its variables is a separate draw.
        if self.drawn.setdefault(name, node.group) != node.group:
            raise LogicError(
                f"The program draws from {name} more than once, and the results could differ: "
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
        raise LogicError(f"The probability of {node.name} is {node.probability}: write a number.") from error


def _distribution(probabilities: list[float], name: str) -> tuple[float, ...]:
    """The probabilities, followed by the remaining one."""
    left = 1 - math.fsum(probabilities)
    if min(probabilities) < 0 or left < -1e-9:
        raise LogicError(f"The probabilities of {name} are not between 0 and 1, or sum to more than 1: correct them.")
    return (*probabilities, max(left, 0.0))


def _neural(term: Any) -> bool:
    return getattr(getattr(term, "probability", None), "functor", None) == "nn"


def _signed(known: dict[int, Formula], index: int) -> Formula:
    return known[index] if index > 0 else ~known[-index]


def _natural(text: str) -> list[int | str]:
    """A sort key that puts x2 before x10."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", text))]


def _value(term: Any) -> Value:
    value = getattr(term, "value", None) if getattr(term, "is_constant", lambda: False)() else None
    return value if isinstance(value, int) else str(term)
