"""Clusters with gaps around them are told from arbitrary cuts, whatever their shape; rivals are measured alike."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from gedi.data import toys
from gedi.report import gaps
from gedi.report.gaps import K_MEANS, MIXTURE, compare_rivals, neighbour_links, spread_steps

rng = np.random.default_rng(0)
NOISE = {
    "a square": rng.uniform(size=(600, 2)),
    "a strip": rng.uniform(size=(600, 2)) * [4, 1],
    "a cube": rng.uniform(size=(600, 5)),
    "a Gaussian": rng.normal(size=(600, 2)),
    "a Gaussian of ten columns": rng.normal(size=(600, 10)),
}


def find_gaps(x, labels):
    return gaps.find_gaps(x, labels, neighbour_links(x), (), {})


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_arbitrary_cuts_through_noise_are_crowded(name, n_clusters):
    x = NOISE[name]
    cut = KMeans(n_clusters, n_init=3, random_state=0).fit_predict(x)
    assert find_gaps(x, cut).crowding > 0.6


@pytest.mark.parametrize("shape", [toys.moons, toys.circles, toys.blobs, toys.links])
def test_true_clusters_of_any_shape_have_gaps_around_them_and_none_inside(shape):
    x, y = shape(800, seed=0)
    found = find_gaps(x, y)
    assert found.crowding < 0.2 and not found.crowded and not found.hidden


def test_a_cut_across_moons_is_crowded_though_it_is_round_and_balanced():
    x, _ = toys.moons(800, seed=0)
    assert find_gaps(x, (x[:, 0] > 0.5).astype(int)).crowding > 1


def test_merged_clusters_hide_a_gap_and_halved_clusters_are_crowded():
    x, y = toys.blobs(800, seed=0)
    assert find_gaps(x, np.minimum(y, 3)).hidden == [3]
    halves = np.where((y == 0) & (x[:, 0] > np.median(x[y == 0, 0])), 5, y)
    assert find_gaps(x, halves).crowded == [0, 5]


def test_outliers_are_not_clusters():
    x = np.concatenate([rng.normal(size=(300, 2)), [[50.0, 50.0]] * 2])
    assert find_gaps(x, np.repeat([0, 1], [300, 2])).crowding is None


def test_the_gap_between_the_values_of_one_column_says_nothing():
    by_flag = rng.integers(0, 2, 600)
    x = np.column_stack([rng.normal(size=(600, 2)), by_flag / by_flag.std()])
    assert find_gaps(x, by_flag).crowding < 0.1
    assert find_gaps(spread_steps(x), by_flag).crowding > 0.6


def test_steps_are_spread_around_their_values_and_other_columns_stay():
    x = np.column_stack([rng.normal(size=50), np.arange(50) % 3])
    spread = spread_steps(x)
    assert np.array_equal(spread[:, 0], x[:, 0]) and len(np.unique(spread[:, 1])) == 50
    assert np.array_equal(np.rint(spread[:, 1]), x[:, 1])
    assert np.array_equal(spread_steps(np.ones((5, 1))), np.ones((5, 1)))


def test_rivals_have_as_many_clusters_and_are_measured_on_the_same_rows():
    x, y = toys.circles(400, seed=0)
    own, rivals = compare_rivals(x.astype(np.float64), y, 2, images=False)
    assert own.crowding == 0 and own.agreement == 1 and set(rivals) == {K_MEANS, MIXTURE}
    for rival in rivals.values():
        assert rival.labels.shape == y.shape and len(np.unique(rival.labels)) == 2
        assert rival.crowding > 0.8 and rival.agreement < 0.1 and rival.silhouette > own.silhouette


def test_a_cluster_that_rivals_find_too_is_measured_once(monkeypatch):
    y = np.repeat([0, 1, 2], 40)
    sizes, measure = [], gaps._surroundings
    monkeypatch.setattr(gaps, "_surroundings", lambda x, *more: sizes.append(len(x)) or measure(x, *more))
    own, rivals = compare_rivals(rng.normal(size=(120, 2)) + 20 * np.eye(3)[y, :2], y, 3, images=False)
    assert sizes == [40] * 3
    for rival in rivals.values():
        assert rival.agreement == 1 and rival.crowding == own.crowding


@pytest.mark.parametrize("x", [np.zeros((60, 2)), np.repeat(np.eye(3), 40, axis=0)])
def test_rows_without_variety_have_rivals_too(x):
    own, rivals = compare_rivals(x, np.arange(len(x)) % 4, 4, images=False)
    assert own is not None and len(rivals) == 2


def test_a_handful_of_rows_has_no_rivals():
    assert compare_rivals(np.eye(5), np.arange(5), 5, images=False) == (None, {})
