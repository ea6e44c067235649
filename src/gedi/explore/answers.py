"""The model's answers about new rows, ready for JSON."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from gedi.explore.examples import Examples
from gedi.report.measures import Answers

SHOWN = 100  # rows listed with their nearest examples; the others are only counted
NEAREST = 5
VALUES = 8  # listed of a wide row


def answer(examples: Examples, rows: np.ndarray, name: str, *, more: bool) -> dict[str, Any]:
    """Cluster, probability and nearest examples of every row shown, and how familiar it is if there is a density."""
    model = examples.model
    said = Answers(model, rows)
    familiar, familiarity = _familiarity(examples, said) if model.has_density else (None, [{}] * len(rows))
    shown = Answers(model, rows[:SHOWN])
    places, distances = examples.nearest(shown, NEAREST)
    return {
        "name": name,
        "rows": len(rows),
        "more": more,
        "clusters": np.bincount(said.cluster, minlength=model.n_clusters).tolist(),
        "familiar": familiar,
        "shown": [
            {
                "values": row[:VALUES].tolist(),
                "picture": _picture(examples, row),
                "cluster": int(said.cluster[i]),
                "probability": float(said.confidence[i]),
                "nearest": [_example(examples, j, far) for j, far in zip(places[i], distances[i], strict=True)],
            }
            | familiarity[i]
            for i, row in enumerate(shown.rows)
        ],
    }


def _familiarity(examples: Examples, said: Answers) -> tuple[dict[str, int], list[dict[str, float | str]]]:
    """How many rows are typical, unusual and foreign, and the scores of each row that say so."""
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


def _picture(examples: Examples, row: np.ndarray) -> str | None:
    if examples.model.image_shape is None:
        return None
    return "data:image/png;base64," + base64.b64encode(examples.picture(row)).decode()
