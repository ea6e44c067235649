import pickle
import sys
import types

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.errors import DataError
from gedi.evaluation import feature_frechet, frechet_distance, inception_fid
from gedi.evaluation.samples import gaussian_of

rng = np.random.default_rng(0)


def covariance(d, seed=0, rank=None):
    a = np.random.default_rng(seed).standard_normal((d, rank or d))
    return a @ a.T


# ---- the formula ----


def test_one_dimension_is_known():
    # W2^2 of N(m, s^2) and N(n, t^2) is (m - n)^2 + (s - t)^2
    assert frechet_distance([1.0], [[4.0]], [3.0], [[9.0]]) == pytest.approx((1 - 3) ** 2 + (2 - 3) ** 2)


def test_commuting_covariances_are_known():
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    a, b = rng.uniform(0.1, 3, (2, 5))
    m, n = rng.standard_normal((2, 5))
    expected = np.sum((m - n) ** 2) + np.sum((np.sqrt(a) - np.sqrt(b)) ** 2)
    assert frechet_distance(m, turn * a @ turn.T, n, turn * b @ turn.T) == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), d=st.integers(1, 8))
def test_it_agrees_with_the_matrix_root(seed, d):
    s, t = covariance(d, seed), covariance(d, seed + 1)
    m, n = np.random.default_rng(seed).standard_normal((2, d))
    root = scipy.linalg.sqrtm(s @ t)
    expected = np.sum((m - n) ** 2) + np.trace(s + t - 2 * np.real(root))
    assert frechet_distance(m, s, n, t) == pytest.approx(expected, rel=1e-5, abs=1e-5)
    assert frechet_distance(n, t, m, s) == pytest.approx(frechet_distance(m, s, n, t), rel=1e-9, abs=1e-9)


def test_a_scaled_gaussian():
    # S and k^2 S commute: the distance is (k - 1)^2 tr S
    s = covariance(6)
    assert frechet_distance(np.zeros(6), s, np.zeros(6), 9 * s) == pytest.approx(4 * np.trace(s))


@pytest.mark.parametrize("d, rank", [(1, 1), (40, 40), (40, 3), (200, 5)])
def test_the_same_gaussian_is_at_distance_zero_even_if_it_is_flat(d, rank):
    s = 1e4 * covariance(d, rank=rank)
    assert frechet_distance(np.ones(d), s, np.ones(d), s) == pytest.approx(0, abs=1e-9 * np.trace(s))


def test_flat_gaussians_in_different_planes_are_known():
    """Without any overlap, the distance is the sum of the traces; most code fails on the matrix root of S1 S2 = 0."""
    s, t = np.diag([1.0, 2, 0, 0]), np.diag([0, 0, 3.0, 4])
    assert frechet_distance(np.zeros(4), s, np.zeros(4), t) == pytest.approx(10)
    assert frechet_distance(np.zeros(4), s, np.zeros(4), np.zeros((4, 4))) == pytest.approx(3)
    turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]  # now rounding blurs the planes
    turned = frechet_distance(np.zeros(4), turn @ s @ turn.T, np.zeros(4), turn @ t @ turn.T)
    assert turned == pytest.approx(10, abs=1e-12)


def test_it_is_invariant_to_rotation_and_shift():
    s, t, m, n = covariance(5), covariance(5, 1), *rng.standard_normal((2, 5))
    turn = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    moved = frechet_distance(turn @ m + 7, turn @ s @ turn.T, turn @ n + 7, turn @ t @ turn.T)
    assert moved == pytest.approx(frechet_distance(m, s, n, t))


# ---- from features ----


def test_samples_of_known_gaussians():
    n, d = 40_000, 3
    s, t = np.diag([1.0, 4.0, 0.25]), np.diag([1.0, 1.0, 1.0])
    real = rng.standard_normal((n, d)) * np.sqrt(np.diag(s))
    fake = rng.standard_normal((n, d)) + [2, 0, 0]
    assert feature_frechet(real, fake) == pytest.approx(frechet_distance([0, 0, 0], s, [2, 0, 0], t), rel=0.02)
    assert feature_frechet(real, real) == pytest.approx(0, abs=1e-10)


def test_moments_are_those_of_float64():
    x = (1e6 + rng.standard_normal((1000, 2))).astype(np.float64)
    mean, cov = gaussian_of(x)
    assert np.allclose(mean, x.mean(0)) and np.allclose(cov, np.cov(x.T), rtol=1e-6)
    assert gaussian_of(x[:, :1])[1].shape == (1, 1)


def test_fewer_samples_than_dimensions():
    real, fake = rng.standard_normal((20, 300)), rng.standard_normal((20, 300)) + 1
    distance = feature_frechet(real, fake)
    assert np.isfinite(distance) and 200 < distance < 1000
    assert feature_frechet(real, real) == pytest.approx(0, abs=1e-8)


def test_it_is_labelled():
    assert "NOT comparable" in str(feature_frechet.__doc__)


def test_arrays_that_do_not_fit():
    with pytest.raises(DataError, match="do not fit together"):
        frechet_distance([0, 0], np.eye(2), [0, 0, 0], np.eye(3))
    with pytest.raises(DataError, match="NaN"):
        frechet_distance([np.nan], [[1]], [0], [[1]])
    with pytest.raises(DataError, match="two samples"):
        feature_frechet(np.zeros((1, 3)), np.zeros((5, 3)))
    with pytest.raises(DataError, match="width"):
        feature_frechet(np.zeros((5, 3)), np.zeros((5, 4)))
    with pytest.raises(DataError, match="NaN"):
        feature_frechet(np.full((5, 3), np.inf), np.zeros((5, 3)))


# ---- FID proper ----

IMAGES = rng.integers(0, 256, (7, 8, 8, 3), dtype=np.uint8)


@pytest.fixture
def weights(tmp_path):
    torch.save({"w": torch.zeros(3)}, tmp_path / "weights.pth")
    return tmp_path / "weights.pth"


class FakeMetric:
    """Stands in for torchmetrics' class and remembers how it was used."""

    made = None

    def __init__(self, **options):
        FakeMetric.made, self.options, self.seen = self, options, []

    def to(self, device):
        return self

    def update(self, images, real):
        self.seen.append((images, real))

    def compute(self):
        return torch.tensor(12.5)


@pytest.fixture
def torchmetrics(monkeypatch):
    for name in ("torchmetrics", "torchmetrics.image", "torchmetrics.image.fid"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["torchmetrics.image.fid"].FrechetInceptionDistance = FakeMetric  # type: ignore[attr-defined]
    return sys.modules["torchmetrics.image.fid"]


def test_images_are_given_to_torchmetrics_as_it_wants_them(torchmetrics, weights):
    assert inception_fid(IMAGES, IMAGES[:5, ..., :1], weights, batch_size=3) == 12.5
    metric = FakeMetric.made
    assert metric.options == {"feature": 2048, "feature_extractor_weights_path": str(weights)}
    for is_real, expected in ((True, IMAGES), (False, np.repeat(IMAGES[:5, ..., :1], 3, axis=3))):
        batches = [images for images, real in metric.seen if real is is_real]
        assert all(b.dtype == torch.uint8 and len(b) <= 3 for b in batches)
        assert np.array_equal(torch.cat(batches).permute(0, 2, 3, 1).numpy(), expected)


def test_what_is_missing_is_named(weights, tmp_path, monkeypatch, torchmetrics):
    with pytest.raises(DataError, match=r"no Inception weights at .*nowhere\.pth: download"):
        inception_fid(IMAGES, IMAGES, tmp_path / "nowhere.pth")

    def refuse(**_):
        raise ModuleNotFoundError("FrechetInceptionDistance metric requires that `Torch-fidelity` is installed.")

    torchmetrics.FrechetInceptionDistance = refuse
    with pytest.raises(DataError, match="needs torch-fidelity"):
        inception_fid(IMAGES, IMAGES, weights)
    monkeypatch.setitem(sys.modules, "torchmetrics.image.fid", None)
    with pytest.raises(DataError, match=r"pip install 'gedi-ssl\[fid\]'"):
        inception_fid(IMAGES, IMAGES, weights)


def test_weights_are_never_unpickled(torchmetrics, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "was-here"), "w"))

    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil(), protocol=2))
    torch.save({"w": Evil()}, tmp_path / "evil2.pth")
    (tmp_path / "text.pth").write_text("hello")
    for name in ("evil.pth", "evil2.pth", "text.pth"):
        with pytest.raises(DataError, match="not a file of Inception weights"):
            inception_fid(IMAGES, IMAGES, tmp_path / name)
    assert not (tmp_path / "was-here").exists()


@pytest.mark.parametrize("images", [IMAGES / 255, IMAGES[0], IMAGES[:1], IMAGES.transpose(0, 3, 1, 2)])
def test_impossible_images_are_refused(images, weights, torchmetrics):
    with pytest.raises(DataError, match="fake images must be uint8"):
        inception_fid(IMAGES, images, weights)
