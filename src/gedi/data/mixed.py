"""Tables, from files and from Python: plain numbers as they are, anything else by a recipe for each column."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from gedi.data.cell_values import number_in, pandas
from gedi.data.checks import comma_separated, few, image_shape_of
from gedi.data.dataset import Dataset
from gedi.data.recognition import numbers_rows, recognise
from gedi.data.table_recipe import Surprises, TableRecipe, plain_recipe
from gedi.data.tables import READ_ROWS, Chosen, TableFile, Wanted, open_table
from gedi.errors import DataError

KEPT_CELLS = 1 << 21  # of a table that seems to be plain numbers, until that is certain: about 130 MB of text
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
    """Some rows in the order of the file, and what else the file holds about them."""

    x: np.ndarray
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)  # columns to write beside them
    labels: Any = None  # a pandas column, if there are any


# ---- files ----


def read_table(path: Path, wanted: Wanted) -> Dataset:
    """A whole table. Plain numbers without gaps are read as they are; other tables get a recipe, unless ``raw``."""
    file = open_table(path, wanted)
    chosen = file.choose(wanted)
    names = [file.names[i] for i in chosen.features]
    if wanted.raw or wanted.features is not None:
        data = _joined(file, plain_blocks(file, chosen, wanted, READ_ROWS))
        return replace(data, feature_names=names) if file.has_header else data
    frames = file.frames(READ_ROWS, chosen.places)
    seen, parts = [], []
    for frame in frames:
        seen = [*seen, frame] if len(parts) * READ_ROWS * len(names) < KEPT_CELLS else []
        parts.append(_plain_block(file, chosen, frame))
        if parts[-1] is None or np.isnan(parts[-1].x).any():
            break
    else:
        data = _joined(file, parts)
        if not file.has_header:
            return data
        if not _has_ids(names, data.x):
            return replace(data, feature_names=names, table=plain_recipe(names, data.x))
    # It holds more than plain numbers. Read on, or again if it is so large that its beginning was not kept.
    rest = chain(seen, frames) if len(seen) == len(parts) else file.frames(READ_ROWS, chosen.places)
    return _read_mixed(file, chosen, pandas().concat(list(rest), ignore_index=True))


def read_by_recipe(path: Path, wanted: Wanted, recipe: TableRecipe) -> Dataset:
    """A whole table, read in the same way as the training table; ``wanted`` names the columns that the recipe uses."""
    file = open_table(path, wanted)
    data = _joined(file, recipe_blocks(file, wanted, recipe, READ_ROWS))
    return replace(data, feature_names=recipe.features, table=recipe)


def plain_blocks(file: TableFile, chosen: Chosen, wanted: Wanted, rows: int) -> Iterator[TableBlock]:
    """A table of plain numbers, in blocks of at most ``rows``; anything else is an error that names the columns."""
    for frame in file.frames(rows, chosen.places):
        block = _plain_block(file, chosen, frame)
        if block is None:
            raise _not_numeric(file, frame.iloc[:, : len(chosen.features)], wanted)
        yield block


def _plain_block(file: TableFile, chosen: Chosen, frame: Any) -> TableBlock | None:
    """The numbers and labels in a data frame of the chosen columns; None if it holds anything else."""
    numbers = [file.numbers(frame.iloc[:, j]) for j in range(len(chosen.features))]
    labels = None if chosen.label is None else frame.iloc[:, -1]
    return None if any(x is None for x in numbers) else TableBlock(np.stack(numbers, axis=1), labels=labels)  # type: ignore[arg-type]


def _not_numeric(file: TableFile, frame: Any, wanted: Wanted) -> DataError:
    """The error that says which columns of a data frame do not hold numbers, what they hold, and what to do."""
    held: dict[str, str] = {}
    for name, column in frame.items():
        if file.numbers(column) is None:
            strange = (repr(str(cell)) for cell in column if number_in(str(cell)) is None)
            held[str(name)] = next(strange, str(column.dtype))
    first, what = next(iter(held.items()))
    if not file.has_header:
        return DataError(
            f"In {file.path}, {first} is not numeric (it holds {what}): remove it or encode it as numbers, or add a "
            "header line and leave the column out by name."
        )
    is_single = len(held) == 1
    which = f"column {first!r} is" if is_single else f"the columns {few(map(repr, held))} are"
    if wanted.dropped is not None and is_single:
        fix = f"leave it out with --drop {quote(comma_separated(held))}, name it with --label-column {quote(first)} if "
        fix += "it holds the labels, or encode it as numbers"
    elif wanted.dropped is not None:
        fix = f"leave them out with --drop {quote(comma_separated(held))}, name the column of labels with "
        fix += "--label-column, or encode them as numbers"
    elif wanted.features is None:
        fix = "remove columns that training did not have, or name a column 'label' if it holds the labels"
    else:
        fix = f"{'it' if is_single else 'they'} must hold numbers, as in training"
    return DataError(f"In {file.path}, {which} not numeric ({'it' if is_single else repr(first)} holds {what}): {fix}.")


def recipe_blocks(
    file: TableFile, wanted: Wanted, recipe: TableRecipe, rows: int, *, keep: bool = False
) -> Iterator[TableBlock]:
    """A table, read like the training table, in blocks: each with its rows' ids or, with ``keep``, all its cells."""
    names = [column.name for column in recipe.used]
    beside = [i for i, name in enumerate(file.names) if keep or name in recipe.ids]
    surprises = Surprises(str(file.path))

    def encode(frame: Any) -> np.ndarray:
        if recipe.is_plain and not file.has_header:  # columns are then matched by position
            if frame.shape[1] != len(names):
                raise DataError(
                    f"{file.path} has {frame.shape[1]} features and no header line, but the run was trained on "
                    f"{len(names)}: {few(map(repr, names))}."
                )
            frame = frame.set_axis(names, axis=1)
        return recipe.encode(frame, surprises)

    chosen = file.choose(wanted)
    first, last = len(chosen.features), len(chosen.features) + len(beside)
    for frame in file.frames(rows, [*chosen.features, *beside, *chosen.places[first:]]):
        others = {name: cells_as_text(column) for name, column in frame.iloc[:, first:last].items()}
        yield TableBlock(encode(frame.iloc[:, :first]), others, None if chosen.label is None else frame.iloc[:, -1])
    surprises.warn()


def _joined(file: TableFile, blocks: Iterable[TableBlock]) -> Dataset:
    """All rows of the blocks, with their labels and the columns to write beside them."""
    parts = list(blocks)
    y, classes = None, None
    if parts[0].labels is not None:
        y, classes = file.labels(pandas().concat([part.labels for part in parts]))
    ids = {name: np.concatenate([part.beside[name] for part in parts]) for name in parts[0].beside}
    return Dataset(file.path.stem, np.concatenate([part.x for part in parts]), y, classes=classes, ids=ids or None)


def _read_mixed(file: TableFile, chosen: Chosen, frame: Any) -> Dataset:
    """A data frame of the chosen columns, by what they hold."""
    features = frame.iloc[:, : len(chosen.features)]
    x, recipe = recognise(features, str(file.path))
    y, classes = (None, None) if chosen.label is None else file.labels(frame.iloc[:, -1])
    ids = {name: cells_as_text(features[name]) for name in recipe.ids}
    return Dataset(file.path.stem, x, y, recipe.features, classes=classes, table=recipe, ids=ids or None)


def cells_as_text(column: Any) -> np.ndarray:
    """The cells of a pandas column as they are, to be written: numbers or text, None for gaps."""
    pd = pandas()
    if pd.api.types.is_numeric_dtype(column) and not column.isna().any():
        return column.to_numpy()
    if pd.api.types.is_datetime64_any_dtype(column):
        column = column.astype(str).where(column.notna(), None)
    return column.astype("object").where(column.notna(), None).to_numpy()


def _has_ids(names: list[str], rows: np.ndarray) -> bool:
    """Whether some of the columns, but not all, only number the rows."""
    found = [numbers_rows(name, rows[:, j]) for j, name in enumerate(names)]
    return any(found) and not all(found)


# ---- Python ----


def read_frame(frame: Any, where: str) -> tuple[Any, TableRecipe]:
    """The rows [n, d] of a data frame, and their recipe; frames of plain numbers without gaps come back unchanged."""
    is_numeric = pandas().api.types.is_numeric_dtype
    if all(map(is_numeric, frame.dtypes)) and len(frame) and not frame.isna().to_numpy().any():
        names = [str(name) for name in frame.columns]
        values = frame.to_numpy(dtype=np.float64)
        if np.isfinite(values).all() and not _has_ids(names, values):
            return frame, plain_recipe(names, values)
    return recognise(frame, where)


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
