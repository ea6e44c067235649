"""Predictions and samples as files."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.report.tables import prediction_columns, write_samples, write_table

COLUMNS = {"cluster": np.array([0, 1, 1]), "probability": np.array([1 / 3, 0.5, 1.0])}


class Model(SimpleNamespace):
    """Says something recognisable about every row."""

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


def test_csv_keeps_every_digit(tmp_path):
    write_table(COLUMNS, tmp_path / "p.csv")
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["cluster"]) for row in rows] == [0, 1, 1]
    assert [float(row["probability"]) for row in rows] == COLUMNS["probability"].tolist()


def test_parquet_and_npz_hold_the_same_columns(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_table(COLUMNS, tmp_path / "p.parquet")
    write_table(COLUMNS, tmp_path / "p.npz")
    table, archive = parquet.read_table(tmp_path / "p.parquet"), np.load(tmp_path / "p.npz")
    for name, column in COLUMNS.items():
        assert table[name].to_pylist() == column.tolist() == archive[name].tolist()


@pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
def test_an_existing_table_is_not_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(DataError, match="exists already"):
        write_table(COLUMNS, tmp_path / name)
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["p.txt", "p", "nowhere/p.csv"])
def test_a_path_that_cannot_be_written_is_refused(tmp_path, name):
    with pytest.raises(DataError):
        write_table(COLUMNS, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_samples_as_an_archive(tmp_path):
    write_samples(Model(image_shape=None), ROWS, tmp_path / "s.npz")
    assert np.array_equal(np.load(tmp_path / "s.npz")["x"], ROWS)


@pytest.mark.parametrize(
    ("shape", "samples"),
    [(None, ROWS), ((2, 2, 1), np.ones((3, 4))), ((2, 2, 3), np.full((1, 12), 0.5))],
    ids=["points", "grey images", "colour images"],
)
def test_samples_as_a_picture(tmp_path, shape, samples):
    write_samples(Model(image_shape=shape), samples, tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_rows_of_many_features_have_no_picture(tmp_path):
    with pytest.raises(DataError, match=r"5 features.*\.npz"):
        write_samples(Model(image_shape=None), np.ones((2, 5)), tmp_path / "s.png")
    assert list(tmp_path.iterdir()) == []
