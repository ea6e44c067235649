"""Files dropped on the page, as rows: tables, NumPy files or pictures, recognised by their first bytes."""

from __future__ import annotations

import io
import tempfile
import warnings
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gedi.data import check_block, stream
from gedi.data.pictures import UNREADABLE
from gedi.data.tables import TABLE_SUFFIXES
from gedi.errors import DataError
from gedi.report.data_sample import row_ids
from gedi.training.model import TrainedModel

BODY_BYTES = 32 * 2**20  # in one file
UPLOAD_BYTES = 256 * 2**20  # in a whole .npz file
MOST_PIXELS = 40_000_000  # in one picture
ROWS_ANSWERED = 2_000  # in one answer; gedi predict has no limit
DAMAGED = "{} cannot be read as a picture: it is damaged."
FIRST_BYTES = {b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\x89PNG\r\n\x1a\n": ".png", b"\xff\xd8\xff": ".jpg"}


@dataclass(frozen=True, eq=False)
class Upload:
    """The first rows of a file."""

    rows: np.ndarray  # [n, d], as the model takes them
    names: list[str]  # their numbers and ids
    cells: dict[str, list[Any]] = field(default_factory=dict[str, list[Any]])  # of a table: its columns, unchanged
    more: bool = False  # whether the file has more rows


def rows_of(body: bytes, name: str, model: TrainedModel) -> Upload:
    """The first ``ROWS_ANSWERED`` rows in a file."""
    if not body:
        raise DataError(f"{name} is empty.")
    suffix = next((suffix for start, suffix in FIRST_BYTES.items() if body.startswith(start)), None)
    is_picture = suffix in (".png", ".jpg")
    if is_picture:
        _check_picture(body, name, model)
    elif suffix == ".npz":
        _check_unpacked(body, name)
        suffix = ".xlsx" if name.lower().endswith(".xlsx") else suffix
    elif suffix is None:
        _check_text(body, name)
        suffix = ".tsv" if name.lower().endswith(".tsv") else ".csv"
    with tempfile.TemporaryDirectory(prefix="gedi-") as folder:
        path = Path(folder) / f"dropped{suffix}"
        path.write_bytes(body)
        try:
            upload = _first_rows(path, name, model)
        except DataError as error:
            why = DAMAGED.format(name) if is_picture else str(error).replace(str(path), name)
            raise DataError(why) from error
    return replace(upload, names=[name]) if is_picture else upload


def _first_rows(path: Path, name: str, model: TrainedModel) -> Upload:
    is_table = model.table is not None and path.suffix in TABLE_SUFFIXES
    blocks: list[np.ndarray] = []
    cells: dict[str, list[Any]] = {}
    count, shape = 0, model.image_shape
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about gaps and new words, which the page shows
        for part in stream(path, keep=is_table, **model.reading).parts:
            blocks.append(check_block(part.x, count, n_features=model.n_features, name=name, image_shape=shape))
            for column, some in part.beside.items():
                cells.setdefault(column, []).extend(some.tolist())
            count += len(part.x)
            if count > ROWS_ANSWERED:
                break
    if not count:
        raise DataError(f"{name} has no rows.")
    rows = np.concatenate(blocks)[:ROWS_ANSWERED]
    cells = {column: some[:ROWS_ANSWERED] for column, some in cells.items()}
    known = [] if model.table is None else model.table.ids
    ids = row_ids({column: cells[column] for column in known if column in cells}, range(len(rows)))
    names = [f"row {i} · {ids[i]}" if ids else f"row {i}" for i in range(len(rows))]
    return Upload(rows, names, cells, count > ROWS_ANSWERED)


def _check_text(body: bytes, name: str) -> None:
    if b"\0" in body and not body.startswith((b"\xff\xfe", b"\xfe\xff")):  # the marks of UTF-16
        raise DataError(f"{name} cannot be read as data: drop a .csv, .tsv, .xlsx, .npy or .npz file, a PNG or a JPEG.")


def _check_unpacked(body: bytes, name: str) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise DataError(f"{name} is a damaged archive: save it again.") from error
    if size > UPLOAD_BYTES:
        raise DataError(
            f"{name} has {size:,} bytes unpacked, but the limit here is {UPLOAD_BYTES:,}: use gedi predict instead."
        )


def _check_picture(body: bytes, name: str, model: TrainedModel) -> None:
    if model.image_shape is None:
        raise DataError(
            f"{name} is a picture, but the run was trained on rows of {model.n_features} features: drop rows instead."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow would warn about what is refused below
            with Image.open(io.BytesIO(body), formats=("PNG", "JPEG")) as image:
                across, down = image.size
    except UNREADABLE as error:
        raise DataError(DAMAGED.format(name)) from error
    if across * down > MOST_PIXELS:
        raise DataError(f"{name} has {across * down:,} pixels, but the limit is {MOST_PIXELS:,}: make it smaller.")
