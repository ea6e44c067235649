"""Tables in Parquet files, read a block of rows at a time; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data.columns import Wanted, choose, encode_labels, missing_labels, not_numeric
from gedi.errors import DataError


@dataclass(frozen=True, eq=False)
class ParquetTable:
    """An open Parquet file whose features and labels have been found; its rows are still on disk."""

    path: Path
    file: Any
    names: list[str]  # of the features
    label: str | None  # column of the labels

    def blocks(self, rows: int) -> Iterator[np.ndarray]:
        """Features [n, d] in float64, at most ``rows`` rows at a time; what is missing is NaN."""
        for batch in _batches(self.path, self.file, rows, self.names):
            yield np.stack([_floats(column) for column in batch.columns], axis=1)

    def labels(self) -> tuple[np.ndarray | None, list[str] | None]:
        """The labels of all rows as whole numbers, and what they stand for if they are words."""
        if self.label is None:
            return None, None
        values = _values(self.path, self.file, self.label)
        missing = sum(value is None for value in values)
        if missing:
            raise missing_labels(self.path, missing)
        return encode_labels(np.asarray(values), self.path)


def open_parquet(path: Path, wanted: Wanted) -> ParquetTable:
    """Read the file's schema and find its features and labels."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise DataError(
            f"Reading {path} needs pyarrow: pip install 'gedi[parquet]', or save the table as .csv."
        ) from error
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path) from error
    schema = file.schema_arrow
    names = [n for n in schema.names if not n.startswith("__index_level_")]  # pandas' own index
    places, label = choose(names, wanted, path, lambda i: _is_categorical(_values(path, file, names[i])))
    kept = [names[i] for i in places]
    kinds = {name: schema.field(name).type for name in kept}
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    if other := {name: str(kind) for name, kind in kinds.items() if not any(test(kind) for test in numbers)}:
        raise not_numeric(path, other, wanted)
    return ParquetTable(path, file, kept, None if label is None else names[label])


def _batches(path: Path, file: Any, rows: int, names: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    try:
        yield from (batch.select(names) for batch in file.iter_batches(rows, columns=names))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path) from error


def _floats(column: Any) -> np.ndarray:
    if column.null_count:
        return np.asarray([np.nan if value is None else value for value in column.to_pylist()], dtype=np.float64)
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _values(path: Path, file: Any, name: str) -> list[Any]:
    return [value for batch in _batches(path, file, 65_536, [name]) for value in batch.column(0).to_pylist()]


def _is_categorical(values: list[Any]) -> bool:
    known = [v for v in values if v is not None]
    return not all(isinstance(v, float) for v in known) or all(v == round(v) for v in known)


def _damaged(path: Path) -> DataError:
    return DataError(f"Cannot read {path} as a Parquet file: it is damaged or of another kind.")
