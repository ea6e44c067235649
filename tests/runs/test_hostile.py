"""RUN folders made by somebody who means harm: one sentence, nothing is run, nothing is waited for."""

import hashlib
import json
import os
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

from gedi import GEDI, runs
from gedi.cli import main
from gedi.errors import CheckpointError, RunError
from gedi.files import reading as untrusted
from gedi.files.writing import write_whole
from gedi.runs import Checkpoints

CONFIG, MODEL, PLAN, MANIFEST = "config.yaml", "model.safetensors", "plan.yaml", "checkpoint.json"


@pytest.fixture
def folder(begun, tmp_path):
    return Path(shutil.copytree(begun, tmp_path / "run"))


@pytest.fixture
def stopped(folder):
    """The run without its model: `gedi resume` goes on from its checkpoint."""
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


# ---- nothing is run ----


class Payload:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_pickles_under_our_names_are_not_run(folder, tmp_path, capsys, refused):
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
@pytest.mark.parametrize("name", [CONFIG, PLAN])
def test_yaml_tags_are_not_followed(folder, tmp_path, name, tag, refused):
    mark = tmp_path / "mark"
    (folder / name).write_text(f"{tag} [{mark}]\n")
    with refused(RunError, match="asks for the type"):
        runs.read_plan(folder) if name == PLAN else GEDI.load(folder)
    (folder / name).write_text(f"training: {tag} [{mark}]\n")
    with refused(RunError, match="asks for the type"):
        runs.read_plan(folder) if name == PLAN else GEDI.load(folder)
    assert not mark.exists()


@pytest.mark.parametrize("value", ["!!python/object/apply:os.mkdir [x]", "[&a [1, 1], *a, *a]", "{class_path: x}"])
def test_settings_are_not_read_as_yaml_a_second_time(folder, value, refused):
    change(folder / CONFIG, lambda c: c["training"]["net"].update(hidden=value))
    with refused(RunError, match="is not a word"):
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


def test_data_may_lie_behind_a_link(stopped, begun):
    """They belong to the user, not to the folder, and their checksum is known."""
    put("link", stopped / "rows.npy", begun / "rows.npy")
    change(stopped / PLAN, lambda plan: plan.update(data=str(stopped / "rows.npy")))
    assert main(["resume", str(stopped)]) == 0


def test_a_pipe_put_there_after_the_first_look_is_not_waited_for(folder, refused, monkeypatch):
    seen = os.lstat(folder / CONFIG)
    put("pipe", folder / CONFIG, None)
    monkeypatch.setattr(untrusted.os, "lstat", lambda path: seen)
    with refused(RunError, match="not a regular file"):
        untrusted.read_yaml(folder / CONFIG)


def test_a_link_in_place_of_a_temporary_file_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".model").symlink_to(tmp_path / "mine")
    write_whole(tmp_path / "model", b"theirs")
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "model").read_bytes() == b"theirs"


def test_folders_in_the_way_of_checkpoints_do_not_stop_a_run(tmp_path):
    (tmp_path / "checkpoint-999999.safetensors").mkdir()
    checkpoints = Checkpoints(tmp_path)
    for n in range(4):
        checkpoints.save({"x": torch.zeros(1)}, {"n": n})
    assert checkpoints.load()[1] == {"n": 3}


@pytest.mark.parametrize("file", ["/etc/passwd", "../x.safetensors", "a/b", "..", "", "checkpoint-1\n.safetensors", 7])
def test_a_manifest_names_only_its_own_checkpoints(folder, file, refused):
    (folder / MANIFEST).write_text(json.dumps([{"number": 1, "file": file, "sha256": "0"}]))
    with refused(CheckpointError, match="outside the run folder"):
        Checkpoints(folder).load()


@pytest.mark.parametrize(
    "data", ["../rows.npy", "rows.npy", "/tmp/../etc/x.csv", "~root/x.npy", "", 5, None, "\x00", "/\x00"]
)
def test_a_plan_names_known_data_or_an_absolute_path(folder, data, refused):
    change(folder / PLAN, lambda plan: plan.update(data=data))
    if data == "/\x00":  # no such file, and said so when it is looked for
        assert main(["resume", str(folder)]) in (0, 2)
        return
    with refused(RunError, match="'data' is"):
        runs.read_plan(folder)


# ---- text that grows, and numbers that are none ----

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "contains a reference"),
        ("a: &a [*a]", "contains a reference"),
        ("[" * 100_000, "nested"),
        ("{a: " * 100_000, "nested"),
        ("- " * 100_000, "nested"),
        ("? " * 100_000, "nested"),
        ("a: " + "1:" * 100_000 + "1", "a value of"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("n_features: " + "9" * 400, "64 bits"),
        ("1: 2", "not a name"),
        ("? [a]\n: 1", "unhashable key"),
        ("a: 2020-01-01", "neither text nor a number"),
        ("<<: {a: 1}", "neither text nor a number"),
        ("--- 1\n--- 2", "another document"),
        ("[" + "1," * 6_000 + "]", "more than 5,000 values"),
    ],
)
@pytest.mark.parametrize("name", [CONFIG, PLAN])
def test_yaml_is_plain_and_bounded(folder, name, text, why, refused, monkeypatch):
    monkeypatch.setattr(untrusted, "VALUES", 5_000)
    (folder / name).write_text(text)
    with refused(RunError, match=why):
        runs.read_plan(folder) if name == PLAN else GEDI.load(folder)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "RecursionError|nested|cannot be read"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested|RecursionError"),
        (b"[" + b"1," * 2_000_000 + b"1]", "more than 1,000,000"),
        (b'{"a": 1' + b"0" * 400 + b"}", "64 bits"),
        (b'{"a": NaN}', "not finite"),
        (b'{"a": -Infinity}', "not finite"),
        (b'{"a": 1e999}', "not finite"),
        (b'{"a": "\\ud800"}', "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"[1, 2]", "not a mapping"),
        (b'"text"', "not a mapping"),
        (b"7", "not a mapping"),
    ],
)
@pytest.mark.parametrize("name", ["results.json", "metrics.jsonl"])
def test_json_is_plain_and_bounded(folder, name, text, why, refused):
    (folder / name).write_bytes(text)
    with refused(RunError, match=why):
        GEDI.load(folder)


def test_a_message_shows_no_control_characters(folder, refused):
    tensors = load_file(folder / MODEL) | {"\x1b[2J\nevil\u202e": torch.zeros(1)}
    save_file(tensors, folder / MODEL)
    with refused(RunError, match="unknown tensor"):
        GEDI.load(folder)
