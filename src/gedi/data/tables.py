"""Tables in text and Parquet files, read a block of rows at a time: a file may be larger than memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from csv import Error as CsvError
from csv import reader as csv_reader
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.checks import few
from gedi.data.columns import (
    MISSING,
    NotPlainError,
    Wanted,
    choose,
    encode_labels,
    is_whole,
    missing_labels,
    not_numeric,
    number_in,
)
from gedi.errors import DataError, warn_user

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx")
UTF8 = "utf-8-sig"  # with or without a byte-order mark
ROWS_TO_NAME = 10_000  # searched for further text columns once one is found, so that one message names them all


@dataclass(frozen=True, eq=False)
class Table(ABC):
    """A file whose features and labels are known; its rows are still on disk."""

    path: Path
    names: list[str] | None  # of the features; None without a header
    features: list[Any]  # their columns in the file
    label: Any  # column of the labels; None without labels

    @abstractmethod
    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, list[Any]]]:
        """Features [n, d] in float64, NaN if missing, and the label cells, if any; at most ``rows`` rows at a time."""

    @abstractmethod
    def labels(self, cells: list[Any]) -> tuple[np.ndarray, list[str] | None]:
        """The label cells of all rows as whole numbers, and the words they stand for, if they are words."""


def open_table(path: Path, wanted: Wanted) -> Table:
    """Open a table of plain numbers, reading only as much as it takes to know its columns."""
    if path.suffix.lower() == ".xlsx":
        raise NotPlainError(f"{path} cannot be read as plain numbers: save it as .csv, or leave out --raw.")
    return open_parquet(path, wanted) if path.suffix.lower() == ".parquet" else open_text(path, wanted)


# ---- text ----


@dataclass(frozen=True, eq=False)
class TextTable(Table):
    """A .csv or .tsv file, with columns by number."""

    wanted: Wanted

    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        lines = text_lines(self.path, skip=0 if self.names is None else 1)
        while some := list(islice(lines, rows)):
            values = np.empty((len(some), len(self.features)))
            for j, i in enumerate(self.features):
                values[:, j] = [self._value(line[i], i) for line in some]
            yield values, [] if self.label is None else [line[self.label].strip() for line in some]

    def labels(self, cells: list[str]) -> tuple[np.ndarray, list[str] | None]:
        if missing := sum(cell.lower() in MISSING for cell in cells):
            raise missing_labels(self.path, missing)
        numbers = [number_in(cell) for cell in cells]
        return encode_labels(np.array(cells if None in numbers else numbers), self.path)

    def _value(self, cell: str, column: int) -> float:
        value = number_in(cell)
        if value is None:
            raise self._not_numeric(column, cell)
        return value

    def _not_numeric(self, column: int, cell: str) -> NotPlainError:
        """An error that names all such columns at once."""
        if self.names is None:
            return NotPlainError(
                f"In {self.path}, column {column + 1} is not numeric (it holds {cell!r}): remove it or encode it as "
                "numbers, or add a header line and leave the column out by name."
            )
        held: dict[str, str] = {}
        for line in islice(text_lines(self.path, skip=1), ROWS_TO_NAME):
            for name, i in zip(self.names, self.features, strict=True):
                if name not in held and number_in(line[i]) is None:
                    held[name] = repr(line[i])
        in_order = {name: held[name] for name in self.names if name in held}
        return not_numeric(self.path, in_order or {self.names[self.features.index(column)]: repr(cell)}, self.wanted)


def open_text(path: Path, wanted: Wanted) -> TextTable:
    names = header_of(path, wanted)
    first = next(text_lines(path))
    if names is None:
        return TextTable(path, None, list(range(len(first))), None, wanted)
    numbering = []
    if not first[0].strip() and wanted.features is None and _counts_rows(path):
        if not wanted.raw:
            raise NotPlainError(f"The first column of {path} only numbers the rows.")
        warn_user(f"Left out the first column of {path}: it only numbers the rows.")
        numbering = [0]
    kept, label = choose(names, wanted, path, lambda i: _holds_classes(path, i), left_out=numbering)
    return TextTable(path, [names[i] for i in kept], kept, label, wanted)


def header_of(path: Path, wanted: Wanted, encoding: str = UTF8) -> list[str] | None:
    """The names of the columns; None if the first line is a row."""
    first = next(text_lines(path, encoding=encoding), None)
    if first is None:
        raise DataError(f"{path} is empty: there is nothing to read.")
    if not _has_header(path, first, wanted, encoding):
        for name in (wanted.label, *(wanted.dropped or ())):
            if name:
                raise DataError(f"{path} has no header line, so it has no column {name!r}.")
        return None
    if next(text_lines(path, skip=1, encoding=encoding), None) is None:
        raise DataError(f"{path} has a header line but no rows: there is nothing to read.")
    return [cell.strip() or f"column {i + 1}" for i, cell in enumerate(first)]


def _counts_rows(path: Path) -> bool:
    """Whether the first column counts from 0."""
    return all(line[0] == str(i) for i, line in enumerate(text_lines(path, skip=1)))


def text_lines(path: Path, *, skip: int = 0, encoding: str = UTF8) -> Iterator[list[str]]:
    """The cells of every line that is not blank; all lines must have as many as the first."""
    width = 0
    try:
        with path.open(newline="", encoding=encoding) as file:
            first = file.readline()
            file.seek(0)
            comma = ";" if first.count(";") > first.count(",") else ","
            lines = csv_reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else comma)
            for line in lines:
                if not any(cell.strip() for cell in line):
                    continue
                width = width or len(line)
                if len(line) != width:
                    raise DataError(
                        f"Line {lines.line_num} of {path} has {len(line)} values, but the first line has {width}."
                    )
                if skip:
                    skip -= 1
                else:
                    yield line
    except UnicodeDecodeError as error:
        raise NotPlainError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    except CsvError as error:
        raise DataError(f"{path} is not a table of comma-separated values ({error}): save it as .csv.") from error


def _has_header(path: Path, first: Sequence[str], wanted: Wanted, encoding: str) -> bool:
    """The first line is a header if it is all text, or has text above a column of numbers.

    So '1.0,2.0,red' above similar lines is a row, not a header.
    """
    if {cell.strip() for cell in first} & set(wanted.names):
        return True
    text = [i for i, cell in enumerate(first) if number_in(cell) is None]
    if text and not any(cell.strip() for i, cell in enumerate(first) if i not in text):
        return True
    has_rows = False
    for line in text_lines(path, skip=1, encoding=encoding):
        has_rows = True
        text = [i for i in text if number_in(line[i]) is not None]
        if not text:
            break
    return has_rows and bool(text)


def _holds_classes(path: Path, column: int) -> bool:
    """Whether the cells below the header are words, or all whole numbers."""
    whole = True
    for line in text_lines(path, skip=1):
        value = number_in(line[column])
        if value is None:
            return True
        whole = whole and is_whole(value)
    return whole


# ---- Parquet ----


@dataclass(frozen=True, eq=False)
class ParquetTable(Table):
    """An open .parquet file, with columns by name; needs pyarrow."""

    file: Any

    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, list[Any]]]:
        columns = self.features if self.label is None else [*self.features, self.label]
        for batch in parquet_batches(self.path, self.file, rows, columns):
            values = np.stack([_floats(batch.column(name)) for name in self.features], axis=1)
            yield values, [] if self.label is None else batch.column(self.label).to_pylist()

    def labels(self, cells: list[Any]) -> tuple[np.ndarray, list[str] | None]:
        if missing := sum(cell is None for cell in cells):
            raise missing_labels(self.path, missing)
        return encode_labels(np.asarray(cells), self.path)


def pyarrow(purpose: str) -> tuple[Any, Any]:
    """pyarrow and its module for Parquet, if they are installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(f"{purpose} needs pyarrow: pip install 'gedi-ssl[parquet]', or use .csv.") from error
    return pa, pq


def parquet_file(path: Path) -> tuple[Any, list[str]]:
    """An open file, and the names of its columns."""
    pa, pq = pyarrow(f"Reading {path}")
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path) from error
    names = [n for n in file.schema_arrow.names if not n.startswith("__index_level_")]  # pandas' own index
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError(f"{path} has several columns named {few(map(repr, sorted(twice)))}: rename them.")
    return file, names


def open_parquet(path: Path, wanted: Wanted) -> ParquetTable:
    pa, _ = pyarrow(f"Reading {path}")
    file, names = parquet_file(path)
    schema = file.schema_arrow
    places, label = choose(names, wanted, path, lambda i: _is_categorical(path, file, names[i]))
    kept = [names[i] for i in places]
    kinds = {name: schema.field(name).type for name in kept}
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if other := {name: str(kind) for name, kind in kinds.items() if not any(test(kind) for test in numbers)}:
        raise not_numeric(path, other, wanted)
    if label is not None and pa.types.is_nested(kind := schema.field(names[label]).type):
        raise DataError(
            f"In {path}, the label column {names[label]!r} holds {kind}, not one label per row: save a number or a "
            "word in each row, or leave the column out."
        )
    return ParquetTable(path, kept, kept, None if label is None else names[label], file)


def parquet_batches(path: Path, file: Any, rows: int, names: list[str]) -> Iterator[Any]:
    """Batches of at most ``rows`` rows of the columns in ``names``."""
    pa, _ = pyarrow(f"Reading {path}")
    try:
        yield from file.iter_batches(rows, columns=list(dict.fromkeys(names)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path) from error


def _floats(column: Any) -> np.ndarray:
    if column.null_count:
        return np.asarray([np.nan if value is None else value for value in column.to_pylist()], dtype=np.float64)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _is_categorical(path: Path, file: Any, name: str) -> bool:
    cells = (cell for batch in parquet_batches(path, file, 65_536, [name]) for cell in batch.column(0).to_pylist())
    known = [cell for cell in cells if cell is not None]
    return not all(isinstance(cell, float) for cell in known) or all(map(is_whole, known))


def _damaged(path: Path) -> DataError:
    return DataError(f"Cannot read {path} as a Parquet file: it is damaged, or not a Parquet file.")
