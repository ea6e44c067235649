"""Text, Parquet and Excel files of any content, read as pandas data frames, one block of rows at a time.

A file may be larger than memory.
"""

from __future__ import annotations

import codecs
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from csv import Error as CsvError
from csv import field_size_limit
from csv import reader as csv_reader
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedi.data.cell_values import MISSING, number_in, pandas
from gedi.data.checks import check_names, no_such_column
from gedi.errors import DataError, warn_user

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet", ".xlsx")
UTF8 = "utf-8-sig"  # with or without a byte-order mark
COMMAS = ",;\t|"  # what may separate cells: the most frequent one in the first line
SEPARATOR = re.compile(r"^sep=([^\w\s]|\t)\r?\n", re.IGNORECASE)  # a first line that tells Excel what does
READ_ROWS = 4096  # at a time
ENCODING_BYTES = 1 << 20  # bytes read at a time to find the encoding
UNPACKED_BYTES = 1 << 30  # of an Excel file, which is an archive


@dataclass(frozen=True)
class Wanted:
    """The columns that the caller asks for, by name."""

    label: str | None = None  # None: 'label', or 'y' if it holds classes; "": no labels, every column is a feature
    features: Sequence[str] | None = None  # these, in this order, whatever else the table holds
    dropped: Sequence[str] | None = ()  # None: the caller cannot drop columns, so no message may suggest it
    raw: bool = False  # every feature must be a plain number

    @property
    def names(self) -> list[str]:
        """All columns that must exist."""
        return [*([self.label] if self.label else []), *(self.features or []), *(self.dropped or [])]


class Chosen(NamedTuple):
    """The places of columns in a table."""

    features: list[int]
    label: int | None  # None: there are no labels

    @property
    def places(self) -> list[int]:
        """All of them, the label last."""
        return self.features if self.label is None else [*self.features, self.label]


@dataclass(frozen=True, eq=False)
class TableFile:
    """An open table; its cells are still on disk, except those of an Excel file."""

    path: Path
    names: list[str]  # of all columns; 'column 1', ... for those without a name
    frames: Callable[[int, Sequence[int]], Iterator[Any]]  # given the most rows of a block, and the columns' places
    is_text: bool = False  # numbers and dates are text, too
    has_header: bool = True

    def choose(self, wanted: Wanted) -> Chosen:
        """Which columns are features or labels; without a header, all are features."""
        names, of_training = self.names, wanted.dropped is None
        if not self.has_header and not {*(wanted.features or ())} <= {*names}:
            return Chosen(list(range(len(names))), None)
        for name in wanted.names:
            if name not in names:
                raise no_such_column(self.path, name, names, of_training=of_training and name != wanted.label)
        if wanted.features is not None:
            kept = [names.index(name) for name in wanted.features]
            label = self._find_label(wanted.label, kept)
        else:
            gone = [i for i, name in enumerate(names) if name in (wanted.dropped or ())]
            if wanted.raw and names[0] == "column 1" and self._counts_rows():
                warn_user(f"Left out the first column of {self.path}: it only numbers the rows.")
                gone.append(0)
            label = self._find_label(wanted.label, gone)
            kept = [i for i in range(len(names)) if i != label and i not in gone]
        if not kept:
            raise DataError(f"{self.path} has no columns left besides labels and dropped columns: keep at least one.")
        chosen = Chosen(kept, label)
        asked = {names[i] for i in chosen.places}
        check_names((name for name in names if name in asked), self.path)
        return chosen

    def _find_label(self, wanted: str | None, gone: Sequence[int]) -> int | None:
        """The column that the caller names, or 'label', or 'y' if it holds classes and there is no 'x' beside it."""
        if wanted:
            return self.names.index(wanted)
        if wanted is None:
            left = [name for i, name in enumerate(self.names) if i not in gone]
            if "label" in left:
                return self.names.index("label")
            if "y" in left and "x" not in self.names and self._holds_classes(self.names.index("y")):
                return self.names.index("y")
        return None

    def labels(self, column: Any) -> tuple[np.ndarray, list[str] | None]:
        """A pandas column of labels as whole numbers, and the words they stand for, if they are words."""
        numbers = self.numbers(column)
        if numbers is not None:
            return encode_labels(numbers, self.path)
        if column.map(pandas().api.types.is_list_like).any():
            raise DataError(
                f"In {self.path}, the label column {column.name!r} holds lists, not one label per row: save a number "
                "or a word in each row, or leave the column out."
            )
        words = column.astype(str).str.strip()
        if missing := int((column.isna() | words.str.lower().isin(MISSING)).sum()):
            raise missing_labels(self.path, missing)
        return encode_labels(np.array(words.tolist()), self.path)

    def numbers(self, column: Any) -> np.ndarray | None:
        """A pandas column as plain numbers, NaN for gaps; None if it holds anything else."""
        if self.is_text:
            values = [number_in(cell) for cell in column]
            return None if None in values else np.array(values, dtype=np.float64)
        is_numeric = pandas().api.types.is_numeric_dtype(column)
        return column.to_numpy(dtype=np.float64, na_value=np.nan) if is_numeric else None

    def _counts_rows(self) -> bool:
        """Whether the first column has no name, and counts from 0."""
        cells = (cell for frame in self.frames(READ_ROWS, [0]) for cell in frame.iloc[:, 0])
        return self.has_header and all(str(cell) == str(i) for i, cell in enumerate(cells))

    def _holds_classes(self, place: int) -> bool:
        """Whether a column holds words, or only whole numbers."""
        whole = True
        for frame in self.frames(READ_ROWS, [place]):
            numbers = self.numbers(frame.iloc[:, 0])
            if numbers is None:
                return True
            whole = whole and bool((np.isnan(numbers) | (np.isfinite(numbers) & (numbers == np.round(numbers)))).all())
        return whole


def encode_labels(y: np.ndarray, path: Path) -> tuple[np.ndarray, list[str] | None]:
    """Labels in int64: whole numbers as they are, anything else numbered in sorted order, with the list of classes."""
    if y.dtype.kind in "bui":
        return y.astype(np.int64), None
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise missing_labels(path, int((~np.isfinite(y)).sum()))
        if (y == np.round(y)).all():
            return y.astype(np.int64), None
    classes, numbers = np.unique(y, return_inverse=True)
    return numbers.astype(np.int64), [str(name) for name in classes]


def missing_labels(path: Path, count: int) -> DataError:
    return DataError(
        f"The label column of {path} has {count} missing values: "
        "fill them in, or leave the column out (labels are only needed for evaluation)."
    )


def open_table(path: Path, wanted: Wanted) -> TableFile:
    """Open a table by its suffix, reading only as much as it takes to know its columns."""
    if path.suffix.lower() == ".parquet":
        return _open_parquet(path)
    return _open_excel(path) if path.suffix.lower() == ".xlsx" else _open_text(path, wanted)


# ---- text ----


def _open_text(path: Path, wanted: Wanted) -> TableFile:
    encoding = encoding_of(path)
    if wanted.raw and encoding != UTF8:
        raise _not_utf8(path)
    first = next(text_lines(path, encoding), None)
    if first is None:
        raise DataError(f"{path} is empty: there is nothing to read.")
    has_header = _has_header(path, first, wanted, encoding)
    if has_header and next(text_lines(path, encoding, skip=1), None) is None:
        raise DataError(f"{path} has a header line but no rows: there is nothing to read.")
    for name in () if has_header else (wanted.label, *(wanted.dropped or ())):
        if name:
            raise DataError(f"{path} has no header line, so it has no column {name!r}.")
    if has_header:
        _refuse_title(path, [cell.strip() for cell in first])
    names = [(cell.strip() if has_header else "") or f"column {i + 1}" for i, cell in enumerate(first)]

    def frames(rows: int, places: Sequence[int]) -> Iterator[Any]:
        lines = text_lines(path, encoding, skip=int(has_header))
        columns = [names[i] for i in places]
        while some := list(islice(lines, rows)):
            yield pandas().DataFrame([[line[i] for i in places] for line in some], columns=columns, dtype="object")

    return TableFile(path, names, frames, is_text=True, has_header=has_header)


def _refuse_title(path: Path, names: Sequence[str]) -> None:
    """Refuse a header that names one of three or more columns: the names of the columns are further down."""
    named = [name for name in names if name]
    if len(named) == 1 < len(names) - 1:
        raise DataError(
            f"Only one of the {len(names)} columns of {path} has a name, {named[0]!r}. If it is a title, delete the "
            "lines above the names of the columns."
        )


def encoding_of(path: Path) -> str:
    """UTF-8 or UTF-16, or else what Windows and older programs write in western Europe."""
    with path.open("rb") as file:
        start = file.read(2)
        if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block := file.read(ENCODING_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            file.seek(0)
            undefined = b"\x81\x8d\x8f\x90\x9d"  # bytes that latin-1 defines and cp1252 does not
            blocks = iter(lambda: file.read(ENCODING_BYTES), b"")
            return "latin-1" if any(set(block) & set(undefined) for block in blocks) else "cp1252"
    return UTF8


def text_lines(path: Path, encoding: str, *, skip: int = 0) -> Iterator[list[str]]:
    """The cells of every line that is not blank; every line must have as many cells as the first."""
    width = 0
    try:
        with path.open(newline="", encoding=encoding) as file:
            first, before = file.readline(), 1
            told = SEPARATOR.match(first)
            if told is None:
                file.seek(before := 0)
            comma = told[1] if told else "\t" if path.suffix.lower() == ".tsv" else max(COMMAS, key=first.count)
            lines = csv_reader(file, delimiter=comma)
            for line in lines:
                if not any(cell.strip() for cell in line):
                    continue
                width = width or len(line)
                if len(line) != width:
                    place = f"Line {before + lines.line_num} of {path}"
                    hint = ": if that is a title, delete it." if width == 1 else "."
                    raise DataError(f"{place} has {len(line)} values, but the first line has {width}{hint}")
                if skip:
                    skip -= 1
                else:
                    yield line
    except UnicodeError as error:
        raise _not_utf8(path) from error
    except CsvError as error:
        if "field limit" in str(error):
            raise DataError(
                f"A cell of {path} has more than {field_size_limit():,} characters: close its quotation mark, or "
                "leave that column out of the file."
            ) from error
        raise DataError(f"{path} is not a table of comma-separated values ({error}): save it as .csv.") from error


def _not_utf8(path: Path) -> DataError:
    return DataError(f"{path} is not UTF-8 text: save it as UTF-8.")


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
    for line in text_lines(path, encoding, skip=1):
        has_rows = True
        text = [i for i in text if number_in(line[i]) is not None]
        if not text:
            break
    return has_rows and bool(text)


# ---- Parquet ----


def pyarrow(purpose: str) -> tuple[Any, Any]:
    """pyarrow and its module for Parquet, if they are installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(f"{purpose} needs pyarrow: pip install 'gedi-ssl[parquet]', or use .csv.") from error
    return pa, pq


def _open_parquet(path: Path) -> TableFile:
    pa, pq = pyarrow(f"Reading {path}")
    damaged = f"Cannot read {path} as a Parquet file: it is damaged, or not a Parquet file."
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(damaged) from error
    own_index = "__index_level_"  # of pandas, without a name
    names = check_names((name for name in file.schema_arrow.names if not name.startswith(own_index)), path)
    if not file.metadata.num_rows:
        raise DataError(f"{path} has no rows: there is nothing to read.")
    kinds = {pa.bool_(): pandas().BooleanDtype()}  # otherwise, columns of true, false and gaps would be objects

    def frames(rows: int, places: Sequence[int]) -> Iterator[Any]:
        columns = [names[i] for i in places]
        try:
            for batch in file.iter_batches(rows, columns=list(dict.fromkeys(columns))):
                # A column may have been pandas' index: it becomes one again.
                yield batch.to_pandas(types_mapper=kinds.get).reset_index()[columns]
        except (pa.ArrowException, OSError) as error:
            raise DataError(damaged) from error

    return TableFile(path, names, frames)


# ---- Excel ----


def _open_excel(path: Path) -> TableFile:
    """The first sheet of a workbook, with the values that its formulas had when it was saved."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > UNPACKED_BYTES:
            raise DataError(
                f"{path} has {size:,} bytes unpacked, but the limit is {UNPACKED_BYTES:,}: save it as .csv."
            )
        sheet = pandas().read_excel(path, sheet_name=0, engine="openpyxl")
    except DataError:
        raise
    except Exception as error:  # on a damaged archive or odd XML, the parser can raise anything
        raise DataError(f"Cannot read {path} as an Excel file: it is damaged, or not an .xlsx file.") from error
    sheet = sheet.dropna(how="all")
    # 'Unnamed: 3' is what pandas calls a column without a name.
    given = ["" if name.startswith("Unnamed: ") else name.strip() for name in map(str, sheet.columns)]
    _refuse_title(path, given)
    names = [name or f"column {i + 1}" for i, name in enumerate(given)]
    if not len(sheet):
        raise DataError(f"The first sheet of {path} has no rows: there is nothing to read.")
    sheet.columns = names

    def frames(rows: int, places: Sequence[int]) -> Iterator[Any]:
        yield from (sheet.iloc[i : i + rows, list(places)] for i in range(0, len(sheet), rows))

    return TableFile(path, names, frames)
