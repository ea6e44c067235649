"""Readers for the user's own files. Labels found in a file are kept apart and used for evaluation only."""

import difflib
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from csv import reader as csv_reader
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import streaming
from gedi.data.streaming import open_numpy
from gedi.errors import DataError

SUFFIXES = (".npy", ".npz", ".csv", ".tsv", ".parquet")
MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True, eq=False)
class Table:
    """What a file holds: rows or images, labels if it has any, and column names if it has any."""

    x: np.ndarray
    y: np.ndarray | None = None
    names: list[str] | None = None
    groups: np.ndarray | None = None  # places of rows that belong together, [groups, rows of a group]


def read(path: Path, *, split: str, label_column: str | None) -> Table:
    """Read a file by its suffix; only .npz files know splits, any other file is one whole."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return Table(numeric_array(streaming.open_npy(path), path))
    if suffix == ".npz":
        return _read_npz(path, split)
    if suffix in (".csv", ".tsv"):
        return _read_text(path, label_column)
    if suffix == ".parquet":
        return _read_parquet(path, label_column)
    raise DataError(f"Cannot read {path}: expected a file ending in {', '.join(SUFFIXES)}.")


def archive_array(archive: Any, key: str, path: Path) -> np.ndarray:
    """One array of an open .npz file."""
    try:
        return archive[key]
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"Cannot read the array {key!r} of {path}: it is damaged or holds objects.") from error


def _read_npz(path: Path, split: str) -> Table:
    archive = open_numpy(path)
    if not hasattr(archive, "files"):  # a .npy file under another name
        return Table(numeric_array(archive, path))
    with archive:
        keys = list(archive.files)
        pairs = [("x", "y"), ("X", "y"), (f"x_{split}", f"y_{split}")]
        pair = next((p for p in pairs if p[0] in keys), None)
        if pair is None:
            others = [k for k in keys if k not in ("y", "groups")]
            if len(others) != 1 or others[0] in ("x_train", "x_test"):
                raise DataError(
                    f"{path} holds the arrays {', '.join(keys) or '(none)'}: "
                    f"name the data 'x' (or 'x_{split}') and the labels, if any, 'y' (or 'y_{split}')."
                )
            pair = (others[0], "y")
        is_large = streaming.member_bytes(path, pair[0]) > streaming.MAP_ABOVE
        x = streaming.map_npz(path, pair[0]) if is_large else archive_array(archive, pair[0], path)
        x = numeric_array(x, path)
        y = archive_array(archive, pair[1], path) if pair[1] in keys else None
        together = f"groups_{split}" if pair[0] == f"x_{split}" else "groups"
        groups = archive_array(archive, together, path) if together in keys else None
    if y is not None:
        if y.shape != (len(x),):
            raise DataError(f"{path} holds {len(x)} rows but labels of shape {y.shape}: give one label a row.")
        y = encode_labels(y, path)
    return Table(x, y, groups=groups)


def numeric_array(x: np.ndarray, path: Path) -> np.ndarray:
    """Rows [n, d] as floats, images [n, H, W] or [n, H, W, C] as [n, H, W, C] in uint8 or float32."""
    if x.dtype.kind not in "buif":
        raise DataError(f"{path} holds values of type {x.dtype}, not numbers: encode them as numbers first.")
    if x.ndim == 2:
        # float64 survives until the offset is subtracted, see Scaler
        return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64)
    if x.ndim == 3:
        x = x[..., None]
    if x.ndim != 4 or x.shape[-1] not in (1, 3, 4):
        raise DataError(
            f"{path} holds an array of shape {x.shape}: expected rows [n, d], "
            "or images [n, height, width] or [n, height, width, channels] with 1, 3 or 4 channels."
        )
    return x if x.dtype in (np.uint8, np.float32) else streaming.as_float32(x)


def encode_labels(y: np.ndarray, path: Path) -> np.ndarray:
    """Whole numbers as they are, anything else numbered in sorted order; int64."""
    if y.dtype.kind in "bui":
        return y.astype(np.int64)
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise _missing_labels(path, int((~np.isfinite(y)).sum()))
        if (y == np.round(y)).all():
            return y.astype(np.int64)
    return np.unique(y, return_inverse=True)[1].astype(np.int64)


def _missing_labels(path: Path, count: int) -> DataError:
    return DataError(
        f"The label column of {path} has {count} missing values: "
        "fill them in, or leave the column out (labels are only needed for evaluation)."
    )


# ---- tables: text and Parquet ----


def _read_text(path: Path, label_column: str | None) -> Table:
    lines = _text_rows(path)
    columns = list(zip(*lines, strict=True))
    if not _has_header(columns, label_column):
        if label_column:
            raise DataError(f"{path} has no header line, so there is no column {label_column!r} in it.")
        return Table(_stack([_floats(c, f"column {i + 1}", path) for i, c in enumerate(columns)], path))
    names = [c[0].strip() for c in columns]
    cells = {i: c[1:] for i, c in enumerate(columns)}
    if len(lines) == 1:
        raise DataError(f"{path} has a header line but no rows: there is nothing to read.")
    if names[0] == "" and list(cells[0]) == [str(i) for i in range(len(lines) - 1)]:
        warnings.warn(f"Left out the first column of {path}: it only numbers the rows.", stacklevel=4)
        del cells[0]
    label = _find_label(names, label_column, path, lambda i: _looks_like_labels(cells[i]))
    y = None
    if label is not None:
        y = _text_labels(cells.pop(label), path)
    named = [names[i] or f"column {i + 1}" for i in cells]
    x = _stack([_floats(c, f"column {n!r}", path) for n, c in zip(named, cells.values(), strict=True)], path)
    return Table(x, y, named)


def _text_rows(path: Path) -> list[list[str]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            comma = ";" if ";" in first and "," not in first else ","
            rows = csv_reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else comma)
            lines = [(rows.line_num, row) for row in rows if any(cell.strip() for cell in row)]
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    if not lines:
        raise DataError(f"{path} is empty: there is nothing to read.")
    width = len(lines[0][1])
    for number, row in lines:
        if len(row) != width:
            raise DataError(f"Line {number} of {path} has {len(row)} values where the first has {width}.")
    return [row for _, row in lines]


def _number(cell: str) -> float | None:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)  # float() reads 1_000 as a number, people do not
    except ValueError:
        return None


def _has_header(columns: Sequence[Sequence[str]], label_column: str | None) -> bool:
    """The first line is a header if it is all text, or is text above a column of numbers.

    So '1.0,2.0,red' above more of the same is a row, not a header.
    """
    text = [_number(c[0]) is None for c in columns]
    filled = [c[0].strip() != "" for c in columns]
    if label_column and any(label_column == c[0].strip() for c in columns):
        return True
    if any(text) and all(t or not f for t, f in zip(text, filled, strict=True)):
        return True
    return any(
        t and len(c) > 1 and all(_number(v) is not None for v in c[1:]) for t, c in zip(text, columns, strict=True)
    )


def _floats(cells: Sequence[str], name: str, path: Path) -> np.ndarray:
    values = np.empty(len(cells))
    for i, cell in enumerate(cells):
        number = _number(cell)
        if number is None:
            raise _not_numeric(path, name, repr(cell))
        values[i] = number
    return values


def _not_numeric(path: Path, name: str, what: str) -> DataError:
    return DataError(
        f"In {path}, {name} is not numeric (it holds {what}): drop it or encode it as numbers, "
        "or name it as label_column if it holds the labels."
    )


def _text_labels(cells: Sequence[str], path: Path) -> np.ndarray:
    missing = sum(c.strip().lower() in MISSING for c in cells)
    if missing:
        raise _missing_labels(path, missing)
    numbers = [_number(c) for c in cells]
    if any(v is None for v in numbers):
        return encode_labels(np.array([c.strip() for c in cells]), path)
    return encode_labels(np.array(numbers, dtype=np.float64), path)


def _looks_like_labels(cells: Sequence[str]) -> bool:
    numbers = [_number(c) for c in cells]
    return any(v is None for v in numbers) or all(v == round(v) for v in numbers if v is not None and v == v)


def _find_label(names: list[str], wanted: str | None, path: Path, categorical: Any) -> int | None:
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


def _stack(columns: list[np.ndarray], path: Path) -> np.ndarray:
    if not columns:
        raise DataError(f"{path} has no columns left besides its labels.")
    return np.stack(columns, axis=1)


def _read_parquet(path: Path, label_column: str | None) -> Table:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            f"Reading {path} needs pyarrow: pip install 'gedi[parquet]', or save the table as .csv."
        ) from error
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"Cannot read {path} as a Parquet file: it is damaged or of another kind.") from error
    names = [n for n in table.column_names if not n.startswith("__index_level_")]  # pandas' own index

    def labels(i: int) -> np.ndarray:
        column = table.column(names[i])
        if column.null_count:
            raise _missing_labels(path, column.null_count)
        return np.asarray(column.to_pylist())

    def categorical(i: int) -> bool:
        values = [v for v in table.column(names[i]).to_pylist() if v is not None]
        return not all(isinstance(v, float) for v in values) or all(v == round(v) for v in values)

    label = _find_label(names, label_column, path, categorical)
    y = None if label is None else encode_labels(labels(label), path)
    kept = [n for i, n in enumerate(names) if i != label]
    columns = []
    for name in kept:
        column = table.column(name)
        kind = column.type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise _not_numeric(path, f"column {name!r}", str(kind))
        values = [np.nan if v is None else v for v in column.to_pylist()] if column.null_count else None
        columns.append(np.asarray(values if values is not None else column.to_numpy(), dtype=np.float64))
    return Table(_stack(columns, path), y, kept)
