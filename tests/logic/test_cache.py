"""Compiled circuits are stored and found again; damaged files are never used."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from gedi.logic import Categorical, Constraint, all_different, cache, sdd

from .conftest import needs_sdd, random_log_probs

pytestmark = needs_sdd


def cells(n: int = 5) -> list[Categorical]:
    return [Categorical(f"v{i}", n) for i in range(n)]


def compile_one() -> Constraint:
    return Constraint(all_different(*cells()), method="sdd")


def stored():
    return list(cache.folder().glob("*.safetensors"))


def same(one: Constraint, two: Constraint) -> bool:
    pairs = zip(one.circuit.layers, two.circuit.layers, strict=True)
    return one.circuit.sizes == two.circuit.sizes and all(np.array_equal(a, b) for a, b in pairs)


def test_a_circuit_is_compiled_once(monkeypatch):
    first = compile_one()
    assert len(stored()) == 1
    monkeypatch.setattr(sdd, "compile_formula", lambda *_: pytest.fail("compiled again"))
    assert same(first, compile_one())


def test_different_constraints_have_different_files():
    v = cells(3)
    for rule in (v[0] < v[1], v[0] <= v[1], v[1] < v[0], v[0] < Categorical("v1", 4)):
        Constraint(rule, method="sdd")
    assert len(stored()) == 4


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "other"])
def test_a_damaged_file_is_compiled_again_and_replaced(damage):
    first = compile_one()
    (path,) = stored()
    good = path.read_bytes()
    if damage == "other":
        Constraint(cells()[0] < cells()[1], method="sdd")
        (other,) = set(stored()) - {path}
        bad = other.read_bytes()[:-8] + b"\0" * 8
    else:
        flipped = good[:-3] + bytes([good[-3] ^ 1]) + good[-2:]
        bad = {"empty": b"", "cut": good[: len(good) // 2], "flipped": flipped, "text": b"hello"}[damage]
    path.write_bytes(bad)
    assert same(first, compile_one())
    assert path.read_bytes() == good


def test_a_cache_that_cannot_be_written_is_not_needed(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path / "file"))
    log_probs = random_log_probs(cells(), 2)
    assert compile_one().log_prob(log_probs).isfinite().all()


def test_a_failed_write_leaves_nothing_behind(monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(cache.os, "replace", full)
    compile_one()
    assert list(cache.folder().iterdir()) == []


CHILD = """
import torch
from gedi.logic import Categorical, Constraint, all_different

cells = [Categorical(f"v{i}", 5) for i in range(5)]
constraint = Constraint(all_different(*cells), method="sdd")
print(float(constraint.log_prob({v.name: torch.full((1, 5), 0.2).log() for v in cells})))
"""


def test_parallel_processes_agree():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    values = {child.communicate(timeout=120)[0] for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(values) == 1
    assert [path.suffix for path in cache.folder().iterdir()] == [".safetensors"]


def test_parallel_writers_leave_one_whole_file():
    constraint = compile_one()
    with ThreadPoolExecutor(8) as pool:
        loaded = list(pool.map(lambda _: (cache.store("name", constraint.circuit), cache.load("name"))[1], range(100)))
    assert all(circuit is not None for circuit in loaded)
    assert sorted(path.suffix for path in cache.folder().iterdir()) == [".safetensors"] * 2
