"""Samples judged by a small net that has learned the labels."""

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.evaluation.samples import SMALL_NET_FRECHET, sample_scores, train_recogniser


def striped(n, seed):
    """Noisy images of three classes: stripes down, stripes across, and a bright middle."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    place = np.arange(16)
    down, across = np.broadcast_to(place // 2 % 2, (16, 16)), np.broadcast_to(place[:, None] // 2 % 2, (16, 16))
    middle = (np.abs(place - 7.5) < 4) & (np.abs(place[:, None] - 7.5) < 4)
    shapes = np.stack([down, across, middle]).astype(float)
    x = 128 + 90 * (shapes[y] - 0.5)[..., None] + rng.normal(0, 20, (n, 16, 16, 3))
    return x.clip(0, 255).astype(np.uint8), np.array([3, 5, 8])[y]


@pytest.fixture(scope="module")
def recogniser():
    return train_recogniser(*striped(240, 0), epochs=16)


def test_it_learns_the_labels_as_they_are_named(recogniser):
    x, y = striped(90, 1)
    assert np.mean(recogniser.predict(x) == y) > 0.95 and recogniser.classes.tolist() == [3, 5, 8]


def test_scores_rank_images_like_the_data_above_one_class_and_noise(recogniser):
    reference, (real, y) = striped(150, 1)[0], striped(150, 2)
    noise = np.random.default_rng(0).integers(0, 256, real.shape, dtype=np.uint8)
    good, single, bad = (sample_scores(recogniser, x, reference) for x in (real, real[y == 3], noise))
    assert (
        good["small_net_frechet"] < single["small_net_frechet"] and good["small_net_frechet"] < bad["small_net_frechet"]
    )
    assert good["recognised"] > 0.8 and good["classes"] == 1.0
    assert single["classes"] == pytest.approx(1 / 3)


def test_the_same_seed_gives_the_same_net():
    x, y = striped(30, 0)
    one, two = (train_recogniser(x, y, epochs=1).features(x) for _ in range(2))
    assert np.array_equal(one, two)


def test_nobody_takes_it_for_fid():
    assert "not FID" in SMALL_NET_FRECHET


def test_arrays_that_are_not_labelled_byte_images_are_refused():
    x, y = striped(6, 0)
    for images, labels in ((x.astype(float), y), (x, y[:3]), (x[..., 0], y)):
        with pytest.raises(DataError, match="byte images"):
            train_recogniser(images, labels)
