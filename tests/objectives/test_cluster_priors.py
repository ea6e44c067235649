"""Cluster assignments by k-means, and the prior on clusters that needs no Sinkhorn-Knopp."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans as SklearnKMeans
from torch.autograd import gradcheck

from gedi.objectives.clustering import (
    cluster_log_probs,
    clustering_loss,
    kmeans_partition,
    marginal_kl,
    prediction_entropy,
    prior_clustering_loss,
)

SKEWED = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def log_probs(n=30, c=4, seed=0, tau=1.0):
    return torch.log_softmax(torch.randn(n, c, generator=gen(seed), dtype=torch.float64) / tau, dim=1)


def certain(labels, c):
    """log p of predictions that are all but certain."""
    return cluster_log_probs(torch.nn.functional.one_hot(labels, c).double(), tau=0.01)


def blobs(per_blob=20, seed=0):
    centres = 10 * torch.eye(3, dtype=torch.float64)
    truth = torch.arange(3).repeat_interleave(per_blob)
    return centres[truth] + torch.randn(3 * per_blob, 3, generator=gen(seed), dtype=torch.float64), truth


def inertia(z, result):
    return float(((z - result.assignments @ result.centres) ** 2).sum())


# k-means


@pytest.mark.parametrize("seed", range(5))
def test_kmeans_finds_separated_blobs(seed):
    z, truth = blobs(seed=seed)
    assignments = kmeans_partition(z, z[::20]).assignments
    table = assignments.T @ torch.nn.functional.one_hot(truth).double()
    assert sorted(table.flatten().tolist()) == [0.0] * 6 + [20.0] * 3


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(10, 60), c=st.integers(1, 5))
def test_kmeans_equals_sklearns_from_the_same_start(seed, n, c):
    z = torch.randn(n, 3, generator=gen(seed), dtype=torch.float64)
    start = z[torch.randperm(n, generator=gen(seed + 1))[:c]]
    ours = kmeans_partition(z, start, iterations=300)
    theirs = SklearnKMeans(c, init=start.numpy(), n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(z.numpy())
    assert np.array_equal(ours.assignments.argmax(1).numpy(), theirs.labels_)
    assert np.allclose(ours.centres.numpy(), theirs.cluster_centers_)


def test_kmeans_never_gets_worse_with_more_iterations():
    z = torch.randn(200, 5, generator=gen(), dtype=torch.float64)
    values = [inertia(z, kmeans_partition(z, z[:6], iterations=k)) for k in (0, 1, 2, 5, 20, 100)]
    assert values == sorted(values, reverse=True)
    assert values[-1] < values[0]


def test_kmeans_assignments_are_one_hot_and_go_into_the_clustering_loss():
    z, _ = blobs()
    q = kmeans_partition(z.requires_grad_(), z[::20]).assignments
    assert torch.equal(q.sum(1), torch.ones(60).double()) and set(q.unique().tolist()) == {0.0, 1.0}
    assert not q.requires_grad
    assert clustering_loss(q, certain(q.argmax(1), 3)) < 1e-6


def test_kmeans_keeps_the_numbers_of_its_start():
    z, _ = blobs()
    first = kmeans_partition(z, z[[40, 0, 20]])
    again = kmeans_partition(z + 0.1 * torch.randn(60, 3, generator=gen(5)), first.centres)
    assert torch.equal(first.assignments, again.assignments)


def test_an_empty_cluster_takes_the_farthest_point():
    z = torch.tensor([[0.0], [0.2], [0.1], [5.0]])
    result = kmeans_partition(z, torch.tensor([[0.0], [100.0]]))
    assert result.assignments.argmax(1).tolist() == [0, 0, 0, 1]


def test_kmeans_takes_equal_points_and_refuses_too_few():
    assert torch.isfinite(kmeans_partition(torch.ones(5, 2), torch.ones(3, 2)).centres).all()
    with pytest.raises(ValueError, match="3 clusters need at least as many embeddings, got 2"):
        kmeans_partition(torch.ones(2, 2), torch.ones(3, 2))


def test_kmeans_far_from_the_origin_is_not_confused_by_rounding():
    z = blobs()[0].float() / 10
    near, far = (kmeans_partition(z + shift, z[::20] + shift).assignments for shift in (0.0, 1000.0))
    assert torch.equal(near, far)


def test_autocast_does_not_reach_the_distances():
    z = torch.randn(300, 8, generator=gen(), dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = kmeans_partition(z, z[:10])
    assert torch.equal(inside.centres, kmeans_partition(z, z[:10]).centres)


# The prior on clusters


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 30), tau=st.floats(0.1, 2), skewed=st.booleans())
def test_marginal_kl_equals_its_definition(seed, n, tau, skewed):
    values = log_probs(n, seed=seed, tau=tau)
    prior = SKEWED.numpy() if skewed else np.full(4, 0.25)
    mean = values.exp().numpy().mean(0)
    marginals = SKEWED if skewed else None
    covering, seeking = (marginal_kl(values, marginals, covering=flag) for flag in (True, False))
    assert float(covering) == pytest.approx(sum(p * math.log(p / m) for p, m in zip(prior, mean, strict=True)))
    assert float(seeking) == pytest.approx(sum(m * math.log(m / p) for p, m in zip(prior, mean, strict=True)))


@pytest.mark.parametrize("covering", [True, False])
def test_marginal_kl_is_zero_where_the_mean_is_the_prior(covering):
    assert abs(marginal_kl(certain(torch.arange(40) % 4, 4), covering=covering)) < 1e-12
    assert abs(marginal_kl(SKEWED.log().repeat(7, 1), SKEWED, covering=covering)) < 1e-12
    assert marginal_kl(certain(torch.zeros(40, dtype=torch.long), 4), covering=covering) > 1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.1, 2))
def test_marginal_kl_and_entropy_add_up_to_the_information_that_is_missing(seed, tau):
    values = log_probs(seed=seed, tau=tau)
    p, mean = values.exp(), values.exp().mean(0)
    information = (p * (values - mean.log())).sum(1).mean()  # I(x; y) for x uniform on the batch
    lacking = marginal_kl(values, covering=False) + prediction_entropy(values)
    assert torch.allclose(lacking, math.log(4) - information)


def test_a_dead_cluster_has_a_gradient_only_under_the_covering_prior():
    scores = torch.zeros(8, 3, dtype=torch.float64)
    scores[:, 2] = -30  # nobody goes to the third cluster
    sizes = []
    for covering in (True, False):
        leaf = scores.clone().requires_grad_()
        loss = marginal_kl(torch.log_softmax(leaf, dim=1), covering=covering)
        sizes.append(float(torch.autograd.grad(loss, leaf)[0][:, 2].abs().max()))
    assert sizes[0] > 0.01 and sizes[1] < 1e-9


@pytest.mark.parametrize("covering", [True, False])
def test_the_loss_is_zero_for_certain_equal_balanced_views_and_every_failure_costs(covering):
    labels = torch.arange(40) % 4
    good = certain(labels, 4)
    flat = torch.full((40, 4), -math.log(4), dtype=torch.float64)
    collapsed, shuffled = certain(0 * labels, 4), certain(labels.roll(1), 4)
    assert abs(prior_clustering_loss(good, good, covering=covering, prior=1.0)) < 1e-6
    assert float(prior_clustering_loss(flat, flat, covering=covering, prior=1.0)) == pytest.approx(math.log(4))
    assert prior_clustering_loss(collapsed, collapsed, covering=covering, prior=1.0) > 1
    assert prior_clustering_loss(good, shuffled, covering=covering, prior=1.0) > 10


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.1, 2), prior=st.floats(0, 5))
def test_the_loss_is_entropy_disagreement_and_imbalance(seed, tau, prior):
    one, two = log_probs(seed=seed, tau=tau), log_probs(seed=seed + 1, tau=tau)
    entropy = (prediction_entropy(one) + prediction_entropy(two)) / 2
    disagreement = ((one.exp() - two.exp()) * (one - two)).sum(1).mean() / 2  # half of Jeffreys' divergence
    imbalance = (marginal_kl(one) + marginal_kl(two)) / 2
    loss = prior_clustering_loss(one, two, prior=prior)
    assert torch.allclose(loss, entropy + disagreement + prior * imbalance)
    assert loss >= 0


@pytest.mark.parametrize("covering", [True, False])
@pytest.mark.parametrize("marginals", [None, SKEWED])
def test_the_prior_has_the_gradient_of_finite_differences(covering, marginals):
    one, two = (torch.randn(5, 4, generator=gen(s), dtype=torch.float64, requires_grad=True) for s in (1, 2))

    def loss(a, b):
        a, b = cluster_log_probs(a, 0.5), cluster_log_probs(b, 0.5)
        return prior_clustering_loss(a, b, prior=0.7, marginals=marginals, covering=covering)

    assert gradcheck(loss, (one, two))
    assert gradcheck(lambda a: prediction_entropy(cluster_log_probs(a, 0.5)), one)
    assert gradcheck(lambda a: marginal_kl(cluster_log_probs(a, 0.5), marginals, covering=covering), one)
