"""The table on a public benchmark for anomalies: what it reads, trains on and scores."""

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.experiments import EXPERIMENTS
from gedi.experiments.public_tables import SCORES_SHOWN, AnomalyCell, read_anomalies, split_rows

TABLE = EXPERIMENTS["table-anomaly"]


@pytest.fixture
def folder(tmp_path):
    """One table of 200 rows, with 10 anomalies far away."""
    rng, y = np.random.default_rng(0), np.arange(200) % 20 == 0
    (tmp_path / "tables").mkdir()
    np.savez(tmp_path / "tables" / "1_far.npz", X=rng.normal(size=(200, 3)) + 30 * y[:, None], y=y.astype(int))
    return tmp_path / "tables"


def test_it_has_the_auroc_of_every_score_its_mean_and_its_rank(folder, tmp_path):
    outcome = TABLE.run("smoke", None, tmp_path / "out", 1, print, data=folder)
    rows = {row[0]: dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows}
    assert list(rows) == ["1_far", "mean AUROC", "mean rank"] and rows["1_far"]["rows"] == "200 x 3"
    assert rows["1_far"]["kNN distance"] == rows["1_far"]["GEDI, combined"] == "1.00"
    assert rows["mean AUROC"]["isolation forest"] == "1.000" and all(rows["mean rank"][title] for title in SCORES_SHOWN)
    again = []
    TABLE.run("smoke", None, tmp_path / "out", 1, again.append, data=folder)
    assert any("5 of 5 fits are already" in line for line in again)


def test_rows_are_held_out_and_the_split_follows_the_seed(folder):
    first, same, other = (split_rows(folder / "1_far.npz", AnomalyCell("1_far", 8, seed=seed)) for seed in (0, 0, 1))
    assert len(first.x_train) == 140 and len(first.x_test) == len(first.y_test) == 60
    assert not {tuple(row) for row in first.x_train} & {tuple(row) for row in first.x_test}
    assert np.array_equal(first.x_test, same.x_test) and not np.array_equal(first.x_test, other.x_test)


@pytest.mark.parametrize("content", [{"X": np.zeros((4, 2))}, {"X": np.zeros((4, 2)), "y": np.zeros(4)}])
def test_other_files_are_refused(tmp_path, content):
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(DataError, match=r"bad\.npz"):
        read_anomalies(tmp_path / "bad.npz")


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no \.npz files"):
        TABLE.run("smoke", None, tmp_path / "out", 1, print, data=tmp_path)
