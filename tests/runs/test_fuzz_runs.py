"""Any bytes in a RUN folder: the outcome is a model, a run that resumes, or one sentence of ours."""

import hashlib
import json
import shutil
import struct
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gedi import GEDI, runs
from gedi.errors import GediError
from gedi.runs import Checkpoints
from gedi.training import config
from gedi.training.state import unpack

MODEL, MANIFEST, CONFIG, PLAN = "model.safetensors", "checkpoint.json", "config.yaml", "plan.yaml"
CHECKPOINT = "checkpoint-000002.safetensors"


def fuzz(cases):
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=cases, deadline=timedelta(seconds=10), suppress_health_check=quiet, database=None)


# ---- damage ----

NUMBERS = st.sampled_from([0, 1, -1, 2**31, 2**62, 2**63, -(2**64), 10**400, 0.5, -0.0, 1e308, 1e-320])
ODD = NUMBERS | st.sampled_from(
    [float("nan"), float("inf"), -float("inf"), True, False, None, "", "x", "\ud800", "1e5"]
)
VALUES = st.recursive(
    ODD | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def broken_bytes(draw, data):
    """Flipped, cut, repeated or foreign bytes; more often near the start, where formats keep their lengths."""
    kind = draw(st.sampled_from(["flip", "flip", "cut", "insert", "remove", "random"]))
    place = draw(st.integers(0, min(64, len(data) - 1)) | st.integers(0, len(data) - 1))
    if kind == "random":
        return draw(st.binary(max_size=64))
    if kind == "cut":
        return data[:place]
    if kind == "remove":
        return data[:place] + data[place + draw(st.integers(1, 16)) :]
    if kind == "insert":
        return data[:place] + draw(st.binary(min_size=1, max_size=16)) + data[place:]
    flips = draw(st.lists(st.tuples(st.integers(0, len(data) - 1) | st.just(place), st.integers(1, 255)), min_size=1))
    changed = bytearray(data)
    for where, bits in flips:
        changed[where] ^= bits
    return bytes(changed)


@st.composite
def broken_content(draw, content):
    """A copy of plain data with one to three values replaced, removed, added or renamed."""
    content = json.loads(json.dumps(content))
    for _ in range(draw(st.integers(1, 3))):
        place, key = None, None
        inner = content
        while isinstance(inner, dict | list) and inner and (place is None or draw(st.integers(0, 4))):
            place = inner
            key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            inner = place[key]
        if place is None or draw(st.integers(0, 30)) == 0:
            return draw(VALUES)
        kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]))
        if kind == "remove":
            del place[key]
        elif kind == "add" and isinstance(place, dict):
            place[draw(st.text(max_size=6))] = draw(VALUES)
        elif kind == "add":
            place.insert(key, draw(VALUES))
        else:
            place[key] = draw(VALUES)
    return content


def taken_apart(name, data):
    """The plain data in a file, and a function that puts other data in their place."""
    if name.endswith(".yaml"):
        return yaml.safe_load(data), lambda content: yaml.safe_dump(content).encode("utf-8", "surrogatepass")
    if name == MANIFEST:
        return json.loads(data), lambda content: json.dumps(content).encode()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])

    def with_header(header):
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + data[8 + length :]

    if name != "counters":
        return header, with_header
    return json.loads(header["__metadata__"]["counters"]), lambda counters: with_header(
        header | {"__metadata__": {"counters": json.dumps(counters)}}
    )


# ---- what is done with it ----


@pytest.fixture(scope="module")
def home(begun, tmp_path_factory):
    """A folder that every case damages and finds repaired."""
    return Path(shutil.copytree(begun, tmp_path_factory.mktemp("fuzz") / "run"))


@contextmanager
def damaged(home, name, data):
    """The folder with other bytes in one file; the checksum of a checkpoint still matches."""
    whole = {path: path.read_bytes() for path in (home / name, home / MANIFEST)}
    (home / name).write_bytes(data)
    if name == CHECKPOINT:
        entry = {"number": 2, "file": name, "sha256": hashlib.sha256(data).hexdigest()}
        (home / MANIFEST).write_text(json.dumps([entry]))
    try:
        yield
    finally:
        for path, good in whole.items():
            path.write_bytes(good)


def survive(action):
    """The outcome, or None if it was refused in one sentence; any other exception is a bug."""
    try:
        return action()
    except GediError as error:
        text = str(error)
        assert text.isprintable() and 10 < len(text) < 700 and text.endswith("."), text
        return None


def check(home, restore, blobs, name, data):
    """Do what reads the file; whatever is accepted must be usable."""
    with damaged(home, name, data):
        if name == PLAN:
            plan = survive(lambda: runs.Plan.read(home))
            assert plan is None or (type(plan.seed) is int and config.check(plan.training) is plan.training)
        elif name in (MANIFEST, CHECKPOINT):
            engine = survive(lambda: restore(home))
            survive(lambda: unpack(restore.state, *Checkpoints(home).load()))
            if engine is not None:
                assert all(bool(v.isfinite().all()) for v in engine.state.net.state_dict().values())
                state = engine.state
                assert state.buffer.chains.shape == (64, 2) and state.buffer.chains.dtype == torch.float32
                assert 0 <= int(state.net.clusters.chosen) < 4 and type(state.competing) is bool
                assert state.labels is None or (set(state.labels.tolist()) <= {0, 1} and len(state.labels) == 80)
                assert state.marginals is None or (state.marginals.shape == (2,) and bool((state.marginals > 0).all()))
                heads = 4 if state.competing else 1
                assert state.objective is None or state.objective.shape == (heads,)
                assert all(value.shape == (heads,) for value in state.judged.values())
        elif (model := survive(lambda: GEDI.load(home))) is not None:
            state = model.model_.net.state_dict()
            assert all(bool(v.isfinite().all()) for v in state.values())
            assert {v.dtype for v in state.values()} == {torch.float32, torch.int64}
            assert model.predict_proba(blobs[:2]).shape == (2, model.n_clusters)
            assert all(isinstance(line, dict) for line in model.model_.history)


@pytest.mark.parametrize("name", [MODEL, CONFIG, "results.json", "metrics.jsonl", PLAN, MANIFEST, CHECKPOINT])
@fuzz(50)
@given(data=st.data())
def test_any_bytes(home, restore, blobs, name, data):
    check(home, restore, blobs, name, data.draw(broken_bytes((home / name).read_bytes())))


@pytest.mark.parametrize("name", [MODEL, CONFIG, PLAN, MANIFEST, CHECKPOINT, "counters"])
@fuzz(60)
@given(data=st.data())
def test_any_content(home, restore, blobs, name, data):
    file = CHECKPOINT if name == "counters" else name
    content, put_back = taken_apart(name, (home / file).read_bytes())
    check(home, restore, blobs, file, put_back(data.draw(broken_content(content))))
