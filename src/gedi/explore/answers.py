"""What the model says about new rows, ready for JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from gedi.explore.examples import Examples
from gedi.explore.pixels import thumbnail
from gedi.report.tables import prediction_columns

SHOWN = 100  # rows with their nearest examples; of the others only the cluster is counted
NEAREST = 5
VALUES = 8  # of a wide row


def answer(examples: Examples, rows: np.ndarray, name: str, *, more: bool) -> dict[str, Any]:
    """Cluster, probability and nearest examples of every row shown; how familiar it is, if the run has a density."""
    model = examples.model
    density = model.has_density
    columns = prediction_columns(model, rows, density=density)
    familiar, familiarity = _familiarity(examples, columns) if density else (None, [{}] * len(rows))
    shown = rows[:SHOWN]
    places, distances = examples.nearest(shown, NEAREST)
    return {
        "name": name,
        "rows": len(rows),
        "more": more,
        "clusters": np.bincount(columns["cluster"], minlength=model.n_clusters).tolist(),
        "familiar": familiar,
        "shown": [
            {
                "values": row[:VALUES].tolist(),
                "wide": len(row) > VALUES,
                "picture": _picture(row, examples),
                "cluster": int(columns["cluster"][i]),
                "probability": float(columns["probability"][i]),
                "nearest": [_example(examples, j, far) for j, far in zip(places[i], distances[i], strict=True)],
            }
            | familiarity[i]
            for i, row in enumerate(shown)
        ],
    }


def _familiarity(
    examples: Examples, columns: dict[str, np.ndarray]
) -> tuple[dict[str, int], list[dict[str, float | str]]]:
    """How many rows are typical, unusual and foreign, and what says so of each."""
    # Share of the examples that are less typical than the row, by the stricter of the two measures.
    below = np.minimum(
        np.searchsorted(examples.log_density, columns["log_density"], side="right"),
        np.searchsorted(examples.ood_score, columns["ood_score"], side="right"),
    ) / len(examples.rows)
    words = np.select([below < 0.01, below < 0.05], ["foreign", "unusual"], "typical")
    each = zip(columns["log_density"], columns["ood_score"], below, words, strict=True)
    return {str(word): int(count) for word, count in zip(*np.unique(words, return_counts=True), strict=True)}, [
        {"log_density": float(height), "ood_score": float(slope), "below": float(share), "familiarity": str(word)}
        for height, slope, share, word in each
    ]


def _example(examples: Examples, place: int, distance: float) -> dict[str, Any]:
    row = examples.rows[place]
    return {
        "place": int(place),
        "distance": float(distance),
        "cluster": int(examples.clusters[place]),
        "values": row[:VALUES].tolist(),
    }


def _picture(row: np.ndarray, examples: Examples) -> str | None:
    if examples.model.image_shape is None:
        return None
    return "data:image/png;base64," + base64.b64encode(thumbnail(row, examples.model)).decode()
