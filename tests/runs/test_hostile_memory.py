"""Sizes made to do harm: refused before memory is allocated for them."""

import json
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from gedi import runs
from gedi.errors import ConfigError
from gedi.training.config import override

MODEL, MANIFEST = "model.safetensors", "checkpoint.json"


def header(shape, length):
    text = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, length]}}).encode()
    return struct.pack("<Q", len(text)) + text


def sparse(path, size, start=b""):
    with path.open("wb") as file:
        file.write(start)
        file.truncate(size)


def settings(name, **changes):
    def edit(folder):
        content = yaml.safe_load((folder / name).read_text())
        for path, value in changes.items():
            *groups, last = path.split("__")
            place = content
            for group in groups:
                place = place[group]
            place[last] = value
        (folder / name).write_text(yaml.safe_dump(content))

    return edit


BIG = 2**30
ONE = header([BIG // 4], BIG)
LARGE = {
    "features": settings("config.yaml", n_features=10**9),
    "clusters": settings("config.yaml", n_clusters=10**9),
    "hidden": settings("config.yaml", training__net__hidden=[10**6, 10**6]),
    "hidden beyond counting": settings("config.yaml", training__net__hidden=[2**62, 2**62]),
    "many layers": settings("config.yaml", training__net__hidden=[1000] * 64),
    "too many layers": settings("config.yaml", training__net__hidden=[1] * 10_000),
    "representation": settings("config.yaml", training__net__representation=10**9),
    "scaler": settings("config.yaml", scaler__centre=[[1.0] * 2] * 10_000),
    "a long model": lambda f: sparse(f / MODEL, 2**40, header([2], 8)),
    "a long header": lambda f: sparse(f / MODEL, 2**31, struct.pack("<Q", 2**31 - 8)),
    "a header of 10 GB": lambda f: sparse(f / MODEL, 11 * BIG, struct.pack("<Q", 10 * BIG)),
    "an unknown tensor of 1 GB": lambda f: sparse(f / MODEL, BIG + len(ONE), ONE),
    "long numbers": lambda f: sparse(f / "metrics.jsonl", 10 * BIG),
    "many values": lambda f: (f / "results.json").write_bytes(b"[" + b"[]," * 5_000_000 + b"[]]"),
    "resume: hidden": settings("plan.yaml", training__net__hidden=[10**6, 10**6]),
    "resume: hidden under the limit": settings("plan.yaml", training__net__hidden=[16_000, 16_000]),
    "resume: buffer": settings("plan.yaml", training__sampler__buffer_size=10**10),
    "resume: buffer under the limit": settings("plan.yaml", training__sampler__buffer_size=10**8),
    "resume: bank": settings("plan.yaml", training__objective__generative={"kind": "contrastive", "bank": 10**10}),
    "resume: clusters": settings("plan.yaml", n_clusters=10**9),
    "resume: long checkpoints": lambda f: [sparse(p, 2**40) for p in f.glob("checkpoint-*")],
    "resume: a long manifest": lambda f: sparse(f / MANIFEST, 2**40),
    "resume: a long plan": lambda f: sparse(f / "plan.yaml", 2**40),
}
CHILD = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from gedi import GEDI
from gedi.cli import main
from gedi.errors import GediError
def peaks():
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return [int(lines[name].split()[0]) // 1024 for name in ("VmPeak", "VmHWM")]
good, *folders = sys.argv[1:]
GEDI.load(good)
sys.stderr = open("/dev/null", "w")
main(["resume", good])
before = peaks()
for folder in folders:
    if "resume" in folder:
        outcome = "refused" if main(["resume", folder]) == 2 else "accepted"
    else:
        try:
            GEDI.load(folder)
            outcome = "accepted"
        except GediError as error:
            outcome = "refused"
    after = peaks()
    print(Path(folder).name, outcome, *[b - a for a, b in zip(before, after)], sep="|")
    before = after
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc to read peak memory")
def test_nothing_large_is_reserved(begun, tmp_path):
    for name, edit in LARGE.items():
        copy = Path(shutil.copytree(begun, tmp_path / name))
        if "resume" in name:
            (copy / MODEL).unlink()
        edit(copy)
    command = [sys.executable, "-c", CHILD, str(begun), *(str(tmp_path / name) for name in LARGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    seen = [line.split("|") for line in done.stdout.splitlines() if "|" in line]
    assert [name for name, *_ in seen] == list(LARGE)
    for name, outcome, reserved, used in seen:
        assert outcome == "refused", name
        assert int(reserved) < 200 and int(used) < 100, f"{name}: {reserved} MB reserved, {used} MB used"


@pytest.mark.parametrize(
    "sizes", [{"net.hidden": [10**6, 10**6]}, {"net.hidden": [2**62]}, {"sampler.buffer_size": 2**62}]
)
def test_settings_too_large_for_any_machine_are_named(tiny, tmp_path, refused, sizes):
    with refused(ConfigError, match=r"training\.net|training\.sampler\.buffer_size"):
        runs.check_resumable(tmp_path, override(tiny(), sizes), 2, 2)
