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


def test_a_row_that_is_usual_by_both_scores_has_0_and_the_units_of_log_p_do_not_matter():
    class Scaled(Round):
        def score_samples(self, x):
            return 7 * super().score_samples(x) - 3

    assert outlier_scores(Round(), TRAIN, np.zeros((1, 3))) == 0.0
    assert outlier_scores(Scaled(), TRAIN, TRAIN) == pytest.approx(outlier_scores(Round(), TRAIN, TRAIN))


def test_one_of_the_two_scores_is_enough():
    class Ring:
        def score_samples(self, x):
            return -np.square(np.linalg.norm(x, axis=1) - 3) / 0.02

    angles = np.random.default_rng(0).uniform(0, 2 * np.pi, 500)
    ring = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + np.random.default_rng(1).normal(0, 0.1, (500, 2))
    in_the_middle, far_away = outlier_scores(Ring(), ring, np.array([[0.0, 0.0], [9.0, 9.0]]))
    assert min(in_the_middle, far_away) > outlier_scores(Ring(), ring, ring).max()

    class Blind:
        def score_samples(self, x):
            return np.zeros(len(x))

    assert outlier_scores(Blind(), TRAIN, np.full((1, 3), 9.0)) > outlier_scores(Blind(), TRAIN, TRAIN).max()


@pytest.mark.parametrize("rows", [np.zeros((4, 2)), np.zeros(3)])
def test_other_columns_are_refused(rows):
    with pytest.raises(DataError, match="same columns"):
        tail_scores(TRAIN, rows)
