"""The command line: what it writes."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from argparse import SUPPRESS
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import yaml
from rich.console import Console
from safetensors.torch import load_file, save_file

import gedi as package
from gedi import GEDI, runs
from gedi.cli import build_parser, main
from gedi.commands import catalogue
from gedi.data import arrays
from gedi.training.methods import METHODS
from gedi.training.presets import PRESETS

COMMANDS = ("demo", "fit", "resume", "predict", "sample", "explore", "eval", "report")
COMMANDS += ("methods", "datasets", "fetch", "reproduce", "completion")


# ---- help ----


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(command, capsys, gedi):
    assert gedi(command, "--help") == 0
    assert re.search(rf'example: (eval "\$\()?gedi {command}', capsys.readouterr().out)


def test_help_names_every_command(capsys, gedi):
    assert gedi("--help") == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_gedi_alone_shows_the_help_and_is_no_success(capsys, gedi):
    assert gedi() == 2
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


def test_python_m_gedi_is_gedi():
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    words = [sys.executable, "-m", "gedi", "--version"]
    assert subprocess.check_output(words, text=True, env=environment) == f"gedi {package.__version__}\n"


def test_flags_of_fit_are_grouped(capsys, gedi):
    gedi("fit", "--help")
    headings = re.findall(r"^(\w+):$", capsys.readouterr().out, re.MULTILINE)
    assert headings == ["options", "data", "model", "run", "hardware", "expert"]


@pytest.mark.parametrize("shell", catalogue.SHELLS)
def test_completion_knows_commands_flags_and_names(shell, capsys, gedi):
    pytest.importorskip("shtab", reason="pip install shtab")
    assert gedi("completion", shell) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("predict", "label-column", "vicreg"))


def test_bash_completes(tmp_path):
    pytest.importorskip("shtab", reason="pip install shtab")
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "rows.csv").write_text("")
    script = tmp_path / "gedi.bash"
    with script.open("w") as file, redirect_stdout(file):
        main(["completion", "bash"])
    for typed, expected in (("gedi pred", "predict"), ("gedi fit --n-c", "--n-clusters"), ("gedi fit ro", "rows.csv")):
        words = typed.split()
        ask = f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}; _shtab_gedi gedi {words[-1]}"
        done = subprocess.run(
            ["bash", "-c", f'{ask}; echo "${{COMPREPLY[@]}}"'], capture_output=True, text=True, cwd=tmp_path
        )
        assert done.stdout.split() == [expected], done.stderr


def test_every_flag_has_a_help_text():
    for name, parser in build_parser().commands.items():
        for action in parser._actions:
            assert action.help and action.help != SUPPRESS, f"gedi {name}: {action.option_strings or action.dest}"


def test_help_and_refusals_do_not_wait_for_torch():
    """The names of presets, methods and experiments are known without it."""
    code = "import sys; from gedi.cli import main; "
    code += "assert not {'torch', 'sklearn', 'numpy'} & set(sys.modules), 'slow'; main(sys.argv[1:])"
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1])}
    for words, exit_code, said in (
        (["fit", "--help"], 0, "ebclr"),
        (["fitt"], 2, "no command fitt: did you mean 'fit'?"),
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, env=environment)
        assert done.returncode == exit_code and said in done.stdout + done.stderr


def test_methods_and_their_terms_are_listed(capsys, monkeypatch, gedi):
    monkeypatch.setattr(catalogue, "out", Console(width=300))
    assert gedi("methods") == 0
    out = capsys.readouterr().out
    assert all(f" {name} " in out and method.summary in out for name, method in METHODS.items())
    assert "negative_free: barlow (App. E)" in out


def test_the_estimator_names_every_preset_and_method():
    assert all(f"'{name}'" in GEDI.__doc__ for name in (*PRESETS, *METHODS))


# ---- what works ----


def test_fit_writes_a_whole_run_folder(home):
    names = {p.name for p in (home / "run").iterdir()}
    names -= {name for name in names if name.startswith("checkpoint-")}
    assert names == {
        "config.yaml",
        "model.safetensors",
        "metrics.jsonl",
        "results.json",
        "report.json",
        "report.html",
        "data-sample.safetensors",
        "plan.yaml",
        "checkpoint.json",
    }
    results = json.loads((home / "run" / "results.json").read_text())
    assert results["data"] == "labelled" and results["method"] == "gedi"
    assert {"nmi", "accuracy", "ari"} <= results["scores"].keys()
    assert {"date", "python", "versions", "machine", "command"} <= results["provenance"].keys()


def test_fit_says_the_cost_before_and_the_next_step_after(home, tmp_path, capsys, gedi, tiny, x):
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 0
    out, err = capsys.readouterr()
    first, second = err.splitlines()[:2]
    assert first.startswith("timing")
    assert re.fullmatch(
        r"40 rows of 2 features: about \d+ s to train, [\d,]+ MB of memory "
        r"\(3 \+ 3 iterations of [\d.e-]+ \+ [\d.e-]+ s\)",
        second,
    )
    assert f"next: gedi predict {tmp_path / 'run'}" in out


def test_the_same_seed_gives_the_same_run(home, tmp_path, gedi, tiny):
    for name in ("one", "two"):
        assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / name, "--seed", 3, *tiny) == 0
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")]
    assert files[0] == files[1]


def test_labels_in_the_file_do_not_affect_training(home, tmp_path, gedi, tiny):
    """The same rows with and without a label column give the same weights."""
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 0
    with_labels, without = home / "run", tmp_path / "run"
    assert (with_labels / "model.safetensors").read_bytes() == (without / "model.safetensors").read_bytes()


def test_predict_writes_a_csv_of_all_rows(home, tmp_path, gedi):
    assert gedi("predict", home / "run", home / "rows.csv", "--out", tmp_path / "p.csv") == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["cluster", "probability", "log_density", "typicality", "ood_score"]
    model = runs.load(home / "run")
    assert [int(row["cluster"]) for row in rows] == model.predict(
        np.loadtxt(home / "rows.csv", delimiter=",", skiprows=1)
    ).tolist()


def test_predict_writes_parquet_and_npz_with_the_embedding(home, tmp_path, gedi):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("p.npz", "p.parquet"):
        assert gedi("predict", home / "run", home / "rows.csv", "--out", tmp_path / name, "--embed") == 0
    archive, table = np.load(tmp_path / "p.npz"), parquet.read_table(tmp_path / "p.parquet")
    assert archive.files == table.column_names
    z = np.stack([archive[name] for name in archive.files if name.startswith("embedding_")], axis=1)
    rows = np.loadtxt(home / "rows.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(z, runs.load(home / "run").transform(rows), atol=1e-6)
    assert table["cluster"].to_pylist() == archive["cluster"].tolist()


def test_a_run_without_a_density_is_not_asked_for_one(home, tmp_path, capsys, gedi, tiny):
    run = tmp_path / "run"
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--out", run, "--method", "swav", *tiny]
    assert gedi(*words, "--training.step1.iterations=0") == 0
    capsys.readouterr()
    assert gedi("sample", run, "--out", tmp_path / "s.npz") == 2
    assert "nothing to sample from" in capsys.readouterr().err and not (tmp_path / "s.npz").exists()
    for name in ("p.npz", "p.csv"):
        assert gedi("predict", run, home / "rows.csv", "--out", tmp_path / name) == 0
        assert capsys.readouterr().err.count("log_density, typicality and ood_score are left out") == 1
    assert np.load(tmp_path / "p.npz").files == ["cluster", "probability"]
    assert (tmp_path / "p.csv").read_text().splitlines()[0] == "cluster,probability"
    assert gedi("eval", run, home / "rows.csv", "--ood", home / "rows.csv") == 0
    out, err = capsys.readouterr()
    assert json.loads(out).keys().isdisjoint({"mean_log_density", "ood"}) and "mean_log_density and ood are left" in err


def test_sample_writes_an_archive_or_a_picture(home, tmp_path, gedi):
    for name in ("one.npz", "two.npz", "s.png"):
        assert gedi("sample", home / "run", "-n", 7, "--seed", 1, "--out", tmp_path / name) == 0
    one, two = (np.load(tmp_path / name)["x"] for name in ("one.npz", "two.npz"))
    assert one.shape == (7, 2) and np.array_equal(one, two)
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


def test_eval_prints_json(home, capsys, gedi):
    capsys.readouterr()
    assert gedi("eval", home / "run", home / "labelled.csv", "--ood", home / "foreign.csv") == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["rows"] == 40 and 0 <= scores["nmi"] <= 1
    names = ("auroc_gradient", "auroc_log_density", "auroc_typicality")
    assert all(0 <= scores["ood"][name] <= 1 for name in names)


def test_a_run_of_an_older_version_has_no_typicality_and_says_so(home, tmp_path, capsys, gedi):
    run = shutil.copytree(home / "run", tmp_path / "run")
    tensors = load_file(run / "model.safetensors")
    del tensors["density.typical_parts"]
    save_file(tensors, run / "model.safetensors")
    capsys.readouterr()
    assert gedi("predict", run, home / "rows.csv", "--out", tmp_path / "p.npz") == 0
    assert "older version of gedi: typicality is left out" in capsys.readouterr().err
    assert np.load(tmp_path / "p.npz").files == ["cluster", "probability", "log_density", "ood_score"]
    assert gedi("eval", run, home / "rows.csv", "--ood", home / "foreign.csv") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["ood"].keys() == {"data", "auroc_gradient", "auroc_log_density"}
    assert "auroc_typicality is left out" in err


def test_eval_without_labels_has_no_nmi(home, capsys, gedi):
    capsys.readouterr()
    assert gedi("eval", home / "run", home / "rows.csv") == 0
    scores = json.loads(capsys.readouterr().out)
    assert "nmi" not in scores and np.isfinite(scores["mean_log_density"])


def test_datasets_lists_every_name(capsys, monkeypatch, tmp_path, gedi):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    assert gedi("datasets") == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("moons", "circles", "rings", "spirals", "digits", "mnist"))


def test_a_constant_column_warns_and_works(tmp_path, capsys, gedi, tiny, x, write_rows):
    write_rows(tmp_path / "rows.csv", np.column_stack([x, np.full(40, 7.0)]), "a,b,c")
    assert gedi("fit", tmp_path / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 0
    err = capsys.readouterr().err
    assert "warning: 1 of 3 columns are constant" in err
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_brackets_in_a_path_are_shown(home, tmp_path, capsys, gedi, tiny):
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "[red]run", *tiny) == 0
    assert str(tmp_path / "[red]run") in capsys.readouterr().out


# ---- settings ----


def settings(folder) -> dict:
    return yaml.safe_load((folder / "config.yaml").read_text())["training"]


def test_a_config_file_changes_settings_and_a_flag_overrides_it(home, tmp_path, gedi):
    (tmp_path / "c.yaml").write_text("training:\n  dam: {steps: 4}\n  step2: {iterations: 2}\n")
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--preset", "smoke", "--config", tmp_path / "c.yaml"]
    words += ["--training.dam.steps", "2", "--training.step1.iterations=1"]
    assert gedi(*words, "--out", tmp_path / "run") == 0
    found = settings(tmp_path / "run")
    assert (found["dam"]["steps"], found["step2"]["iterations"], found["step1"]["iterations"]) == (2, 2, 1)


def test_the_config_of_a_run_can_be_used_again(home, tmp_path, gedi):
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--config", home / "run" / "config.yaml"]
    assert gedi(*words, "--out", tmp_path / "run") == 0
    assert settings(tmp_path / "run") == settings(home / "run")


def test_a_setting_may_come_before_the_data(home, tmp_path, gedi, tiny):
    words = ["fit", "--training.dam.steps", "2", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run"]
    assert gedi(*words, *tiny[:4]) == 0


# ---- predictions and samples as files ----


def test_predict_in_blocks_agrees_with_predict_at_once(home, tmp_path, gedi, monkeypatch, x):
    monkeypatch.setattr(arrays, "BLOCK_ROWS", 7)
    model = runs.load(home / "run")
    np.save(tmp_path / "rows.npy", x)
    assert gedi("predict", home / "run", tmp_path / "rows.npy", "--out", tmp_path / "p.npz", "--embed") == 0
    answers = np.load(tmp_path / "p.npz")
    assert np.array_equal(answers["cluster"], model.predict(x))
    for name, answer in {"log_density": "score_samples", "typicality": "typicality", "ood_score": "ood_score"}.items():
        np.testing.assert_allclose(answers[name], getattr(model, answer)(x), atol=1e-9, rtol=0)
    np.testing.assert_allclose(answers["embedding_1"], model.transform(x)[:, 1], atol=1e-9, rtol=0)


def test_samples_are_the_same_in_every_file_format(home, tmp_path, gedi):
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("s.npz", "s.csv", "s.parquet"):
        assert gedi("sample", home / "run", "-n", 5, "--out", tmp_path / name) == 0
    x = np.load(tmp_path / "s.npz")["x"]
    assert np.array_equal(np.loadtxt(tmp_path / "s.csv", delimiter=",", skiprows=1), x)
    table = parquet.read_table(tmp_path / "s.parquet")
    assert table.column_names == ["a", "b"] and table["b"].to_pylist() == x[:, 1].tolist()
