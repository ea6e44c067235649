"""metrics.jsonl: on disk while a run trains, and the same whether or not it was stopped."""

import errno
import itertools
import json
import sys
from pathlib import Path

import pytest

from gedi.errors import ConfigError, RunError
from gedi.runs import Checkpoints, MetricsLog
from gedi.training import engine
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.journal import Hooks
from gedi.training.recovery import StoppedError


def read(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(autouse=True)
def short_windows(monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 2)


def test_every_line_is_on_disk_before_progress_is_reported(blobs, tiny, tmp_path):
    seen = []

    def look(progress):
        if progress.total and (progress.iteration % 2 == 0 or progress.iteration == progress.total):
            seen.append([line["iteration"] for line in read(tmp_path) if "seen" not in line])
            assert seen[-1][-1] == progress.iteration

    model = fit_prepared(prepare(blobs, tiny(), 2), seed=0, hooks=Hooks(progress=look, log=MetricsLog(tmp_path)))
    assert [len(lines) for lines in seen] == [1, 2, 3, 4, 5]
    assert read(tmp_path) == json.loads(json.dumps(model.history))


def test_a_resumed_run_repeats_no_line_and_loses_none(blobs, tiny, tmp_path):
    whole = fit_prepared(prepare(blobs, tiny(), 2), seed=0)
    calls = itertools.count(1)

    def stop():
        return next(calls) % 5 == 0

    for _ in range(10):
        try:
            hooks = Hooks(log=MetricsLog(tmp_path), checkpoints=Checkpoints(tmp_path), should_stop=stop)
            fit_prepared(prepare(blobs, tiny(), 2), seed=0, hooks=hooks)
            break
        except StoppedError:
            # A line written after the last checkpoint will be made again: the log must drop it.
            with (tmp_path / "metrics.jsonl").open("a") as file:
                file.write('{"stage": "step1", "iteration": 999}\n')
    assert next(calls) > 6
    assert read(tmp_path) == json.loads(json.dumps(whole.history))


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    log = MetricsLog(tmp_path)
    log.restart([])

    def full(*args, **options):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RunError, match="No space left on device"):
        log.write({"stage": "step1", "iteration": 1})


def test_numbers_that_are_not_finite_are_null(tmp_path):
    log = MetricsLog(tmp_path)
    log.restart([])
    log.write({"stage": "step1", "iteration": 1, "generative": float("nan")})
    assert read(tmp_path) == [{"stage": "step1", "iteration": 1, "generative": None}]


def test_tensorboard_gets_the_same_numbers(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with MetricsLog(tmp_path, tensorboard=True) as log:
        log.restart([])
        for iteration in (50, 100):
            log.write({"stage": "step1", "attempt": 0, "iteration": iteration, "generative": iteration / 10})
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("step1/generative")
    assert [(event.step, event.value) for event in events] == [(50, 5.0), (100, 10.0)]


def test_a_missing_tensorboard_is_reported(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ConfigError, match=r"gedi-ssl\[tensorboard\]"):
        MetricsLog(tmp_path, tensorboard=True)
