"""Rows kept to compare new ones with: those trained on where they are at hand, else the model's own samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from gedi.data import checked_blocks, load
from gedi.data.streaming import take
from gedi.errors import DataError
from gedi.report.data_sample import read_sample
from gedi.training.model import TrainedModel

ROWS = 2_000  # enough to compare with, and searched at once


@dataclass(frozen=True, eq=False)
class Examples:
    """Rows in the user's units, and what the model says about them."""

    model: TrainedModel
    rows: np.ndarray
    kind: str  # in words, for the page

    @cached_property
    def clusters(self) -> np.ndarray:
        return self.model.predict(self.rows)

    @cached_property
    def log_density(self) -> np.ndarray:
        """In ascending order."""
        return np.sort(self.model.score_samples(self.rows))

    @cached_property
    def ood_score(self) -> np.ndarray:
        """In ascending order."""
        return np.sort(self.model.ood_score(self.rows))

    @cached_property
    def places(self) -> np.ndarray:
        return _places(self.model, self.rows)

    def nearest(self, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Of each row: which examples lie nearest, and how far they are, [n, count] each, the nearest first."""
        there = _places(self.model, rows)
        squares = (there**2).sum(1)[:, None] + (self.places**2).sum(1) - 2 * there @ self.places.T
        order = np.argsort(squares, axis=1, kind="stable")[:, :count]
        return order, np.sqrt(np.maximum(np.take_along_axis(squares, order, axis=1), 0.0))


def _places(model: TrainedModel, rows: np.ndarray) -> np.ndarray:
    """Where rows lie in the embedding; a model without clusters never trained one, so there it is the data's space."""
    return model.transform(rows) if model.has_clusters else model.scaler.transform(rows).astype(np.float64)


def find_examples(model: TrainedModel, folder: Path, data: str | None = None) -> Examples:
    """Some rows of ``data``; without it those that the run's folder keeps, or else the model's own samples."""
    if data is None and (kept := read_sample(folder, model.n_features)) is not None:
        (rows,) = checked_blocks([kept.rows], n_features=model.n_features, name=kept.name)
        return Examples(model, rows, f"rows of {kept.name}")
    if data is None and not model.has_density:
        raise DataError(
            f"{folder} keeps no rows to compare with, and has no density to draw some from: give some with --data DATA."
        )
    if data is None:
        chains = model.chains[:ROWS].numpy()
        return Examples(model, model.scaler.inverse(chains, dtype=np.float64), "samples of the model")
    loaded = load(data, **model.reading)
    x = loaded.x
    if not len(x):
        raise DataError(f"{data} is empty: there is nothing to compare with.")
    keep = np.unique(np.linspace(0, len(x) - 1, min(ROWS, len(x))).round().astype(np.int64))
    (rows,) = checked_blocks([take(x, keep)], n_features=model.n_features, name=data)
    return Examples(model, rows, f"rows of {loaded.name}")
