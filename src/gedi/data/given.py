"""Rows passed in Python: arrays, images and data frames."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from gedi.data.checks import few, image_shape_of
from gedi.data.surprises import Surprises
from gedi.data.table_recipe import TableRecipe
from gedi.errors import DataError


def as_rows(x: Any) -> tuple[Any, tuple[int, int, int] | None]:
    """An array of images as flat rows, with their (H, W, C); anything else as it is, with None."""
    shape = image_shape_of(getattr(x, "shape", ()), "X")
    return (np.asarray(x).reshape(len(x), math.prod(x.shape[1:])) if shape else x), shape


def is_frame(x: Any) -> bool:
    return "pandas" in sys.modules and isinstance(x, sys.modules["pandas"].DataFrame)


def needs_recipe(x: Any, table: TableRecipe) -> bool:
    """Whether the table's columns have to be found by name and interpreted; plain numbers need not be."""
    if not table.is_plain or len(table.used) < len(table.columns):
        return True
    return is_frame(x) and bool(x.isna().to_numpy().any())


def encoded(x: Any, table: TableRecipe) -> np.ndarray:
    """The features of a table that has the training table's columns."""
    names = [column.name for column in table.columns]
    if not is_frame(x):
        raise DataError(
            f"The model was trained on a table with the columns {few(map(repr, names))}: pass a pandas DataFrame with "
            f"these columns, not {type(x).__name__}."
        )
    surprises = Surprises("X")
    rows = table.encode(x, surprises)
    surprises.warn()
    return rows
