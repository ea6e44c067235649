"""What a model says as columns, and its samples as a picture."""

from types import SimpleNamespace

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.report.tables import draw_samples, prediction_columns


class Model(SimpleNamespace):
    """Says something recognisable about every row."""

    config = SimpleNamespace(scaling="global")

    def predict_proba(self, x):
        return np.stack([x[:, 0], 1 - x[:, 0]], axis=1)

    def predict(self, x):
        return self.predict_proba(x).argmax(1)

    def score_samples(self, x):
        return 10 * x[:, 0]

    def ood_score(self, x):
        return -x[:, 0]

    def transform(self, x):
        return np.stack([x[:, 0], x[:, 0] + 1, x[:, 0] + 2], axis=1)


ROWS = np.array([[0.25, 0.0], [0.75, 0.0]])


def test_columns_say_what_the_model_says():
    columns = prediction_columns(Model(), ROWS)
    assert {k: v.tolist() for k, v in columns.items()} == {
        "cluster": [1, 0],
        "probability": [0.75, 0.75],
        "log_density": [2.5, 7.5],
        "ood_score": [-0.25, -0.75],
    }


def test_the_embedding_is_added_on_request():
    columns = prediction_columns(Model(), ROWS, embed=True)
    assert list(columns)[4:] == ["embedding_0", "embedding_1", "embedding_2"]
    assert columns["embedding_2"].tolist() == [2.25, 2.75]


@pytest.mark.parametrize(
    ("shape", "samples"),
    [(None, ROWS), ((2, 2, 1), np.ones((3, 4))), ((2, 2, 3), np.full((1, 12), 0.5))],
    ids=["points", "grey images", "colour images"],
)
def test_samples_as_a_picture(tmp_path, shape, samples):
    draw_samples(Model(image_shape=shape), samples, tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_rows_of_many_features_have_no_picture(tmp_path):
    with pytest.raises(DataError, match=r"5 features.*\.npz"):
        draw_samples(Model(image_shape=None), np.ones((2, 5)), tmp_path / "s.png")
    assert list(tmp_path.iterdir()) == []
