"""DIMACS CNF files as formulas."""

from __future__ import annotations

from pathlib import Path

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical, Formula, conjunction, disjunction


def read_dimacs(cnf: str | Path) -> Formula:
    """The conjunction of the clauses; variables no clause mentions are left out (they change nothing).

    >>> read_dimacs("p cnf 2 1\\n1 -2 0")
    and(or((1 == 1), (2 == 0)))
    """
    text = read_text(cnf)
    declared, numbers = _numbers(text)
    if declared is None:
        raise LogicError("The DIMACS text has no line 'p cnf VARIABLES CLAUSES': add it before the clauses.")
    if numbers and numbers[-1] != 0:
        raise LogicError("The last DIMACS clause does not end with 0: the file may be cut short.")
    clauses: list[Formula] = []
    clause: list[Formula] = []
    variables: dict[int, Categorical] = {}
    for number in numbers:
        if number == 0:
            clauses.append(disjunction(clause))
            clause = []
            continue
        if abs(number) > declared[0]:
            raise LogicError(f"A DIMACS clause mentions variable {abs(number)}, but only {declared[0]} are declared.")
        variable = variables.setdefault(abs(number), Categorical(str(abs(number)), 2))
        clause.append(variable == int(number > 0))
    if len(clauses) != declared[1]:
        raise LogicError(f"The DIMACS text declares {declared[1]} clauses and has {len(clauses)}: correct one of them.")
    return conjunction(clauses)


def read_text(source: str | Path) -> str:
    """The text itself, or what the file at a Path holds."""
    if not isinstance(source, Path):
        return source
    try:
        return source.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LogicError(f"The file {source} cannot be read ({error}): check its path.") from error


def _numbers(text: str) -> tuple[tuple[int, int] | None, list[int]]:
    """(variables, clauses) of the 'p' line, and the clauses' literals with their closing zeros."""
    declared, numbers = None, []
    for line, words in enumerate((row.split() for row in text.splitlines()), start=1):
        if words[:1] == ["%"]:  # SATLIB's files end so
            break
        if not words or words[0].startswith("c"):
            continue
        try:
            if words[0] == "p":
                _, _, variables, clauses = words
                declared = int(variables), int(clauses)
            else:
                numbers.extend(int(word) for word in words)
        except ValueError as error:
            raise LogicError(f"Line {line} of the DIMACS text cannot be read: {' '.join(words)!r}.") from error
    return declared, numbers
