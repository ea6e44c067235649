"""Rows to compare new ones with: rows of the training data if there are any, otherwise the model's own samples."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gedi.data import checked_blocks, load
from gedi.data.pictures import thumbnail
from gedi.data.streaming import take
from gedi.errors import DataError
from gedi.report.data_sample import read_sample
from gedi.report.measures import Answers, few
from gedi.training.model import TrainedModel

ROWS = 2_000  # enough to compare with, and quick to search


@dataclass(frozen=True, eq=False)
class Examples(Answers):
    """Rows in the user's units, and what the model says about them."""

    kind: str  # in words, for the page

    def nearest(self, said: Answers, count: int) -> tuple[np.ndarray, np.ndarray]:
        """For each row: the nearest examples, and how far away they are, [n, count] each, the nearest first."""
        there, here = _places(said), _places(self)
        squares = (there**2).sum(1)[:, None] + (here**2).sum(1) - 2 * there @ here.T
        order = np.argsort(squares, axis=1, kind="stable")[:, :count]
        return order, np.sqrt(np.maximum(np.take_along_axis(squares, order, axis=1), 0.0))

    def picture(self, row: np.ndarray) -> bytes:
        """A row of pixels as a small PNG."""
        assert self.model.image_shape is not None
        return thumbnail(row, self.model.image_shape, *self.model.black_and_white)


def _places(said: Answers) -> np.ndarray:
    """Where rows lie in the embedding. A model without clusters never trained one: there, it is the data's space."""
    model = said.model
    return said.embedding if model.has_clusters else model.scaler.transform(said.rows).astype(np.float64)


def find_examples(model: TrainedModel, folder: Path, data: str | None = None) -> Examples:
    """Some rows of ``data``; without it, the rows kept in the run's folder, or else the model's own samples."""
    if data is not None:
        loaded = load(data, **model.reading)
        if not len(loaded.x):
            raise DataError(f"{data} is empty: there is nothing to compare with.")
        rows, name = take(loaded.x, few(len(loaded.x), ROWS)), loaded.name
    elif (kept := read_sample(folder, model.n_features)) is not None:
        rows, name = kept.rows, kept.name
    elif model.has_density:
        chains = model.chains[:ROWS].numpy()
        return Examples(model, model.scaler.inverse(chains, dtype=np.float64), "samples of the model")
    else:
        raise DataError(
            f"{folder} keeps no rows to compare with, and has no density to draw some from: give some with --data DATA."
        )
    (rows,) = checked_blocks([rows], n_features=model.n_features, name=name)
    return Examples(model, rows, f"rows of {name}")
