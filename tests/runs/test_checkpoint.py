"""Runs that are stopped or killed resume exactly where they were."""

import errno
import os
import random
import shutil
import signal

import pytest
import torch

from gedi.data import load
from gedi.errors import CheckpointError
from gedi.files import writing
from gedi.runs import Checkpoints, claimed
from gedi.runs import checkpoint as checkpoint_module
from gedi.training.build import prepare
from gedi.training.config import override
from gedi.training.fit import fit_prepared
from gedi.training.journal import Hooks
from gedi.training.presets import preset
from gedi.training.recovery import StoppedError

ROWS = load("moons", n=120).x.astype("float64")
SMALL = {
    "heads.random": 3,
    "heads.choose": 0.5,
    "step1.iterations": 8,
    "step2.iterations": 8,
    "sampler.buffer_size": 100,
    "dam.every": 2,  # losses that are not of every iteration count, too
}


def config():
    return override(preset("smoke", n_features=2), SMALL)


def fit(**options):
    return fit_prepared(prepare(ROWS, config(), 2), seed=0, hooks=Hooks(**options))


def same(one, other):
    pairs = zip(one.net.state_dict().values(), other.net.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs) and torch.equal(one.chains, other.chains)


@pytest.fixture(scope="module")
def whole():
    return fit()


@pytest.mark.parametrize("trial", range(6))
def test_stopped_anywhere_and_resumed_gives_the_same_weights(whole, tmp_path, trial):
    chance = random.Random(trial)
    stops = 0
    while True:
        left = [chance.randint(0, 10)]

        def stop(left=left):
            left[0] -= 1
            return left[0] < 0

        try:
            model = fit(checkpoints=Checkpoints(tmp_path), save_every=0.0 if trial % 2 else 1e9, should_stop=stop)
            break
        except StoppedError:
            stops += 1
    assert stops and same(model, whole)
    assert model.history == whole.history and model.results["objective"] == whole.results["objective"]


def test_a_damaged_checkpoint_is_skipped_for_the_one_before(whole, tmp_path):
    left = [10]

    def stop():
        left[0] -= 1
        return left[0] < 0

    with pytest.raises(StoppedError):
        fit(checkpoints=Checkpoints(tmp_path), save_every=0.0, should_stop=stop)
    last = sorted(tmp_path.glob("checkpoint-*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-10])
    checkpoints = Checkpoints(tmp_path)
    assert same(fit(checkpoints=checkpoints), whole)
    assert len(checkpoints.skipped) == 1 and last.name in checkpoints.skipped[0]


def test_a_damaged_checkpoint_does_not_displace_an_intact_one(tmp_path):
    writer = Checkpoints(tmp_path)
    for n in (1, 2):
        writer.save({"x": torch.full((2,), float(n))}, {"n": n})
    last = sorted(tmp_path.glob("checkpoint-*.safetensors"))[-1]
    last.write_bytes(last.read_bytes()[:-3])
    reader = Checkpoints(tmp_path)
    assert reader.load()[1] == {"n": 1}
    reader.save({"x": torch.zeros(2)}, {"n": 3})
    newest = sorted(tmp_path.glob("checkpoint-*.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-3])
    assert Checkpoints(tmp_path).load()[1] == {"n": 1}


def test_no_intact_checkpoint_is_one_clear_error(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"x": torch.zeros(3)}, {})
    next(tmp_path.glob("checkpoint-*.safetensors")).write_bytes(b"not a checkpoint")
    with pytest.raises(CheckpointError, match="is intact"):
        checkpoints.load()


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save({"x": torch.ones(2)}, {"n": 1})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(checkpoint_module.os, "fsync", full)
        with pytest.raises(CheckpointError, match="No space left on device"):
            checkpoints.save({"x": torch.zeros(2)}, {"n": 2})
    tensors, counters = Checkpoints(tmp_path).load()
    assert counters == {"n": 1} and torch.equal(tensors["x"], torch.ones(2))


def test_a_folder_removed_while_training_is_reported(tmp_path):
    with (
        pytest.raises(CheckpointError, match="was removed during training"),
        claimed(tmp_path / "run") as run,
    ):
        checkpoints = Checkpoints(run)
        checkpoints.save({"x": torch.ones(2)}, {"n": 1})
        shutil.rmtree(run)
        checkpoints.save({"x": torch.zeros(2)}, {"n": 2})


def test_only_the_last_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    for n in range(5):
        checkpoints.save({"x": torch.zeros(1)}, {"n": n})
    assert len(list(tmp_path.glob("checkpoint-*.safetensors"))) == 2
    assert checkpoints.load()[1] == {"n": 4}


def die_while_saving(folder, left):
    """Fit, and be killed before the fsync after ``left`` others."""
    left, fsync = [left], os.fsync

    def dying(descriptor):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    writing.os.fsync = dying
    fit(checkpoints=Checkpoints(folder), save_every=0.0)


@pytest.mark.parametrize("left", [3, 25, 40, 60])
def test_killed_while_saving_and_resumed_gives_the_same_weights(fork, whole, tmp_path, left):
    died = fork(lambda: die_while_saving(tmp_path, left), tmp_path / "log.txt")
    assert died.wait() == -signal.SIGKILL, died.log.read_text()
    assert Checkpoints(tmp_path).exists()
    assert same(fit(checkpoints=Checkpoints(tmp_path)), whole)
