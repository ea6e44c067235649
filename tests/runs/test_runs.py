"""RUN folders: read back bit by bit and never overwritten; damage is one sentence."""

import json
from importlib.metadata import version

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from gedi import runs
from gedi.errors import RunError


@pytest.fixture
def folder(fitted, tmp_path):
    with runs.claimed(tmp_path / "run") as path:
        runs.save(fitted, path, {"data": "blobs", "unknown": float("nan")})
    return path


def test_a_run_folder_holds_four_files_and_no_leftovers(folder):
    assert sorted(p.name for p in folder.iterdir()) == [
        "config.yaml",
        "metrics.jsonl",
        "model.safetensors",
        "results.json",
    ]


def test_a_model_is_read_back_bit_by_bit(fitted, folder, blobs):
    again = runs.load(folder)
    mine, theirs = fitted.net.state_dict(), again.net.state_dict()
    assert mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)
    assert torch.equal(fitted.chains, again.chains)
    assert again.config == fitted.config
    assert (again.n_clusters, again.seed, again.n_features) == (2, 0, 2)
    for method in ("predict", "predict_proba", "transform", "score_samples", "typicality", "ood_score"):
        assert np.array_equal(getattr(again, method)(blobs), getattr(fitted, method)(blobs)), method
    assert np.array_equal(again.sample(5, seed=1), fitted.sample(5, seed=1))


def test_a_folder_of_an_older_version_gives_all_answers_but_typicality(folder, fitted, blobs, tmp_path, refused):
    tensors = load_file(folder / "model.safetensors")
    del tensors["density.typical_parts"]
    save_file(tensors, folder / "model.safetensors")
    old = runs.load(folder)
    assert np.array_equal(old.score_samples(blobs), fitted.score_samples(blobs))
    with refused(RunError, match="an older version of gedi, without typicality: fit it again"):
        old.typicality(blobs)
    with runs.claimed(tmp_path / "again") as again:
        runs.save(old, again)
    assert runs.load(again).typical_parts is None


def test_history_is_json_lines(fitted, folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["stage"], line["iteration"]) for line in lines if "seen" not in line] == [("step1", 4), ("step2", 6)]


def test_json_holds_no_nan(folder):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    results = json.loads((folder / "results.json").read_text(), parse_constant=refuse)
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    assert results["unknown"] is None and results["data"] == "blobs"


def test_results_say_where_they_come_from(folder):
    results = json.loads((folder / "results.json").read_text())
    assert {"date", "python", "versions", "machine", "command"} <= results["provenance"].keys()
    assert results["provenance"]["versions"]["torch"] == version("torch")
    assert {"objective", "seconds", "gradient_evaluations", "candidates"} <= results.keys()


# ---- claiming ----


def test_a_folder_that_is_not_empty_is_refused(tmp_path, refused):
    (tmp_path / "mine.txt").write_text("mine")
    with refused(RunError, match="already exists"), runs.claimed(tmp_path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_an_unfinished_run_says_how_to_resume_it(tmp_path, refused):
    (tmp_path / runs.PLAN).write_text("a plan")
    with refused(RunError, match=f"unfinished run: resume it with gedi resume {tmp_path}, or"), runs.claimed(tmp_path):
        pass
    (tmp_path / runs.RESULTS).write_text("{}")  # it diverged
    with refused(RunError, match="already exists"), runs.claimed(tmp_path):
        pass


def test_a_folder_that_another_process_works_in_is_refused_and_left_as_it_was(tmp_path, refused):
    with runs.claimed(tmp_path / "run") as folder:
        with refused(RunError, match="Another process"), runs.claimed(tmp_path / "run"):
            pass
        assert [path.name for path in folder.iterdir()] == [runs.folder.LOCK]


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "run").write_text("mine")
    for path in (tmp_path / "run", tmp_path / "run" / "below"):
        with pytest.raises(RunError), runs.claimed(path):
            pass
    assert (tmp_path / "run").read_text() == "mine"


def test_an_empty_folder_and_a_new_one_are_taken(tmp_path):
    (tmp_path / "empty").mkdir()
    with runs.claimed(tmp_path / "empty") as empty, runs.claimed(tmp_path / "a" / "new") as new:
        assert empty.is_dir() and new.is_dir()


# ---- damage ----


@pytest.mark.parametrize("name", ["config.yaml", "model.safetensors"])
def test_a_missing_file_is_named(folder, name, refused):
    (folder / name).unlink()
    with refused(RunError, match=name):
        runs.load(folder)


def test_a_folder_that_is_not_there(tmp_path, refused):
    for read in (runs.load, runs.Plan.read):
        with refused(RunError, match="There is no folder .*nowhere"):
            read(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *(("config.yaml", text) for text in ("", "a: [1\nb: {", "just text", "- 1\n- 2", "\x00")),
        *(("config.yaml", text) for text in ("training: [1]", "training: {}", "!!python/object:os.system {}")),
        *(("model.safetensors", text) for text in ("", "PK", "not tensors")),
        ("results.json", "{"),
        ("metrics.jsonl", "{"),
    ],
)
def test_a_broken_file_is_one_sentence(folder, name, text, refused):
    (folder / name).write_text(text)
    with refused(RunError, match=f"{name} cannot be read"):
        runs.load(folder)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("- 32", "- 16"),
        ("n_features: 2", "n_features: 3"),
        ("steps: 3", "stepps: 3"),
        ("image_shape: null", "image_shape: 5"),
    ],
)
def test_a_config_that_does_not_fit_its_weights_is_one_sentence(folder, old, new, refused):
    text = (folder / "config.yaml").read_text()
    assert old in text
    (folder / "config.yaml").write_text(text.replace(old, new))
    with refused(RunError, match="cannot be read"):
        runs.load(folder)
