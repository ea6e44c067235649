import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from gedi.errors import DataError
from gedi.evaluation import auroc, gradient_score, ood_auroc, ood_scores

rng = np.random.default_rng(0)
scores = st.lists(st.integers(-5, 5), min_size=1, max_size=20)


@settings(max_examples=50, deadline=None)
@given(own=scores, foreign=scores)
def test_auroc_is_the_share_of_pairs_in_the_right_order(own, foreign):
    pairs = [(a > b) + 0.5 * (a == b) for a in own for b in foreign]
    assert auroc(own, foreign) == pytest.approx(np.mean(pairs))
    assert auroc(foreign, own) == pytest.approx(1 - np.mean(pairs))


def test_infinite_scores_have_an_order_too():
    assert auroc([np.inf, 0.0], [-np.inf, -1.0]) == 1.0


def test_auroc_of_two_gaussians_is_known():
    own, foreign = rng.standard_normal(20_000) + 1.5, rng.standard_normal(20_000)
    assert auroc(own, foreign) == pytest.approx(norm.cdf(1.5 / np.sqrt(2)), abs=0.01)


@pytest.mark.parametrize("shape", [(10, 7), (10, 3, 4, 5)])
def test_the_gradient_score_is_minus_the_length(shape):
    g = rng.standard_normal(shape)
    assert np.allclose(gradient_score(g), [-np.sqrt((row**2).sum()) for row in g])
    assert gradient_score(np.full((1, 4), 1e30, dtype=np.float32))[0] == pytest.approx(-2e30)  # no overflow on the way


class Gaussian:
    """log p = -|x|^2 / 2 and its gradient -x: both scores are known."""

    def score_samples(self, x):
        return -0.5 * (x**2).sum(1)

    def ood_score(self, x):
        return gradient_score(-x)


def test_both_criteria_from_arrays_and_from_a_model():
    own, foreign = rng.standard_normal((500, 3)), 2 * rng.standard_normal((500, 3))
    model = Gaussian()
    found = ood_auroc(
        own_log_density=model.score_samples(own),
        foreign_log_density=model.score_samples(foreign),
        own_gradient=-own,
        foreign_gradient=-foreign,
    )
    assert found == ood_scores(model, own, foreign)
    # For a Gaussian both orders are that of |x|.
    assert found["auroc_gradient"] == pytest.approx(found["auroc_log_density"]) and 0.7 < found["auroc_gradient"] < 0.95


def test_scores_that_cannot_be():
    with pytest.raises(DataError, match="one score a row"):
        auroc([], [1.0])
    with pytest.raises(DataError, match="one score a row"):
        auroc(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="1 of the 3 scores are NaN"):
        auroc([1.0, np.nan], [0.0])
    with pytest.raises(DataError, match="one gradient a row"):
        gradient_score(np.zeros(4))
