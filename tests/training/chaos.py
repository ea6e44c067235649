"""Kill a fit with SIGKILL at random moments, resume it each time, and compare with a fit that was never stopped.

Run by `make chaos` (100 kills), and by `test_chaos.py` with a few.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from gedi import runs
from gedi.cli import main
from gedi.commands import fit
from gedi.data import load
from gedi.files import writing
from gedi.training import cost, engine

KINDS = ("iteration", "saving", "any moment")  # and "timing"
SETTINGS = {
    "heads.random": 3,
    "heads.choose": 0.5,
    "step1.iterations": 12,
    "step2.iterations": 12,
    "sampler.buffer_size": 100,
    "guard.every": 5,
}


class Kill(NamedTuple):
    """How a process died, and the stage of its last checkpoint (None: there was no checkpoint yet)."""

    kind: str
    stage: str | None


def train(data: Path, run: Path) -> int:
    """Run `gedi fit`, or `gedi resume` if there is something to resume; save every iteration, and write no report."""
    fit.write_run_report = lambda *_: None
    if (run / runs.PLAN).is_file():
        return main(["resume", str(run), "--save-every", "0"])
    flags = [f"--training.{name}={value}" for name, value in SETTINGS.items()]
    plain = ["--n-clusters", "2", "--preset", "smoke", "--device", "cpu", "--save-every", "0"]
    return main(["fit", str(data), "--out", str(run), *plain, *flags])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(kind: str, chance: random.Random, seconds: float) -> None:
    """Make this process die at a random moment of the given kind; a whole run takes ``seconds``."""
    if kind == "any moment":
        threading.Timer(chance.uniform(0.0, seconds), die).start()
        return
    left = [chance.randint(0, {"timing": 0, "iteration": 20, "saving": 50}[kind])]

    def counted(function: Callable) -> Callable:
        def dying(*args, **options):
            left[0] -= 1
            if left[0] < 0:
                die()
            return function(*args, **options)

        return dying

    if kind == "timing":
        cost._trial = counted(cost._trial)
    elif kind == "iteration":
        engine.Engine._batch = counted(engine.Engine._batch)
    else:
        # Every step of saving is an fsync or a rename: of the file's bytes, its name, its folder.
        writing.os.fsync, writing.os.replace = counted(os.fsync), counted(os.replace)


def in_a_child(work: Callable[[], int]) -> int:
    """Do the work in a fork, and return its exit code. A fork starts at once; a new Python takes seconds."""
    pid = os.fork()
    if pid == 0:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        code = 1
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def chaos(kills: int, seed: int, folder: Path) -> list[Kill]:
    """Kill runs ``kills`` times in all; compare every run that finishes bit for bit."""
    torch.set_num_threads(1)
    chance = random.Random(seed)
    data = folder / "moons.npy"
    np.save(data, load("moons", n=120).x)
    began = time.monotonic()
    assert in_a_child(lambda: train(data, folder / "whole")) == 0
    seconds = time.monotonic() - began
    expected = (folder / "whole" / runs.MODEL).read_bytes()
    died: list[Kill] = []
    finished = 0
    while len(died) < kills or finished == 0:
        run = folder / f"run-{finished}"
        # In turn, so that there are some of each; only a new run is timed.
        is_timed = not (run / runs.PLAN).is_file() and finished % 2 == 0
        kind = "timing" if is_timed else KINDS[len(died) % len(KINDS)]
        armed = len(died) < kills  # after enough kills, let the last run finish

        def work(run: Path = run, kind: str = kind, armed: bool = armed) -> int:
            if armed:
                arm(kind, chance, seconds)
            return train(data, run)

        chance.random()  # the child's draws do not advance our generator
        code = in_a_child(work)
        if code == -signal.SIGKILL:
            assert kind != "timing" or (run / runs.PLAN).is_file(), "a run killed while it was timed cannot be resumed"
            checkpoints = runs.Checkpoints(run)
            died.append(Kill(kind, checkpoints.load()[1]["stage"] if checkpoints.exists() else None))
        elif code == 0:
            assert (run / runs.MODEL).read_bytes() == expected, f"{run} ended with other weights"
            finished += 1
        else:
            raise AssertionError(f"{run} ended with exit code {code}")
    return died


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        many = chaos(int(sys.argv[1]), seed=0, folder=Path(place))
    sys.stdout.write(f"{len(many)} kills, every resumed run ended with the weights of one never stopped\n")
    for what in ("kind", "stage"):
        sys.stdout.write(f"by {what}: {dict(Counter(getattr(kill, what) for kill in many))}\n")
