"""Rows to compare new ones with, and the model's answers about new rows, ready for JSON."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import checked_blocks, load
from gedi.data.pictures import thumbnail
from gedi.data.streaming import take
from gedi.errors import DataError
from gedi.report.data_sample import read_sample
from gedi.report.measures import Answers, few
from gedi.training.model import TrainedModel

ROWS = 2_000  # examples: enough to compare with, and quick to search
SHOWN = 100  # rows listed with their nearest examples; the others are only counted
NEAREST = 5
VALUES = 8  # shown of a wide row


@dataclass(frozen=True, eq=False)
class Examples(Answers):
    """Rows in the user's units and the model's answers about them: training data if available, else samples."""

    kind: str  # in words, for the page

    def nearest(self, said: Answers) -> tuple[np.ndarray, np.ndarray]:
        """For each row, the distances to the nearest examples and which ones they are, [n, NEAREST] each."""
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=min(NEAREST, len(self.rows))).fit(_places(self))
        return search.kneighbors(_places(said))

    def picture(self, row: np.ndarray) -> bytes:
        """A row of pixels as a small PNG."""
        assert self.model.image_shape is not None
        return thumbnail(row, self.model.image_shape, *self.model.black_and_white)


def _places(said: Answers) -> np.ndarray:
    """The rows in the embedding, or in the scaled data space if no embedding was trained."""
    model = said.model
    return said.embedding if model.has_clusters else model.scaler.transform(said.rows).astype(np.float64)


def find_examples(model: TrainedModel, folder: Path, data: str | None = None) -> Examples:
    """Some rows of ``data``; without it, the rows kept in the run's folder, or else the model's own samples."""
    if data is not None:
        loaded = load(data, skip_broken=True, **model.reading)
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
            f"{folder} has neither stored rows nor a density to sample from, so there is nothing to compare with: "
            "pass rows with --data DATA."
        )
    (rows,) = checked_blocks([rows], n_features=model.n_features, name=name)
    return Examples(model, rows, f"rows of {name}")


def answer(examples: Examples, rows: np.ndarray, name: str, *, more: bool) -> dict[str, Any]:
    """Cluster, probability and nearest examples of every row shown, and how familiar it is if there is a density."""
    model = examples.model
    said = Answers(model, rows)
    familiar, familiarity = _familiarity(examples, said) if model.has_density else (None, [{}] * len(rows))
    shown = Answers(model, rows[:SHOWN])
    distances, places = examples.nearest(shown)
    return {
        "name": name,
        "rows": len(rows),
        "more": more,
        "clusters": np.bincount(said.cluster, minlength=model.n_clusters).tolist(),
        "familiar": familiar,
        "shown": [
            {
                "values": row[:VALUES].tolist(),
                "picture": None if model.image_shape is None else _inline(examples.picture(row)),
                "cluster": int(said.cluster[i]),
                "probability": float(said.confidence[i]),
                "nearest": [_example(examples, j, far) for j, far in zip(places[i], distances[i], strict=True)],
            }
            | familiarity[i]
            for i, row in enumerate(shown.rows)
        ],
    }


def _familiarity(examples: Examples, said: Answers) -> tuple[dict[str, int], list[dict[str, float | str]]]:
    """The numbers of typical, unusual and foreign rows, and the scores of each row."""
    # Share of the examples that are less typical than the row, by the stricter of the two scores.
    below = np.minimum(
        np.searchsorted(np.sort(examples.log_density), said.log_density, side="right"),
        np.searchsorted(np.sort(examples.ood_score), said.ood_score, side="right"),
    ) / len(examples.rows)
    words = np.select([below < 0.01, below < 0.05], ["foreign", "unusual"], "typical")
    each = zip(said.log_density, said.ood_score, below, words, strict=True)
    return {str(word): int(count) for word, count in zip(*np.unique(words, return_counts=True), strict=True)}, [
        {"log_density": float(height), "ood_score": float(slope), "below": float(share), "familiarity": str(word)}
        for height, slope, share, word in each
    ]


def _example(examples: Examples, place: int, distance: float) -> dict[str, Any]:
    return {
        "place": int(place),
        "distance": float(distance),
        "cluster": int(examples.cluster[place]),
        "values": examples.rows[place][:VALUES].tolist(),
    }


def _inline(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()
