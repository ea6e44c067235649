"""Tables of any content as pandas data frames: text in any common encoding, Parquet and Excel files."""

from __future__ import annotations

import codecs
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import tables
from gedi.data.cell_values import pandas
from gedi.data.columns import Wanted, choose
from gedi.errors import DataError

UNPACKED_BYTES = 1 << 30  # of an Excel file, which is an archive
ENCODING_BYTES = 1 << 20  # bytes read at a time to find the encoding


@dataclass(frozen=True, eq=False)
class FrameFile:
    """A table whose cells may hold anything; they are still on disk, except those of an Excel file."""

    path: Path
    names: list[str]
    blocks: Callable[[int], Iterator[Any]]  # data frames of at most this many rows; cells of a text file are text

    def whole(self) -> Any:
        """All rows in one data frame."""
        return pandas().concat(list(self.blocks(1 << 16)), ignore_index=True)


def open_frames(path: Path, wanted: Wanted) -> FrameFile:
    """Open a table by its suffix."""
    openers = {".parquet": _open_parquet, ".xlsx": _open_excel}
    return openers.get(path.suffix.lower(), _open_text)(path, wanted)


def split_columns(file: FrameFile, frame: Any, wanted: Wanted) -> tuple[Any, Any]:
    """The columns to learn from, and the column of labels or None."""
    kept, label = choose(file.names, wanted, file.path, lambda i: _holds_classes(frame.iloc[:, i]))
    return frame.iloc[:, kept], None if label is None else frame.iloc[:, label]


def _holds_classes(column: Any) -> bool:
    """Whether cells are words, or all whole numbers."""
    numbers = pandas().to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    gaps = column.isna() | column.astype(str).str.strip().str.lower().isin(tables.MISSING)
    return bool((np.isnan(numbers) & ~gaps.to_numpy()).any()) or not (numbers[~np.isnan(numbers)] % 1).any()


# ---- text ----


def _open_text(path: Path, wanted: Wanted) -> FrameFile:
    encoding = encoding_of(path)
    names = tables.header_of(path, wanted, encoding)
    first = next(tables.text_lines(path, encoding=encoding))
    columns = names or [f"column {i + 1}" for i in range(len(first))]

    def blocks(rows: int) -> Iterator[Any]:
        lines = tables.text_lines(path, skip=0 if names is None else 1, encoding=encoding)
        while some := list(islice(lines, rows)):
            yield pandas().DataFrame(some, columns=columns, dtype="object")

    return FrameFile(path, columns, blocks)


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
    return "utf-8-sig"


# ---- Parquet and Excel ----


def _open_parquet(path: Path, wanted: Wanted) -> FrameFile:
    file, names = tables.parquet_file(path)

    def blocks(rows: int) -> Iterator[Any]:
        for batch in tables.parquet_batches(path, file, rows, names):
            yield batch.to_pandas()

    return FrameFile(path, names, blocks)


def _open_excel(path: Path, wanted: Wanted) -> FrameFile:
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
    names = [
        f"column {i + 1}" if name.startswith("Unnamed: ") else name.strip()
        for i, name in enumerate(map(str, sheet.columns))
    ]
    if not len(sheet):
        raise DataError(f"The first sheet of {path} has no rows: there is nothing to read.")
    sheet.columns = names

    def blocks(rows: int) -> Iterator[Any]:
        yield from (sheet.iloc[i : i + rows] for i in range(0, len(sheet), rows))

    return FrameFile(path, names, blocks)
