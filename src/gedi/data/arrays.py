"""Reads NumPy files; `gedi.data.tables` reads tables.

Labels found in a file are kept apart and used for evaluation only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import streaming
from gedi.data.checks import image_shape_of
from gedi.data.dataset import Dataset
from gedi.data.tables import TABLE_SUFFIXES, encode_labels
from gedi.errors import DataError

ARRAY_SUFFIXES = (".npy", ".npz")
BLOCK_ROWS = 4096  # most rows of a block
BLOCK_BYTES = 1 << 25  # most bytes of a block, in float64


def read(path: Path, split: str) -> Dataset:
    """Read a .npy file, or one split of an .npz file."""
    _check_suffix(path)
    content = streaming.open_numpy(path, mapped=path.stat().st_size > streaming.MAP_ABOVE)
    return _read_archive(content, path, split) if _is_archive(content) else _array_dataset(content, path)


def read_blocks(path: Path, split: str) -> Iterator[np.ndarray]:
    """The rows or images in a file, in order, a block at a time and without labels.

    Memory use stays at a few blocks of 32 MB (or of one row, if that is larger), however large the file.
    """
    _check_suffix(path)
    content = streaming.open_numpy(path, mapped=True)
    if _is_archive(content):
        with content:
            key, _ = _npz_keys(content.files, path, split)
        blocks = streaming.npz_blocks(path, key, block_rows)
    else:
        blocks = array_blocks(content)
    return (numeric_array(block, path) for block in blocks)


def block_rows(n_features: int) -> int:
    """Rows per block: fewer if they are wide."""
    return max(1, min(BLOCK_ROWS, BLOCK_BYTES // (8 * max(1, n_features))))


def array_blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    """An array, in memory or mapped, in blocks of rows; an empty array is one empty block."""
    if not len(x):
        yield x
        return
    for _, values in streaming.batches(x, block_rows(int(np.prod(x.shape[1:], dtype=np.int64)))):
        yield values


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() not in ARRAY_SUFFIXES:
        raise DataError(f"Cannot read {path}: expected a file ending in {', '.join(ARRAY_SUFFIXES + TABLE_SUFFIXES)}.")


def _is_archive(content: Any) -> bool:
    """Whether an opened file is an .npz archive, whatever its name."""
    return hasattr(content, "files")


def _array_dataset(x: np.ndarray, path: Path, y: np.ndarray | None = None, **more: Any) -> Dataset:
    x = numeric_array(x, path)
    return Dataset(path.stem, x, y, image_shape=x.shape[1:] if x.ndim == 4 else None, **more)


def archive_array(archive: Any, key: str, path: Path) -> np.ndarray:
    """One array of an open .npz file."""
    try:
        return archive[key]
    except streaming.DAMAGE as error:
        raise streaming.damaged(path, key) from error


def _read_archive(archive: Any, path: Path, split: str) -> Dataset:
    with archive:
        x_key, y_key = _npz_keys(archive.files, path, split)
        is_large = streaming.member_bytes(path, x_key) > streaming.MAP_ABOVE
        x = streaming.map_npz(path, x_key) if is_large else archive_array(archive, x_key, path)
        y = archive_array(archive, y_key, path) if y_key in archive.files else None
        together = f"groups_{split}" if x_key == f"x_{split}" else "groups"
        groups = archive_array(archive, together, path) if together in archive.files else None
    classes = None
    if y is not None:
        if y.shape != (len(x),):
            raise DataError(f"{path} holds {len(x)} rows but labels of shape {y.shape}: give one label per row.")
        y, classes = encode_labels(y, path)
    return _array_dataset(x, path, y, classes=classes, groups=groups)


def _npz_keys(keys: Sequence[str], path: Path, split: str) -> tuple[str, str]:
    """Names of the data and of the labels; the labels may be absent."""
    for x, y in (("x", "y"), ("X", "y"), (f"x_{split}", f"y_{split}")):
        if x in keys:
            return x, y
    others = [key for key in keys if key not in ("y", "groups")]
    if len(others) != 1 or others[0] in ("x_train", "x_test"):
        raise DataError(
            f"{path} holds the arrays {', '.join(keys) or '(none)'}: "
            f"name the data 'x' (or 'x_{split}') and the labels, if any, 'y' (or 'y_{split}')."
        )
    return others[0], "y"


def numeric_array(x: np.ndarray, path: Path) -> np.ndarray:
    """Rows [n, d] as floats, images [n, H, W] or [n, H, W, C] as [n, H, W, C] in uint8 or float32."""
    if x.dtype.kind not in "buif":
        raise DataError(f"{path} holds values of type {x.dtype}, not numbers: encode them as numbers first.")
    if x.ndim == 2:
        # float64 is kept until the offset is subtracted, see Scaler.
        if x.dtype in (np.float32, np.float64):
            return x
        return streaming.converted(x, np.float64) if streaming.is_mapped(x) else x.astype(np.float64)
    if x.ndim == 3:
        x = x[..., None]
    if image_shape_of(x.shape, f"The array in {path}") is None:
        raise DataError(f"The array in {path} has shape {x.shape}: expected rows [n, d], or images.")
    return x if x.dtype in (np.uint8, np.float32) else streaming.converted(x, np.float32)
