"""Tensors and counters made to do harm: refused before they are believed."""

import hashlib
import json
import math

import pytest
import torch
from safetensors.torch import load, save

from gedi import GEDI
from gedi.errors import CheckpointError, RunError
from gedi.runs import Checkpoints
from gedi.training.state import unpack

MODEL, MANIFEST = "model.safetensors", "checkpoint.json"

# ---- model.safetensors ----

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
        (lambda t: t.update({"sampler.chains": torch.zeros(5_000_000, 2)}), "are allowed"),
        (lambda t: t.update({"sampler.low": t["sampler.high"] + 1}), "low > high"),
        (lambda t: t.update({VAR: t[VAR] - 99}), "negative"),
    ],
)
def test_weights_are_those_the_settings_imply(folder, refused, edit, why):
    tensors = load((folder / MODEL).read_bytes())
    edit(tensors)
    (folder / MODEL).write_bytes(save(tensors))
    with refused(RunError, match=why):
        GEDI.load(folder)


# ---- checkpoints ----


def reseal(folder, tensors, metadata):
    """Replace the newest checkpoint, with a checksum that matches."""
    path, data = folder / json.loads((folder / MANIFEST).read_text())[0]["file"], save(tensors, metadata=metadata)
    path.write_bytes(data)
    entry = {"number": 1, "file": path.name, "sha256": hashlib.sha256(data).hexdigest()}
    (folder / MANIFEST).write_text(json.dumps([entry]))


@pytest.mark.parametrize("metadata", [None, {"counters": ""}, {"counters": "[" * 100_000}, {"counters": "null"}])
def test_a_checkpoint_without_counters_is_refused(folder, restore, refused, metadata):
    reseal(folder, Checkpoints(folder).load()[0], metadata)
    with refused(CheckpointError, match="is intact"):
        restore(folder)


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
        (lambda c: c | {"elapsed": -1}, "elapsed"),
        (lambda c: c | {"walk_crossing": []}, "walk_crossing"),
        (lambda c: c | {"processes": 3}, "--devices"),
        (lambda c: c | {"guard": c["guard"] | {"rate": 0}}, "guard.rate"),
        (lambda c: c | {"guard": c["guard"] | {"tries": -1}}, "guard.tries"),
        (lambda c: c | {"guard": c["guard"] | {"total": 0.5}}, "guard.total"),
        (lambda c: c | {"guard": c["guard"] | {"events": [{}]}}, "guard.events"),
        (lambda c: c | {"guard": c["guard"] | {"good": [1]}}, "not a mapping"),
        *((lambda c, n=n: {k: v for k, v in c.items() if k != n}, n) for n in ("stage", "history", "seconds", "best")),
    ],
)
def test_counters_are_checked(folder, restore, refused, edit, why):
    tensors, counters = Checkpoints(folder).load()
    reseal(folder, tensors, {"counters": json.dumps(edit(counters))})
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
def test_a_checkpoint_belongs_to_its_run(folder, restore, refused, edit, why):
    tensors, counters = Checkpoints(folder).load()
    edit(tensors)
    reseal(folder, tensors, {"counters": json.dumps(counters)})
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
