"""`gedi fit` without --n-clusters finds the number, says so, keeps it in the run, and resumes with it."""

import json

import pytest
import yaml

from gedi.training import number


@pytest.mark.parametrize("flag", [[], ["--n-clusters", "auto"]])
def test_a_fit_without_a_number_finds_it_and_says_how_sure_it_is(gedi, home, tiny, tmp_path, capsys, flag):
    assert gedi("fit", home / "rows.csv", *flag, "--out", tmp_path / "run", *tiny) == 0
    assert "found 2 clusters (clear: 100% agreement between two halves of the data)" in capsys.readouterr().err
    told = json.loads((tmp_path / "run" / "results.json").read_text())
    assert told["n_clusters"] == 2 and told["number"]["chosen"] == 2 and told["number"]["sure"] == "clear"
    assert list(told["number"]["curve"]) == ["2"] and told["number"]["runner_up"] is None


def test_a_run_that_is_started_again_keeps_its_number(gedi, home, tiny, tmp_path, monkeypatch):
    words = ["fit", home / "rows.csv", "--out", tmp_path / "run", *tiny]
    assert gedi(*words) == 0
    plan = yaml.safe_load((tmp_path / "run" / "plan.yaml").read_text())
    (tmp_path / "run" / "model.safetensors").unlink()  # as if it had been killed
    monkeypatch.setattr(number, "find_number", lambda *_: pytest.fail("the number is known"))
    assert gedi(*words, "--resume") == 0
    told = json.loads((tmp_path / "run" / "results.json").read_text())
    assert told["number"] == plan["number"] and told["n_clusters"] == plan["n_clusters"] == 2


def test_words_that_are_no_number_are_refused(refused, home):
    assert "--n-clusters" in refused("fit", home / "rows.csv", "--n-clusters", "many", "--out", "run")
