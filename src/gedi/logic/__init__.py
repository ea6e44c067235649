"""Logic: a constraint language, compiled to arithmetic circuits, evaluated exactly and in batches."""

from gedi.logic.constraint import Constraint
from gedi.logic.expressions import (
    Categorical,
    Expression,
    Formula,
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
    "Expression",
    "Formula",
    "all_different",
    "conjunction",
    "disjunction",
    "exactly_one",
    "holds",
    "implies",
    "table",
]
