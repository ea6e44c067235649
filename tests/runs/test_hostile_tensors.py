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

CHOSEN = "net.clusters.chosen"
W, VAR = "net.energy_head.weight", "net.nf_projector.layers.1.running_var"
PARTS = "density.typical_parts"


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (lambda t: t.update({W: t[W] * math.nan}), "not finite"),
        (lambda t: t.update({W: t[W] / 0}), "not finite"),
        (lambda t: t.update({"sampler.chains": t["sampler.chains"] * math.inf}), "not finite"),
        (lambda t: t.update({W: t[W].double()}), "torch.float64"),
        (lambda t: t.update({W: t[W].int()}), "torch.int32"),
        (lambda t: t.update({W: t[W][0]}), r"\[64\]"),
        (lambda t: t.update({W: t[W].repeat(1, 100_000)}), r"\[1, 6400000\]"),
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
        (lambda t: t.update({CHOSEN: torch.tensor(4)}), "chosen head does not exist"),
        (lambda t: t.update({CHOSEN: torch.tensor(-1)}), "chosen head does not exist"),
        (lambda t: t.pop(CHOSEN), "lacks"),
        (lambda t: t.update({PARTS: t[PARTS].float()}), "torch.float32"),
        (lambda t: t.update({PARTS: t[PARTS].repeat(1, 2)}), r"\[2, 2\]"),
        (lambda t: t.update({PARTS: t[PARTS] * math.nan}), "not finite"),
        (lambda t: t.update({PARTS: t[PARTS] * 0}), "not positive"),
    ],
)
def test_weights_are_those_the_settings_imply(folder, refused, edit, why):
    tensors = load((folder / MODEL).read_bytes())
    edit(tensors)
    (folder / MODEL).write_bytes(save(tensors))
    with refused(RunError, match=why):
        GEDI.load(folder)


# ---- checkpoints ----

COUNTERS = ("stage", "length", "history", "seconds", "stages", "competing", "candidates", "winner")


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
        (lambda c: c | {"iteration": 10**400}, "64 bits"),
        (lambda c: c | {"competing": 1}, "competing"),
        (lambda c: c | {"competing": "no"}, "competing"),
        (lambda c: c | {"competing": None}, "competing"),
        (lambda c: c | {"competing": not c["competing"]}, "objective|judged"),
        (lambda c: c | {"gradient_evaluations": True}, "gradient_evaluations"),
        (lambda c: c | {"length": -1}, "length"),
        (lambda c: c | {"winner": ["a head"]}, "winner"),
        (lambda c: c | {"stages": {"step1": {"iterations": "5"}}}, "stages"),
        (lambda c: c | {"candidates": []}, "candidates"),
        (lambda c: c | {"candidates": None}, "candidates"),
        (lambda c: c | {"candidates": {"a head": "low"}}, "candidates"),
        (lambda c: c | {"candidates": {"a head": math.nan}}, "not finite"),
        (lambda c: c | {"candidates": {"a head": True}}, "candidates"),
        (lambda c: c | {"history": [1, 2]}, "history"),
        (lambda c: c | {"history": "text"}, "history"),
        (lambda c: c | {"seconds": {"sgld": "x"}}, "seconds"),
        (lambda c: c | {"seconds": []}, "seconds"),
        (lambda c: c | {"elapsed": -1}, "elapsed"),
        (lambda c: c | {"processes": 3}, "--devices"),
        (lambda c: c | {"guard": c["guard"] | {"rate": 0}}, "guard.rate"),
        (lambda c: c | {"guard": c["guard"] | {"tries": -1}}, "guard.tries"),
        (lambda c: c | {"guard": c["guard"] | {"total": 0.5}}, "guard.total"),
        (lambda c: c | {"guard": c["guard"] | {"events": [{}]}}, "guard.events"),
        (lambda c: c | {"guard": c["guard"] | {"good": [1]}}, "guard.good must be"),
        (lambda c: c | {"guard": c["guard"] | {"good": c["guard"]["good"] | {"competing": 0}}}, "competing"),
        *((lambda c, n=n: {k: v for k, v in c.items() if k != n}, n) for n in COUNTERS),
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
        (lambda t: t.pop("buffer"), "lacks"),
        (lambda t: t.pop("net/clusters.chosen"), "lacks"),
        (lambda t: t.pop("good/average/density.low"), "lacks"),
        (lambda t: t.pop("optimiser/0/step"), "lacks"),
        (lambda t: t.update({"optimiser/99/step": torch.ones(())}), "unknown tensor"),
        (lambda t: t.update({"optimiser/x": torch.ones(())}), "unknown tensor"),
        (lambda t: t.update({"optimiser/0/step": -torch.ones(())}), "negative"),
        (lambda t: t.update({"buffer": t["buffer"][:5].clone()}), "'buffer' is torch.float32"),
        (lambda t: t.update({"rng": t["rng"][:-1].clone()}), "rng"),
        (lambda t: t.update({"rng": torch.full_like(t["rng"], 255)}), "not belong to this run"),
        (lambda t: t.update({"labels": torch.full((80,), 2)}), "not clusters"),
        (lambda t: t.update({"labels": torch.full((80,), -1)}), "not clusters"),
        (lambda t: t.update({"good/labels": torch.full((80,), 2)}), "not clusters"),
        (lambda t: t.update({"labels": torch.zeros(3, dtype=torch.int64)}), "labels"),
        (lambda t: t.update({"labels": torch.zeros(80)}), "float32"),
        (lambda t: t.update({"marginals": torch.zeros(2)}), "not positive"),
        (lambda t: t.update({"marginals": torch.tensor([1.5, -0.5])}), "not positive"),
        (lambda t: t.update({"marginals": torch.ones(3)}), "marginals"),
        (lambda t: t.update({"marginals": torch.tensor([math.inf, 1.0])}), "not finite"),
        (lambda t: t.update({"net/clusters.chosen": torch.tensor(4)}), "chosen head does not exist"),
        (lambda t: t.update({"average/clusters.chosen": torch.tensor(-1)}), "chosen head does not exist"),
        (lambda t: t.update({"good/net/clusters.chosen": torch.tensor(2**62)}), "chosen head does not exist"),
        (lambda t: t.update({"net/clusters.chosen": torch.tensor(0.0)}), "chosen"),
        (lambda t: t.update({"objective": torch.zeros(7)}), "objective"),
        (lambda t: t.update({"objective": torch.full((4,), math.nan)}), "not finite|objective"),
        (lambda t: t.update({"judged/clustering_augment": torch.zeros(7)}), "judged"),
        (lambda t: t.update({"judged/x": torch.zeros(1, 1, 4)}), "judged"),
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
