"""The command line: what it writes, and one sentence with exit code 2 for what it cannot do."""

import csv
import json

import numpy as np
import pytest
import yaml

from gedi.cli import main
from gedi.training import model as model_module
from gedi.training import runs

COMMANDS = ("demo", "fit", "predict", "sample", "eval", "datasets", "reproduce")
TINY = ["--preset", "smoke"]
for _setting in ("step1.iterations=3", "step2.iterations=3", "sampler.steps=1", "dam.steps=1", "start.nodes=5"):
    TINY.append(f"--training.{_setting}")

rng = np.random.default_rng(0)
X = np.vstack([rng.normal(-3, 0.4, (20, 2)), rng.normal(3, 0.4, (20, 2))])


def gedi(*words) -> int:
    """The exit code, whichever way it is given."""
    try:
        return main([str(word) for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)


def write_rows(path, rows=X, header="a,b"):
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


def contents(folder) -> dict:
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with rows, labelled rows and a trained run; tests only read it."""
    folder = tmp_path_factory.mktemp("home")
    write_rows(folder / "rows.csv")
    write_rows(folder / "labelled.csv", np.column_stack([X, np.repeat([0, 1], 20)]), "a,b,label")
    write_rows(folder / "foreign.csv", X + 50)
    assert gedi("fit", folder / "labelled.csv", "--n-clusters", 2, "--out", folder / "run", *TINY) == 0
    return folder


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """A function: the command is refused in one sentence, and the folder it ran in is as it was."""
    monkeypatch.chdir(tmp_path)

    def run(*words) -> str:
        before = contents(tmp_path)
        capsys.readouterr()
        code = gedi(*words)
        out, err = capsys.readouterr()
        assert code == 2, err
        assert out == ""
        assert err.startswith("gedi: ") and err.count("\n") == 1 and "Traceback" not in err
        assert contents(tmp_path) == before
        return err

    return run


# ---- help ----


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command, capsys):
    assert gedi(command, "--help") == 0
    assert f"example: gedi {command}" in capsys.readouterr().out


def test_help_names_every_command(capsys):
    assert gedi("--help") == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


# ---- what works ----


def test_fit_writes_a_whole_run_folder(home):
    names = {p.name for p in (home / "run").iterdir()}
    names -= {name for name in names if name.startswith("checkpoint-")}
    assert names == {
        "config.yaml",
        "model.safetensors",
        "metrics.jsonl",
        "results.json",
        "plan.yaml",
        "checkpoint.json",
    }
    results = json.loads((home / "run" / "results.json").read_text())
    assert results["data"] == "labelled" and results["method"] == "gedi"
    assert {"nmi", "accuracy", "ari"} <= results["scores"].keys()
    assert {"date", "python", "versions", "machine", "command"} <= results["provenance"].keys()


def test_fit_says_the_cost_before_and_the_next_step_after(home, tmp_path, capsys):
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *TINY) == 0
    out, err = capsys.readouterr()
    assert "40 rows x 2, 3 + 3 iterations, about" in err.splitlines()[0]
    assert f"next: gedi predict {tmp_path / 'run'}" in out


def test_the_same_seed_gives_the_same_run(home, tmp_path):
    for name in ("one", "two"):
        assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / name, "--seed", 3, *TINY) == 0
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


def test_labels_in_the_file_do_not_reach_the_training(home, tmp_path):
    """The same rows with and without a label column give the same weights."""
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *TINY) == 0
    with_labels, without = home / "run", tmp_path / "run"
    assert (with_labels / "model.safetensors").read_bytes() == (without / "model.safetensors").read_bytes()


def test_predict_writes_a_csv_of_all_rows(home, tmp_path):
    assert gedi("predict", home / "run", home / "rows.csv", "--out", tmp_path / "p.csv") == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["cluster", "probability", "log_density", "ood_score"]
    model = runs.load(home / "run")
    assert [int(row["cluster"]) for row in rows] == model.predict(
        np.loadtxt(home / "rows.csv", delimiter=",", skiprows=1)
    ).tolist()


def test_predict_writes_parquet_and_npz_with_the_embedding(home, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("p.npz", "p.parquet"):
        assert gedi("predict", home / "run", home / "rows.csv", "--out", tmp_path / name, "--embed") == 0
    archive, table = np.load(tmp_path / "p.npz"), parquet.read_table(tmp_path / "p.parquet")
    assert archive.files == table.column_names
    z = np.stack([archive[f"embedding_{i}"] for i in range(8)], axis=1)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, atol=1e-9)
    assert table["cluster"].to_pylist() == archive["cluster"].tolist()


def test_sample_writes_an_archive_or_a_picture(home, tmp_path):
    for name in ("one.npz", "two.npz", "s.png"):
        assert gedi("sample", home / "run", "-n", 7, "--seed", 1, "--out", tmp_path / name) == 0
    one, two = (np.load(tmp_path / name)["x"] for name in ("one.npz", "two.npz"))
    assert one.shape == (7, 2) and np.array_equal(one, two)
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_eval_prints_json(home, capsys):
    capsys.readouterr()
    assert gedi("eval", home / "run", home / "labelled.csv", "--ood", home / "foreign.csv") == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["rows"] == 40 and 0 <= scores["nmi"] <= 1
    assert all(0 <= scores["ood"][name] <= 1 for name in ("auroc_gradient", "auroc_log_density"))


def test_eval_without_labels_has_no_nmi(home, capsys):
    capsys.readouterr()
    assert gedi("eval", home / "run", home / "rows.csv") == 0
    scores = json.loads(capsys.readouterr().out)
    assert "nmi" not in scores and np.isfinite(scores["mean_log_density"])


def test_datasets_lists_every_name(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    assert gedi("datasets") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("moons", "circles", "rings", "spirals", "digits", "mnist"))


def test_a_constant_column_warns_and_works(tmp_path, capsys):
    write_rows(tmp_path / "rows.csv", np.column_stack([X, np.full(40, 7.0)]), "a,b,c")
    assert gedi("fit", tmp_path / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *TINY) == 0
    err = capsys.readouterr().err
    assert "warning: 1 of 3 columns are constant" in err
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_brackets_in_a_path_are_shown(home, tmp_path, capsys):
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "[red]run", *TINY) == 0
    assert str(tmp_path / "[red]run") in capsys.readouterr().out


# ---- settings ----


def settings(folder) -> dict:
    return yaml.safe_load((folder / "config.yaml").read_text())["training"]


def test_a_config_file_changes_settings_and_a_flag_overrides_it(home, tmp_path):
    (tmp_path / "c.yaml").write_text("training:\n  dam: {steps: 4}\n  step2: {iterations: 2}\n")
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--preset", "smoke", "--config", tmp_path / "c.yaml"]
    words += ["--training.dam.steps", "2", "--training.step1.iterations=1"]
    assert gedi(*words, "--out", tmp_path / "run") == 0
    found = settings(tmp_path / "run")
    assert (found["dam"]["steps"], found["step2"]["iterations"], found["step1"]["iterations"]) == (2, 2, 1)


def test_the_config_of_a_run_can_be_used_again(home, tmp_path):
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--config", home / "run" / "config.yaml"]
    assert gedi(*words, "--out", tmp_path / "run") == 0
    assert settings(tmp_path / "run") == settings(home / "run")


def test_a_setting_may_come_before_the_data(home, tmp_path):
    words = ["fit", "--training.dam.steps", "2", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run"]
    assert gedi(*words, *TINY[:4]) == 0


# ---- what does not ----

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
def test_a_bad_file_is_refused(refused, tmp_path, kind):
    content, expected = BAD_FILES[kind]
    (tmp_path / "bad.csv").write_text(content)
    assert expected in refused("fit", "bad.csv", "--n-clusters", 2, "--out", "run", *TINY)


@pytest.mark.parametrize(
    ("clusters", "expected"),
    [
        (41, "more clusters than rows"),
        (1, "at least 2"),
        (0, "at least 2"),
        (-3, "at least 2"),
        ("two", "int"),
        (2.5, "int"),
    ],
)
def test_a_number_of_clusters_that_cannot_be_is_refused(refused, home, clusters, expected):
    assert expected in refused("fit", home / "rows.csv", "--n-clusters", clusters, "--out", "run", *TINY)


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
def test_data_that_is_not_there_is_refused_with_the_nearest_name(refused, data, expected):
    assert expected in refused("fit", data, "--n-clusters", 2, "--out", "run", *TINY)


def test_an_existing_run_folder_is_refused_and_left_as_it_was(refused, home, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mine.txt").write_text("mine")
    assert "exists already" in refused("fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *TINY)


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
        (["--seed", "-1"], "seed"),
        (["--seed", "1.5"], "seed"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--label-column", "c"], "'c'"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(refused, home, words, expected):
    assert expected in refused("fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *TINY, *words)


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
def test_a_config_file_that_cannot_be_is_refused(refused, home, tmp_path, content, expected):
    (tmp_path / "c.yaml").write_text(content)
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--out", "run", *TINY, "--config", "c.yaml"]
    assert expected in refused(*words)


def test_a_training_setting_is_refused_where_nothing_is_trained(refused, home):
    words = ["predict", home / "run", home / "rows.csv", "--out", "p.csv", "--training.dam.steps", "3"]
    assert "gedi fit" in refused(*words)


def test_a_missing_command_or_argument_is_refused(refused):
    assert "COMMAND" in refused()
    assert "--n-clusters" in refused("fit", "moons", "--out", "run")


@pytest.mark.parametrize("command", ["predict", "eval"])
def test_other_features_than_those_trained_on_are_refused(refused, home, tmp_path, command):
    write_rows(tmp_path / "wide.csv", np.ones((4, 3)), "a,b,c")
    out = ["--out", "p.csv"] if command == "predict" else []
    assert "3 features" in refused(command, home / "run", "wide.csv", *out)


@pytest.mark.parametrize("name", ["p.csv", "p.npz", "p.parquet"])
def test_predict_writes_over_nothing(refused, home, tmp_path, name):
    (tmp_path / name).write_text("mine")
    assert "exists already" in refused("predict", home / "run", home / "rows.csv", "--out", name)


def test_sample_writes_over_nothing(refused, home, tmp_path):
    (tmp_path / "s.npz").write_text("mine")
    assert "exists already" in refused("sample", home / "run", "--out", "s.npz")


@pytest.mark.parametrize("name", ["p.txt", "nowhere/p.csv"])
def test_an_output_that_cannot_be_is_refused(refused, home, name):
    refused("predict", home / "run", home / "rows.csv", "--out", name)


def test_no_samples_cannot_be_asked_for(refused, home):
    assert "at least 1" in refused("sample", home / "run", "-n", 0, "--out", "s.npz")


@pytest.mark.parametrize("command", ["predict", "sample", "eval"])
def test_a_run_that_is_not_there_or_is_broken_is_refused(refused, home, tmp_path, command):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.yaml").write_text("a: [1\nb: {")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"\x80\x04.")
    data = [] if command == "sample" else [home / "rows.csv"]
    out = [] if command == "eval" else ["--out", "o.npz"]
    for run in ("nowhere", "broken"):
        assert run in refused(command, run, *data, *out)


def test_an_experiment_that_is_not_there_is_refused_with_the_nearest(refused):
    assert "table1" in refused("reproduce", "tabel1", "--scale", "smoke", "--out", "results")


# ---- stopped half-way ----


@pytest.mark.parametrize("out", ["run", "a/b/run"])
def test_a_stopped_training_leaves_nothing_half_made(home, tmp_path, monkeypatch, capsys, out):
    def stop(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(model_module, "train", stop)
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / out, *TINY) == 130
    assert "stopped" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_save_failed_is_finished_by_resume(home, tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    fit = ("fit", home / "rows.csv", "--n-clusters", 2, *TINY)
    assert gedi(*fit, "--out", tmp_path / "whole") == 0
    with monkeypatch.context() as broken:
        broken.setattr(runs, "write_results", stop)
        assert gedi(*fit, "--out", tmp_path / "run") == 130
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert gedi("resume", tmp_path / "run") == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert models[0] == models[1]


def test_resume_refuses_data_that_changed(home, tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    rows = tmp_path / "own.csv"
    rows.write_bytes((home / "rows.csv").read_bytes())
    with monkeypatch.context() as broken:
        broken.setattr(runs, "write_results", stop)
        assert gedi("fit", rows, "--n-clusters", 2, "--out", tmp_path / "run", *TINY) == 130
    rows.write_text(rows.read_text().replace("1", "2"))
    assert gedi("resume", tmp_path / "run") == 2
    assert "has changed since the run began" in capsys.readouterr().err


def test_resume_of_what_is_not_a_run_or_is_finished(home, tmp_path, capsys):
    assert gedi("resume", tmp_path) == 2
    assert gedi("resume", home / "run") == 0
    assert "finished already" in capsys.readouterr().out


def test_an_empty_folder_that_was_there_before_stays(home, tmp_path, monkeypatch):
    def stop(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(model_module, "train", stop)
    (tmp_path / "run").mkdir()
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *TINY) == 130
    assert [p.name for p in tmp_path.rglob("*")] == ["run"]


def test_a_training_that_diverges_is_one_sentence_and_leaves_nothing(home, tmp_path, capsys):
    capsys.readouterr()
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *TINY]
    assert gedi(*words, "--training.step1.learning_rate", "1e30") == 2
    err = capsys.readouterr().err
    assert "diverged" in err and "Traceback" not in err
    assert list(tmp_path.iterdir()) == []
