"""Refusals: one sentence, exit code 2, and nothing is overwritten."""

import numpy as np
import pytest

from gedi import runs
from gedi.data import arrays
from gedi.errors import DataError
from gedi.explore.uploads import rows_of

BAD_FILES = {
    "NaN": ("1.0,2.0\nnan,3.0\n4.0,5.0\n", "NaN"),
    "inf": ("1.0,2.0\ninf,3.0\n4.0,5.0\n", "inf"),
    "a missing cell": ("1.0,2.0\n,3.0\n4.0,5.0\n", "NaN"),
    "strings": ("a,b\n1.0,red\n2.0,blue\n3.0,red\n", "not numeric"),
    "empty": ("", "empty"),
    "header alone": ("a,b\n", "no rows"),
    "one row": ("a,b\n1.0,2.0\n", "one row"),
    "ragged": ("1.0,2.0\n1.0\n3.0,4.0\n", "Line 2"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_refused(refused, tmp_path, kind, tiny):
    content, expected = BAD_FILES[kind]
    (tmp_path / "bad.csv").write_text(content)
    assert expected in refused("fit", "bad.csv", "--n-clusters", 2, "--out", "run", "--raw", *tiny)


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        (41, "more clusters than rows"),
        (1, "at least 2"),
        (0, "at least 2"),
        (-3, "at least 2"),
        ("two", "a whole number or auto"),
        (2.5, "a whole number or auto"),
    ],
)
def test_an_impossible_number_of_clusters_is_refused(refused, home, clusters, expected, tiny):
    assert expected in refused("fit", home / "rows.csv", "--n-clusters", clusters, "--out", "run", *tiny)


@pytest.mark.parametrize("words", [["photos\udcff", "--out", "run"], ["moons", "--out", "run\udcff"]])
def test_a_name_that_is_not_utf8_is_refused(refused, words, tiny):
    assert r"\udcff is not valid UTF-8" in refused("fit", *words, "--n-clusters", 2, *tiny)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("nowhere.csv", "nowhere.csv"),
        ("moonz", "'moons'"),
        ("digit", "'digits'"),
        ("circle", "'circles'"),
        (".", "folder"),
    ],
)
def test_missing_data_is_refused_with_the_nearest_name(refused, data, expected, tiny):
    assert expected in refused("fit", data, "--n-clusters", 2, "--out", "run", *tiny)


def test_an_existing_run_folder_is_refused_and_left_as_it_was(refused, home, tmp_path, tiny):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    assert "already exists" in refused("fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *tiny)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--training.dam.stepps", "3"], "training.dam.steps"),
        (["--training.x.y", "3"], "no setting training.x.y"),
        (["--training.dam.steps", "many"], "training.dam.steps"),
        (["--training.dam.steps", "[1"], "training.dam.steps"),
        (["--training.dam.steps"], "needs a value"),
        (["--training.sampler.noise", "-1"], "must be positive"),
        (["--training.net.hidden", "[]"], "net.hidden"),
        (["--training", "3"], "--training"),
        (["--nclusters", "3"], "--nclusters"),
        (["--preset", "toyy"], "toy"),
        (["--method", "swaw"], "swav"),
        (["--seed", "-1"], "--seed: must not be negative, got -1"),
        (["--seed", "1.5"], "--seed: must be a whole number, got '1.5'"),
        (["--seed", 2**32], "--seed: must be at most 2,147,483,648"),
        (["--outliers", 1], "--outliers: must be at least 0 and below 1"),
        (["--save-every", "nan"], "--save-every: must be a number"),
        (["--timeout", 0], "--timeout: must be positive"),
        (["--devices", 1.5], "--devices: must be a whole number"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--label-column", "c"], "'c'"),
    ],
)
def test_an_invalid_setting_is_refused(refused, home, words, expected, tiny):
    assert expected in refused("fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *tiny, *words)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("dam: {stepps: 3}", "training.dam.steps"),
        ("dam: {steps: many}", "training.dam.steps"),
        ("a: [1\nb: {", "cannot be read"),
        ("- 1", "mapping"),
        ("training: 5", "mapping"),
    ],
)
def test_an_invalid_config_file_is_refused(refused, home, tmp_path, content, expected, tiny):
    (tmp_path / "c.yaml").write_text(content)
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *tiny, "--config", "c.yaml"]
    assert expected in refused(*words)


def test_training_settings_are_only_for_fit(refused, home):
    words = ["predict", home / "run", home / "rows.csv", "--out", "p.csv", "--training.dam.steps", "3"]
    assert "gedi fit" in refused(*words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["fitt"], "no command fitt: did you mean 'fit'? See: gedi --help"),
        (["qqqq"], "no command qqqq: choose from demo, fit"),
        (["--versoin"], "no flag --versoin: did you mean '--version'?"),
        (
            ["fit", "moons", "--nclusters", "2"],
            "--nclusters: did you mean '--n-clusters'? See: gedi fit --help",
        ),
        (["predict", "run", "rows.csv", "--label_column=y"], "no flag --label_column: did you mean '--label-column'?"),
        (["eval", "run", "rows.csv", "--n-clusters", "2"], "gedi eval has no flag --n-clusters. See"),
        (["fit", "moons", "--preset", "toyy"], "no preset 'toyy': did you mean 'toy'?"),
        (["fit", "moons", "--method", "kmeanz"], "no method 'kmeanz': choose from gedi, gedi-1"),
    ],
)
def test_a_misspelt_command_flag_or_name_gets_a_suggestion(refused, words, expected):
    assert expected in refused(*words)


def test_a_missing_argument_is_refused(refused):
    assert "--out" in refused("fit", "moons", "--n-clusters", 2)


@pytest.mark.parametrize("command", ["predict", "eval"])
def test_rows_with_other_features_than_in_training_are_refused(refused, home, tmp_path, command, write_rows):
    np.savetxt(tmp_path / "wide.csv", np.ones((4, 3)), delimiter=",")
    write_rows(tmp_path / "named.csv", np.ones((4, 3)), "a,c,d")
    out = ["--out", "p.csv"] if command == "predict" else []
    assert "3 features" in refused(command, home / "run", "wide.csv", *out)
    assert "no column 'b'" in refused(command, home / "run", "named.csv", *out)


def test_the_advice_about_text_columns_fits_the_command(refused, home, tmp_path, gedi, tiny, x, capsys):
    np.save(tmp_path / "rows.npy", x)
    assert gedi("fit", "rows.npy", "--n-clusters", 2, "--out", "nameless", *tiny) == 0
    (tmp_path / "kinds.csv").write_text("a,b,kind\n1,2,red\n3,4,blue\n")
    (tmp_path / "words.csv").write_text("a,b\n1,one\n3,two\n")
    for run, data, expected in (
        ("nameless", "kinds.csv", "train"),  # of two columns, and these are three
        (home / "run", "words.csv", "as in"),
    ):
        for words in (["predict", run, data, "--out", "p.csv"], ["eval", run, data]):
            said = refused(*words)
            assert expected in said and "--" not in said
        with pytest.raises(DataError, match=expected) as error:
            rows_of((tmp_path / data).read_bytes(), data, runs.load(run))
        assert "--" not in str(error.value)


def test_a_report_of_a_missing_folder_is_refused(refused, home):
    assert "There is no folder nowhere" in refused("report", "nowhere")
    assert "There is no folder nowhere" in refused("report", home / "run", "nowhere")


@pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
def test_predict_overwrites_nothing(refused, home, tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert "already exists" in refused("predict", home / "run", home / "rows.csv", "--out", name)


def test_sample_overwrites_nothing(refused, home, tmp_path):
    (tmp_path / "s.npz").write_text("mine")
    assert "already exists" in refused("sample", home / "run", "--out", "s.npz")


@pytest.mark.parametrize("name", ["p.txt", "nowhere/p.csv"])
def test_an_invalid_output_file_is_refused(refused, home, name):
    refused("predict", home / "run", home / "rows.csv", "--out", name)


def test_zero_samples_are_refused(refused, home):
    assert "at least 1" in refused("sample", home / "run", "-n", 0, "--out", "s.npz")


@pytest.mark.parametrize("command", ["predict", "sample", "eval"])
def test_a_missing_or_broken_run_is_refused(refused, home, tmp_path, command):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.yaml").write_text("a: [1\nb: {")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\x80\x04.")
    data = [] if command == "sample" else [home / "rows.csv"]
    out = [] if command == "eval" else ["--out", "o.npz"]
    for run in ("nowhere", "broken"):
        assert run in refused(command, run, *data, *out)


def test_an_unknown_experiment_is_refused_with_the_nearest(refused):
    assert "table1" in refused("reproduce", "tabel1", "--scale", "smoke", "--out", "results")


def test_a_bad_row_far_down_leaves_no_output_behind(refused, home, tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_ROWS", 4)
    (tmp_path / "rows.csv").write_text("1.0,2.0\n" * 9 + "1.0,inf\n")
    assert "row 9, column 1" in refused("predict", home / "run", "rows.csv", "--out", "p.csv")


def test_more_samples_than_memory_are_refused(refused, home):
    assert "at most" in refused("sample", home / "run", "-n", 10**12, "--out", "s.npz")


def test_samples_that_cannot_be_drawn_are_refused(refused, home, tmp_path, gedi, tiny, capsys):
    rows = np.random.default_rng(0).normal(size=(200, 3))
    np.save(tmp_path / "rows.npy", rows)
    assert gedi("fit", "rows.npy", "--n-clusters", 2, "--out", "run", *tiny) == 0
    assert "cannot be drawn" in refused("sample", "run", "--out", "s.png")
    assert "--frames needs a run on images" in refused("sample", "run", "--out", "s.png", "--frames", 3)
