import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from gedi.errors import DataError
from gedi.evaluation import auroc, density_scores, foreign_rows, ood_scores

rng = np.random.default_rng(0)
scores = st.lists(st.integers(-5, 5), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(own=scores, foreign=scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order(own, foreign):
    pairs = [(a > b) + 0.5 * (a == b) for a in own for b in foreign]
    assert auroc(own, foreign) == pytest.approx(np.mean(pairs))
    assert auroc(foreign, own) == pytest.approx(1 - np.mean(pairs))


def test_infinite_scores_are_ordered_too():
    assert auroc([np.inf, 0.0], [-np.inf, -1.0]) == 1.0


def test_auroc_of_two_gaussians_is_known():
    own, foreign = rng.standard_normal(20_000) + 1.5, rng.standard_normal(20_000)
    assert auroc(own, foreign) == pytest.approx(norm.cdf(1.5 / np.sqrt(2)), abs=0.01)


class Gaussian:
    """log p = -|x|^2 / 2, with gradient -x: all scores are known. Its training rows had d columns."""

    def __init__(self, d=3):
        self.typical_parts = np.array([[-d / 2], [1.0]])  # about the median of log p

    def score_samples(self, x):
        return -0.5 * (x**2).sum(1)

    def typicality(self, x):
        return -np.abs(self.score_samples(x) - self.typical_parts[0])

    def ood_score(self, x):
        return -np.linalg.norm(x, axis=1)


def test_both_criteria_are_scored():
    own, foreign = rng.standard_normal((500, 3)), 2 * rng.standard_normal((500, 3))
    found = ood_scores(Gaussian(), own, foreign)
    lengths = [np.linalg.norm(x, axis=1) for x in (own, foreign)]
    # For a Gaussian, both scores fall with |x|.
    expected = auroc(-lengths[0], -lengths[1])
    assert found["auroc_gradient"] == pytest.approx(expected) and found["auroc_log_density"] == pytest.approx(expected)
    assert 0.7 < found["auroc_gradient"] < 0.95


def test_rows_that_are_too_likely_are_not_typical():
    own, centre = rng.standard_normal((500, 40)), 0.1 * rng.standard_normal((500, 40))
    found = ood_scores(Gaussian(40), own, centre)
    assert found["auroc_log_density"] < 0.05 and found["auroc_typicality"] > 0.95


def test_what_is_typical_is_said_by_the_model_and_not_by_the_rows_that_are_scored():
    near, far = 0.1 * rng.standard_normal((500, 40)), rng.standard_normal((500, 40))
    assert ood_scores(Gaussian(40), near, far)["auroc_typicality"] < 0.05  # "own" rows unlike the training rows


def test_a_model_saved_without_typicality_is_scored_by_the_rest():
    old = Gaussian()
    old.typical_parts = None
    assert ood_scores(old, np.eye(3), 2 * np.eye(3)).keys() == {"auroc_gradient", "auroc_log_density"}


class Ridge:
    """log p of rows whose two columns are equal up to noise."""

    def score_samples(self, x):
        return -((x[:, 0] - x[:, 1]) ** 2)


def test_a_density_is_judged_against_uniform_noise_and_against_shuffled_columns():
    own = rng.standard_normal((1000, 1)) + [[0.0, 0.0]] + 0.05 * rng.standard_normal((1000, 2))
    assert min(density_scores(Ridge(), own).values()) > 0.95
    alone = density_scores(Gaussian(), rng.standard_normal((2000, 2)))
    assert alone["auroc_uniform"] > 0.8  # it knows where the rows are,
    assert alone["auroc_shuffled"] == pytest.approx(0.5, abs=0.03)  # and columns that depend on nothing lose nothing
    assert density_scores(Ridge(), own, seed=1) != density_scores(Ridge(), own) == density_scores(Ridge(), own, seed=0)


def test_shuffled_columns_keep_their_values_and_noise_stays_in_range():
    rows = np.column_stack([np.arange(50), 100 + np.arange(50)]).astype(float)
    found = foreign_rows(rows)
    assert np.array_equal(np.sort(found["shuffled columns"], axis=0), rows)
    assert not np.array_equal(found["shuffled columns"], rows)
    noise = found["uniform noise"]
    assert (noise >= rows.min(0)).all() and (noise <= rows.max(0)).all()


def test_impossible_scores_are_refused():
    with pytest.raises(DataError, match="one score per row"):
        auroc([], [1.0])
    with pytest.raises(DataError, match="one score per row"):
        auroc(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="1 of the 3 scores are NaN"):
        auroc([1.0, np.nan], [0.0])
