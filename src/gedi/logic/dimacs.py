"""DIMACS CNF files as formulas."""

from __future__ import annotations

from pathlib import Path

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical, Formula, conjunction, disjunction

MOST_VARIABLES = 100_000  # a few digits of text must not take a machine's memory


def read_dimacs(cnf: str | Path) -> tuple[Formula, list[Categorical]]:
    """The conjunction of the clauses, and all variables declared in the order of their numbers.

    >>> read_dimacs("p cnf 2 1\\n-2 1 0")
    (and(or((2 == 0), (1 == 1))), [Categorical('1', 2), Categorical('2', 2)])
    """
    text = read_text(cnf)
    declared, numbers = _numbers(text)
    if declared is None:
        raise LogicError("The DIMACS text has no line 'p cnf VARIABLES CLAUSES': add it before the clauses.")
    if numbers and numbers[-1] != 0:
        raise LogicError("The last DIMACS clause does not end with 0: the file may be cut short.")
    if declared[0] > MOST_VARIABLES:
        raise LogicError(f"The DIMACS text declares {declared[0]:,} variables: at most {MOST_VARIABLES:,} can be read.")
    clauses: list[Formula] = []
    clause: list[Formula] = []
    variables = [Categorical(str(number), 2) for number in range(1, declared[0] + 1)]
    for number in numbers:
        if number == 0:
            clauses.append(disjunction(clause))
            clause = []
            continue
        if abs(number) > declared[0]:
            raise LogicError(f"A DIMACS clause mentions variable {abs(number)}, but only {declared[0]} are declared.")
        clause.append(variables[abs(number) - 1] == int(number > 0))
    if len(clauses) != declared[1]:
        raise LogicError(f"The DIMACS text declares {declared[1]} clauses and has {len(clauses)}: correct one of them.")
    mentioned = {abs(number) for number in numbers}
    free = [disjunction([v == 0, v == 1]) for number, v in enumerate(variables, start=1) if number not in mentioned]
    return conjunction(clauses + free), variables


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
        if words[0] == "p" and words[1:2] != ["cnf"]:
            raise LogicError(f"Line {line} of the DIMACS text is {' '.join(words)!r}: only 'p cnf ...' can be read.")
        try:
            if words[0] == "p":
                _, _, variables, clauses = words
                declared = int(variables), int(clauses)
            else:
                numbers.extend(int(word) for word in words)
        except ValueError as error:
            raise LogicError(f"Line {line} of the DIMACS text cannot be read: {' '.join(words)!r}.") from error
    return declared, numbers
