"""The cost said before it is paid."""

import math
import time

import pytest

from gedi.training import cost
from gedi.training.model import fit_rows


@pytest.fixture
def clock(monkeypatch):
    """A machine on which work has a known price: seconds a stage's iteration, a start, and everything else."""
    price = {"step1": 1.0, "embedding": 2.0, "step2": 4.0, "start": 500.0, "rest": 10.0}
    now = [0.0]
    monkeypatch.setattr(cost.time, "monotonic", lambda: now[0])

    def fit(rows, *, n_clusters, config, seed, **_):
        now[0] += price["rest"] + price["step1"] * config.step1.iterations
        if config.step2.iterations:
            each = price["embedding"] * config.embedding.iterations + price["step2"] * config.step2.iterations
            now[0] += config.n_init * (price["start"] + each)
        return None

    monkeypatch.setattr(cost, "fit_rows", fit)
    return fit, now


@pytest.mark.parametrize("n_init", [1, 3])
@pytest.mark.parametrize("embedding", [0, 400])
def test_every_stage_is_counted_and_the_start_is_counted_once(blobs, tiny, clock, n_init, embedding):
    fit, now = clock
    config = tiny(step1__iterations=300, embedding__iterations=embedding, step2__iterations=500, n_init=n_init)
    estimate = cost.estimate_seconds(blobs, config, 2)
    before = now[0]
    fit(blobs, n_clusters=2, config=config, seed=0)
    assert estimate == pytest.approx(now[0] - before, rel=0.02)


def test_the_estimate_is_of_the_size_of_the_real_time(blobs, tiny):
    config = tiny(step1__iterations=60, step2__iterations=60)
    fit_rows(blobs, n_clusters=2, config=tiny(), seed=0)  # the first call pays for imports
    estimate = cost.estimate_seconds(blobs, config, 2)
    began = time.monotonic()
    fit_rows(blobs, n_clusters=2, config=config, seed=0)
    measured = time.monotonic() - began
    assert math.isfinite(estimate) and measured / 5 < estimate < measured * 5  # a busy machine is not a failure


def test_the_estimate_leaves_the_settings_alone(blobs, tiny):
    config = tiny()
    cost.estimate_seconds(blobs, config, 2)
    assert config == tiny()
