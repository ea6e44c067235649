"""Rows to compare new ones with, and the model's answers about new rows, ready for JSON."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gedi.data import checked_blocks, load
from gedi.data.columns import number_in as cell_number
from gedi.data.pictures import thumbnail
from gedi.errors import DataError
from gedi.explore.uploads import Upload
from gedi.report.data_sample import read_sample, sample_of
from gedi.report.measures import Answers
from gedi.training.model import TrainedModel

EXAMPLE_ROWS = 2_000  # examples: enough to compare with, and quick to search
PICTURES = 500  # rows of images sent with a picture each
NEAREST_EXAMPLES = 5
VALUES_OF_ROW = 8  # shown for a wide row


@dataclass(frozen=True, eq=False)
class Examples(Answers):
    """Rows in the user's units and the model's answers about them: training data if available, otherwise samples."""

    kind: str  # in words, for the page
    names: list[str]  # of the rows: their numbers and ids

    def nearest(self, said: Answers) -> tuple[np.ndarray, np.ndarray]:
        """For each row, the distances to the nearest examples and which ones they are, [n, NEAREST] each."""
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=min(NEAREST_EXAMPLES, len(self.rows))).fit(_places(self))
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
        kept = sample_of(loaded)
    elif (kept := read_sample(folder, model.n_features)) is None:
        if not model.has_density:
            raise DataError(
                f"{folder} has neither stored rows nor a density to sample from, so there is nothing to compare with: "
                "pass rows with --data DATA."
            )
        rows = model.rows_of(model.chains[:EXAMPLE_ROWS])
        return Examples(model, rows, "samples of the model", [f"sample {i}" for i in range(len(rows))])
    (rows,) = checked_blocks([kept.rows], n_features=model.n_features, name=kept.name)
    return Examples(model, rows, f"rows of {kept.name}", [kept.row_name(i) for i in range(len(rows))])


def columns_shown(model: TrainedModel) -> list[str]:
    """Names of the values shown for a row; none for images."""
    if model.image_shape is not None:
        return []
    if model.table is not None:
        return [column.name for column in model.table.used[:VALUES_OF_ROW]]
    return (model.columns or [f"feature {i}" for i in range(model.n_features)])[:VALUES_OF_ROW]


def values_shown(
    model: TrainedModel, rows: np.ndarray, cells: Mapping[str, Sequence[Any]] | None = None
) -> list[list[Any]]:
    """The values of rows in these columns: from the file if ``cells`` has them, otherwise decoded from features."""
    if model.image_shape is not None:
        return [[]] * len(rows)
    if model.table is None or (model.table.is_plain and not cells):
        return rows[:, :VALUES_OF_ROW].tolist()
    names = columns_shown(model)
    if cells and all(name in cells for name in names):
        return [list(row) for row in zip(*(map(_cell, cells[name]) for name in names), strict=True)]
    return [[row[name] for name in names] for row in model.table.decode(rows)]


def _cell(value: Any) -> Any:
    """A cell of a table for JSON: a number if it is written as one, or text; None for a gap."""
    if value is None or not isinstance(value, str):
        return value
    known = cell_number(value)
    return value.strip() if known is None else None if np.isnan(known) else known


def answer(examples: Examples, upload: Upload, name: str) -> dict[str, Any]:
    """Cluster, probability and nearest examples of every row, and how familiar it is if there is a density."""
    model, rows = examples.model, upload.rows
    said = Answers(model, rows)
    familiarity = _familiarity(examples, said) if model.has_density else [{}] * len(rows)
    distances, places = examples.nearest(said)
    values = values_shown(model, rows, upload.cells)
    return {
        "name": name,
        "more": upload.more,
        "rows": [
            {
                "row": upload.names[i],
                "values": values[i],
                "picture": None if model.image_shape is None or i >= PICTURES else _inline(examples.picture(row)),
                "cluster": int(said.cluster[i]),
                "probability": float(said.confidence[i]),
                "nearest": [[int(j), float(far)] for j, far in zip(places[i], distances[i], strict=True)],
            }
            | familiarity[i]
            for i, row in enumerate(rows)
        ],
    }


def _familiarity(examples: Examples, said: Answers) -> list[dict[str, float | str]]:
    """How typical each row is, in numbers and in a word."""
    # Share of the examples that are less typical than the row by log p. The slope of log p is no guide: outliers of
    # tables often lie where log p is flat.
    below = np.searchsorted(np.sort(examples.log_density), said.log_density, side="right") / len(examples.rows)
    words = np.select([below < 0.01, below < 0.05], ["foreign", "unusual"], "typical")
    each = zip(said.log_density, said.ood_score, below, words, strict=True)
    return [
        {"log_density": float(height), "ood_score": float(slope), "below": float(share), "familiarity": str(word)}
        for height, slope, share, word in each
    ]


def _inline(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()
