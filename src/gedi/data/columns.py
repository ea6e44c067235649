"""Which column of a table holds labels, and labels as numbers; shared by the readers of text, Parquet and NumPy."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gedi.errors import DataError


def find_label(names: list[str], wanted: str | None, path: Path, categorical: Callable[[int], bool]) -> int | None:
    """The column named by the user; else 'label'; else 'y', unless it is the y of points (x, y)."""
    if wanted:
        if wanted in names:
            return names.index(wanted)
        near = difflib.get_close_matches(wanted, names, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"its columns are {', '.join(names[:20])}."
        raise DataError(f"{path} has no column {wanted!r}: {hint}")
    if wanted is None:
        if "label" in names:
            return names.index("label")
        if "y" in names and "x" not in names and categorical(names.index("y")):
            return names.index("y")
    return None  # wanted == "" asks for no labels at all


def encode_labels(y: np.ndarray, path: Path) -> np.ndarray:
    """Whole numbers as they are, anything else numbered in sorted order; int64."""
    if y.dtype.kind in "bui":
        return y.astype(np.int64)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise missing_labels(path, int((~np.isfinite(y)).sum()))
        if (y == np.round(y)).all():
            return y.astype(np.int64)
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def missing_labels(path: Path, count: int) -> DataError:
    return DataError(
        f"The label column of {path} has {count} missing values: "
        "fill them in, or leave the column out (labels are only needed for evaluation)."
    )


def not_numeric(path: Path, name: str, what: str) -> DataError:
    return DataError(
        f"In {path}, {name} is not numeric (it holds {what}): drop it or encode it as numbers, "
        "or name it as label_column if it holds the labels."
    )


def no_columns(path: Path) -> DataError:
    return DataError(f"{path} has no columns left besides its labels.")
