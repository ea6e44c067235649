"""Near rows: what is found, for few rows and for many."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from gedi.data import Scaler, neighbours
from gedi.data.neighbours import nearest_neighbours, neighbour_table, partial_views
from gedi.data.scaled_rows import scaled


@pytest.fixture
def in_cells(monkeypatch):
    """As if 50 rows were too many to compare all of them."""
    monkeypatch.setattr(neighbours, "EXACT_ROWS", 50)
    monkeypatch.setattr(neighbours, "CELL_ROWS", 20)
    monkeypatch.setattr(neighbours, "CELLS_SEARCHED", 8)


def points(n, d=3):
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def exact(x, k):
    distances, places = NearestNeighbors(n_neighbors=k).fit(x).kneighbors()
    return places, distances


def test_few_rows_are_compared_exactly():
    places, distances = nearest_neighbours(points(100), 5)
    np.testing.assert_array_equal(places, exact(points(100), 5)[0])
    np.testing.assert_allclose(distances, exact(points(100), 5)[1])


def test_cells_find_nearly_all_neighbours_and_their_distances(in_cells, monkeypatch):
    x = points(2000)
    for at_once in (1 << 23, 5000):  # in blocks, too
        monkeypatch.setattr(neighbours, "DISTANCES_AT_ONCE", at_once)
        places, distances = nearest_neighbours(x, 6)
        right = exact(x, 6)
        found = np.mean([len(np.intersect1d(a, b)) for a, b in zip(places, right[0], strict=True)]) / 6
        assert found > 0.9
        same = places == right[0]
        np.testing.assert_allclose(distances[same], right[1][same], rtol=1e-5)
        assert (np.diff(distances, axis=1) >= 0).all() and (places != np.arange(2000)[:, None]).all()


def test_cells_are_the_same_every_time(in_cells):
    first, second = (nearest_neighbours(points(500), 4).places for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_rows_that_are_all_alike_do_not_share_one_cell(in_cells):
    x = np.vstack([np.zeros((900, 3)), points(100) + 50])
    sizes = [len(own) for own, _ in neighbours._cells(x, 5)]
    assert max(sizes) <= 2 * neighbours.CELL_ROWS and sum(sizes) == len(x)
    places, distances = nearest_neighbours(x, 4)
    assert (places[:900] < 900).all() and (distances[:900] == 0).all()
    assert (places != np.arange(1000)[:, None]).all()


def test_more_neighbours_than_the_nearest_cells_hold(in_cells):
    places = nearest_neighbours(points(300), 250).places
    assert all(len(set(line)) == 250 for line in places)


def test_a_row_is_not_its_own_neighbour_even_if_it_has_twins():
    x = np.repeat(points(10), 5, axis=0)
    places, distances = nearest_neighbours(x, 3)
    assert (places != np.arange(50)[:, None]).all() and (distances < 1e-6).all()


def test_neighbours_of_many_long_rows_are_searched_in_their_main_directions(monkeypatch):
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(80, 50)) @ rng.normal(size=(50, 120))
    data = torch.from_numpy(flat.astype(np.float32))
    whole = neighbour_table(data, 5)
    seen = []
    monkeypatch.setattr(neighbours, "MOST_PRODUCTS", 0)
    monkeypatch.setattr("sklearn.decomposition.PCA", lambda *a, **k: seen.append(a) or PCA(*a, **k))
    assert torch.equal(neighbour_table(data, 5), whole)  # 50 directions hold all of these rows
    assert seen == [(50,)]


def test_images_and_rows_have_the_same_table(in_cells):
    groups = np.random.default_rng(0).integers(0, 200, (2, 60))
    images = (np.tile(groups, (50, 1)) + np.random.default_rng(1).integers(0, 20, (100, 60))).astype(np.uint8)
    scaler = Scaler().fit(images, mode="pixels")
    table, places = neighbour_table(scaled(images, scaler), 4), torch.arange(100)[:, None]
    assert bool(((table != places) & (table % 2 == places % 2)).all())  # others, of the same group
    assert torch.equal(neighbour_table(torch.from_numpy(scaler.transform(images)), 4), table)


def test_near_rows_need_not_share_any_one_word():
    """Every category is missing from half of the views, and numbers from none."""
    x = np.tile(np.arange(5.0), (4, 1))
    views = partial_views(x, [[1], [2, 3], [4]])
    counts = [sum(place in view[0] for view in views) for place in range(5)]
    assert counts == [len(views), *[len(views) // 2] * 4]
    assert [view.shape for view in partial_views(x, [])] == [x.shape]
    assert all(view.shape[1] for view in partial_views(x[:, :2], [[0], [1]]))


def test_a_noisy_category_does_not_decide_who_is_near():
    rng = np.random.default_rng(0)
    word = np.arange(200) % 2
    x = torch.as_tensor(np.column_stack([rng.normal(size=200), 2.0 * word]), dtype=torch.float32)
    share = {
        name: float((word[neighbour_table(x, 5, words).numpy()] == word[:, None]).mean())
        for name, words in (("known", [[1]]), ("unknown", []))
    }
    assert share["unknown"] == 1.0 and share["known"] < 0.85
