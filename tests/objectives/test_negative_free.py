import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.objectives.negative_free import gaussian_kl, negative_free_loss, scatter_matrix

PAPER = {"beta": 1e-3, "invariance": 1.0}


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(n=20, h=4, seed=0, dtype=torch.float64):
    return torch.randn(n, h, generator=gen(seed), dtype=dtype)


def numpy_loss(z, z_view, beta):
    """-L_NF of Eq. 7, row by row."""
    z, z_view = np.asarray(z, dtype=np.float64), np.asarray(z_view, dtype=np.float64)
    sigma = beta * np.eye(z.shape[1])
    for row in z:
        sigma += np.outer(row - z.mean(0), row - z.mean(0))
    sign, log_det = np.linalg.slogdet(sigma)
    assert sign == 1
    return np.trace(sigma) / 2 - log_det / 2 + sum(np.sum((a - b) ** 2) for a, b in zip(z, z_view, strict=True)) / 2


@pytest.mark.parametrize("h", [1, 2, 16])
def test_kl_is_half_the_dimension_at_identity(h):
    assert float(gaussian_kl(torch.eye(h, dtype=torch.float64))) == pytest.approx(h / 2)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 9999), h=st.integers(1, 8), size=st.floats(1e-2, 10))
def test_every_other_covariance_costs_more(seed, h, size):
    # exp of a symmetric matrix reaches every positive definite one.
    a = torch.randn(h, h, generator=gen(seed), dtype=torch.float64)
    sigma = torch.linalg.matrix_exp(size * (a + a.T) / (2 * (a + a.T).norm()))
    assert gaussian_kl(sigma) > h / 2


def test_the_gradient_vanishes_at_identity():
    sigma = torch.eye(3, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(gaussian_kl(sigma), sigma)
    assert gradient.abs().max() < 1e-12


def test_the_distance_may_be_measured_elsewhere():
    z, h, h_view = rows(), rows(h=2, seed=1), rows(h=2, seed=2)
    expected = gaussian_kl(scatter_matrix(z, 1e-3)) + ((h - h_view) ** 2).sum() / 2
    assert torch.allclose(negative_free_loss(z, rows(seed=3), **PAPER, between=(h, h_view)), expected)


def test_kl_refuses_a_matrix_that_is_not_positive_definite():
    with pytest.raises(torch.linalg.LinAlgError):
        gaussian_kl(torch.diag(torch.tensor([1.0, -1.0])))


def test_scatter_is_the_sum_of_outer_products_plus_beta():
    z = rows()
    expected = 20 * np.cov(z.numpy().T, bias=True) + 0.1 * np.eye(4)
    assert np.allclose(scatter_matrix(z, 0.1).numpy(), expected)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 30), h=st.integers(1, 6), beta=st.floats(1e-3, 1))
def test_loss_equals_equation_7_with_slogdet(seed, n, h, beta):
    z, z_view = rows(n, h, seed), rows(n, h, seed + 1)
    assert float(negative_free_loss(z, z_view, beta=beta, invariance=1.0)) == pytest.approx(
        numpy_loss(z, z_view, beta), rel=1e-8
    )


def test_loss_has_the_gradient_of_finite_differences():
    z, z_view = rows(8, 3, 1).requires_grad_(), rows(8, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: negative_free_loss(a, b, beta=0.1, invariance=1.0), (z, z_view))


def test_kl_has_the_gradient_of_finite_differences():
    root = rows(3, 3).requires_grad_()
    eye = torch.eye(3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda r: gaussian_kl(r @ r.T + eye), root)


def test_equal_views_leave_only_the_kl():
    z = rows()
    assert torch.equal(negative_free_loss(z, z.clone(), **PAPER), gaussian_kl(scatter_matrix(z, 1e-3)))


def test_loss_grows_by_half_the_squared_distance_of_the_views():
    z, gap = rows(seed=1), rows(seed=2)
    more = negative_free_loss(z, z + gap, **PAPER) - negative_free_loss(z, z, **PAPER)
    assert torch.allclose(more, (gap**2).sum() / 2)


def test_invariance_weighs_the_distance_of_the_views_only():
    z, z_view = rows(seed=1), rows(seed=2)
    kl, paper = gaussian_kl(scatter_matrix(z, 1e-3)), negative_free_loss(z, z_view, **PAPER)
    assert torch.allclose(negative_free_loss(z, z_view, invariance=0.0, beta=1e-3), kl)
    assert torch.allclose(negative_free_loss(z, z_view, invariance=0.3, beta=1e-3), kl + 0.3 * (paper - kl))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), size=st.floats(-1e3, 1e3))
def test_a_constant_added_to_both_views_changes_nothing(seed, size):
    z, z_view = rows(seed=seed), rows(seed=seed + 1)
    shift = size * rows(1, seed=seed + 2)
    assert torch.allclose(
        negative_free_loss(z + shift, z_view + shift, **PAPER),
        negative_free_loss(z, z_view, **PAPER),
        rtol=1e-8,
    )


def test_a_collapsed_representation_costs_more_than_a_spread_one():
    spread = torch.linalg.qr(rows(20, 4) - rows(20, 4).mean(0)).Q
    spread = torch.linalg.qr(spread - spread.mean(0)).Q  # scatter is the identity up to beta
    collapsed = torch.zeros_like(spread)
    assert float(negative_free_loss(spread, spread, **PAPER)) == pytest.approx(2, abs=1e-2)
    assert negative_free_loss(collapsed, collapsed, **PAPER) > 10


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_out_in_float32(dtype):
    z, z_view = rows(64, 8, 1).to(dtype), rows(64, 8, 2).to(dtype)
    loss = negative_free_loss(z, z_view, **PAPER)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, negative_free_loss(z.float(), z_view.float(), **PAPER))


def test_autocast_does_not_reach_the_scatter():
    z, z_view = rows(64, 8, 1, torch.float32), rows(64, 8, 2, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = negative_free_loss(z, z_view, **PAPER)
    assert torch.allclose(inside, negative_free_loss(z, z_view, **PAPER), rtol=1e-6)
