"""Tables written a block at a time, whole or not at all: csv, parquet and npz."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.tables import pyarrow
from gedi.errors import DataError

OUTPUT_SUFFIXES = (".csv", ".parquet", ".npz")

Columns = Mapping[str, np.ndarray]
Write = Callable[[Columns], None]


@contextmanager
def new_file(path: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """A temporary path to write to, renamed to ``path`` at the end; after an error nothing is left behind.

    An existing file is not overwritten.
    """
    check_new_file(path, suffixes)
    # A folder beside it, not in /tmp: a rename is atomic only on the same disk.
    try:
        with tempfile.TemporaryDirectory(prefix=".gedi-", dir=path.parent) as folder:
            part = Path(folder) / f"part{path.suffix.lower()}"
            yield part
            with part.open("rb") as file:
                os.fsync(file.fileno())
            check_new_file(path, suffixes)
            part.replace(path)
    except OSError as error:
        raise DataError(f"{path} could not be written: {error.strerror or error}.") from error


def check_new_file(path: Path, suffixes: tuple[str, ...]) -> None:
    """Refuse a path that cannot be written to, before any time is spent on its content."""
    if path.suffix.lower() not in suffixes:
        raise DataError(f"{path} must end in {', '.join(suffixes)}.")
    if os.path.lexists(path):
        raise DataError(f"{path} already exists: choose another --out, or remove it first.")
    if not path.parent.is_dir():
        raise DataError(f"The folder {path.parent} does not exist: create it first.")
    if path.suffix.lower() == ".parquet":
        pyarrow(f"Writing {path}")


@contextmanager
def new_table(path: Path) -> Iterator[Write]:
    """A function that appends a block of columns to the table; all blocks must have the same columns."""
    writers = {".csv": _csv_writer, ".parquet": _parquet_writer, ".npz": _npz_writer}
    with new_file(path, OUTPUT_SUFFIXES) as part, writers[part.suffix](part) as write:
        yield write


@contextmanager
def _csv_writer(path: Path) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)

        def write(columns: Columns) -> None:
            if not file.tell():
                writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))

        yield write


@contextmanager
def _parquet_writer(path: Path) -> Iterator[Write]:
    pa, pq = pyarrow(f"Writing {path}")
    writer: Any = None
    with ExitStack() as stack:

        def write(columns: Columns) -> None:
            nonlocal writer
            table = pa.table(dict(columns))
            writer = writer or stack.enter_context(pq.ParquetWriter(path, table.schema))
            writer.write_table(table.cast(writer.schema))

        yield write


@contextmanager
def _npz_writer(path: Path) -> Iterator[Write]:
    """An archive stores one array after the other, so each column waits in its own file until all rows are known."""
    folder = path.parent
    waiting: dict[str, tuple[Path, np.dtype, tuple[int, ...]]] = {}
    words: dict[str, list[str]] = {}  # text has no fixed width until its last row is known
    rows = 0

    def write(columns: Columns) -> None:
        nonlocal rows
        for i, (name, column) in enumerate(columns.items()):
            if column.dtype.kind in "OU":
                words.setdefault(name, []).extend("" if cell is None else str(cell) for cell in column.tolist())
                continue
            place = folder / f"column-{i}"
            waiting.setdefault(name, (place, column.dtype, column.shape[1:]))
            with place.open("ab") as file:
                file.write(np.ascontiguousarray(column).data)
        rows += len(next(iter(columns.values())))

    yield write
    arrays: dict[str, Any] = {
        name: np.memmap(place, dtype, mode="r", shape=(rows, *shape)) for name, (place, dtype, shape) in waiting.items()
    }
    np.savez_compressed(path, **{name: np.array(cells) for name, cells in words.items()}, **arrays)
