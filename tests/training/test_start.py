"""The start: a cut of the graph of walks."""

import numpy as np
import pytest

from gedi import GEDI
from gedi.training.start import cut_graph, neighbour_space, tightest_kmeans


@pytest.fixture(scope="module")
def strips():
    """Two long strips, closer together than they are long, and walks that stay on their strip."""
    rng = np.random.default_rng(0)
    along = rng.uniform(0, 10, (2, 100))
    points = np.stack([along.ravel(), np.repeat([0.0, 1.0], 100)], axis=1)
    ends = [points + np.stack([rng.normal(0, 1.5, 200), np.zeros(200)], axis=1) for _ in range(5)]
    return points, ends, np.repeat([0, 1], 100)


def agreement(a, b):
    same = np.mean(a == b)
    return max(same, 1 - same)


def test_walks_that_stay_at_home_give_their_components(strips):
    points, ends, truth = strips
    start = cut_graph(points, ends, 2, nodes=30, seed=0)
    assert agreement(start.labels, truth) == 1.0
    assert start.crossing == 0.0
    assert agreement(tightest_kmeans(points, 2, seed=0, n_init=5)[0], truth) < 0.7  # k-means cuts the strips across


def test_walks_that_cross_are_counted(strips):
    points, ends, truth = strips
    crossed = ends[0].copy()
    crossed[:20, 1] = 1.0  # 20 of the 1,000 walks change strips
    start = cut_graph(points, [crossed, *ends[1:]], 2, nodes=30, seed=0)
    assert agreement(start.labels, truth) == 1.0
    assert start.crossing == pytest.approx(20 / 1000)


def test_the_same_seed_gives_the_same_cut(strips):
    points, ends, _ = strips
    one, two = (cut_graph(points, ends, 3, nodes=30, seed=4) for _ in range(2))
    assert np.array_equal(one.labels, two.labels) and one.crossing == two.crossing


def test_fewer_nodes_than_clusters_and_equal_rows_are_survived():
    points = np.zeros((6, 2))
    start = cut_graph(points, [points], 3, nodes=1, seed=0)
    assert start.labels.shape == (6,) and np.isfinite(start.crossing)


def test_kmeans_never_asks_for_more_centres_than_rows():
    labels, centres = tightest_kmeans(np.array([[0.0], [1.0]]), 5, seed=0)
    assert sorted(labels) == [0, 1] and len(centres) == 2


def test_an_outlier_is_not_the_cheapest_cut(strips):
    """Its walks never leave it, so cutting it off costs nothing; if too small to be a node, it joins its neighbours."""
    points, ends, truth = strips
    points = np.concatenate([points, [[30.0, 1.0]]])
    # One walk in a hundred crosses between the strips, so the right cut has a cost.
    ends = [np.concatenate([end, [[30.0, 1.0]]]) for end in ends]
    ends[0][:10, 1] = 1.0
    alone = cut_graph(points, ends, 2, nodes=30, seed=0)
    assert min(np.bincount(alone.labels)) == 1
    kept = cut_graph(points, ends, 2, nodes=30, seed=0, fewest=3)
    assert agreement(kept.labels[:-1], truth) == 1.0


def test_the_space_of_neighbours_tells_curved_components_apart():
    """k-means on the points cuts two strips across; on their neighbour graph it does not."""
    rng = np.random.default_rng(1)
    along = np.concatenate([np.linspace(0, 10, 150)] * 2)
    points = np.stack([along, np.repeat([0.0, 1.0], 150)], axis=1) + rng.normal(0, 0.02, (300, 2))
    truth = np.repeat([0, 1], 150)
    labels = tightest_kmeans(neighbour_space(points), 20, seed=0, n_init=5)[0]
    assert all(len(set(truth[labels == k])) == 1 for k in set(labels))
    assert np.array_equal(neighbour_space(points), neighbour_space(points))


@pytest.mark.parametrize("shape", [(300, 80), (30, 3), (4, 2), (40, 1)])
def test_the_space_of_neighbours_has_unit_rows_for_any_shape(shape):
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    space = neighbour_space(x)
    assert len(space) == len(x) and np.allclose(np.linalg.norm(space, axis=1), 1.0)


def test_equal_rows_have_neighbours_too():
    assert np.isfinite(neighbour_space(np.zeros((50, 3)))).all()


def test_of_many_rows_a_sample_walks_and_the_others_join_the_nearest_node(strips):
    points, ends, truth = strips
    some = [end[::2] for end in ends]
    start = cut_graph(points[::2], some, 2, nodes=20, seed=0, everyone=np.split(points, 4))
    assert len(start.labels) == len(points) and agreement(start.labels, truth) == 1.0


def test_kmeans_of_a_sample_labels_every_row(monkeypatch):
    monkeypatch.setattr("gedi.training.start.MOST_ROWS", 40)
    x = np.vstack([np.random.default_rng(i).normal(3.0 * i, 0.1, (100, 2)) for i in range(3)])
    labels, centres = tightest_kmeans(x, 3, seed=0, n_init=5)
    assert len(centres) == 3
    assert [len(set(labels[i : i + 100])) for i in (0, 100, 200)] == [1, 1, 1] and len(set(labels)) == 3


def test_a_fit_of_more_rows_than_the_start_samples(monkeypatch):
    monkeypatch.setattr("gedi.training.start.MOST_ROWS", 60)
    x = np.vstack([np.random.default_rng(i).normal(4.0 * i, 0.3, (100, 2)) for i in range(2)])
    labels = GEDI(n_clusters=2, preset="smoke", random_state=0).fit_predict(x)
    assert agreement(labels, np.repeat([0, 1], 100)) > 0.95
