"""Arrays larger than memory: mapped from disk, read in batches, and released again."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import hashlib
import math
import mmap
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pooch

from gedi.errors import DataError

MAP_ABOVE = 1 << 30  # bytes: larger arrays stay on disk
BLOCK = 1 << 22  # bytes moved at a time when copying
# Linux maps up to 2 MiB around each row that is read, however small it is: we measured 33 MB for 64 rows of 3 kB.
ROWS_AT_ONCE = 16
DAMAGE = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error, KeyError, SyntaxError)


def open_numpy(path: Path, *, mapped: bool = False) -> Any:
    """np.load without unpickling: a file that needs it is refused.

    ``mapped`` leaves the bytes of a .npy file on disk until they are read; the array is then read-only.
    """
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except DAMAGE as error:
        raise DataError(
            f"Cannot read {path} as a NumPy file of plain numbers (it is damaged or holds Python objects): "
            "save it again with np.save or np.savez and a numeric dtype."
        ) from error


def member_bytes(path: Path, key: str) -> int:
    """Unpacked size of one array of an .npz file, according to its directory."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.getinfo(f"{key}.npy").file_size
    except DAMAGE as error:
        raise damaged(path, key) from error


def map_npz(path: Path, key: str) -> np.ndarray:
    """One array of an .npz file, unpacked once into the user's cache and mapped from there.

    The copy is named after the file's path, size and time, so a changed file is unpacked again.
    """
    stat = path.stat()
    name = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{key}"
    copy = cache_dir() / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npy"
    if not copy.is_file():
        _unpack(path, key, copy)
    return open_numpy(copy, mapped=True)


def _unpack(path: Path, key: str, copy: Path) -> None:
    size = member_bytes(path, key)
    free = shutil.disk_usage(copy.parent).free
    if size > free:
        raise DataError(
            f"The array {key!r} of {path} takes {size:,} bytes unpacked, but {copy.parent} has only {free:,} free: "
            "make room there, or save the array as .npy, which is read in place."
        )
    # Renamed once complete, so that a stopped run leaves no partial array behind.
    part = tempfile.NamedTemporaryFile(dir=copy.parent, suffix=".part", delete=False)  # noqa: SIM115
    try:
        with part, zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as member:
            shutil.copyfileobj(member, part, BLOCK)
    except DAMAGE as error:
        raise damaged(path, key) from error
    else:
        Path(part.name).replace(copy)
    finally:
        Path(part.name).unlink(missing_ok=True)


def damaged(path: Path, key: str) -> DataError:
    return DataError(f"Cannot read the array {key!r} of {path}: it is damaged or holds objects.")


def npz_blocks(path: Path, key: str, block_rows: Callable[[int], int]) -> Iterator[np.ndarray]:
    """One array of an .npz file in blocks of rows, unpacked as they are read: a false header cannot fill memory.

    ``block_rows`` gives the number of rows in a block from the number of values in a row.
    """
    try:
        with zipfile.ZipFile(path) as archive, archive.open(f"{key}.npy") as member:
            shape, by_columns, dtype = _npy_header(member)
            rows = block_rows(math.prod(shape[1:]))
            if not by_columns:
                yield from _member_blocks(member, shape, dtype, rows)
                return
            # Stored column by column: reading rows in order takes the whole array.
            whole = None
            if archive.getinfo(f"{key}.npy").file_size <= MAP_ABOVE:
                whole = np.frombuffer(member.read(), dtype).reshape(shape, order="F")
    except DAMAGE as error:
        raise damaged(path, key) from error
    for _, values in batches(map_npz(path, key) if whole is None else whole, rows):
        yield values


def _npy_header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = read[np.lib.format.read_magic(member)](member)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return shape, by_columns and len(shape) > 1, dtype


def _member_blocks(member: IO[bytes], shape: tuple[int, ...], dtype: np.dtype, rows: int) -> Iterator[np.ndarray]:
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    count = shape[0] if shape else 1
    for start in range(0, max(1, count), rows):
        some = min(rows, count - start)
        data = member.read(some * row_bytes)
        if len(data) != some * row_bytes:
            raise ValueError("it ends too early")
        yield np.frombuffer(data, dtype).reshape(some, *shape[1:])


def cache_dir() -> Path:
    """The folder of unpacked arrays, in the user's cache."""
    folder = Path(pooch.os_cache("gedi")) / "unpacked"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scratch(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array to fill: in memory, or if larger than ``MAP_ABOVE`` in a file that disappears with the array."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if size <= MAP_ABOVE:
        return np.empty(shape, dtype)
    with tempfile.TemporaryFile(dir=cache_dir()) as file:  # the map outlives the file's name
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape)


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """x in another type, converted a block at a time; the result may be on disk."""
    y = scratch(x.shape, dtype)
    for start, rows in row_blocks(x):
        y[start : start + len(rows)] = rows
        release(y)
    return y


def row_blocks(x: np.ndarray, size: int | None = None) -> Iterator[tuple[int, np.ndarray]]:
    """All rows of x in order, ``size`` or a few megabytes at a time, each block with the index of its first row.

    A block of a mapped x is released when the next one is read.
    """
    size = size or max(1, BLOCK // max(1, _row_bytes(x)))
    for start in range(0, len(x), size):
        yield start, x[start : start + size]
        release(x)


def is_mapped(x: np.ndarray) -> bool:
    """Whether x, or the array it is part of, is mapped from a file."""
    return _memmap_under(x) is not None


def release(x: np.ndarray) -> None:
    """Release the pages of a mapped array: they stay in the file, and no longer count as this process's memory."""
    mapped = _memmap_under(x)
    if mapped is None or mapped.mode == "c":  # a copy-on-write map keeps its changes only in its pages
        return
    map_ = mapped.base
    if isinstance(map_, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):  # not on Windows
        map_.madvise(mmap.MADV_DONTNEED)


def _memmap_under(x: np.ndarray) -> np.memmap[Any, Any] | None:
    """The map that x is a view of, as it was opened."""
    found: np.memmap[Any, Any] | None = None
    base: Any = x
    while isinstance(base, np.ndarray):
        if isinstance(base, np.memmap):
            found = cast("np.memmap[Any, Any]", base)
        base = base.base
    return found if isinstance(base, mmap.mmap) else None  # results computed from a map keep its class


def batches(
    x: np.ndarray, size: int, *, rng: np.random.Generator | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """All rows of x once, as pairs (indices, values in memory): in order, or shuffled by ``rng``.

    Memory use stays at a few batches, however large a mapped x is.
    """
    if size < 1:
        raise DataError(f"The batch size must be at least 1, got {size}.")
    order = np.arange(len(x)) if rng is None else rng.permutation(len(x))
    for start in range(0, len(x), size):
        places = order[start : start + size]
        yield places, take(x, places)


def take(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """x[places] in memory; the pages that a mapped x reads around them are released."""
    if not is_mapped(x):
        return x[places]
    values = np.empty((len(places), *x.shape[1:]), x.dtype)
    by_place = np.argsort(places)  # reading in order is faster
    rows = min(len(places), ROWS_AT_ONCE)
    if len(places) and places[by_place[-1]] - places[by_place[0]] < len(places):  # adjacent rows share pages
        rows = max(rows, BLOCK // max(1, _row_bytes(x)))
    for start in range(0, len(places), max(1, rows)):
        some = by_place[start : start + rows]
        values[some] = x[places[some]]
        release(x)
    return values


def _row_bytes(x: np.ndarray) -> int:
    return math.prod(x.shape[1:]) * x.dtype.itemsize
