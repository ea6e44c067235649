"""Rows scaled when they are read equal rows scaled in advance."""

import numpy as np
import pytest
import torch

from gedi.data import Scaler
from gedi.data.scaled_rows import ScaledRows, scaled

BYTES = np.random.default_rng(0).integers(0, 256, (50, 12), dtype=np.uint8)


@pytest.fixture(params=["bytes", "mapped bytes", "mapped float32", "mapped float64"])
def raw(request, tmp_path):
    kind = request.param.split()[-1]
    x = BYTES if kind == "bytes" else (BYTES / 3).astype(kind)
    if "mapped" not in request.param:
        return x
    np.save(tmp_path / "x.npy", x)
    return np.load(tmp_path / "x.npy", mmap_mode="r")


@pytest.mark.parametrize("mode", ["global", "feature", "pixels", "none"])
def test_they_equal_the_tensor_they_stand_for(raw, mode, monkeypatch):
    monkeypatch.setattr("gedi.data.streaming.BLOCK", 100)
    scaler = Scaler().fit(raw, mode=mode)
    rows, whole = scaled(raw, scaler), torch.from_numpy(scaler.transform(np.array(raw)))
    assert isinstance(rows, ScaledRows) and len(rows) == 50 and rows.shape == whole.shape
    assert rows.device == rows.to(torch.device("cpu")).device == whole.device
    for places in (slice(None), slice(3, 9), slice(0, 50, 7), torch.tensor([7, 7, 0, 49]), torch.arange(0)):
        assert torch.equal(rows[places], whole[places]) and rows[places].dtype == torch.float32
    assert [part.tolist() for part in rows.split(20)] == [part.tolist() for part in whole.split(20)]
    assert torch.equal(rows.extremes(), torch.stack([whole.amin(0), whole.amax(0)]))


def test_bytes_are_not_copied():
    rows = scaled(BYTES, Scaler().fit(BYTES, mode="pixels"))
    assert isinstance(rows, ScaledRows) and rows.raw is BYTES


def test_floats_in_memory_are_scaled_at_once():
    x = BYTES / 3
    rows = scaled(x, Scaler().fit(x))
    assert isinstance(rows, torch.Tensor) and np.array_equal(rows.numpy(), Scaler().fit(x).transform(x))
