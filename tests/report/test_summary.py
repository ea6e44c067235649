"""report.json: a fixed form, and commands that start the run again."""

import json
import shlex
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gedi import runs
from gedi.cli import build_parser, main, training_flags
from gedi.report.rerun import rerun_of
from gedi.report.run_view import read_run, summary

GRADES = {"good", "fair", "poor", "not graded"}


def is_verdict(verdict):
    named = {"clusters", "density", "samples", "training"} <= verdict.keys()
    return named and all(v.keys() == {"grade", "why", "try"} and v["grade"] in GRADES for v in verdict.values())


def test_a_fit_writes_a_verdict_that_programs_can_read(moons_run):
    found = json.loads((moons_run / "report.json").read_text())
    assert is_verdict(found["verdict"]) and found["overall"] == "not graded"  # ten iterations
    assert "10 iterations" in found["verdict"]["clusters"]["why"]
    assert found["rivals"].keys() == {"k-means", "Gaussian mixture"} and found["gaps"]["crowding"] >= 0
    assert found["measures"]["sample_test"] >= 0.5 and 0 <= found["measures"]["outside"] <= 1


def test_gedi_report_writes_it_again_but_not_beside_a_page_elsewhere(moons_run, tmp_path):
    copy = shutil.copytree(moons_run, tmp_path / "copy")
    before = (copy / "report.json").read_text()
    (copy / "report.json").unlink()
    assert main(["report", str(copy), "--out", str(tmp_path / "page.html")]) == 0
    assert not (copy / "report.json").exists() and not (tmp_path / "page.json").exists()
    assert main(["report", str(copy)]) == 0
    after = json.loads((copy / "report.json").read_text())
    assert after["measures"] == json.loads(before)["measures"] and after["run"] == "copy"


def test_a_run_that_diverged_has_a_verdict_of_the_same_form(moons_run, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "results.json").write_text(json.dumps({"diverged": "Training diverged."}))
    shutil.copy(moons_run / "plan.yaml", run / "plan.yaml")
    found = summary(read_run(run))["verdict"]
    assert is_verdict(found) and found["training"]["grade"] == "poor" and found["clusters"]["grade"] == "not graded"
    assert "--config" in found["training"]["try"]


def parsed(command):
    rest, changes = training_flags(shlex.split(command)[1:])
    return build_parser().parse_args(rest), changes


@pytest.mark.parametrize("name", ["moons_run", "wide_run", "digits_run"])
def test_the_command_of_a_run_repeats_what_it_was_asked_for(name, request, monkeypatch):
    folder = request.getfixturevalue(name)
    monkeypatch.chdir(folder.parent)
    rerun = read_run(folder).rerun
    args, changes = parsed(rerun.fit({"heads.random": 8}))
    assert args.out == f"{folder.name}-2" and args.data.endswith((".npz", ".csv")) and "/" not in args.data
    assert args.config == f"{folder.name}/plan.yaml" and changes == {"heads.random": 8}  # ten iterations are no preset
    assert parsed(rerun.fit(afresh=True))[0].config is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"preset": "smoke", "is_changed": False}, ["--preset", "smoke"]),
        ({"preset": "smoke"}, ["--preset", "smoke", "--config"]),
        ({"is_changed": False}, []),
        ({}, ["--config"]),  # a plan from before these were kept
    ],
)
def test_settings_are_those_of_the_preset_unless_they_were_changed(begun, given, kept):
    plan = runs.Plan.read(begun)
    assert (plan.preset, plan.is_changed) == (None, True)
    words = rerun_of(begun, replace(plan, seed=3, **given), None, None).fit().split()
    assert (
        "--seed 3" in " ".join(words) and [word for word in words if word in ("--preset", "smoke", "--config")] == kept
    )


def test_a_fit_keeps_its_preset_and_whether_it_changed_anything(moons_run, home, moons):
    assert (runs.Plan.read(moons_run).preset, runs.Plan.read(moons_run).is_changed) == ("smoke", True)
    words = ["--preset", "smoke", "--seed", "3"]
    assert main(["fit", str(moons), "--n-clusters", "2", "--out", str(home / "preset-run"), *words]) == 0
    again = read_run(home / "preset-run").rerun.fit()
    assert "--seed 3" in again and "--preset smoke" in again and "--config" not in again


def test_a_name_that_is_a_command_stays_a_name(moons_run, tmp_path, monkeypatch):
    copy = shutil.copytree(moons_run, tmp_path / "run; rm -r x")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(rerun_of(copy, None, None, None).fit())
    assert words[words.index("--out") + 1] == "run; rm -r x-2"


def test_a_run_without_a_plan_leaves_the_data_to_the_reader(tmp_path):
    model = SimpleNamespace(n_clusters=3)
    assert rerun_of(tmp_path / "run", None, None, model).fit().startswith("gedi fit DATA --n-clusters 3 --out ")
