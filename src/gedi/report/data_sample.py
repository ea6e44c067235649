"""A bounded sample of a run's data, kept in its folder so that a report can still be made if the data has moved.

It includes the labels, if there are any: a report shows them beside the clusters. Training never reads it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save

from gedi.data import Dataset
from gedi.data.streaming import take
from gedi.errors import RunError
from gedi.files.reading import parse_json, shown
from gedi.files.tensors import Spec, check_layout, open_tensors
from gedi.files.writing import finite, write_whole

FILE = "data-sample.safetensors"
ROWS_KEPT = 2_000  # more would make pages slower, but no clearer
BYTES = 2**24  # for all rows together
ROW_TYPES = (torch.uint8, torch.float32, torch.float64)
NAME_LENGTH = 60  # characters shown of the name of a column or label
MOST_CLASSES = 1_000  # with names; more are unlikely to be labels


@dataclass(frozen=True, eq=False)
class DataSample:
    """Some of the rows [n, d] that a run was trained on, unscaled."""

    name: str
    rows: np.ndarray
    total: int  # rows in the whole data set
    labels: np.ndarray | None = None  # int64 [n]
    feature_names: list[str] = field(default_factory=list)  # one per column, or empty
    classes: list[str] = field(default_factory=list)  # names of the labels; empty if they are numbers
    places: np.ndarray | None = None  # int64 [n]: the rows' numbers in the whole data set; None if unknown
    ids: list[str] = field(default_factory=list)  # what the data calls its rows, such as file names; or empty

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == self.total

    def label(self, value: int) -> str:
        """The name of a label."""
        return self.classes[value] if self.classes else str(value)

    def label_groups(self, labels: np.ndarray) -> tuple[list[str], np.ndarray]:
        """The names of the labels that occur, and the place of each row's label among them."""
        values, group = np.unique(labels, return_inverse=True)
        return [self.label(int(value)) for value in values], group

    def feature(self, column: int) -> str:
        """A column's name, or its number."""
        return self.feature_names[column] if self.feature_names else f"feature {column}"

    def row_name(self, row: int) -> str:
        """How a reader can find the row: its number in the data, and its id if it has one."""
        number = f"row {int(self.places[row]):,}" if self.places is not None else f"row {row:,} of the sample"
        return f"{number} · {self.ids[row]}" if self.ids else number


def sample_of(data: Dataset) -> DataSample:
    """At most `ROWS_KEPT` rows of a data set, always the same ones, in their original order."""
    total, width = len(data.x), int(np.prod(data.x.shape[1:]))
    most = max(1, min(ROWS_KEPT, BYTES // (8 * width)))
    places = np.arange(total)
    if total > most:
        places = np.sort(np.random.default_rng(0).choice(total, most, replace=False))
    rows = _narrow(take(data.x, places).reshape(len(places), width))
    labels = None if data.y is None else np.asarray(data.y)[places].astype(np.int64)
    names = [shown(str(name), NAME_LENGTH) for name in data.feature_names or []]
    classes = [shown(str(name), NAME_LENGTH) for name in data.classes or []]
    classes = classes if len(classes) <= MOST_CLASSES else []
    ids = row_ids(data.ids or {}, places) if data.files is None else [data.files[i] for i in places]
    ids = [shown(name, NAME_LENGTH) for name in ids]
    names = names if len(names) == width else []
    return DataSample(data.name, rows, total, labels, names, classes, places.astype(np.int64), ids)


def row_ids(columns: Mapping[str, Sequence[Any] | np.ndarray], places: Sequence[int] | np.ndarray) -> list[str]:
    """What the id columns of a table call its rows; empty if there are no such columns.

    >>> row_ids({"customer": np.array([7, 8])}, [1])
    ['customer 8']
    """
    if not columns:
        return []
    return [
        ", ".join(f"{name} {'–' if (id := cells[i]) is None else id}" for name, cells in columns.items())
        for i in places
    ]


def write_sample(sample: DataSample, folder: Path) -> None:
    """Write a sample to a RUN folder."""
    tensors = {"rows": torch.from_numpy(np.ascontiguousarray(sample.rows))}
    if sample.labels is not None:
        tensors["labels"] = torch.from_numpy(sample.labels)
    if sample.places is not None:
        tensors["places"] = torch.from_numpy(sample.places)
    about = {name: getattr(sample, name) for name in ("name", "total", "feature_names", "classes", "ids")}
    try:
        write_whole(folder / FILE, save(tensors, metadata={"about": json.dumps(finite(about))}))
    except OSError as error:
        raise RunError(f"The sample of the data could not be written to {folder}: {error.strerror}.") from error


def read_sample(folder: Path, n_features: int) -> DataSample | None:
    """The sample in a RUN folder, or None if it has none. The folder is untrusted."""
    if not os.path.lexists(folder / FILE):
        return None
    with open_tensors(folder / FILE, 2 * BYTES) as file:
        dtype = file.layout["rows"].dtype if "rows" in file.layout else torch.float32
        if dtype not in ROW_TYPES:
            raise ValueError("its rows are of an unknown type")
        wanted = {"rows": Spec(dtype, (None, n_features))}
        wanted |= {name: Spec(torch.int64, (None,)) for name in ("labels", "places") if name in file.layout}
        check_layout(file.layout, wanted)
        about, tensors = parse_json(file.metadata["about"]), file.read()
        rows, total = tensors["rows"].numpy(), about["total"]
        labels, places = (tensors[name].numpy() if name in tensors else None for name in ("labels", "places"))
        names, classes, ids = about["feature_names"], about.get("classes", []), about.get("ids", [])
        if not all(isinstance(some, list) for some in (names, classes, ids)):
            raise ValueError("its names or ids are not lists")
        if not len(rows) or any(each is not None and len(each) != len(rows) for each in (labels, places)):
            raise ValueError("it has no rows, or not one label or row number per row")
        if type(total) is not int or total < len(rows):
            raise ValueError("its row count is invalid")
        if len(names) not in (0, n_features) or len(ids) not in (0, len(rows)):
            raise ValueError("it does not have one name per column, or one id per row")
        if classes and (labels is None or labels.min() < 0 or labels.max() >= len(classes)):
            raise ValueError("its label names do not match its labels")
        names, classes, ids = ([shown(str(name), NAME_LENGTH) for name in some] for some in (names, classes, ids))
        return DataSample(shown(str(about["name"])), rows, total, labels, names, classes, places, ids)


def _narrow(rows: np.ndarray) -> np.ndarray:
    """The same numbers in the smallest type that holds them exactly."""
    rows = np.asarray(rows)
    if rows.dtype == np.uint8:
        return rows
    wide = rows.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        for dtype in (np.uint8, np.float32):
            if np.array_equal(wide.astype(dtype).astype(np.float64), wide):
                return wide.astype(dtype)
    return wide
