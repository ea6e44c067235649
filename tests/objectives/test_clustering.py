import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

from gedi.objectives.bounds import discriminative_bound, trace_form
from gedi.objectives.clustering import (
    cluster_log_probs,
    clustering_loss,
    invariance_loss,
    marginal_kl,
    sinkhorn,
    swapped_loss,
)

SWAV = {"epsilon": 0.05, "iterations": 3}


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def cosines(n=40, c=4, seed=0, dtype=torch.float64):
    """Scores in [-1, 1], as unit vectors give them."""
    return torch.rand(n, c, generator=gen(seed), dtype=dtype) * 2 - 1


def random_q(n=40, c=4, seed=0):
    return torch.softmax(torch.randn(n, c, generator=gen(seed + 1000), dtype=torch.float64), dim=1)


def numpy_sinkhorn(scores, epsilon, iterations):
    """Plain scaling of exp(scores / epsilon), without logarithms."""
    kernel = np.exp(np.asarray(scores, dtype=np.float64) / epsilon)
    n, c = kernel.shape
    left, right = 1 / kernel.sum(1), np.ones(c)
    for _ in range(iterations):
        right = n / c / (left @ kernel)
        left = 1 / (kernel @ right)
    return left[:, None] * kernel * right


# Sinkhorn


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(8, 60), c=st.integers(2, 6), epsilon=st.floats(0.2, 1))
def test_rows_sum_to_one_and_columns_to_equal_parts(seed, n, c, epsilon):
    q = sinkhorn(cosines(n, c, seed), epsilon=epsilon, iterations=300)
    assert torch.allclose(q.sum(1), torch.ones(n, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(q.sum(0), torch.full((c,), n / c, dtype=torch.float64), atol=1e-6 * n)
    assert (q >= 0).all()


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_rows_sum_to_one_before_convergence(iterations):
    q = sinkhorn(cosines(dtype=torch.float32), epsilon=0.05, iterations=iterations)
    assert torch.allclose(q.sum(1), torch.ones(40), atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    dtype=st.sampled_from([torch.float16, torch.bfloat16, torch.float32]),
    offset=st.sampled_from([-1e4, 0.0, 1e4]),
    spread=st.sampled_from([0.05, 1e4]),
    iterations=st.integers(0, 10),
)
def test_scores_of_1e4_neither_overflow_nor_unbalance_the_rows(seed, dtype, offset, spread, iterations):
    scores = (offset + spread * cosines(32, 4, seed, torch.float32)).to(dtype)
    q = sinkhorn(scores, epsilon=0.01, iterations=iterations)
    assert q.dtype == torch.float32
    assert torch.isfinite(q).all()
    assert torch.allclose(q.sum(1), torch.ones(32), atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_columns_reach_equal_masses_at_scores_of_1e4(dtype):
    # Every row scores 1e4 in some clusters and -1e4 in the others; each cluster is open to enough rows.
    scores = torch.full((60, 4), -1e4)
    rows = torch.arange(60)
    for offset in range(3):
        scores[rows, (rows + offset) % 4] = 1e4
    q = sinkhorn(scores.to(dtype), epsilon=0.01, iterations=300)
    assert torch.allclose(q.sum(1), torch.ones(60, dtype=q.dtype), atol=1e-5)
    assert torch.allclose(q.sum(0), torch.full((4,), 15.0, dtype=q.dtype), atol=1e-2)
    assert (q[scores < 0] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_are_worked_out_in_float32(dtype):
    half = cosines(dtype=dtype)
    assert torch.equal(
        sinkhorn(half, **SWAV),
        sinkhorn(half.float(), **SWAV),
    )


def test_float64_stays_float64():
    assert sinkhorn(cosines(), **SWAV).dtype == torch.float64


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), size=st.floats(0, 1e4), iterations=st.integers(0, 10))
def test_a_constant_per_row_changes_nothing(seed, size, iterations):
    scores = cosines(seed=seed)
    constant = size * torch.randn(40, 1, generator=gen(seed), dtype=torch.float64)
    plain = sinkhorn(scores, epsilon=0.05, iterations=iterations)
    assert torch.allclose(sinkhorn(scores + constant, epsilon=0.05, iterations=iterations), plain, atol=1e-7)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), epsilon=st.floats(0.05, 1), iterations=st.integers(0, 20))
def test_equals_sinkhorn_without_logarithms(seed, epsilon, iterations):
    run = dict(epsilon=epsilon, iterations=iterations)
    q = sinkhorn(cosines(seed=seed), **run)
    assert np.allclose(q.numpy(), numpy_sinkhorn(cosines(seed=seed), **run), atol=1e-10)


@pytest.mark.parametrize("iterations", [0, 3])
def test_heads_are_assigned_one_by_one(iterations):
    scores = torch.stack([cosines(seed=s) for s in range(3)])
    run = dict(epsilon=0.05, iterations=iterations)
    q = sinkhorn(scores, **run)
    assert q.shape == scores.shape
    assert torch.allclose(q, torch.stack([sinkhorn(some, **run) for some in scores]))
    losses = clustering_loss(q, cluster_log_probs(scores, 0.1))
    alone = [clustering_loss(one, cluster_log_probs(some, 0.1)) for one, some in zip(q, scores, strict=True)]
    assert losses.shape == (3,) and torch.allclose(losses, torch.stack(alone))


def test_assignments_carry_no_gradient():
    assert not sinkhorn(cosines().requires_grad_(), **SWAV).requires_grad


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999))
def test_assignments_maximise_equation_5_among_all_with_the_same_masses(seed):
    scores, epsilon = cosines(12, 4, seed), 0.2
    q = sinkhorn(scores, epsilon=epsilon, iterations=1000)
    best = trace_form(q, scores, epsilon)
    for trial in range(20):
        # Moves that keep all row and column sums, as far as no entry becomes negative.
        move = torch.randn(12, 4, generator=gen(seed * 20 + trial), dtype=torch.float64)
        move = move - move.mean(0) - move.mean(1, keepdim=True) + move.mean()
        room = torch.where(move < 0, q / -move, torch.inf).min()
        other = q + 0.9 * room * move
        assert torch.allclose(other.sum(0), q.sum(0)) and torch.allclose(other.sum(1), q.sum(1))
        assert trace_form(other, scores, epsilon) < best


# L_DI


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), tau=st.floats(0.02, 2))
def test_bound_equals_trace_form_less_the_log_normalisers(seed, tau):
    q, scores = random_q(seed=seed), cosines(seed=seed)
    normalisers = torch.logsumexp(scores / tau, dim=1).sum()
    assert torch.allclose(discriminative_bound(q, scores, tau), trace_form(q, scores, tau) - normalisers)


def test_trace_form_equals_the_right_side_of_equation_5():
    q, scores, tau = random_q().numpy(), cosines().numpy(), 0.1
    entropy = -sum(p * np.log(p) for p in q.ravel())
    expected = (np.trace(q @ scores.T) + tau * entropy) / tau
    assert float(trace_form(torch.tensor(q), torch.tensor(scores), tau)) == pytest.approx(expected)


def test_hard_assignments_have_no_entropy():
    scores = cosines(6, 3)
    hard = torch.eye(3, dtype=torch.float64).repeat(2, 1)
    log_p = cluster_log_probs(scores, 0.1)
    assert torch.allclose(discriminative_bound(hard, scores, 0.1), log_p[hard.bool()].sum())
    assert torch.allclose(clustering_loss(hard, log_p), -log_p[hard.bool()].mean())


def test_bound_is_never_positive_and_zero_where_q_is_p():
    scores, tau = cosines(), 0.3
    p = torch.softmax(scores / tau, dim=1)
    assert abs(discriminative_bound(p, scores, tau)) < 1e-12
    assert discriminative_bound(random_q(), scores, tau) < -1


def test_loss_and_bound_differ_by_the_entropy_of_q():
    q, scores, tau = random_q(), cosines(), 0.1
    entropy = -(q * q.log()).sum()
    loss = clustering_loss(q, cluster_log_probs(scores, tau))
    assert torch.allclose(-40 * loss + entropy, discriminative_bound(q, scores, tau))


def test_log_probs_are_those_of_equation_3():
    scores = cosines().numpy()
    expected = np.exp(scores / 0.1) / np.exp(scores / 0.1).sum(1, keepdims=True)
    assert np.allclose(cluster_log_probs(torch.tensor(scores), 0.1).exp().numpy(), expected)


def test_clustering_loss_has_the_gradient_of_finite_differences():
    q, scores = random_q(6), cosines(6).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: clustering_loss(q, cluster_log_probs(s, 0.1)), scores)


def test_a_descent_step_raises_the_bound():
    q, scores = random_q(), cosines().requires_grad_()
    (gradient,) = torch.autograd.grad(clustering_loss(q, cluster_log_probs(scores, 0.5)), scores)
    assert discriminative_bound(q, scores - gradient, 0.5) > discriminative_bound(q, scores, 0.5)


# Swapped prediction


def test_swapped_loss_has_the_gradient_of_finite_differences():
    one, two = cosines(6, seed=1).requires_grad_(), cosines(6, seed=2).requires_grad_()
    q, r = random_q(6, seed=1), random_q(6, seed=2)
    assert torch.autograd.gradcheck(lambda s, t: swapped_loss(s, t, q, r, 0.1), (one, two))


def test_swapped_loss_is_symmetric_in_its_views():
    s, t, q, r = cosines(seed=1), cosines(seed=2), random_q(seed=1), random_q(seed=2)
    assert torch.allclose(swapped_loss(s, t, q, r, 0.1), swapped_loss(t, s, r, q, 0.1))


def test_each_view_predicts_the_other_views_assignment():
    scores = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    sure = torch.eye(2)
    swapped = sure.flip(0)
    # Scores of one view that agree with the other view's assignments cost nothing.
    assert swapped_loss(scores, -scores, swapped, sure, 0.05) < 1e-6
    assert swapped_loss(scores, -scores, sure, swapped, 0.05) > 10


def test_equals_swavs_formula():
    def swav_codes(out, epsilon, iterations):
        """distributed_sinkhorn of SwAV's Appendix A.1, on one process."""
        q = np.exp(out / epsilon).T
        q /= q.sum()
        k, b = q.shape
        for _ in range(iterations):
            q /= q.sum(axis=1, keepdims=True)
            q /= k
            q /= q.sum(axis=0, keepdims=True)
            q /= b
        return (q * b).T

    one, two, tau, epsilon = cosines(seed=1).numpy(), cosines(seed=2).numpy(), 0.1, 0.1
    p, r = (np.exp(v / tau) / np.exp(v / tau).sum(1, keepdims=True) for v in (one, two))
    # The two start from other scalings of the rows, so they are compared at convergence.
    codes_one, codes_two = (swav_codes(v, epsilon, 500) for v in (one, two))
    expected = -0.5 * np.mean(np.sum(codes_two * np.log(p) + codes_one * np.log(r), axis=1))
    s, t = torch.tensor(one), torch.tensor(two)
    q_one, q_two = (sinkhorn(v, epsilon=epsilon, iterations=500) for v in (s, t))
    assert float(swapped_loss(s, t, q_one, q_two, tau)) == pytest.approx(expected, rel=1e-6)


# ---- the prior's objective is a bound (docs/family.md) ----


def test_agreement_is_at_least_as_likely_as_the_invariance_says():
    g = torch.Generator().manual_seed(0)
    log_p, log_q = (torch.randn(1, 1, 5, generator=g, dtype=torch.float64).mul(3).log_softmax(-1) for _ in range(2))
    log_agree = torch.logsumexp(log_p + log_q, dim=-1)
    assert float(log_agree) >= -float(invariance_loss(log_p, log_q))
    sure = torch.tensor([[[0.0, -torch.inf]]], dtype=torch.float64).clamp_min(-700)
    assert float(invariance_loss(sure, sure)) == pytest.approx(0.0, abs=1e-9)  # equality: both are certain and agree


@pytest.mark.parametrize("counts", [[5, 5, 5], [15, 0, 0], [1, 4, 10]])
def test_cluster_sizes_are_at_least_as_likely_as_the_divergence_says(counts):
    prior, n = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), sum(counts)
    log_mean = torch.tensor(counts, dtype=torch.float64).div(n).log().clamp_min(-700)
    log_probability = multinomial.logpmf(counts, n, prior.numpy())
    assert log_probability >= -n * float(marginal_kl(log_mean, prior)) - 3 * math.log(n + 1)
    assert log_probability <= -n * float(marginal_kl(log_mean, prior)) + 1e-9  # no probability exceeds its type's bound
