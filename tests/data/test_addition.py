"""Addition triplets: what is drawn, from what, and how often."""

import numpy as np
import pytest
from scipy.stats import chisquare

from gedi.data import known_datasets, load
from gedi.data.toys import triplets
from gedi.errors import DataError

DIGITS = np.random.default_rng(0).integers(10, size=20_000)


def test_the_third_shows_the_sum_of_the_others():
    shown = DIGITS[triplets(DIGITS, 3_000, seed=0)]
    assert np.array_equal(shown[:, 0] + shown[:, 1], shown[:, 2])


def test_no_image_is_used_twice():
    places = triplets(DIGITS, 3_000, seed=0)
    assert len(np.unique(places)) == 9_000


def test_all_55_pairs_are_equally_likely():
    a, b, _ = DIGITS[triplets(DIGITS, 4_000, seed=0)].T
    counts = np.bincount(10 * a + b, minlength=100)
    pairs = np.add.outer(np.arange(10), np.arange(10)).ravel() <= 9
    assert pairs.sum() == 55 and counts[~pairs].sum() == 0
    assert chisquare(counts[pairs]).pvalue > 0.01


def test_the_seed_decides_the_triplets():
    one, same, other = (triplets(DIGITS, 100, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_every_image_of_a_digit_can_be_drawn():
    used = np.concatenate([triplets(DIGITS[:300], 20, seed=seed).ravel() for seed in range(200)])
    assert len(np.unique(used)) > 295


@pytest.mark.parametrize(("n", "says"), [(0, "at least 1"), (200, r"need \d+ images of the digit \d, but there are")])
def test_what_cannot_be_drawn_is_refused(n, says):
    with pytest.raises(DataError, match=says):
        triplets(DIGITS[:300], n, seed=0)


@pytest.fixture
def images(tmp_path, monkeypatch):
    """A stand-in for MNIST whose pixels are its labels."""
    y = DIGITS[:5_000]
    x = np.broadcast_to(y[:, None, None, None], (5_000, 2, 2, 1)).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x[:50], y_test=y[:50])
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    return tmp_path


def test_by_name(images):
    data = load("addition", n=600, seed=1)
    assert data.x.shape == (600, 2, 2, 1) and data.image_shape == (2, 2, 1)
    assert np.array_equal(data.x[:, 0, 0, 0], data.y)
    a, b, c = data.y.reshape(-1, 3).T
    assert np.array_equal(a + b, c)
    assert len(load("addition").x) == 3_000
    assert np.array_equal(load("addition", split="test").y, DIGITS[:50])
    with pytest.raises(DataError, match="multiple of 3, got 100"):
        load("addition", n=100)


def test_it_is_listed_as_present_only_with_mnist(images, monkeypatch):
    def present():
        return {info.name: info.present for info in known_datasets()}["addition"]

    assert present()
    monkeypatch.setenv("GEDI_DATA", str(images / "elsewhere"))
    assert not present()
    with pytest.raises(DataError, match="data set mnist is not at"):
        load("addition")
