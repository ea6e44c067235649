import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import make_circles, make_moons

from gedi.data import toys
from gedi.data.sources import TOYS
from gedi.errors import DataError

BALANCED = [toys.moons, toys.circles, toys.rings, toys.spirals, toys.links, toys.blobs]
SHAPES = list(TOYS.values())


@pytest.mark.parametrize("shape", SHAPES)
def test_shape_dtype_and_seed(shape):
    x, y = shape(301, seed=3)
    assert x.shape == (301, 3 if shape is toys.links else 2) and x.dtype == np.float32
    assert y.shape == (301,) and y.dtype == np.int64
    again, y_again = shape(301, seed=3)
    assert np.array_equal(x, again) and np.array_equal(y, y_again)
    assert not np.array_equal(x, shape(301, seed=4)[0])


@pytest.mark.parametrize("shape", BALANCED)
def test_classes_are_balanced_and_shuffled(shape):
    _, y = shape(600, seed=0)
    counts = np.bincount(y)
    assert counts.max() - counts.min() <= 1
    assert len(np.unique(y[:50])) == len(counts)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_nearest_neighbour_graph_separates_the_classes(shape):
    x, y = shape(1500, seed=1)
    distances = cdist(x, x)
    np.fill_diagonal(distances, np.inf)
    assert (y[distances.argmin(axis=1)] == y).mean() > 0.995


def test_balanced_moons_and_circles_are_those_of_scikit_learn():
    x, y = toys.moons(101, seed=5, noise=0.07)
    expected, labels = make_moons(101, noise=0.07, random_state=5)
    assert np.array_equal(x, expected.astype(np.float32)) and np.array_equal(y, labels)
    x, y = toys.circles(101, seed=5, noise=0.07, factor=0.4)
    expected, labels = make_circles(101, noise=0.07, factor=0.4, random_state=5)
    assert np.array_equal(x, expected.astype(np.float32)) and np.array_equal(y, labels)


def test_the_papers_toys_are_larger_and_noisier():
    assert np.allclose(toys.paper_moons(400, seed=5)[0], 2 * toys.moons(400, seed=5, noise=0.1)[0] - [1.0, 0.2])
    assert np.array_equal(toys.paper_circles(400, seed=5)[0], 3 * toys.circles(400, seed=5, noise=0.08)[0])
    assert [np.bincount(toy(400)[1]).tolist() for toy in (toys.paper_moons, toys.paper_circles)] == [[200, 200]] * 2


@pytest.mark.parametrize("weights, upper", [((0.7, 0.3), 70), ((0.29, 0.71), 29), ((3, 1), 75)])
def test_unbalanced_moons(weights, upper):
    _, y = toys.moons(100, seed=0, weights=weights)
    assert (y == 0).sum() == upper


def test_rings_without_noise_lie_on_their_radii():
    x, y = toys.rings(300, seed=0, noise=0.0)
    assert np.allclose(np.linalg.norm(x, axis=1), np.asarray(toys.RING_RADII)[y], atol=1e-6)


def test_spirals_without_noise_keep_their_distance():
    x, y = toys.spirals(2000, seed=0, noise=0.0)
    assert 0.45 < cdist(x[y == 0], x[y == 1]).min() <= toys.SPIRAL_SPACING


def test_links_are_linked():
    x, y = toys.links(2000, seed=0, noise=0.0)
    assert np.allclose(np.linalg.norm(x[y == 0], axis=1), 1) and np.allclose(x[y == 0, 2], 0)
    # The second ring meets the first one's plane once inside it and once outside.
    near = x[(y == 1) & (np.abs(x[:, 2]) < 0.05)]
    inside = np.linalg.norm(near[:, :2], axis=1) < 1
    assert 0 < inside.sum() < len(near)


def test_smile_has_the_shares_it_names():
    _, y = toys.smile(1000, seed=0)
    assert np.bincount(y).tolist() == [round(1000 * share) for share in toys.SMILE_SHARES]


def test_rotate():
    x = np.array([[1.0, 0.0], [0.0, 2.0]], dtype=np.float32)
    assert np.allclose(toys.rotate(x, 90), [[0, 1], [-2, 0]], atol=1e-6)
    assert toys.rotate(x, 30).dtype == np.float32
    assert np.allclose(np.linalg.norm(toys.rotate(x, 37), axis=1), [1, 2], atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_bad_arguments(shape):
    with pytest.raises(DataError, match="n=1"):
        shape(1, seed=0)
    with pytest.raises(DataError, match="negative"):
        shape(10, seed=0, noise=-0.1)


def test_weights_must_be_positive():
    with pytest.raises(DataError, match="weights"):
        toys.moons(10, seed=0, weights=(1.0, 0.0))
