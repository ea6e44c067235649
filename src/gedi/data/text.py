"""Tables in text files, read a block of rows at a time: a file may be larger than memory."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from csv import Error as CsvError
from csv import reader as csv_reader
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from gedi.data.columns import Wanted, choose, encode_labels, missing_labels, not_numeric
from gedi.errors import DataError

ROWS_TO_NAME = 10_000  # looked at to name every column that holds text, once one was found
MISSING = {"", "na", "n/a", "nan", "null", "none"}


@dataclass(frozen=True)
class TextTable:
    """A text file whose header, features and labels have been found; its rows are still on disk."""

    path: Path
    has_header: bool
    kept: list[int]  # columns that are features
    label: int | None  # column of the labels
    names: list[str] | None  # of the features
    wanted: Wanted

    def blocks(self, rows: int) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Features [n, d] and the cells of the label column (none without one), at most ``rows`` rows at a time."""
        lines = _lines(self.path, skip=int(self.has_header))
        while some := list(islice(lines, rows)):
            values = np.empty((len(some), len(self.kept)))
            for j, i in enumerate(self.kept):
                values[:, j] = [self._value(line[i], i) for line in some]
            yield values, [] if self.label is None else [line[self.label] for line in some]

    def _value(self, cell: str, column: int) -> float:
        value = number(cell)
        if value is None:
            raise self._not_numeric(column, cell)
        return value

    def _not_numeric(self, column: int, cell: str) -> DataError:
        """Names all such columns at once: people would rather not meet them one by one."""
        if self.names is None:
            return DataError(
                f"In {self.path}, column {column + 1} is not numeric (it holds {cell!r}): remove it, or encode it as "
                "numbers; with a header line above it, it could be left out by its name."
            )
        held: dict[str, str] = {}
        for line in islice(_lines(self.path, skip=1), ROWS_TO_NAME):
            for name, i in zip(self.names, self.kept, strict=True):
                if name not in held and number(line[i]) is None:
                    held[name] = repr(line[i])
        in_order = {name: held[name] for name in self.names if name in held}
        return not_numeric(self.path, in_order or {self.names[self.kept.index(column)]: repr(cell)}, self.wanted)


def open_text(path: Path, wanted: Wanted) -> TextTable:
    """Look at as much of the file as it takes to know its columns."""
    first = next(_lines(path), None)
    if first is None:
        raise DataError(f"{path} is empty: there is nothing to read.")
    if not _has_header(path, first, wanted):
        for name in (wanted.label, *(wanted.dropped or ())):
            if name:
                raise DataError(f"{path} has no header line, so there is no column {name!r} in it.")
        return TextTable(path, False, list(range(len(first))), None, None, wanted)
    if next(_lines(path, skip=1), None) is None:
        raise DataError(f"{path} has a header line but no rows: there is nothing to read.")
    names = [cell.strip() or f"column {i + 1}" for i, cell in enumerate(first)]
    numbering = []
    if not first[0].strip() and all(line[0] == str(i) for i, line in enumerate(_lines(path, skip=1))):
        warnings.warn(f"Left out the first column of {path}: it only numbers the rows.", stacklevel=5)
        numbering = [0]
    kept, label = choose(names, wanted, path, lambda i: _looks_like_labels(path, i), left_out=numbering)
    return TextTable(path, True, kept, label, [names[i] for i in kept], wanted)


def label_numbers(cells: Sequence[str], path: Path) -> tuple[np.ndarray, list[str] | None]:
    """The labels of all rows as whole numbers, and what they stand for if they are words."""
    missing = sum(cell.strip().lower() in MISSING for cell in cells)
    if missing:
        raise missing_labels(path, missing)
    numbers = [number(cell) for cell in cells]
    if any(value is None for value in numbers):
        return encode_labels(np.array([cell.strip() for cell in cells]), path)
    return encode_labels(np.array(numbers, dtype=np.float64), path)


def number(cell: str) -> float | None:
    """A cell's number, NaN if it is missing, None if it is something else."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)  # float() reads 1_000 as a number, people do not
    except ValueError:
        return None


def _lines(path: Path, *, skip: int = 0) -> Iterator[list[str]]:
    """Lines that hold anything, as cells; all as many as in the first."""
    width = 0
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            file.seek(0)
            comma = ";" if ";" in first and "," not in first else ","
            lines = csv_reader(file, delimiter="\t" if path.suffix.lower() == ".tsv" else comma)
            for line in lines:
                if not any(cell.strip() for cell in line):
                    continue
                width = width or len(line)
                if len(line) != width:
                    raise DataError(
                        f"Line {lines.line_num} of {path} has {len(line)} values where the first has {width}."
                    )
                if skip:
                    skip -= 1
                else:
                    yield line
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: save it as UTF-8.") from error
    except CsvError as error:
        raise DataError(f"{path} is not a table of comma-separated values ({error}): save it as .csv.") from error


def _has_header(path: Path, first: Sequence[str], wanted: Wanted) -> bool:
    """The first line is a header if it is all text, or is text above a column of numbers.

    So '1.0,2.0,red' above more of the same is a row, not a header.
    """
    text = [number(cell) is None for cell in first]
    if {cell.strip() for cell in first} & set(wanted.names):
        return True
    if any(text) and all(is_text or cell.strip() == "" for is_text, cell in zip(text, first, strict=True)):
        return True
    return any(is_text and _all_below(path, i, lambda v: v is not None) for i, is_text in enumerate(text))


def _looks_like_labels(path: Path, column: int) -> bool:
    """Words, or whole numbers."""
    return _all_below(path, column, lambda v: v is None or math.isnan(v) or v.is_integer()) or not _all_below(
        path, column, lambda v: v is not None
    )


def _all_below(path: Path, column: int, test: Callable[[float | None], bool]) -> bool:
    """Whether there are cells below the first line and all of them pass."""
    passed = False
    for line in _lines(path, skip=1):
        passed = test(number(line[column]))
        if not passed:
            break
    return passed
