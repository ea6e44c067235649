"""Scores of outliers in tables: by tails, and by tails and log p together."""

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.evaluation import outlier_scores, tail_scores

TRAIN = np.random.default_rng(0).normal(size=(500, 3))


class Round:
    """A density that falls with the distance from the origin."""

    def score_samples(self, x):
        return -np.square(x).sum(1)


def test_extreme_values_on_either_side_score_higher():
    middle, low, high = tail_scores(TRAIN, np.array([[0.0, 0, 0], [0, -9, 0], [0, 9, 0]]))
    assert low == pytest.approx(high, rel=0.01) and middle < low
    assert tail_scores(TRAIN, np.array([[9.0, 9, 9]])) == pytest.approx(3 * np.log(501))  # beyond all rows, three times


def test_units_do_not_matter():
    rows = TRAIN[:20] + 0.5
    assert tail_scores(TRAIN, rows) == pytest.approx(tail_scores(1000 * TRAIN + 3, 1000 * rows + 3))


def test_the_combined_score_is_a_mean_of_ranks_among_the_training_rows():
    assert outlier_scores(Round(), TRAIN, np.array([[50.0, 50, 50]])) == pytest.approx(1.0)
    assert outlier_scores(Round(), TRAIN, np.zeros((1, 3))) < 0.05
    assert outlier_scores(Round(), TRAIN, TRAIN).mean() == pytest.approx(0.5)


@pytest.mark.parametrize("rows", [np.zeros((4, 2)), np.zeros(3)])
def test_other_columns_are_refused(rows):
    with pytest.raises(DataError, match="same columns"):
        tail_scores(TRAIN, rows)
