"""The prior on clusters that needs no Sinkhorn-Knopp, and how clusterings are judged."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from gedi.objectives.clustering import (
    agreement,
    cluster_log_probs,
    entropy,
    invariance_loss,
    marginal,
    marginal_kl,
    prior_clustering_loss,
    unexplained_share,
)

SKEWED = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def log_probs(n=30, c=4, seed=0, tau=1.0):
    return torch.log_softmax(torch.randn(n, c, generator=gen(seed), dtype=torch.float64) / tau, dim=1)


def certain(labels, c):
    """log p of predictions that are all but certain."""
    return cluster_log_probs(torch.nn.functional.one_hot(labels, c).double(), tau=0.01)


# The prior on clusters


def numpy_loss(one, two, prior, marginals):
    """The loss of two views from probabilities, one row after the other."""
    p, q = (values.exp().numpy() for values in (one, two))
    pairs = zip(p, q, strict=True)
    agreement = np.mean([-(a @ np.log(b) + b @ np.log(a)) / 2 for a, b in pairs])
    mean = np.vstack([p, q]).mean(0)
    return agreement + prior * sum(m * math.log(m / size) for m, size in zip(mean, marginals, strict=True))


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 999), n=st.integers(1, 30), tau=st.floats(0.1, 2), prior=st.floats(0, 5), skewed=st.booleans()
)
def test_the_loss_equals_one_computed_row_by_row(seed, n, tau, prior, skewed):
    one, two = log_probs(n, seed=seed, tau=tau), log_probs(n, seed=seed + 1, tau=tau)
    loss = prior_clustering_loss(agreement(one, two), prior=prior, marginals=SKEWED if skewed else None)
    expected = numpy_loss(one, two, prior, SKEWED.tolist() if skewed else [0.25] * 4)
    assert float(loss) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_marginal_and_entropy_are_those_of_the_mean_prediction():
    values = log_probs()
    mean = values.exp().numpy().mean(0)
    assert np.allclose(marginal(values).exp().numpy(), mean)
    assert float(entropy(marginal(values))) == pytest.approx(-sum(m * math.log(m) for m in mean))
    assert torch.allclose(entropy(values), -(values.exp() * values).sum(1))


def test_marginal_kl_is_zero_where_the_mean_is_the_prior_and_positive_elsewhere():
    balanced, collapsed = (marginal(certain(labels, 4)) for labels in (torch.arange(40) % 4, torch.zeros(40).long()))
    assert abs(marginal_kl(balanced)) < 1e-12 and abs(marginal_kl(SKEWED.log(), SKEWED)) < 1e-12
    assert float(marginal_kl(collapsed)) == pytest.approx(math.log(4))
    assert float(marginal_kl(collapsed, SKEWED)) == pytest.approx(-math.log(0.5))
    uniform = torch.full((4,), 0.25, dtype=torch.float64)
    values = marginal(log_probs())
    assert torch.allclose(marginal_kl(values, uniform), marginal_kl(values))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.1, 2))
def test_marginal_kl_and_entropy_add_up_to_the_information_that_is_missing(seed, tau):
    values = log_probs(seed=seed, tau=tau)
    p, mean = values.exp(), values.exp().mean(0)
    information = (p * (values - mean.log())).sum(1).mean()  # I(x; y) for x uniform on the batch
    lacking = marginal_kl(marginal(values)) + entropy(values).mean()
    assert torch.allclose(lacking, math.log(4) - information)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.1, 2), prior=st.floats(0, 5))
def test_the_loss_is_entropy_disagreement_and_imbalance(seed, tau, prior):
    one, two = log_probs(seed=seed, tau=tau), log_probs(seed=seed + 1, tau=tau)
    uncertainty = (entropy(one) + entropy(two)).mean() / 2
    disagreement = ((one.exp() - two.exp()) * (one - two)).sum(1).mean() / 2  # half of Jeffreys' divergence
    imbalance = marginal_kl(marginal(torch.cat([one, two])))
    loss = prior_clustering_loss(agreement(one, two), prior=prior)
    assert torch.allclose(loss, uncertainty + disagreement + prior * imbalance)
    assert torch.allclose(loss, prior_clustering_loss(agreement(two, one), prior=prior))
    assert loss >= 0


@pytest.mark.parametrize("prior", [0.5, 2.0])
def test_the_loss_is_zero_for_certain_equal_balanced_views_and_every_failure_costs(prior):
    labels = torch.arange(40) % 4
    good = certain(labels, 4)
    flat = torch.full((40, 4), -math.log(4), dtype=torch.float64)
    collapsed, shuffled = certain(0 * labels, 4), certain(labels.roll(1), 4)
    assert abs(prior_clustering_loss(agreement(good, good), prior=prior)) < 1e-6
    assert float(prior_clustering_loss(agreement(flat, flat), prior=prior)) == pytest.approx(math.log(4))
    assert float(prior_clustering_loss(agreement(collapsed, collapsed), prior=prior)) == pytest.approx(
        prior * math.log(4)
    )
    assert prior_clustering_loss(agreement(good, shuffled), prior=prior) > 10


def test_the_loss_knows_clusters_of_unequal_sizes():
    labels = torch.repeat_interleave(torch.arange(4), torch.tensor([20, 12, 6, 2]))  # SKEWED
    skewed, balanced = certain(labels, 4), certain(torch.arange(40) % 4, 4)
    assert abs(prior_clustering_loss(agreement(skewed, skewed), prior=1.0, marginals=SKEWED)) < 1e-6
    assert prior_clustering_loss(agreement(balanced, balanced), prior=1.0, marginals=SKEWED) > 0.1
    assert prior_clustering_loss(agreement(skewed, skewed), prior=1.0) > 0.1


@pytest.mark.parametrize("marginals", [None, SKEWED])
def test_the_prior_has_the_gradient_of_finite_differences(marginals):
    one, two = (torch.randn(5, 4, generator=gen(s), dtype=torch.float64, requires_grad=True) for s in (1, 2))

    def loss(a, b):
        a, b = cluster_log_probs(a, 0.5), cluster_log_probs(b, 0.5)
        return prior_clustering_loss(agreement(a, b), prior=0.7, marginals=marginals)

    assert gradcheck(loss, (one, two))
    assert gradcheck(lambda a, b: invariance_loss(*(cluster_log_probs(v, 0.5) for v in (a, b))), (one, two))
    assert gradcheck(lambda a: marginal_kl(marginal(cluster_log_probs(a, 0.5)), marginals), one)


def test_every_head_has_its_own_loss():
    one, two = (torch.stack([log_probs(seed=s + k) for s in range(3)]) for k in (0, 10))
    pairs = list(zip(one, two, strict=True))
    for function in (
        lambda a, b: prior_clustering_loss(agreement(a, b), prior=0.7, marginals=SKEWED),
        lambda a, b: unexplained_share(agreement(a, b)),
    ):
        together = function(one, two)
        assert together.shape == (3,) and torch.allclose(together, torch.stack([function(*pair) for pair in pairs]))


# Judging


@pytest.mark.parametrize("sizes", [[10, 10, 10, 10], [20, 12, 6, 2], [38, 2, 0, 0]])
def test_nothing_is_unexplained_where_views_are_certain_and_equal_whatever_the_sizes(sizes):
    sure = certain(torch.repeat_interleave(torch.arange(4), torch.tensor(sizes)), 4)
    assert 0 <= float(unexplained_share(agreement(sure, sure))) < 0.01


def test_all_is_unexplained_where_nothing_is_known_and_more_where_views_are_wrongly_certain():
    flat = torch.full((4000, 4), -math.log(4), dtype=torch.float64)
    assert float(unexplained_share(agreement(flat, flat))) == pytest.approx(1.0, abs=0.01)
    drawn = SKEWED.log().repeat(100, 1)  # unequal sizes, but the same for every row
    assert float(unexplained_share(agreement(drawn, drawn))) == pytest.approx(1.0, abs=0.01)
    one, two = (torch.randint(4, (4000,), generator=gen(s)) for s in (1, 2))
    unrelated = unexplained_share(
        agreement(*(cluster_log_probs(torch.nn.functional.one_hot(v, 4), 0.5) for v in (one, two)))
    )
    assert unrelated > 1.0
    assert unexplained_share(agreement(certain(one, 4), certain(two, 4))) > unrelated


def test_one_cluster_for_all_explains_nothing():
    """Views agree, but say nothing: the invariance alone would take this for the best clustering there is."""
    one = certain(torch.zeros(40, dtype=torch.long), 4)
    assert invariance_loss(one, one) < 1e-6
    assert unexplained_share(agreement(one, one)) > 100


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.1, 2), order=st.permutations(range(4)))
def test_what_is_unexplained_does_not_depend_on_the_clusters_numbers(seed, tau, order):
    one, two = log_probs(seed=seed, tau=tau), log_probs(seed=seed + 1, tau=tau)
    share = unexplained_share(agreement(one, two))
    assert torch.allclose(unexplained_share(agreement(one[:, order], two[:, order])), share)
    assert torch.allclose(unexplained_share(agreement(two, one)), share)
    p, q = one.exp(), two.exp()
    cross = -((p * two + q * one).sum(1).mean()) / 2
    mean = torch.cat([p, q]).mean(0)
    assert torch.allclose(share, (cross + 1e-3) / -(mean * mean.log()).sum())


def test_a_clearer_clustering_is_judged_better():
    labels = torch.arange(60) % 3
    scores = torch.nn.functional.one_hot(labels, 3).double()
    noise = torch.randn(2, 60, 3, generator=gen(), dtype=torch.float64)
    shares = [
        float(unexplained_share(agreement(*(cluster_log_probs(scores * clear + 0.3 * some, 1.0) for some in noise))))
        for clear in (0.0, 1.0, 2.0, 4.0, 8.0)
    ]
    assert shares == sorted(shares, reverse=True) and shares[-1] < 0.02
