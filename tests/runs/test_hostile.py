"""RUN folders made to do harm: each is refused in one sentence, nothing in them is executed, and nothing hangs."""

import hashlib
import json
import os
import pickle

import numpy as np
import pytest
import torch
import yaml

from gedi import GEDI, runs
from gedi.cli import main
from gedi.errors import CheckpointError, RunError
from gedi.runs import Checkpoints

CONFIG, MODEL, PLAN, MANIFEST = "config.yaml", "model.safetensors", "plan.yaml", "checkpoint.json"


@pytest.fixture
def stopped(folder):
    """The run without its model: `gedi resume` continues from its checkpoint."""
    (folder / MODEL).unlink()
    return folder


def change(path, edit):
    content = yaml.safe_load(path.read_text())
    edit(content)
    path.write_text(yaml.safe_dump(content))


def resume(folder, capsys):
    """`gedi resume`, which must end with exit code 2 and one sentence."""
    assert main(["resume", str(folder)]) == 2
    lines = " ".join(capsys.readouterr().err.split())
    assert lines.startswith("gedi: ") and "Traceback" not in lines
    return lines


def test_the_folder_itself_is_good(folder, begun, blobs, capsys):
    assert np.array_equal(GEDI.load(folder).predict(blobs), runs.load(begun).predict(blobs))
    (folder / MODEL).unlink()
    assert main(["resume", str(folder)]) == 0
    assert GEDI.load(folder).n_features_in_ == 2


# ---- nothing is executed ----


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_pickles_under_our_names_are_not_loaded(folder, tmp_path, capsys, refused):
    mark = tmp_path / "mark"
    data = pickle.dumps(Payload(mark))
    pickle.loads(data)
    mark.rmdir()  # the payload works
    for name in (MODEL, CONFIG, "results.json", "metrics.jsonl"):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        with refused(RunError):
            GEDI.load(folder)
        (folder / name).write_bytes(good)
    (folder / MODEL).unlink()
    entries = json.loads((folder / MANIFEST).read_text())
    for entry in entries:
        (folder / entry["file"]).write_bytes(data)
        entry["sha256"] = hashlib.sha256(data).hexdigest()
    (folder / MANIFEST).write_text(json.dumps(entries))
    assert "is intact" in resume(folder, capsys)
    for name in (MANIFEST, PLAN):
        (folder / name).write_bytes(data)
        resume(folder, capsys)
    assert not mark.exists()


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.mkdir", "!!python/object/new:os.mkdir", "!!python/name:os"])
def test_yaml_tags_are_not_followed(folder, tmp_path, tag, refused):
    mark = tmp_path / "mark"
    for text in (f"{tag} [{mark}]\n", f"training: {tag} [{mark}]\n"):
        for name, read in ((CONFIG, GEDI.load), (PLAN, runs.Plan.read)):
            (folder / name).write_text(text)
            with refused(RunError, match="asks for the type"):
                read(folder)
    assert not mark.exists()


@pytest.mark.parametrize("value", ["!!python/object/apply:os.mkdir [x]", "[&a [1, 1], *a, *a]", "{class_path: x}"])
def test_settings_are_not_read_as_yaml_a_second_time(folder, value, refused):
    change(folder / CONFIG, lambda c: c["training"]["net"].update(hidden=value))
    with refused(RunError, match=r"training\.net\.hidden must be a list"):
        GEDI.load(folder)


@pytest.mark.parametrize("words", [7, [0, 1], [["0"]], [[True]], [[0, 1], [1]], [[99]], [[-1]]])
def test_categories_are_lists_of_features(folder, words, refused):
    change(folder / CONFIG, lambda c: c.update(words=words))
    with refused(RunError, match="words"):
        GEDI.load(folder)


# ---- files that are not files ----


def put(kind, path, target):
    path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"link": target, "device": "/dev/zero", "nowhere": "/nowhere/at/all"}[kind])


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "device", "nowhere"])
@pytest.mark.parametrize("name", [CONFIG, MODEL, "results.json", "metrics.jsonl"])
def test_only_regular_files_are_loaded(folder, begun, name, kind, refused):
    put(kind, folder / name, begun / name)
    with refused(RunError, match="not a regular file|is a link"):
        GEDI.load(folder)


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "device", "nowhere"])
@pytest.mark.parametrize("name", [PLAN, MANIFEST, "checkpoint"])
def test_only_regular_files_are_resumed(stopped, begun, name, kind, capsys, refused):
    entries = json.loads((stopped / MANIFEST).read_text())
    for file in [e["file"] for e in entries] if name == "checkpoint" else [name]:
        put(kind, stopped / file, begun / file)
    with refused(match="regular file|link"):
        raise RunError(resume(stopped, capsys))


@pytest.mark.parametrize("kind", ["folder", "link", "nowhere"])
def test_a_lock_that_is_not_a_file_is_refused(stopped, kind, capsys, refused):
    put(kind, stopped / ".lock", stopped / "rows.npy")
    with refused(match=".lock could not be created"):
        raise RunError(resume(stopped, capsys))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("folder", "holds no images"),
        ("pipe", "regular file"),
        ("device", "regular file"),
        ("nowhere", "There is no file"),
    ],
)
def test_data_that_are_not_a_file_are_refused(stopped, begun, kind, expected, capsys, refused):
    put(kind, stopped / "rows.npy", begun / "rows.npy")
    change(stopped / PLAN, lambda plan: plan.update(data=str(stopped / "rows.npy")))
    with refused(match=expected):
        raise RunError(resume(stopped, capsys))


def test_data_may_be_a_link(stopped, begun):
    """The data belong to the user, not to the folder, and their checksum is known."""
    put("link", stopped / "rows.npy", begun / "rows.npy")
    change(stopped / PLAN, lambda plan: plan.update(data=str(stopped / "rows.npy")))
    assert main(["resume", str(stopped)]) == 0


def test_folders_in_the_way_of_checkpoints_do_not_stop_a_run(tmp_path):
    (tmp_path / "checkpoint-999999.safetensors").mkdir()
    checkpoints = Checkpoints(tmp_path)
    for n in range(4):
        checkpoints.save({"x": torch.zeros(1)}, {"n": n})
    assert checkpoints.load()[1] == {"n": 3}


@pytest.mark.parametrize("file", ["/etc/passwd", "../x.safetensors", "a/b", "..", "", "checkpoint-1\n.safetensors", 7])
def test_a_manifest_names_only_its_own_checkpoints(folder, file, refused):
    (folder / MANIFEST).write_text(json.dumps([{"number": 1, "file": file, "sha256": "0"}]))
    with refused(CheckpointError, match="not a list of this run's checkpoints"):
        Checkpoints(folder).load()


@pytest.mark.parametrize(
    "data", ["../rows.npy", "rows.npy", "/tmp/../etc/x.csv", "~root/x.npy", "", 5, None, "\x00", "/\x00"]
)
def test_a_plan_names_known_data_or_an_absolute_path(folder, data, refused):
    change(folder / PLAN, lambda plan: plan.update(data=data))
    if data == "/\x00":  # an absolute path, but of no file: refused when the data are read
        assert main(["resume", str(folder)]) in (0, 2)
        return
    with refused(RunError, match="data must be"):
        runs.Plan.read(folder)


@pytest.mark.parametrize("name", ["results.json", "metrics.jsonl"])
@pytest.mark.parametrize("text", ["[1, 2]", '"text"', "7"])
def test_results_and_metrics_are_mappings(folder, name, text, refused):
    (folder / name).write_text(text)
    with refused(RunError, match="not a mapping"):
        GEDI.load(folder)
