"""Training that is stopped, fails or diverges half-way."""

import json
from dataclasses import replace

import pytest

from gedi import runs
from gedi.training import cost
from gedi.training import fit as fit_module
from gedi.training.guard import DivergedError


@pytest.mark.parametrize("out", ["run", "a/b/run"])
def test_a_stopped_training_leaves_nothing_unfinished_behind(home, tmp_path, monkeypatch, capsys, out, gedi, tiny):
    def stop(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_module, "train", stop)
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / out, *tiny) == 130
    assert "stopped" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_search_for_the_number_of_clusters_can_be_stopped(home, tmp_path, monkeypatch, capsys, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("gedi.training.number.agreement_of_halves", stop)
    assert gedi("fit", home / "rows.csv", "--out", tmp_path / "run", *tiny) == 130
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("looking for the number of clusters, for up to a minute") and "stopped" in told[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_run_whose_save_failed_is_finished_by_resume(home, tmp_path, monkeypatch, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    fit = ("fit", home / "rows.csv", "--n-clusters", 2, *tiny)
    assert gedi(*fit, "--out", tmp_path / "whole") == 0
    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi(*fit, "--out", tmp_path / "run") == 130
    assert not (tmp_path / "run" / "model.safetensors").exists()
    assert gedi("resume", tmp_path / "run") == 0
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "run")]
    assert models[0] == models[1]


@pytest.mark.parametrize("is_run", [True, False])
def test_a_folder_or_file_with_the_name_of_a_data_set_does_no_harm(tmp_path, monkeypatch, capsys, gedi, tiny, is_run):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    fit = ("fit", "moons", "--n-clusters", 2, "--out", "moons" if is_run else "run", *tiny)
    if not is_run:
        (tmp_path / "moons").write_text("mine")
    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi(*fit) == 130
    assert gedi(*fit, "--resume") == 0
    assert f"next: gedi predict {fit[5]} moons --out" in capsys.readouterr().out
    assert runs.load(fit[5]).columns is None


def test_resume_refuses_data_that_changed(home, tmp_path, monkeypatch, capsys, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    rows = tmp_path / "own.csv"
    rows.write_bytes((home / "rows.csv").read_bytes())
    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi("fit", rows, "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 130
    rows.write_text(rows.read_text().replace("1", "2"))
    assert gedi("resume", tmp_path / "run") == 2
    assert "has changed since the run began" in capsys.readouterr().err


def test_fit_resume_refuses_other_settings_than_at_first(home, tmp_path, capsys, monkeypatch, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    fit = ("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny)
    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi(*fit) == 130
    for flags, name in (
        (["--seed", 9], "--seed"),
        (["--training.dam.steps=2"], "preset or other settings"),
        (["--n-clusters", 3], "--n-clusters"),
    ):
        capsys.readouterr()
        assert gedi(*fit, "--resume", *flags) == 2
        assert f"started with a different {name}" in capsys.readouterr().err
    assert gedi(*fit, "--resume") == 0


def test_two_trainings_do_not_share_a_folder(home, tmp_path, capsys, monkeypatch, gedi, tiny):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(runs.folder, "write_results", stop)
        assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 130
    with runs.locked(tmp_path / "run"):
        assert gedi("resume", tmp_path / "run") == 2
    assert "Another process is training" in capsys.readouterr().err
    assert gedi("resume", tmp_path / "run") == 0


def test_resume_refuses_other_folders_and_leaves_a_finished_run_alone(home, tmp_path, capsys, gedi):
    assert gedi("resume", tmp_path) == 2
    assert gedi("resume", home / "run") == 0
    assert "already finished" in capsys.readouterr().out


def test_an_empty_folder_that_existed_before_stays(home, tmp_path, monkeypatch, gedi, tiny):
    def stop(run):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_module, "train", stop)
    (tmp_path / "run").mkdir()
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 130
    assert [p.name for p in tmp_path.rglob("*")] == ["run"]


def test_a_training_that_diverges_is_one_sentence_and_leaves_its_report(home, tmp_path, capsys, gedi, tiny):
    capsys.readouterr()
    words = ["fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny]
    assert gedi(*words, "--training.step1.learning_rate", "1e30") == 3
    err = capsys.readouterr().err
    assert "gedi: Training diverged in step1" in err and "learning_rate" in err and "Traceback" not in err
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert [event["action"].split()[0] for event in results["guard"]] == ["rolled"] * 3 + ["stopped"]
    assert not (tmp_path / "run" / "model.safetensors").exists()


# ---- a budget of time ----


@pytest.fixture
def priced(monkeypatch):
    """The estimate of a machine that takes 1 s for an iteration of step 1 and 2 s for one of step 2."""
    monkeypatch.setattr(
        cost, "estimate", lambda ready, world: cost.Cost(3 * 1.0 + 3 * 2.0, {"step1": 1.0, "step2": 2.0}, None)
    )


def test_a_budget_decides_the_iterations_and_they_are_in_the_plan(home, tmp_path, capsys, gedi, tiny, priced):
    fit = ("fit", home / "rows.csv", "--n-clusters", 2, *tiny, "--minutes", 0.3)
    assert gedi(*fit, "--out", tmp_path / "whole") == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "--minutes 0.3: 6 + 6 iterations instead of 3 + 3 iterations"
    assert lines[2] == "40 rows of 2 features: about 18 s to train (6 + 6 iterations of 1 + 2 s)"
    plan = runs.Plan.read(tmp_path / "whole")
    assert plan.iterations == (6, 6) and runs.load(tmp_path / "whole").iterations == 12

    killed = tmp_path / "killed after timing"  # with another estimate, it still trains as planned
    killed.mkdir()
    plan.write(killed)
    assert gedi("resume", killed) == 0
    assert (killed / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
    assert "instead of" not in capsys.readouterr().err
    assert gedi(*fit, "--out", killed, "--resume") == 0
    assert gedi(*fit[:-1], 0.4, "--out", killed, "--resume") == 2
    assert "started with a different --minutes" in capsys.readouterr().err


def test_a_run_with_a_budget_that_was_killed_while_it_was_timed_is_timed_again(home, tmp_path, gedi, tiny, priced):
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, *tiny, "--minutes", 0.3, "--out", tmp_path / "whole") == 0
    killed = tmp_path / "killed"
    killed.mkdir()
    replace(runs.Plan.read(tmp_path / "whole"), iterations=None).write(killed)
    assert gedi("resume", killed) == 0
    assert runs.Plan.read(killed) == runs.Plan.read(tmp_path / "whole")


def test_a_budget_that_cannot_be_kept_is_refused(home, tmp_path, capsys, monkeypatch, gedi, tiny, priced):
    def diverge(*_):
        raise DivergedError("no", [])

    fit = ("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny, "--minutes")
    for flags, expected in (
        (
            [1e-3],
            "--minutes 0.001 is too short: even 5% of 3 + 3 iterations takes about 0 s. Use --minutes 0.1 or more",
        ),
        ([0], "must be positive, got 0"),
        (["soon"], "must be a number, got 'soon'"),
        ([1, "--devices", 2], "does not work with several processes"),
    ):
        assert gedi(*fit, *flags) == 2
        assert expected in capsys.readouterr().err
    monkeypatch.setattr(cost, "estimate", diverge)
    assert gedi(*fit, 1) == 2
    assert "The cost could not be estimated" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_plan_is_written_before_anything_is_timed(home, tmp_path, monkeypatch, gedi, tiny):
    seen = []

    def look(*_):
        seen.append(runs.Plan.read(tmp_path / "run"))
        raise KeyboardInterrupt

    monkeypatch.setattr(cost, "estimate", look)
    assert gedi("fit", home / "rows.csv", "--n-clusters", 2, "--out", tmp_path / "run", *tiny) == 130
    assert len(seen) == 1
