"""Tensors, sizes and counters made by somebody who means harm: refused before they are believed."""

import hashlib
import json
import math
import shutil
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save

from gedi import GEDI
from gedi.errors import CheckpointError, RunError
from gedi.files.tensors import open_tensors
from gedi.runs import Checkpoints
from gedi.training.state import unpack

MODEL, MANIFEST = "model.safetensors", "checkpoint.json"


@pytest.fixture
def folder(begun, tmp_path):
    return Path(shutil.copytree(begun, tmp_path / "run"))


# ---- the newest checkpoint, taken apart and put together; its checksum is always right ----


def header_of(data):
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def newest(folder):
    return folder / json.loads((folder / MANIFEST).read_text())[0]["file"]


def seal(folder, data):
    path = newest(folder)
    path.write_bytes(data)
    entry = {"number": 1, "file": path.name, "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps([entry]))


def counters_of(data):
    return json.loads(header_of(data)[0]["__metadata__"]["counters"])


def rebuilt(data, tensors=None, counters=None):
    counters = counters_of(data) if counters is None else counters
    return save(load(data) if tensors is None else tensors, metadata={"counters": json.dumps(counters)})


# ---- model.safetensors ----


def change_model(folder, edit):
    tensors = load((folder / MODEL).read_bytes())
    edit(tensors)
    (folder / MODEL).write_bytes(save(tensors))


W, VAR = "net.energy_head.weight", "net.projector.layers.1.running_var"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda t: t.update({W: t[W] * math.nan}), "not finite"),
        (lambda t: t.update({W: t[W] / 0}), "not finite"),
        (lambda t: t.update({"sampler.chains": t["sampler.chains"] * math.inf}), "not finite"),
        (lambda t: t.update({W: t[W].double()}), "torch.float64"),
        (lambda t: t.update({W: t[W].int()}), "torch.int32"),
        (lambda t: t.update({W: t[W][0]}), r"\[8\]"),
        (lambda t: t.update({W: t[W].repeat(1, 100_000)}), r"\[1, 800000\]"),
        (lambda t: t.update({"net.more": t[W].clone()}), "unknown tensor"),
        (lambda t: t.update({"more": t[W].clone()}), "unknown tensor"),
        (lambda t: t.pop(W), "lacks"),
        (lambda t: t.pop("sampler.low"), "lacks"),
        (lambda t: t.clear(), "lacks"),
        (lambda t: t.update({"sampler.chains": t["sampler.chains"][:0]}), "no chains"),
        (lambda t: t.update({"sampler.chains": t["sampler.chains"][:, :1].clone()}), "sampler.chains"),
        (lambda t: t.update({"sampler.low": t["sampler.high"] + 1}), "low > high"),
        (lambda t: t.update({VAR: t[VAR] - 99}), "negative"),
    ],
)
def test_weights_are_those_the_settings_imply(folder, refused, edit, why):
    change_model(folder, edit)
    with refused(RunError, match=why):
        GEDI.load(folder)


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


HEADERS = {
    "a length of 10 GB": struct.pack("<Q", 10 * 2**30) + b"{}",
    "the longest length": b"\xff" * 8 + b"{}",
    "seven bytes": b"\x00" * 7,
    "an absurd shape": with_header({"x": entry(shape=[2**40, 2**20])}, b"\x00" * 8),
    "a shape that overflows": with_header({"x": entry(shape=[2**62, 4])}, b""),
    "an absurd shape of nothing": with_header({"x": entry(shape=[2**62, 0], data_offsets=[0, 0])}, b""),
    "a negative shape": with_header({"x": entry(shape=[-1, -2])}, b"\x00" * 8),
    "a shape of 10**400": with_header({"x": entry(shape=[10**400])}, b"\x00" * 8),
    "a shape of NaN": with_header({"x": entry(shape=[math.nan])}, b"\x00" * 8),
    "a shape of truths": with_header({"x": entry(shape=[True, 2])}, b"\x00" * 8),
    "a shape that is text": with_header({"x": entry(shape="22")}, b"\x00" * 8),
    "offsets beyond the end": with_header({"x": entry(data_offsets=[2**40, 2**40 + 8])}, b"\x00" * 8),
    "offsets turned round": with_header({"x": entry(data_offsets=[8, 0])}, b"\x00" * 8),
    "tensors that overlap": with_header({"x": entry(), "y": entry()}, b"\x00" * 8),
    "bytes left over": with_header({"x": entry()}, b"\x00" * 9),
    "an unknown type": with_header({"x": entry(dtype="F4096")}, b"\x00" * 8),
    "a type that is a list": with_header({"x": entry(dtype=["F32"])}, b"\x00" * 8),
    "no entries": with_header({"x": 1}, b""),
    "metadata that are a list": with_header({"__metadata__": [1]}, b""),
    "metadata that are numbers": with_header({"__metadata__": {"counters": 1}}, b""),
    "deep nesting": with_header(b"[" * 100_000, b""),
    "deep metadata": with_header({"__metadata__": {"counters": "[" * 100_000}}, b""),
    "no mapping": with_header(b"[1]", b""),
    "no text": with_header(b"\xff\xfe", b""),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_checked_before_it_is_believed(folder, restore, refused, name):
    (folder / MODEL).write_bytes(HEADERS[name])
    with refused(RunError, match="cannot be read"):
        GEDI.load(folder)
    seal(folder, HEADERS[name])
    with refused(CheckpointError, match="is intact"):
        Checkpoints(folder).load()
    with refused(RunError, match="is intact|disagree"):
        restore(folder)


@pytest.mark.parametrize("name", [n for n in HEADERS if n not in ("an absurd shape of nothing", "deep metadata")])
def test_a_header_that_contradicts_itself_is_refused_whatever_is_expected(tmp_path, refused, name):
    (tmp_path / MODEL).write_bytes(HEADERS[name])
    with refused(RunError, match="cannot be read"), open_tensors(tmp_path / MODEL, 2**20):
        pass


# ---- checkpoints ----


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda c: [1], "not a mapping"),
        (lambda c: {}, "KeyError"),
        (lambda c: c | {"stage": "step9"}, "stage"),
        (lambda c: c | {"stage": ["step1"]}, "stage"),
        (lambda c: c | {"iteration": -1}, "iteration"),
        (lambda c: c | {"iteration": 1.5}, "iteration"),
        (lambda c: c | {"attempt": "1"}, "attempt"),
        (lambda c: c | {"attempt": 10**400}, "64 bits"),
        (lambda c: c | {"gradient_evaluations": True}, "gradient_evaluations"),
        (lambda c: c | {"objective": math.nan}, "not finite"),
        (lambda c: c | {"objective": "low"}, "'objective'"),
        (lambda c: c | {"best": [1.0]}, "ValueError|not enough"),
        (lambda c: c | {"best": None}, "TypeError"),
        (lambda c: c | {"kept": ["x", 1]}, "kept"),
        (lambda c: c | {"kept": [1.0, 1]}, "lacks the tensor 'kept/"),
        (lambda c: c | {"history": [1, 2]}, "history"),
        (lambda c: c | {"history": "text"}, "history"),
        (lambda c: c | {"seconds": {"sgld": "x"}}, "seconds"),
        (lambda c: c | {"seconds": []}, "seconds"),
        (lambda c: c | {"walk_crossing": []}, "walk_crossing"),
        *((lambda c, n=n: {k: v for k, v in c.items() if k != n}, n) for n in ("stage", "history", "seconds", "best")),
    ],
)
def test_counters_are_checked(folder, restore, refused, edit, why):
    data = newest(folder).read_bytes()
    seal(folder, rebuilt(data, counters=edit(counters_of(data))))
    with refused(CheckpointError, match=why):
        restore(folder)


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda t: t.pop("queue"), "lacks"),
        (lambda t: t.pop("after_step1/density.low"), "lacks"),
        (lambda t: t.pop("optimiser/0/step"), "lacks"),
        (lambda t: t.update({"optimiser/99/step": torch.ones(())}), "unknown tensor"),
        (lambda t: t.update({"optimiser/x": torch.ones(())}), "unknown tensor"),
        (lambda t: t.update({"optimiser/0/step": -torch.ones(())}), "negative"),
        (lambda t: t.update({"buffer": t["buffer"][:5].clone()}), "'buffer' is torch.float32"),
        (lambda t: t.update({"queue": torch.zeros(101, 8)}), "queue is longer"),
        (lambda t: t.update({"rng": t["rng"][:-1].clone()}), "rng"),
        (lambda t: t.update({"rng": torch.full_like(t["rng"], 255)}), "not belong to this run"),
        (lambda t: t.update({"start_labels": t["start_labels"] + 7}), "not clusters"),
        (lambda t: t.update({"start_labels": t["start_labels"][:3].clone()}), "start_labels"),
        (lambda t: t.update({"start_labels": t["start_labels"].float()}), "float32"),
        (lambda t: t.update({"marginals": t["marginals"] * 0}), "not positive"),
        (lambda t: t.update({"net/density.low": t["net/density.low"] * math.nan}), "not finite"),
    ],
)
def test_a_checkpoint_is_the_runs_own(folder, restore, refused, edit, why):
    data = newest(folder).read_bytes()
    tensors = load(data)
    edit(tensors)
    seal(folder, rebuilt(data, tensors))
    with refused(RunError, match=why):
        restore(folder)


def test_unpacking_what_was_never_checked_is_one_sentence_too(folder, restore, refused):
    state = restore(folder).state
    tensors, counters = Checkpoints(folder).load()
    for wrong in ({}, {"net/x": torch.zeros(1)}, {k: v for k, v in tensors.items() if k != "rng"}):
        with refused(CheckpointError, match="not belong to this run"):
            unpack(state, wrong, counters)
    with refused(CheckpointError, match="not belong to this run"):
        unpack(state, tensors, {})
