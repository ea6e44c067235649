"""Any bytes in a RUN folder: what comes out is a model, a run that goes on, or one sentence of ours."""

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
from safetensors.torch import load, save

from gedi import GEDI, runs
from gedi.errors import GediError
from gedi.runs import Checkpoints, layout
from gedi.training.state import unpack

MODEL, MANIFEST, CONFIG, PLAN = "model.safetensors", "checkpoint.json", "config.yaml", "plan.yaml"
DECLARED: list[int] = []  # cases of every fuzz test in this file


def fuzz(cases):
    DECLARED.append(cases)
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=cases, deadline=timedelta(seconds=10), suppress_health_check=quiet, database=None)


@pytest.fixture(scope="module")
def home(begun, tmp_path_factory):
    """A folder that every case damages, and finds whole again."""
    return Path(shutil.copytree(begun, tmp_path_factory.mktemp("fuzz") / "run"))


@pytest.fixture
def same_settings(begun):
    """Parsing settings takes most of a load's time: where they are not what is damaged, they are parsed once."""
    config = layout.training_settings(yaml.safe_load((begun / CONFIG).read_text())["training"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "training_settings", lambda values: config)
        yield


@contextmanager
def damaged(home, files):
    whole = {name: (home / name).read_bytes() for name in {*files, MANIFEST}}
    try:
        for name, data in files.items():
            (home / name).write_bytes(data)
        yield home
    finally:
        for name, data in whole.items():
            (home / name).write_bytes(data)


def survive(action):
    """The outcome, or None if it was refused in one sentence; any other exception is the bug that is looked for."""
    try:
        return action()
    except GediError as error:
        text = str(error)
        assert text.isprintable() and 10 < len(text) < 700 and text.endswith("."), text
        return None


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
    """Flipped, cut, repeated or foreign bytes; the first ones, where formats keep their lengths, more often."""
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


DTYPES = (torch.float32, torch.float64, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool)


@st.composite
def broken_tensors(draw, tensors):
    """Tensors renamed, reshaped, retyped, dropped, added, or with other values."""
    tensors = dict(tensors)
    for _ in range(draw(st.integers(1, 3))):
        if not tensors:
            break
        name = draw(st.sampled_from(sorted(tensors)))
        value = tensors.pop(name)
        kind = draw(st.sampled_from(["rename", "reshape", "retype", "drop", "add", "value", "value", "noise"]))
        if kind == "rename":
            tensors[draw(st.text(max_size=8)) or "x"] = value
        elif kind == "reshape":
            tensors[name] = draw(
                st.sampled_from([value[None], value.reshape(-1), value.reshape(-1)[:1], torch.zeros(0)])
            )
        elif kind == "retype":
            tensors[name] = value.to(draw(st.sampled_from(DTYPES)))
        elif kind == "add":
            tensors |= {name: value, f"{name}{draw(st.text(max_size=4))}": value.clone()}
        elif kind == "value":
            largest = torch.finfo(value.dtype).max / 3 if value.is_floating_point() else 0.0
            odd = draw(st.sampled_from([float("nan"), float("inf"), -1.0, 0.0, largest, 255.0]))
            tensors[name] = torch.full_like(value, odd) if value.is_floating_point() else torch.full_like(value, 200)
        elif kind == "noise":
            raw = draw(st.binary(min_size=1, max_size=64))
            flat = value.clone().reshape(-1).view(torch.uint8)
            flat[: len(raw)] = torch.frombuffer(bytearray(raw), dtype=torch.uint8)[: len(flat)]
            tensors[name] = flat.view(value.dtype).reshape(value.shape)
    return {name.replace("\x00", ""): value.clone().contiguous() for name, value in tensors.items()}


def as_yaml(content):
    return yaml.safe_dump(content, allow_unicode=False).encode("utf-8", "surrogatepass")


def parts(data):
    """Header and body of a safetensors file."""
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def sealed(home, data):
    """The newest checkpoint replaced, with a checksum that is right."""
    name = json.loads((home / MANIFEST).read_text())[0]["file"]
    entry = {"number": 1, "file": name, "sha256": hashlib.sha256(data).hexdigest()}
    return {name: data, MANIFEST: json.dumps([entry]).encode()}


def with_header(header, body):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


# ---- GEDI.load ----


def check_load(home, files, blobs):
    with damaged(home, files):
        model = survive(lambda: GEDI.load(home))
    if model is not None:  # what was let through is whole
        state = model.model_.net.state_dict()
        assert all(bool(v.isfinite().all()) for v in state.values())
        assert {v.dtype for v in state.values()} == {torch.float32, torch.int64}
        assert model.predict_proba(blobs[:2]).shape == (2, model.n_clusters)
        assert all(isinstance(line, dict) for line in model.model_.history)


@fuzz(240)
@given(data=st.data())
def test_any_bytes_in_any_file(home, blobs, data):
    name = data.draw(st.sampled_from([MODEL, MODEL, CONFIG, "results.json", "metrics.jsonl"]))
    check_load(home, {name: data.draw(broken_bytes((home / name).read_bytes()))}, blobs)


@fuzz(80)
@given(data=st.data())
def test_any_settings(home, blobs, data):
    content = yaml.safe_load((home / CONFIG).read_text())
    check_load(home, {CONFIG: as_yaml(data.draw(broken_content(content)))}, blobs)


@fuzz(140)
@given(data=st.data())
def test_any_weights(home, blobs, same_settings, data):
    check_load(home, {MODEL: save(data.draw(broken_tensors(load((home / MODEL).read_bytes()))))}, blobs)


@fuzz(140)
@given(data=st.data())
def test_any_header(home, blobs, same_settings, data):
    header, body = parts((home / MODEL).read_bytes())
    check_load(home, {MODEL: with_header(data.draw(broken_content(header)), body)}, blobs)


# ---- gedi resume ----


def check_resume(home, restore, files):
    with damaged(home, files):
        engine = survive(lambda: restore(home))
        survive(lambda: unpack(restore.state, *Checkpoints(home).load()))
    if engine is not None:
        assert all(bool(v.isfinite().all()) for v in engine.state.net.state_dict().values())
        buffer, queue = engine.state.buffer.chains, engine.state.queue
        assert buffer.shape == (64, 2) and queue.shape[1:] == (8,) and buffer.dtype == queue.dtype == torch.float32


@fuzz(80)
@given(data=st.data())
def test_any_plan(home, data):
    good = (home / PLAN).read_bytes()
    structured = data.draw(st.booleans())
    broken = as_yaml(data.draw(broken_content(yaml.safe_load(good)))) if structured else data.draw(broken_bytes(good))
    with damaged(home, {PLAN: broken}):
        plan = survive(lambda: runs.read_plan(home))
    assert plan is None or (type(plan["seed"]) is int and isinstance(plan["training"], dict))


@fuzz(120)
@given(data=st.data())
def test_any_bytes_in_a_checkpoint(home, restore, data):
    name = data.draw(st.sampled_from(sorted(sealed(home, b""))))
    broken = data.draw(broken_bytes((home / name).read_bytes()))
    check_resume(home, restore, {name: broken} if name == MANIFEST else sealed(home, broken))


@fuzz(80)
@given(data=st.data())
def test_any_counters(home, restore, data):
    name = json.loads((home / MANIFEST).read_text())[0]["file"]
    header, body = parts((home / name).read_bytes())
    counters = data.draw(broken_content(json.loads(header["__metadata__"]["counters"])))
    header["__metadata__"]["counters"] = json.dumps(counters)
    check_resume(home, restore, sealed(home, with_header(header, body)))


@fuzz(80)
@given(data=st.data())
def test_any_tensors_in_a_checkpoint(home, restore, data):
    name = json.loads((home / MANIFEST).read_text())[0]["file"]
    whole = (home / name).read_bytes()
    tensors = data.draw(broken_tensors(load(whole)))
    check_resume(home, restore, sealed(home, save(tensors, metadata=parts(whole)[0]["__metadata__"])))


@fuzz(60)
@given(data=st.data())
def test_any_manifest(home, restore, data):
    content = json.loads((home / MANIFEST).read_text())
    check_resume(home, restore, {MANIFEST: json.dumps(data.draw(broken_content(content))).encode()})


def test_there_are_enough_cases():
    assert sum(DECLARED) >= 1000
