"""Rows that are left outside all clusters: the least typical share of the training rows, and new rows like them."""

import csv
from pathlib import Path

import numpy as np
import pytest

from gedi import GEDI, runs
from gedi.cli import main
from gedi.errors import ConfigError
from gedi.explore.site import answer, find_examples
from gedi.explore.uploads import Upload
from gedi.report.run_view import read_run

ROWS = np.vstack([np.random.default_rng(0).normal(centre, 0.3, (100, 2)) for centre in (-2.0, 2.0)])
FAR = np.array([[40.0, -40.0], [2.0, 2.0]])
QUICK = {"preset": "smoke", "random_state": 0, "training": {"step1.iterations": 30, "step2.iterations": 20}}


def test_the_least_typical_share_has_no_cluster(tmp_path):
    model = GEDI(n_clusters=2, outliers=0.1, **QUICK).fit(ROWS)
    outside = model.labels_ == -1
    assert outside.sum() == 20
    assert model.score_samples(ROWS[outside]).max() < model.score_samples(ROWS[~outside]).min()
    assert model.predict(FAR)[0] == -1 and set(model.labels_) == {-1, 0, 1}
    assert np.allclose(model.predict_proba(ROWS).sum(1), 1)  # probabilities do not change

    model.save(tmp_path / "run")
    again = GEDI.load(tmp_path / "run")
    assert again.outliers == 0.1 and (again.predict(ROWS) == model.labels_).all()


def test_by_default_every_row_has_a_cluster():
    model = GEDI(n_clusters=2, **QUICK).fit(ROWS)
    assert model.predict(FAR).min() >= 0 and "outliers" not in model.model_.results


def test_the_command_line_leaves_them_out_and_a_run_remembers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", ROWS)
    short = ["--training.step1.iterations", "5", "--training.step2.iterations", "5", "--preset", "smoke"]
    assert main(["fit", "rows.npy", "--n-clusters", "2", "--outliers", "0.1", "--out", "run", *short]) == 0
    assert main(["predict", "run", "rows.npy", "--out", "clusters.csv"]) == 0
    with open("clusters.csv", newline="") as file:
        assert sum(line["cluster"] == "-1" for line in csv.DictReader(file)) == 20

    page = Path("run/report.html").read_text(encoding="utf-8")
    assert (
        "Because of --outliers, gedi predict puts the rows with the lowest log density (10% of the training data)"
        in page
    )
    model = runs.load("run")
    assert "--outliers 0.1" in read_run(Path("run")).rerun.fit()
    said = answer(find_examples(model, Path("run")), Upload(FAR, ["far", "near"]), "new")
    assert [row["cluster"] < 0 for row in said["rows"]] == [True, False]


@pytest.mark.parametrize("share", [-0.1, 1, 2.0, "many", None])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ConfigError, match="outliers must be a"):
        GEDI(n_clusters=2, outliers=share, **QUICK).fit(ROWS)


def test_a_method_without_a_density_finds_none():
    with pytest.raises(ConfigError, match="trains none"):
        GEDI(n_clusters=2, outliers=0.1, method="swav", preset="smoke").fit(ROWS)
