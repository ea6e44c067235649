"""What every reader returns: rows or images, with what their source says about them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gedi.data.table_recipe import TableRecipe


@dataclass(frozen=True, eq=False)
class Dataset:
    """Data as loaded, unscaled; labels, if any, are for evaluation only."""

    name: str
    x: np.ndarray  # rows [n, d] in float32 (float64 if a file holds more digits), or images [n, H, W, C]
    y: np.ndarray | None = None  # int64 [n]
    feature_names: list[str] | None = None
    image_shape: tuple[int, int, int] | None = None  # (H, W, C), also for images stored as rows
    files: list[str] | None = None  # of a folder of images: one per row, relative to the folder
    unreadable: list[str] | None = None  # of a folder of images: those left out
    classes: list[str] | None = None  # names of the labels, if they are words or sub-folders
    table: TableRecipe | None = None  # of a table: what its columns hold, and how they became features
    ids: Mapping[str, np.ndarray] | None = None  # of a table: the columns that identify its rows
    groups: np.ndarray | None = None  # indices of the rows that a constraint relates, [groups, rows per group]

    def __repr__(self) -> str:
        """
        >>> from gedi.data import load
        >>> load("moons")
        Dataset('moons', 2,000 rows of 2, labels)
        """
        shape = self.image_shape or self.x.shape[1:]
        kind = "rows" if self.image_shape is None else "images"
        more = "".join(
            f", {name}" for name, given in (("labels", self.y), ("groups", self.groups)) if given is not None
        )
        return f"Dataset({self.name!r}, {len(self.x):,} {kind} of {' x '.join(map(str, shape))}{more})"
