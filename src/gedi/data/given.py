"""Rows passed in Python: arrays, images and data frames."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.checks import few, image_shape_of
from gedi.data.surprises import Surprises
from gedi.data.table_recipe import TableRecipe
from gedi.errors import DataError

# How to read a file in Python, by its ending; anything else, such as a folder of images, by `gedi.data.load`.
READERS = {
    ".csv": "pandas.read_csv({})",
    ".tsv": "pandas.read_csv({}, sep='\\t')",
    ".xlsx": "pandas.read_excel({})",
    ".parquet": "pandas.read_parquet({})",
    ".npy": "numpy.load({})",
}


def as_rows(x: Any) -> tuple[Any, tuple[int, int, int] | None]:
    """An array of images as flat rows, with their (H, W, C); other rows as they are, with None."""
    if isinstance(x, str | os.PathLike):
        path = os.fspath(x)
        read = READERS.get(Path(path).suffix.lower(), "gedi.data.load({}).x").format(repr(path))
        raise DataError(f"X is the path {path!r}, not rows: pass {read}, or use gedi fit on the command line.")
    if x is None or (issubclass(type(x), Mapping) and not hasattr(x, "shape")):  # some sparse arrays are mappings
        raise DataError(f"X is {type(x).__name__}, not rows: pass an array [n, d], images or a pandas DataFrame.")
    shape = image_shape_of(getattr(x, "shape", ()), "X")
    if shape is None:
        return x, None
    images = np.asarray(x)
    return images.reshape(len(images), math.prod(images.shape[1:])), shape


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
