"""Several processes (gloo, CPU) act as one: same losses, gradients and clusters; none waits for a dead one."""

import contextlib
import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import normalized_mutual_info_score

from gedi.errors import ConfigError
from gedi.objectives.term import kinds
from gedi.runs import Checkpoints
from gedi.settings import make
from gedi.training.world import Hardware, World

SCRIPT = Path(__file__).with_name("processes.py")


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


@pytest.fixture(scope="session")
def run_processes(fork):
    """A function: the results of a job on each of n processes."""
    importlib.import_module("lightning_fabric")  # takes two seconds, which the forks are spared
    work = runpy.run_path(str(SCRIPT))["main"]

    def run(job: str, n: int, folder: Path, timeout: float = 120) -> list[dict[str, torch.Tensor]]:
        folder.mkdir()
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}

        def one(rank: int):
            own = {"WORLD_SIZE": str(n), "RANK": str(rank), "LOCAL_RANK": str(rank), "NODE_RANK": "0"} if n > 1 else {}
            os.environ.update(shared | own)
            work(job, str(folder))

        started = [fork(partial(one, rank), folder / f"{rank}.log") for rank in range(n)]
        for process in started:
            assert process.wait(timeout) == 0, process.log.read_text()
        return [load_file(folder / f"{rank}.safetensors") for rank in range(n)]

    return run


@pytest.fixture(scope="module")
def both(run_processes, tmp_path_factory):
    """The terms of one process with the whole batch, and of two with half of it each."""
    folder = tmp_path_factory.mktemp("terms")
    (one,) = run_processes("terms", 1, folder / "one")
    return one, run_processes("terms", 2, folder / "two")


NOISY = ("vae", "denoising")  # their noise differs between processes
TERMS = [f"{family}.{kind}" for family, members in kinds().items() for kind in members if kind not in NOISY]
TERMS += [f"{term} after" for term in TERMS if term.startswith(("clustering", "symbolic"))]


@pytest.mark.parametrize("term", TERMS)
def test_two_halves_give_the_loss_and_the_gradients_of_the_whole(both, term):
    one, two = both
    names = [name for name in one if name.startswith((f"{term}/loss/", f"{term}/judged/", f"{term}/gradient/"))]
    assert len(names) > 2 and any(one[name].abs().max() > 1e-3 for name in names if "gradient" in name)
    scale = max(float(one[name].abs().max()) for name in names)  # biases before batch norm have only rounding errors
    for half in two:
        for name in names:
            torch.testing.assert_close(half[name] / scale, one[name] / scale, rtol=0, atol=1e-5, msg=name)


def test_the_terms_are_those_of_the_new_and_of_the_chosen_heads(both):
    one, _ = both
    assert "clustering.prior/loss/neutral_clustering_dam" in one and one[
        "clustering.prior/judged/clustering_dam"
    ].shape == (4,)
    assert "clustering.prior after/loss/anchor" in one
    assert one["clustering.prior after/judged/clustering_dam"].shape == (1,)
    assert not any("after/loss/neutral" in name for name in one)


def test_processes_choose_the_same_clusters(run_processes, tmp_path):
    (alone,) = run_processes("chosen", 1, tmp_path / "one")
    first, second = run_processes("chosen", 2, tmp_path / "two")
    assert set(first) == set(second) and all(torch.equal(first[name], second[name]) for name in first)
    assert int(first["0 starts/chosen"]) == int(first["0 starts/average"]) == 2
    # Walks draw noise of their own on every process; without them, the candidates are those of a single one.
    assert torch.equal(alone["0 starts/candidates"], first["0 starts/candidates"])
    assert len(first["4 starts/candidates"]) == 4 and len(first["4 starts/labels"]) == 64


def test_batch_norm_is_that_of_the_whole_batch(both):
    one, two = both
    names = [name for name in one if "/buffer/" in name]
    assert len(names) > 40
    for half in two:
        for name in names:
            torch.testing.assert_close(half[name], one[name], rtol=1e-5, atol=1e-5, msg=name)


def test_two_processes_end_with_one_model_and_the_clusters_of_a_single_one(run_processes, tmp_path):
    (alone,) = run_processes("fit", 1, tmp_path / "one")
    first, second = run_processes("fit", 2, tmp_path / "two")
    assert all(torch.equal(first[name], second[name]) for name in first)
    pairs = {tuple(pair) for pair in torch.stack([alone["labels"], first["labels"]], 1).tolist()}
    assert len(pairs) == 2  # the same two clusters, whatever their names
    assert len(first["chains"]) <= 400 and len(first["chains"].unique(dim=0)) > 200  # two different halves of a buffer


def test_what_one_process_sees_is_reported_and_rolls_back_all(run_processes, tmp_path):
    first, second = run_processes("rollback", 2, tmp_path / "two")
    assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("found", [{"WORLD_SIZE": "3"}, {"RANK": "1"}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}])
def test_more_processes_than_asked_for_are_refused(monkeypatch, found):
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match="--devices 1 and --nodes 1 mean 1"):
        World()
    assert World(alone=True).size == 1  # as in the trial that tells what a run will cost


@pytest.mark.slow
def test_two_processes_find_the_moons(run_processes, tmp_path):
    first, _ = run_processes("moons", 2, tmp_path / "two", timeout=900)
    assert normalized_mutual_info_score(first["truth"], first["labels"]) > 0.98


def test_a_batch_smaller_than_the_number_of_processes_is_refused(monkeypatch):
    world = World()
    monkeypatch.setattr(World, "size", 4)
    with pytest.raises(ConfigError, match="4 processes"):
        world.part(torch.arange(3))


def test_hardware_that_is_not_there_is_a_clear_error():
    with pytest.raises(ConfigError, match="cannot be used here"):
        World(Hardware(device="cuda", devices=64))
    for name in ("devices", "nodes"):
        with pytest.raises(ConfigError, match=f"--{name} must be positive, got 0"):
            make(Hardware, {name: 0}, "--")


# ---- through the command line ----


@pytest.fixture
def moons(tmp_path):
    from gedi.data import load

    np.save(tmp_path / "moons.npy", load("moons", n=400).x)
    return tmp_path / "moons.npy"


def command(data: Path, out: Path, *flags: str) -> list[str]:
    settings = ["--n-clusters", "2", "--preset", "smoke", "--device", "cpu", "--devices", "2"]
    return [sys.executable, "-m", "gedi", "fit", str(data), "--out", str(out), *settings, *flags]


@pytest.fixture
def environment():
    """One thread per process, and a separate port, as other tests may run at the same time."""
    return os.environ | {"OMP_NUM_THREADS": "1", "MASTER_PORT": str(free_port())}


def test_devices_train_together_and_write_one_run(moons, tmp_path, environment):
    done = subprocess.run(
        command(moons, tmp_path / "run"), env=environment, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("trained in") == 1  # the second process prints nothing
    assert (tmp_path / "run" / "model.safetensors").is_file()


def test_a_process_that_dies_ends_the_run_with_a_message_and_a_checkpoint(moons, tmp_path, environment):
    long = ["--training.step1.iterations", "100000", "--save-every", "0.5", "--timeout", "30"]
    main = subprocess.Popen(command(moons, tmp_path / "run", *long), env=environment, stderr=subprocess.PIPE, text=True)
    checkpoints, until = Checkpoints(tmp_path / "run"), time.monotonic() + 120
    try:
        while not checkpoints.exists() and time.monotonic() < until:
            with contextlib.suppress(subprocess.TimeoutExpired):
                main.wait(timeout=0.1)
            assert main.poll() is None, main.communicate()[1]
        (child,) = [int(pid) for pid in Path(f"/proc/{main.pid}/task/{main.pid}/children").read_text().split()]
        os.kill(child, signal.SIGKILL)
        _, said = main.communicate(timeout=60)
    finally:
        main.kill()
    assert main.returncode == 4, said
    assert "lost the others" in said and f"gedi resume {tmp_path / 'run'}" in said
    assert checkpoints.load()[1]["processes"] == 2
