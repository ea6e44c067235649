"""Columns that are one-hot from the start count as categories."""

import numpy as np
import pytest

from gedi.data.table_rows import categories
from gedi.training.build import prepare
from gedi.training.presets import configure

rng = np.random.default_rng(0)


def one_hot(k, n=200):
    return np.eye(k)[rng.integers(0, k, n)]


def test_runs_of_one_hot_columns_are_found_between_numbers():
    x = np.hstack([rng.normal(size=(200, 2)), one_hot(3), one_hot(4), rng.normal(size=(200, 1)), one_hot(2)])
    assert categories(x) == [[2, 3, 4], [5, 6, 7, 8], [10, 11]]


def test_a_yes_or_no_beside_them_is_not_part_of_a_category():
    x = np.hstack([rng.integers(0, 2, (200, 1)), one_hot(3), rng.normal(size=(200, 1))])
    assert categories(x) == [[1, 2, 3]]


@pytest.mark.parametrize(
    "x", [rng.normal(size=(50, 4)), rng.integers(0, 2, (50, 6)), np.zeros((50, 3)), 2 * one_hot(3)]
)
def test_other_columns_are_numbers(x):
    assert categories(x) == []


def test_a_late_row_that_is_not_one_hot_is_seen():
    x = one_hot(3, 3000)
    x[-1] = 1
    assert categories(x) == []


def test_pixels_are_never_categories():
    assert categories(one_hot(64), images=True) == []


def test_their_variances_add_up_to_one_as_those_of_words_do():
    x = np.hstack([5 * rng.normal(size=(200, 6)), one_hot(4)])
    config = configure(None, "gedi", n_features=10, has_words=True)
    ready = prepare(x, config, 2)
    scaled = ready.scaler.transform(x)
    assert ready.words == [[6, 7, 8, 9]]
    assert scaled[:, :6].var(0) == pytest.approx(1.0, abs=1e-4)
    assert scaled[:, 6:].var(0).sum() == pytest.approx(1.0, abs=1e-4)
