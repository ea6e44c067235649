"""The table on a public benchmark for clustering: which files it reads, what it scores, and how it ranks."""

import gzip

import numpy as np
import pytest

from gedi.errors import ConfigError, DataError
from gedi.experiments import EXPERIMENTS
from gedi.experiments.cell_fits import CELLS, read_cells
from gedi.experiments.public_tables import SUITE_CONTROLS, SUITE_METHODS, find_sets

TABLE = EXPERIMENTS["table-clustering"]


def write(folder, name, x, y):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, values, form in (("data", x, "%.6f"), ("labels0", y, "%d")):
        with gzip.open(folder / f"{name}.{kind}.gz", "wt") as file:
            np.savetxt(file, values, fmt=form)


@pytest.fixture
def suite(tmp_path):
    """Two sets of two blobs in folders of their own; every tenth row of the first is noise."""
    rng, y = np.random.default_rng(0), np.repeat([1, 2], 30)
    x = rng.normal(size=(60, 2)) + 10 * y[:, None]
    write(tmp_path / "suite" / "one", "noisy", x, np.where(np.arange(60) % 10, y, 0))
    write(tmp_path / "suite" / "two", "clear", x, y)
    return tmp_path / "suite"


def test_it_has_the_scores_of_all_methods_their_mean_and_their_rank(suite, tmp_path, fake_fits):
    scored = []
    fake_fits(lambda cell, y: scored.append(len(y)) or np.arange(len(y)) % 2)  # GEDI fails
    outcome = TABLE.run("smoke", None, tmp_path / "out", 1, print, data=suite)
    rows = {row[0]: dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows}
    assert list(rows) == ["clear", "noisy", "mean ARI", "mean rank"] and set(scored) == {60, 54}  # noise is not scored
    assert rows["clear"]["rows"] == "60 x 2" and rows["clear"]["k"] == "2"
    assert rows["clear"]["k-means"] == rows["clear"]["GMM"] == "1.00" and rows["mean ARI"]["Ward"] == "1.000"
    assert rows["mean rank"]["GEDI"] == "6.00"
    assert rows["mean rank"]["k-means"] == rows["mean rank"]["GMM"]  # ties share a rank
    control = [rows[name]["GEDI, no density"] for name in rows]
    assert control[2] == rows["mean ARI"]["GEDI"] and control[3] == ""  # it fails as GEDI does, and has no rank
    assert rows["clear"]["GEDI, own k"].startswith("2: ") and rows["mean rank"]["GEDI, own k"] == "2 of 2"
    assert len(read_cells(tmp_path / "out" / CELLS)) == 2 * len(
        (*SUITE_METHODS, *SUITE_CONTROLS)
    )  # own k: the same fit
    again = []
    TABLE.run("smoke", None, tmp_path / "out", 1, again.append, data=suite)
    assert any("16 of 16 fits are already" in line for line in again)


def test_the_folder_is_looked_for_among_the_data(suite, tmp_path, fake_fits, monkeypatch):
    fake_fits(lambda cell, y: y)
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"There is no folder .*clustering-data-v1.*--data"):
        TABLE.run("smoke", None, tmp_path / "out", 1, print)
    suite.rename(tmp_path / "clustering-data-v1")
    assert TABLE.run("smoke", None, tmp_path / "out", 1, print).rows


def test_broken_files_are_named(suite, tmp_path):
    with pytest.raises(DataError, match=r"no pair of files NAME\.data\.gz"):
        find_sets(tmp_path / "suite" / "empty")
    (suite / "one" / "noisy.data.gz").write_bytes(b"not gzip")
    with pytest.raises(DataError, match=r"noisy\.data\.gz .*cannot be read"):
        TABLE.run("smoke", None, tmp_path / "out", 1, print, data=suite)
    write(suite / "one", "noisy", np.zeros((5, 2)), np.ones(4))
    with pytest.raises(DataError, match="one label"):
        TABLE.run("smoke", None, tmp_path / "out", 1, print, data=suite)


def test_other_experiments_refuse_a_folder(tmp_path):
    with pytest.raises(ConfigError, match=r"--data is for table-clustering, .*table-anomaly"):
        EXPERIMENTS["table1"].run("smoke", None, tmp_path, 1, print, data=tmp_path)
