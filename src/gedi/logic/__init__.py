"""Logic: a constraint language, compiled to arithmetic circuits, evaluated exactly and in batches."""

from gedi.logic.constraint import Constraint
from gedi.logic.expressions import (
    Categorical,
    Formula,
    Term,
    all_different,
    conjunction,
    disjunction,
    exactly_one,
    holds,
    implies,
    table,
)

__all__ = [
    "Categorical",
    "Constraint",
    "Formula",
    "Term",
    "all_different",
    "conjunction",
    "disjunction",
    "exactly_one",
    "holds",
    "implies",
    "table",
]
