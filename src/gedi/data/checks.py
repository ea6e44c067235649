"""Checks of the data before training; each error says in one sentence what is wrong."""

# pyright: reportMissingTypeStubs=false
# pyright: reportUnnecessaryIsInstance=false
import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.streaming import converted, is_mapped, row_blocks
from gedi.errors import DataError, did_you_mean, warn_user

CHANNELS = (1, 3, 4)  # of images: grey, colour, colour with transparency
TOO_LARGE = 1e150  # its square still fits in a double
NAMES_SHOWN = 10  # names in a message


class CellTypeError(DataError, TypeError):
    """A cell holds something that is not a number at all; scikit-learn expects a TypeError for it."""


def check_rows(
    x: Any,
    *,
    n_clusters: int | None,
    allow_single_row: bool = False,
    fewest_clusters: int = 2,
    images: bool = False,
    first_row: int = 0,
    names: Sequence[str] | None = None,
) -> np.ndarray:
    """Return rows as a finite array [n, d] in float64, or raise a DataError that names the problem.

    Rows stay in float64 until scaling has subtracted their offset. With n_clusters=None (prediction) the checks on
    clusters are skipped. Messages use ``first_row``, the index of a block's first row, and ``names``, the columns'
    names if known; scikit-learn's estimator checks require some of their wording.

    With ``images`` the rows are pixels: bytes and floats keep their type, as eight bytes per pixel could exhaust
    memory, and a border of one colour gives no warning. Rows mapped from disk stay there, and their floats keep their
    type.
    """
    rows = _as_float64(x, images=images)
    if rows.ndim != 2:
        raise DataError(
            f"Expected a 2-D array of rows, got shape {rows.shape}. Reshape your data: "
            "reshape(-1, 1) for one feature, reshape(1, -1) for one row, reshape(len(x), -1) for images."
        )
    n, d = rows.shape
    if n == 0:
        raise DataError(f"The data is empty: give at least {'one row' if allow_single_row else 'two rows'}.")
    if d == 0:
        raise DataError(f"The data has no columns: 0 feature(s) (shape=({n}, 0)) while a minimum of 1 is required.")
    if rows.dtype != np.uint8:
        _check_values(rows, first_row, names)
    if n == 1 and not allow_single_row:
        raise DataError("The data has one row (n_samples=1), but clusters need at least two: give more rows.")
    if n_clusters is not None:
        _check_clusters(n_clusters, n, fewest_clusters)
        _warn_constant(rows, names, all_only=images)
    return rows


def image_shape_of(shape: tuple[int, ...], name: str) -> tuple[int, int, int] | None:
    """(H, W, C) of an array of images [n, H, W] or [n, H, W, C]; None for rows. Refuses any other shape with a hint."""
    if len(shape) < 3:
        return None
    if len(shape) == 3 or (len(shape) == 4 and shape[3] in CHANNELS):
        height, width, channels = (*shape[1:], 1)[:3]
        return int(height), int(width), int(channels)
    hint = "turn anything else into rows, with x.reshape(len(x), -1)"
    if len(shape) == 4 and shape[1] in CHANNELS:
        hint = "put the channels last, with x.transpose(0, 2, 3, 1)"
    raise DataError(
        f"{name} has shape {tuple(shape)}: expected rows [n, d], or images [n, height, width] or "
        f"[n, height, width, channels] with 1, 3 or 4 channels; {hint}."
    )


def checked_blocks(
    blocks: Iterable[np.ndarray], *, n_features: int, name: str, image_shape: tuple[int, ...] | None = None
) -> Iterator[np.ndarray]:
    """Blocks of rows or images to predict on, each as finite rows [n, d] with the features of training.

    ``image_shape`` is that of the training images: other shapes are refused, even with the same number of pixels.
    """
    first = 0
    for block in blocks:
        rows = check_block(block, first, n_features=n_features, name=name, image_shape=image_shape)
        yield rows
        first += len(rows)


def check_block(
    block: np.ndarray, first_row: int, *, n_features: int, name: str, image_shape: tuple[int, ...] | None = None
) -> np.ndarray:
    """One block of `checked_blocks`; ``first_row`` is the index of its first row."""
    images = block.ndim == 4
    if images and image_shape is not None and block.shape[1:] != tuple(image_shape):
        found, known = ("x".join(map(str, shape)) for shape in (block.shape[1:], image_shape))
        raise DataError(f"{name} holds images of {found}, but the run was trained on images of {known}.")
    flat = block.reshape(len(block), -1) if len(block) else block.reshape(0, 1)
    rows = check_rows(flat, n_clusters=None, allow_single_row=True, images=images, first_row=first_row)
    if rows.shape[1] != n_features:
        raise DataError(f"{name} has {rows.shape[1]} features, but the run was trained on {n_features}.")
    return rows


def few(names: Iterable[str], most: int = NAMES_SHOWN) -> str:
    """The first few names of a list, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


def comma_separated(names: Iterable[str]) -> str:
    """The names as the command line takes them, in one line of CSV."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def check_names(names: Iterable[str], where: Path | str) -> list[str]:
    """The names of a table's columns; refuses names that occur twice."""
    listed = list(names)
    if twice := sorted(name for name, count in Counter(listed).items() if count > 1):
        raise DataError(f"{where} has several columns named {few(map(repr, twice))}: rename them.")
    return listed


def no_such_column(where: Path | str, name: str, names: list[str], *, of_training: bool) -> DataError:
    hint = did_you_mean(name, names, f": its columns are {few(map(repr, names))}.")
    return DataError(f"{where} has no column {name!r}{', which training had' if of_training else ''}{hint}")


def _as_float64(x: Any, *, images: bool) -> np.ndarray:
    if "scipy.sparse" in sys.modules and sys.modules["scipy.sparse"].issparse(x):  # without scipy, x cannot be sparse
        raise DataError("Sparse data is not supported: pass x.toarray(), if that fits in memory.")
    if issubclass(type(x), np.ma.MaskedArray):  # what is masked is missing
        x = x.astype(np.float64).filled(np.nan)
    try:
        rows = np.asarray(x)
    except ValueError as error:  # rows of unequal length
        raise DataError("The rows have unequal lengths: every row needs the same number of values.") from error
    if rows.dtype.kind == "O" and rows.ndim == 0:
        raise DataError(f"X is {type(x).__name__}, not rows: pass an array [n, d], images or a pandas DataFrame.")
    if rows.dtype.kind == "O":
        return _objects_as_float64(rows)
    if rows.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real and imaginary parts as separate columns.")
    if rows.dtype.kind not in "buif":
        kind = "strings" if rows.dtype.kind in "US" else f"values of type {rows.dtype}"
        raise DataError(f"The data holds {kind}, not numbers: encode them as numbers or drop those columns.")
    mapped = is_mapped(rows)
    is_float = rows.dtype == np.float32 or rows.dtype == np.float64
    if (images and rows.dtype == np.uint8) or (is_float and (images or mapped)):
        return rows
    return converted(rows, np.float64) if mapped else rows.astype(np.float64)


def _objects_as_float64(rows: np.ndarray) -> np.ndarray:
    """Tables with mixed columns arrive as objects: accept them if every cell is a number or missing."""
    flat = np.empty(rows.size, dtype=np.float64)
    for i, cell in enumerate(rows.ravel()):
        if isinstance(cell, str | bytes):
            raise DataError(
                f"The data holds strings, not numbers ({cell!r} at {_place(i, rows)}): "
                "encode them as numbers or drop that column."
            )
        if isinstance(cell, complex | np.complexfloating):
            raise DataError(f"Complex data not supported ({cell!r} at {_place(i, rows)}): pass real numbers.")
        try:
            flat[i] = np.nan if cell is None else float(cell)
        except (TypeError, ValueError) as error:
            raise CellTypeError(
                f"Each cell's argument must be a string or a number, got {type(cell).__name__} "
                f"at {_place(i, rows)}: drop that column or turn it into numbers."
            ) from error
    return flat.reshape(rows.shape)


def _place(i: int, rows: np.ndarray) -> str:
    index = np.unravel_index(i, rows.shape)
    return ", ".join(f"{name} {k}" for name, k in zip(("row", "column"), index, strict=False))


def _check_values(rows: np.ndarray, first_row: int, names: Sequence[str] | None) -> None:
    """Refuse numbers that are not finite, then those whose squares are not."""
    nan = inf = rows_hit = 0
    first = large = ""

    def place(row: int, column: int) -> str:
        return f"row {first_row + row}, column {column if names is None else repr(names[column])}"

    for start, block in row_blocks(rows):
        bad = ~np.isfinite(block)
        if bad.any():
            row, column = map(int, np.argwhere(bad)[0])
            first = first or place(start + row, column)
            nan, inf = nan + int(np.isnan(block).sum()), inf + int(np.isinf(block).sum())
            rows_hit += int(bad.any(axis=1).sum())
        elif not large:
            row, column = map(int, np.unravel_index(np.abs(block).argmax(), block.shape))
            if abs(float(block[row, column])) > TOO_LARGE:
                large = f"{block[row, column]:.3g} ({place(start + row, column)})"
    if first:
        raise DataError(
            f"The data holds {nan} NaN and {inf} inf values in {rows_hit} of {len(rows)} rows "
            f"(first at {first}): drop those rows or fill the values in."
        )
    if large:
        raise DataError(
            f"The data holds {large}: squares overflow beyond {TOO_LARGE:g}, so divide that column by a power of ten."
        )


def _check_clusters(n_clusters: int, n: int, fewest: int) -> None:
    if isinstance(n_clusters, bool) or not isinstance(n_clusters, int | np.integer):
        raise DataError(f"n_clusters must be a whole number or 'auto', got {n_clusters!r}.")
    if n_clusters < fewest:
        raise DataError(f"n_clusters must be at least {fewest}, got {n_clusters}.")
    if n_clusters > n:
        raise DataError(
            f"There are more clusters than rows (n_clusters={n_clusters}, n_samples={n}): "
            "lower n_clusters or give more rows."
        )


def _warn_constant(rows: np.ndarray, names: Sequence[str] | None, *, all_only: bool) -> None:
    if all_only and (rows[-1] != rows[0]).any():  # two rows are usually enough to tell
        return
    first, same = np.array(rows[0]), np.ones(rows.shape[1], dtype=bool)
    for _, block in row_blocks(rows):
        same &= (block == first).all(axis=0)
        if not same.any():
            return
    constant = np.flatnonzero(same)
    if len(constant) == rows.shape[1] or (len(constant) and not all_only):
        shown = few(str(i) if names is None else repr(names[i]) for i in map(int, constant))
        every = " (all of them: there is nothing to cluster)" if len(constant) == rows.shape[1] else ""
        warn_user(f"{len(constant)} of {rows.shape[1]} columns are constant{every} and carry no information: {shown}.")
