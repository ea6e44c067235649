"""What a model says about rows, as columns of a table."""

from types import SimpleNamespace

import numpy as np

from gedi.commands.predict import prediction_columns

ROWS = np.array([[0.25, 0.0], [0.75, 0.0]])


def model(*, typical_parts=(0, 1), **options):
    """Says something recognisable about every row; cannot be asked for clusters, which its other answers imply."""
    return SimpleNamespace(
        leave_out=lambda clusters, log_density: np.where(log_density < 3, -1, clusters),
        predict_proba=lambda x: np.stack([x[:, 0], 1 - x[:, 0]], axis=1),
        score_samples=lambda x: 10 * x[:, 0],
        typical_parts=typical_parts,
        typicality=lambda x: -3 * x[:, 0],
        ood_score=lambda x: -x[:, 0],
        transform=lambda x: np.stack([x[:, 0], x[:, 0] + 1, x[:, 0] + 2], axis=1),
        **options,
    )


def test_columns_say_what_the_model_says():
    columns = prediction_columns(model(has_density=True), ROWS)
    assert {k: v.tolist() for k, v in columns.items()} == {
        "cluster": [-1, 0],
        "probability": [0.75, 0.75],
        "log_density": [2.5, 7.5],
        "typicality": [-0.75, -2.25],
        "ood_score": [-0.25, -0.75],
    }


def test_without_a_density_there_are_no_columns_about_it():
    columns = prediction_columns(model(has_density=False), ROWS)
    assert list(columns) == ["cluster", "probability"] and columns["cluster"].tolist() == [1, 0]


def test_a_run_without_typicality_keeps_the_other_scores():
    columns = prediction_columns(model(has_density=True, typical_parts=None), ROWS)
    assert list(columns) == ["cluster", "probability", "log_density", "ood_score"]


def test_the_embedding_is_added_on_request():
    columns = prediction_columns(model(has_density=True), ROWS, embed=True)
    assert list(columns)[5:] == ["embedding_0", "embedding_1", "embedding_2"]
    assert columns["embedding_2"].tolist() == [2.25, 2.75]
