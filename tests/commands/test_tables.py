"""Tables as people have them: with IDs, text, labels and columns that should not be trained on."""

import csv
import json

import numpy as np
import pytest

from gedi import runs
from gedi.data import load
from gedi.explore.uploads import rows_of


def table(path, x, order=("id", "a", "place", "b", "kind")):
    columns = {"a": x[:, 0], "b": x[:, 1], "id": range(len(x)), "place": ["here", "there"] * (len(x) // 2)}
    columns["kind"] = ["left"] * 20 + ["right"] * 20
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(order)
        writer.writerows(zip(*(columns[name] for name in order), strict=True))
    return path


@pytest.fixture(scope="module")
def own(tmp_path_factory, gedi, tiny, x):
    """A folder with such a table and a run on it."""
    folder = tmp_path_factory.mktemp("own")
    table(folder / "own.csv", x)
    words = ["--n-clusters", 2, "--out", folder / "run", "--drop", "id,place", "--label-column", "kind"]
    assert gedi("fit", folder / "own.csv", *words, *tiny) == 0
    return folder


def clusters(path):
    with path.open(newline="") as file:
        return [int(row["cluster"]) for row in csv.DictReader(file)]


def test_all_text_columns_are_named_at_once_with_the_fix(tmp_path, x, refused):
    table(tmp_path / "own.csv", x)
    said = refused("fit", "own.csv", "--n-clusters", 2, "--out", "run", "--raw")
    assert "the columns 'place', 'kind' are not numeric" in said and "--drop place,kind" in said


def test_the_run_knows_its_columns_and_scores_its_labels(own):
    results = json.loads((own / "run" / "results.json").read_text())
    assert results["columns"] == ["a", "b"] and "nmi" in results["scores"]


def test_the_command_that_fit_suggests_works_unchanged(own, tmp_path, gedi, x):
    """Dropped columns and labels need not be named again."""
    assert gedi("predict", own / "run", own / "own.csv", "--out", tmp_path / "p.csv") == 0
    assert clusters(tmp_path / "p.csv") == runs.load(own / "run").predict(x).tolist()


@pytest.mark.parametrize("order", [("b", "a"), ("kind", "b", "place", "a")])
def test_columns_are_found_by_name_in_any_order(own, tmp_path, gedi, x, order):
    table(tmp_path / "other.csv", x, order)
    assert gedi("predict", own / "run", tmp_path / "other.csv", "--out", tmp_path / "p.csv") == 0
    assert clusters(tmp_path / "p.csv") == runs.load(own / "run").predict(x).tolist()
    np.testing.assert_array_equal(rows_of((tmp_path / "other.csv").read_bytes(), "o", runs.load(own / "run")).rows, x)


def test_a_table_without_a_header_is_read_by_position(own, tmp_path, gedi, x):
    np.savetxt(tmp_path / "bare.csv", x, delimiter=",")
    assert gedi("predict", own / "run", tmp_path / "bare.csv", "--out", tmp_path / "p.csv") == 0
    assert clusters(tmp_path / "p.csv") == runs.load(own / "run").predict(x).tolist()


def test_a_column_that_is_missing_is_named(own, tmp_path, x, refused):
    table(tmp_path / "own.csv", x, ("a", "id"))
    assert "no column 'b'" in refused("predict", own / "run", "own.csv", "--out", "p.csv")


def test_samples_have_the_names_and_can_be_predicted(own, tmp_path, gedi):
    assert gedi("sample", own / "run", "-n", 5, "--out", tmp_path / "s.csv") == 0
    assert load(tmp_path / "s.csv").feature_names == ["a", "b"]
    assert gedi("predict", own / "run", tmp_path / "s.csv", "--out", tmp_path / "p.csv") == 0


def test_the_report_calls_labels_by_their_names(own):
    page = (own / "run" / "report.html").read_text()
    assert '<th scope="col">left</th><th scope="col">right</th>' in page and "label left (not used in training)" in page


def test_eval_and_report_find_columns_by_name_too(own, tmp_path, capsys, gedi):
    capsys.readouterr()
    assert gedi("eval", own / "run", own / "own.csv", "--labels", "kind") == 0
    assert "nmi" in json.loads(capsys.readouterr().out)
    words = ["--data", own / "own.csv", "--label-column", "kind", "--out", tmp_path / "r.html"]
    assert gedi("report", own / "run", *words) == 0


def test_a_stopped_run_drops_the_same_columns(own, tmp_path, monkeypatch, capsys, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    fit = ["fit", own / "own.csv", "--n-clusters", 2, "--out", tmp_path / "run", "--drop", "id,place,kind", *tiny]
    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi(*fit) == 130
    assert gedi(*fit, "--resume", "--drop", "id,place,kind,b") == 2
    assert "started with a different --drop" in capsys.readouterr().err
    assert gedi("resume", tmp_path / "run") == 0
    assert runs.load(tmp_path / "run").columns == ["a", "b"]


def test_a_missing_value_is_named_by_its_column(tmp_path, refused):
    (tmp_path / "own.csv").write_text("a,b\n1,2\n3,NA\n5,6\n")
    assert "column 'b'" in refused("fit", "own.csv", "--n-clusters", 2, "--out", "run", "--raw")


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], "ab", None, {"a": 1, "b": 2}])
def test_invalid_column_names_of_a_strangers_run_are_ignored(own, names):
    model = runs.load(own / "run")
    model.table, model.results["columns"] = None, names
    assert model.columns is None
