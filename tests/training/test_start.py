"""Starts: cuts of the graphs of walks and of neighbours, k-means and mixtures."""

import numpy as np
import pytest

from gedi import GEDI
from gedi.training import start as starts
from gedi.training.build import prepare
from gedi.training.engine import Engine
from gedi.training.start import STARTS, find_start, graph_of, kmeans_from, some_places, tightest_kmeans


@pytest.fixture(scope="module")
def strips():
    """Two long strips, closer together than they are long, and walks that stay on their strip."""
    rng = np.random.default_rng(0)
    along = rng.uniform(0, 10, (2, 100))
    points = np.stack([along.ravel(), np.repeat([0.0, 1.0], 100)], axis=1)
    ends = [points + np.stack([rng.normal(0, 1.5, 200), np.zeros(200)], axis=1) for _ in range(5)]
    return points, ends, np.repeat([0, 1], 100)


def cut(points, ends, n_clusters, *, seed=0, **options):
    return graph_of(points, ends, n_clusters, seed=seed, **options).cut(n_clusters, seed).labels(points)


def agreement(a, b):
    same = np.mean(a == b)
    return max(same, 1 - same)


def test_walks_that_stay_at_home_give_their_components(strips):
    points, ends, truth = strips
    assert agreement(cut(points, ends, 2, nodes=30), truth) == 1.0
    assert agreement(tightest_kmeans(points, 2, seed=0, n_init=5)[0], truth) < 0.7  # k-means cuts the strips across


def test_a_few_walks_that_cross_do_not_change_the_cut(strips):
    points, ends, truth = strips
    crossed = ends[0].copy()
    crossed[:20, 1] = 1.0  # 20 of the 1,000 walks change strips
    assert agreement(cut(points, [crossed, *ends[1:]], 2, nodes=30), truth) == 1.0


def test_the_same_seed_gives_the_same_cut(strips):
    points, ends, _ = strips
    one, two = (cut(points, ends, 3, nodes=30, seed=4) for _ in range(2))
    assert np.array_equal(one, two) and len(set(one)) == 3


def test_fewer_nodes_than_clusters_and_equal_rows_are_survived():
    points = np.zeros((6, 2))
    labels = cut(points, [points], 3, nodes=1)
    assert labels.shape == (6,) and set(labels) <= {0, 1, 2}


def test_kmeans_never_asks_for_more_centres_than_rows():
    labels, centres = tightest_kmeans(np.array([[0.0], [1.0]]), 5, seed=0)
    assert sorted(labels) == [0, 1] and len(centres) == 2


def test_kmeans_from_given_centres_keeps_their_order_and_type_and_can_be_repeated():
    truth, rng = np.repeat([2, 0, 1], 400), np.random.default_rng(0)
    x = (10 * np.eye(3)[truth] + rng.normal(size=(1200, 3))).astype(np.float32)
    labels, centres = kmeans_from(x, x[[400, 800, 0]])
    assert np.array_equal(labels, truth) and centres.dtype == np.float32
    x = rng.normal(size=(20_000, 8)).astype(np.float32)  # enough for several threads
    first, *again = (kmeans_from(x, x[:10]) for _ in range(5))
    assert all(np.array_equal(one, two) for other in again for one, two in zip(first, other, strict=True))


def test_an_empty_cluster_takes_the_farthest_row():
    labels, _ = kmeans_from(np.array([[0.0], [0.2], [0.1], [5.0]]), np.array([[0.0], [100.0]]))
    assert labels.tolist() == [0, 0, 0, 1]
    assert np.array_equal(kmeans_from(np.ones((5, 2)), np.ones((3, 2)))[1], np.ones((3, 2)))


def test_an_outlier_is_not_the_cheapest_cut(strips):
    """Its walks never leave it, so cutting it off costs nothing; if too small to be a node, it joins its neighbours."""
    points, ends, truth = strips
    points = np.concatenate([points, [[30.0, 1.0]]])
    # One walk in a hundred crosses between the strips, so the right cut has a cost.
    ends = [np.concatenate([end, [[30.0, 1.0]]]) for end in ends]
    ends[0][:10, 1] = 1.0
    alone = cut(points, ends, 2, nodes=30)
    assert min(np.bincount(alone)) == 1
    kept = cut(points, ends, 2, nodes=30, fewest=3)
    assert agreement(kept[:-1], truth) == 1.0


# ---- in a run ----


@pytest.fixture
def on(tiny):
    """A function: the engine of a run on rows of its own."""

    def make(rows, n_clusters=2, **changes) -> Engine:
        return Engine(prepare(rows, tiny(**changes), n_clusters), seed=0)

    return make


def curves(n=150):
    """Two parallel strips, ten times as long as they are far apart: k-means and mixtures of blobs cut them across."""
    rng = np.random.default_rng(1)
    along = np.concatenate([np.linspace(0, 10, n)] * 2)
    points = np.stack([along, np.repeat([0.0, 1.0], n)], axis=1) + rng.normal(0, 0.02, (2 * n, 2))
    return points, np.repeat([0, 1], n)


@pytest.mark.parametrize("kind", STARTS)
def test_every_kind_finds_clear_groups_and_the_same_ones_again(blobs, on, kind):
    one, two = (find_start(on(blobs), kind) for _ in range(2))
    assert one.shape == (80,) and agreement(one, np.repeat([0, 1], 40)) == 1.0
    assert np.array_equal(one, two)


def test_a_cut_of_neighbours_follows_curves_that_k_means_cuts_across(on):
    points, truth = curves()
    points[:, 1] *= 20  # columns are scaled to one unit
    run = on(points, scaling="none", start__nodes=60)
    run.x[:, 1] /= 20
    assert agreement(find_start(run, "neighbours"), truth) == 1.0
    assert agreement(find_start(run, "kmeans"), truth) < 0.9


def test_a_mixture_tells_a_dense_group_from_a_wide_one_that_k_means_cuts(on):
    rng = np.random.default_rng(0)
    points = np.vstack([rng.normal(0, 3, (150, 2)), rng.normal([4, 0], 0.2, (150, 2))])
    run, truth = on(points, scaling="none"), np.repeat([0, 1], 150)
    assert agreement(find_start(run, "mixture"), truth) > 0.97
    assert agreement(find_start(run, "kmeans"), truth) < 0.9


@pytest.mark.parametrize("kind", STARTS)
def test_every_kind_survives_rows_that_are_all_alike_and_fewer_rows_than_clusters(on, kind):
    for rows, n_clusters in ((np.ones((30, 3)), 3), (np.eye(4)[:, :3] + 1e-3, 4)):
        labels = find_start(on(rows, n_clusters), kind)
        assert labels.shape == (len(rows),) and set(labels) <= set(range(n_clusters))


@pytest.mark.parametrize("kind", STARTS)
def test_of_many_rows_a_sample_decides_and_the_others_join(blobs, on, monkeypatch, kind):
    monkeypatch.setattr(starts, "START_ROWS", 50)
    labels = find_start(on(blobs), kind)
    assert labels.shape == (80,) and agreement(labels, np.repeat([0, 1], 40)) == 1.0


def test_a_sample_repeats_no_row_and_keeps_their_order(monkeypatch):
    monkeypatch.setattr(starts, "START_ROWS", 50)
    places = some_places(200, seed=1)
    assert len(places) == 50 and (np.diff(places) > 0).all() and places.max() < 200
    assert np.array_equal(some_places(200, seed=1), places) and not np.array_equal(some_places(200, seed=2), places)
    assert np.array_equal(some_places(30, seed=1), np.arange(30))


def test_kmeans_of_a_sample_labels_every_row(monkeypatch):
    monkeypatch.setattr("gedi.training.start.START_ROWS", 40)
    x = np.vstack([np.random.default_rng(i).normal(3.0 * i, 0.1, (100, 2)) for i in range(3)])
    labels, centres = tightest_kmeans(x, 3, seed=0, n_init=5)
    assert len(centres) == 3
    assert [len(set(labels[i : i + 100])) for i in (0, 100, 200)] == [1, 1, 1] and len(set(labels)) == 3


def test_a_fit_of_more_rows_than_the_start_samples(monkeypatch):
    monkeypatch.setattr("gedi.training.start.START_ROWS", 60)
    x = np.vstack([np.random.default_rng(i).normal(4.0 * i, 0.3, (100, 2)) for i in range(2)])
    labels = GEDI(n_clusters=2, preset="smoke", random_state=0).fit_predict(x)
    assert agreement(labels, np.repeat([0, 1], 100)) > 0.95
