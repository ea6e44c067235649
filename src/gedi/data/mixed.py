"""Tables, from files and from Python: plain numbers as they are, anything else by a recipe for each column."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import tables
from gedi.data.cell_values import pandas, text_of
from gedi.data.checks import few, image_shape_of
from gedi.data.columns import NotPlainError, Wanted, encode_labels, missing_labels
from gedi.data.dataset import Dataset
from gedi.data.frames import open_frames, split_columns
from gedi.data.recognition import numbers_rows, recognise
from gedi.data.table_recipe import Surprises, TableRecipe, plain_recipe
from gedi.errors import DataError

READ_ROWS = 4096  # at a time
# How to read a file in Python, by its ending; anything else, such as a folder of images, by `gedi.data.load`.
READERS = {
    ".csv": "pandas.read_csv({})",
    ".tsv": "pandas.read_csv({}, sep='\\t')",
    ".xlsx": "pandas.read_excel({})",
    ".parquet": "pandas.read_parquet({})",
    ".npy": "numpy.load({})",
}


@dataclass(frozen=True, eq=False)
class TableBlock:
    """Some rows in the order of the file, and the columns to write beside them."""

    x: np.ndarray
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)


def read_table(path: Path, wanted: Wanted) -> Dataset:
    """A whole table. Plain numbers without gaps are read as they are; other tables get a recipe, unless ``raw``."""
    if wanted.raw or wanted.features is not None:
        return _read_plain(path, wanted)
    surprises = Surprises(str(path))  # not reported: the recipe is this table's own
    try:
        data = _read_plain(path, wanted)
    except NotPlainError:
        return _read_mixed(path, wanted, surprises)
    names = data.feature_names
    if np.isnan(data.x).any() or (names is not None and _has_ids(names, data.x)):
        return _read_mixed(path, wanted, surprises)
    return data if names is None else replace(data, table=plain_recipe(names, data.x))


def read_by_recipe(path: Path, wanted: Wanted, recipe: TableRecipe) -> Dataset:
    """A whole table, read in the same way as the training table."""
    wanted = replace(wanted, features=[column.name for column in recipe.used])
    surprises = Surprises(str(path))
    try:
        if not recipe.is_plain:
            raise NotPlainError
        data = _read_plain(path, wanted)
        data = replace(data, x=recipe.filled(data.x, surprises), feature_names=recipe.features, table=recipe)
    except NotPlainError:
        data = _read_mixed(path, wanted, surprises, recipe)
    surprises.warn()
    return data


def read_frame(frame: Any, where: str) -> tuple[Any, TableRecipe]:
    """The rows [n, d] of a data frame, and their recipe; frames of plain numbers without gaps come back unchanged."""
    is_numeric = pandas().api.types.is_numeric_dtype
    if all(map(is_numeric, frame.dtypes)) and len(frame) and not frame.isna().to_numpy().any():
        names = [str(name) for name in frame.columns]
        values = frame.to_numpy(dtype=np.float64)
        if np.isfinite(values).all() and not _has_ids(names, values):
            return frame, plain_recipe(names, values)
    recipe = recognise(frame, where)
    return recipe.encode(frame, Surprises(where)), recipe


def plain_blocks(path: Path, wanted: Wanted, block_rows: Callable[[int], int]) -> Iterator[np.ndarray]:
    """A table of plain numbers, in blocks without labels."""
    table = replace(tables.open_table(path, wanted), label=None)
    return (values for values, _ in table.blocks(block_rows(len(table.features))))


def recipe_blocks(
    path: Path, wanted: Wanted, recipe: TableRecipe, block_rows: Callable[[int], int], *, keep: bool = False
) -> Iterator[TableBlock]:
    """A table, read like the training table, in blocks: each with its rows' ids or, with ``keep``, all its cells."""
    wanted = replace(wanted, features=[column.name for column in recipe.used])
    surprises = Surprises(str(path))
    done = 0
    if recipe.is_plain and not recipe.ids and not keep:
        try:
            for values in plain_blocks(path, wanted, block_rows):
                yield TableBlock(recipe.filled(values, surprises))
                done += len(values)
        except NotPlainError:  # because of a cell further down: continue from there
            pass
        else:
            surprises.warn()
            return
    file = open_frames(path, wanted)
    for frame in file.blocks(block_rows(len(recipe.features))):
        done, skipped = max(0, done - len(frame)), done
        frame = frame.iloc[skipped:]
        if len(frame):
            beside = file.names if keep else [name for name in recipe.ids if name in file.names]
            yield TableBlock(recipe.encode(frame, surprises), {name: cells_as_text(frame[name]) for name in beside})
    surprises.warn()


def cells_as_text(column: Any) -> np.ndarray:
    """The cells of a pandas column as they are, to be written: numbers or text, None for gaps."""
    pd = pandas()
    if pd.api.types.is_numeric_dtype(column) and not column.isna().any():
        return column.to_numpy()
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.astype(str).where(column.notna(), None)
    return column.astype("object").where(column.notna(), None).to_numpy()


def _read_plain(path: Path, wanted: Wanted) -> Dataset:
    table = tables.open_table(path, wanted)
    blocks, cells = [np.empty((0, len(table.features)))], []
    for values, labels in table.blocks(READ_ROWS):
        blocks.append(values)
        cells += labels
    y, classes = (None, None) if table.label is None else table.labels(cells)
    return Dataset(path.stem, np.concatenate(blocks), y, table.names, classes=classes)


def _has_ids(names: list[str], rows: np.ndarray) -> bool:
    """Whether some of the columns, but not all, only number the rows."""
    found = [numbers_rows(name, rows[:, j]) for j, name in enumerate(names)]
    return any(found) and not all(found)


def _read_mixed(path: Path, wanted: Wanted, surprises: Surprises, recipe: TableRecipe | None = None) -> Dataset:
    """A table of any content, by the recipe or, without one, by what its columns hold."""
    file = open_frames(path, wanted)
    frame = file.whole()
    features, label = split_columns(file, frame, wanted)
    recipe = recipe or recognise(features, str(path))
    x = recipe.encode(features, surprises)
    y, classes = (None, None) if label is None else _labels(label, path)
    ids = {name: cells_as_text(frame[name]) for name in recipe.ids if name in frame}
    return Dataset(path.stem, x, y, recipe.features, classes=classes, table=recipe, ids=ids or None)


def _labels(column: Any, path: Path) -> tuple[np.ndarray, list[str] | None]:
    """Labels as whole numbers, and the words they stand for, if they are words."""
    text = text_of(column)
    if missing := int(text.isna().sum()):
        raise missing_labels(path, missing)
    numbers = pandas().to_numeric(text, errors="coerce")
    return encode_labels(np.asarray(text.astype(object) if numbers.isna().any() else numbers.astype(float)), path)


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
