"""The likelihood of held-out rows under a Gaussian per cluster."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture

from gedi.training.evidence import best_mixture, explained, held_out_log_likelihood

ROUND, TRUTH = make_blobs(600, centers=[[0, 0], [6, 0], [0, 6]], random_state=0)


def test_right_clusters_explain_held_out_rows_better_than_wrong_ones():
    random = np.random.default_rng(0).permutation(TRUTH)
    merged, split = np.minimum(TRUTH, 1), np.where(ROUND[:, 0] > 0, TRUTH, TRUTH + 3)
    scores = [held_out_log_likelihood(ROUND, labels) for labels in (TRUTH, split, merged, random)]
    assert scores == sorted(scores, reverse=True)


def test_with_one_cluster_it_is_the_likelihood_of_a_gaussian():
    x = np.random.default_rng(1).normal(size=(2000, 3)) @ np.diag([1.0, 3.0, 0.2])
    least = np.sort(multivariate_normal(np.zeros(3), np.diag([1.0, 9.0, 0.04])).logpdf(x))[40:]
    assert held_out_log_likelihood(x, np.zeros(2000, int)) == pytest.approx(least.mean(), abs=0.01)


def test_the_numbers_of_clusters_do_not_matter():
    assert held_out_log_likelihood(ROUND, TRUTH) == held_out_log_likelihood(ROUND, np.array([7, 0, 3])[TRUTH])


@pytest.mark.parametrize("rows", [5, 12])
def test_it_is_finite_for_clusters_of_one_row_and_constant_columns(rows):
    x = np.random.default_rng(0).normal(size=(rows, 4))
    x[:, 1] = 2.0
    assert np.isfinite(held_out_log_likelihood(x, np.arange(rows)))


def test_clusters_that_only_repeat_a_category_explain_nothing():
    """A Gaussian would grow without bound on rows that share a word; frequencies do not."""
    rng = np.random.default_rng(0)
    truth, noise = rng.integers(2, size=400), rng.integers(2, size=400)
    x = np.column_stack([8.0 * truth + rng.normal(size=400), 2.0 * noise, 0.01 * rng.normal(size=400)])
    right, wrong, none = (held_out_log_likelihood(x, labels) for labels in (truth, noise, np.zeros(400, int)))
    assert right > none + 0.2 and abs(wrong - none) < 0.1
    assert held_out_log_likelihood(x, truth, [[1]]) == right  # a word, or a column of few numbers: the same


def test_categories_alone_have_a_likelihood():
    flags = np.random.default_rng(2).integers(0, 3, (600, 2)).astype(float)
    assert held_out_log_likelihood(flags, np.zeros(600, int)) == pytest.approx(-2 * np.log(3), abs=0.05)


def test_words_are_counted_though_their_features_are_spread():
    rng = np.random.default_rng(0)
    truth, noise = rng.integers(2, size=400), rng.integers(2, size=400)
    x = np.column_stack([8.0 * truth + rng.normal(size=400), 2.0 * noise + 0.05 * rng.normal(size=400)])
    right, wrong, none = (held_out_log_likelihood(x, labels, [[1]]) for labels in (truth, noise, np.zeros(400, int)))
    assert right > none + 0.2 and abs(wrong - none) < 0.1
    assert held_out_log_likelihood(x, noise) > held_out_log_likelihood(x, truth)  # what the words prevent
    assert held_out_log_likelihood(x[:, 1:], noise, [[0]]) == pytest.approx(np.log(0.5), abs=0.02)


def test_without_words_the_mixture_is_that_of_scikit_learn():
    ours = best_mixture(explained(ROUND, []), ROUND, 3, tries=2).log_joint(explained(ROUND, []))
    theirs = GaussianMixture(3, random_state=0).fit(ROUND)
    assert np.logaddexp.reduce(ours, axis=1).mean() == pytest.approx(theirs.score(ROUND), abs=0.02)
    assert adjusted_rand_score(ours.argmax(1), theirs.predict(ROUND)) > 0.99


def test_a_mixture_finds_clusters_that_words_agree_on_and_not_their_combinations():
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=800)
    agreeing = [np.eye(3)[np.where(rng.random(800) < 0.9, truth, 2)] for _ in range(4)]
    others = [np.eye(4)[rng.integers(4, size=800)] for _ in range(2)]
    x = np.column_stack([*agreeing, *others, rng.normal(size=800)])
    words = [[3 * i + j for j in range(3)] for i in range(4)] + [[12 + 4 * i + j for j in range(4)] for i in range(2)]
    rows = explained(x, words)
    assert adjusted_rand_score(best_mixture(rows, x, 2, tries=3).log_joint(rows).argmax(1), truth) > 0.95


def test_beside_words_a_value_that_fills_a_column_is_not_a_cluster():
    """Zeros of a discount, or seats with filled gaps: a Gaussian would grow without bound on them."""
    rng = np.random.default_rng(0)
    zeros = np.where(rng.random(600) < 0.7, 0.0, rng.gamma(2.0, size=600))
    x = np.column_stack([rng.normal(size=600), zeros, np.eye(3)[rng.integers(3, size=600)]])
    rows = explained(x, [[2, 3, 4]])
    assert rows.numbers.shape[1] == 1 and [level.shape[1] for level in rows.levels] == [3, 3]
    assert explained(x[:, :2], []).numbers.shape[1] == 2
