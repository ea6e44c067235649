"""Images kept as bytes or on disk train to the same weights as images scaled to floats beforehand."""

import numpy as np
import pytest
import torch

from gedi.data.scaled_rows import ScaledRows
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.presets import configure

SHAPE = (6, 6, 1)
FEW = {"step1.iterations": 2, "step2.iterations": 2, "net.hidden": [16]}
FEW |= {"sampler.buffer_size": 64, "sampler.steps": 1, "dam.steps": 1, "start.repeats": 1}
CHANGES = {
    "pixels, near in main directions": {"scaling": "pixels"},
    "one unit, chains from data": {"scaling": "global", "sampler.from_data": 0.5},
    "one unit per pixel, lengths from data": {"scaling": "feature", "sampler.noise": None, "dam.radius": None},
    "walks": {
        "heads.starts": ["walks", "mixture"],
        "objective.clustering.dam": 1.0,
        "start.walks": 2,
        "start.nodes": 8,
    },
    "bank of data": {"objective.generative.kind": "contrastive"},
}


@pytest.fixture(scope="module")
def images():
    groups = np.random.default_rng(0).integers(0, 200, (4, 36))
    x = (np.repeat(groups, 20, axis=0) + np.random.default_rng(1).integers(0, 56, (80, 36))).astype(np.uint8)
    x[0, 0], x[1, 1] = 0, 255  # black and white, from which the range of floats is inferred
    return x


def trained(x, change):
    config = configure("digits", "gedi", FEW, change, n_features=36, image_shape=SHAPE)
    return fit_prepared(prepare(x, config, 4, image_shape=SHAPE), seed=3)


@pytest.mark.parametrize("name", CHANGES)
def test_bytes_and_maps_train_to_the_same_weights(images, tmp_path, monkeypatch, name):
    monkeypatch.setattr("gedi.data.streaming.BLOCK", 500)
    if "main directions" in name:
        monkeypatch.setattr("gedi.data.neighbours.MOST_PRODUCTS", 1e5)
        monkeypatch.setattr("gedi.data.neighbours.MAIN_DIRECTIONS", 10)
    np.save(tmp_path / "floats.npy", images.astype(np.float32))
    expected = trained(images.astype(np.float64), CHANGES[name])
    for x in (images, np.load(tmp_path / "floats.npy", mmap_mode="r")):
        found = trained(x, CHANGES[name])
        mine, theirs = found.net.state_dict(), expected.net.state_dict()
        assert all(torch.equal(mine[k], theirs[k]) for k in theirs)
        assert torch.equal(found.chains, expected.chains) and all(map(torch.equal, found.box, expected.box))
        for answer in ("predict_proba", "transform", "score_samples", "ood_score"):
            assert np.array_equal(getattr(found, answer)(x), getattr(expected, answer)(images.astype(np.float64)))


def test_bytes_are_kept_as_they_are_and_floats_as_a_tensor(images):
    config = configure("digits", "gedi", FEW, n_features=36, image_shape=SHAPE)
    assert isinstance(prepare(images, config, 4, image_shape=SHAPE).rows, ScaledRows)
    assert isinstance(prepare(images.astype(np.float32), config, 4, image_shape=SHAPE).rows, torch.Tensor)
