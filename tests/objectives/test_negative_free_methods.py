"""CorInfoMax, MEC, Barlow Twins, VICReg and W-MSE: against their own papers, and against L_NF."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn import functional as F

from gedi.objectives.negative_free import (
    barlow_twins_loss,
    corinfomax_loss,
    covariance,
    cross_correlation,
    mec_loss,
    negative_free_loss,
    off_diagonal,
    scatter_matrix,
    vicreg_loss,
    w_mse_loss,
    whiten,
)

VICREG = {"invariance": 25.0, "variance": 25.0, "decorrelation": 1.0}
BARLOW = {"redundancy": 0.0051}
METHODS = [
    lambda z, v: corinfomax_loss(z, v, epsilon=0.1, attraction=500.0),
    lambda z, v: mec_loss(z, v, distortion=2.0),
    lambda z, v: barlow_twins_loss(z, v, **BARLOW),
    lambda z, v: vicreg_loss(z, v, **VICREG),
    lambda z, v: w_mse_loss(z, v, shrinkage=1e-4),
]


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def rows(n=20, h=4, seed=0, dtype=torch.float64):
    return torch.randn(n, h, generator=gen(seed), dtype=dtype)


def views(n=20, h=4, seed=0, noise=0.3):
    z = rows(n, h, seed)
    return z, z + noise * rows(n, h, seed + 1)


def standardised(z):
    return (z - z.mean(0)) / z.std(0, correction=0)


def centred_unit_rows(half, h, seed):
    """Rows of norm one whose mean is exactly zero: each with its opposite."""
    z = F.normalize(rows(half, h, seed), dim=1)
    return torch.cat([z, -z])


# Barlow Twins


def numpy_barlow(z, v, weight):
    """Algorithm 1 of Barlow Twins, entry by entry; 1e-5 is the batch normalisation's."""
    z, v = np.asarray(z, dtype=np.float64), np.asarray(v, dtype=np.float64)
    n, h = z.shape
    total = 0.0
    for i in range(h):
        for j in range(h):
            a = (z[:, i] - z[:, i].mean()) / math.sqrt(z[:, i].var() + 1e-5)
            b = (v[:, j] - v[:, j].mean()) / math.sqrt(v[:, j].var() + 1e-5)
            c = sum(a[k] * b[k] for k in range(n)) / n
            total += (c - 1) ** 2 if i == j else weight * c**2
    return total


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 30), h=st.integers(1, 6))
def test_barlow_twins_equals_its_papers_algorithm(seed, n, h):
    z, v = views(n, h, seed)
    assert float(barlow_twins_loss(z, v, **BARLOW)) == pytest.approx(numpy_barlow(z, v, 0.0051), abs=1e-10)
    single = float(barlow_twins_loss(z.float(), v.float(), **BARLOW))
    assert single == pytest.approx(numpy_barlow(z, v, 0.0051), rel=1e-5, abs=1e-5)


def test_appendix_e_squares_barlows_lambda():
    z, v = views()
    weights = 0.3 * torch.ones(4, 4) + 0.7 * torch.eye(4)  # Lambda = J lambda + (1 - lambda) I
    expected = ((cross_correlation(z, v) * weights - torch.eye(4)) ** 2).sum()
    assert torch.allclose(barlow_twins_loss(z, v, redundancy=0.3**2), expected)


def test_barlow_twins_ignores_each_features_scale_and_shift_and_vanishes_for_equal_uncorrelated_views():
    z, v = views()
    scale, shift = torch.tensor([0.5, 2.0, 10.0, 3.0]), torch.tensor([5.0, -1.0, 0.0, 2.0])
    assert torch.allclose(
        barlow_twins_loss(z * scale + shift, v, **BARLOW),
        barlow_twins_loss(z, v, **BARLOW),
        rtol=1e-3,
    )
    assert barlow_twins_loss(whiten(z, shrinkage=0.0), whiten(z, shrinkage=0.0), **BARLOW) < 1e-6
    assert barlow_twins_loss(z, -z, **BARLOW) > barlow_twins_loss(z, v, **BARLOW)


# VICReg


def numpy_vicreg(z, v, invariance, variance, decorrelation, epsilon=1e-4):
    """Algorithm 1 of VICReg, feature by feature; the hinges of both views are added."""
    z, v = np.asarray(z, dtype=np.float64), np.asarray(v, dtype=np.float64)
    n, h = z.shape
    distance = sum((z[i, j] - v[i, j]) ** 2 for i in range(n) for j in range(h)) / (n * h)
    hinge = redundancy = 0.0
    for view in (z, v):
        cov = np.zeros((h, h))
        for row in view:
            cov += np.outer(row - view.mean(0), row - view.mean(0)) / (n - 1)
        hinge += sum(max(0.0, 1 - math.sqrt(cov[j, j] + epsilon)) for j in range(h)) / h
        redundancy += sum(cov[i, j] ** 2 for i in range(h) for j in range(h) if i != j) / h
    return invariance * distance + variance * hinge + decorrelation * redundancy


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 30), h=st.integers(1, 6), size=st.floats(0.1, 3))
def test_vicreg_equals_its_papers_algorithm(seed, n, h, size):
    z, v = (size * view for view in views(n, h, seed))
    # Half the hinges' sum, as in the authors' code; twice the weight gives the paper's pseudo-code.
    expected = numpy_vicreg(z, v, 25, 12.5, 1)
    assert float(vicreg_loss(z, v, **VICREG)) == pytest.approx(expected, rel=1e-10)
    assert float(vicreg_loss(z.float(), v.float(), **VICREG)) == pytest.approx(expected, rel=1e-5)
    assert float(vicreg_loss(z, v, variance=50, invariance=25.0, decorrelation=1.0)) == pytest.approx(
        numpy_vicreg(z, v, 25, 25, 1), rel=1e-10
    )


def test_each_part_of_vicreg_is_blind_to_the_others_fault():
    z, v = views()
    parts = dict(invariance=0.0, variance=0.0, decorrelation=0.0)
    white = 2 * whiten(z, shrinkage=0.0)  # deviations above one, no covariance
    assert vicreg_loss(z, z, **{**parts, "invariance": 1.0}) == 0 < vicreg_loss(z, v, **{**parts, "invariance": 1.0})
    assert vicreg_loss(white, white, **{**parts, "variance": 1.0}) == 0
    assert float(vicreg_loss(0 * z, 0 * z, **{**parts, "variance": 1.0})) == pytest.approx(0.99)
    assert vicreg_loss(white, white, **{**parts, "decorrelation": 1.0}) < 1e-20
    assert vicreg_loss(z[:, [0, 0]], z[:, [0, 0]], **{**parts, "decorrelation": 1.0}) > 0.5


# W-MSE


def numpy_w_mse(z, v, shrinkage, slices):
    """W-MSE with the inverse of numpy's Cholesky factor, row by row."""
    gaps = []
    for part in slices:
        normal = []
        for view in (np.asarray(z, dtype=np.float64)[part], np.asarray(v, dtype=np.float64)[part]):
            centred = view - view.mean(0)
            cov = (1 - shrinkage) * np.cov(view.T) + shrinkage * np.eye(view.shape[1])
            white = [np.linalg.inv(np.linalg.cholesky(cov)) @ row for row in centred]
            normal.append([row / np.linalg.norm(row) for row in white])
        gaps += [2 - 2 * float(a @ b) for a, b in zip(*normal, strict=True)]
    return sum(gaps) / len(gaps)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(12, 40), h=st.integers(2, 5), shrinkage=st.floats(0, 0.1))
def test_w_mse_equals_its_papers_formula(seed, n, h, shrinkage):
    z, v = views(n, h, seed)
    expected = numpy_w_mse(z, v, shrinkage, [np.arange(n)])
    assert float(w_mse_loss(z, v, shrinkage=shrinkage)) == pytest.approx(expected, abs=1e-9)
    assert float(w_mse_loss(z.float(), v.float(), shrinkage=shrinkage)) == pytest.approx(expected, abs=1e-5)


def test_w_mse_is_two_less_twice_the_trace_of_appendix_e():
    z, v = views()
    one, two = (F.normalize(whiten(view, shrinkage=1e-4), dim=1) for view in (z, v))
    assert torch.allclose(w_mse_loss(z, v, shrinkage=1e-4), 2 - 2 * torch.trace(one @ two.T) / 20)


def test_whitening_gives_mean_zero_and_covariance_one_and_undoes_linear_maps():
    z = rows(50) @ rows(4, 4, 1) + 3
    white = whiten(z, shrinkage=0.0)
    assert torch.allclose(white.mean(0), torch.zeros(4, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(covariance(white), torch.eye(4, dtype=torch.float64), atol=1e-10)
    # Cholesky whitening undoes every lower triangular map with a positive diagonal exactly.
    lower = torch.tril(rows(4, 4, 2)).fill_diagonal_(0) + torch.diag(torch.tensor([0.5, 1.0, 2.0, 4.0]))
    assert torch.allclose(whiten(z @ lower.T, shrinkage=0.0), white, atol=1e-10)


def test_whitening_survives_fewer_rows_than_columns_only_with_shrinkage():
    z = rows(3, 8)
    assert torch.isfinite(whiten(z, shrinkage=1e-3)).all()
    with pytest.raises(torch.linalg.LinAlgError):
        whiten(torch.zeros(3, 8), shrinkage=0.0)


def test_whitening_in_float32_stands_ill_conditioned_features():
    z = rows(200, 4) * torch.tensor([1e3, 1.0, 1e-2, 1.0])
    assert torch.allclose(covariance(whiten(z.float(), shrinkage=0.0)), torch.eye(4), atol=1e-3)


# CorInfoMax and MEC as special cases of L_NF


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(2, 30), h=st.integers(1, 6), epsilon=st.floats(1e-3, 1))
def test_l_nf_is_corinfomax_up_to_a_scale_a_constant_and_the_traces(seed, n, h, epsilon):
    z, v = views(n, h, seed)
    beta, attraction = n * epsilon, 2 * n
    both = negative_free_loss(z, v, beta=beta, invariance=1.0) + negative_free_loss(v, z, beta=beta, invariance=1.0)
    traces = (torch.trace(scatter_matrix(z, beta)) + torch.trace(scatter_matrix(v, beta))) / 2
    corinfomax = corinfomax_loss(z, v, epsilon=epsilon, attraction=attraction)
    assert torch.allclose(both, h / 2 * corinfomax - h * math.log(n) + traces)


def test_for_standardised_features_l_nf_and_corinfomax_have_the_same_gradient_and_for_free_ones_they_do_not():
    n, h, epsilon = 20, 4, 0.01

    def gradients(prepare):
        z, v = (view.requires_grad_() for view in views(n, h))
        a, b = prepare(z), prepare(v)
        nf = negative_free_loss(a, b, beta=n * epsilon, invariance=1.0) + negative_free_loss(
            b, a, beta=n * epsilon, invariance=1.0
        )
        corinfomax = h / 2 * corinfomax_loss(a, b, epsilon=epsilon, attraction=2 * n)
        return torch.autograd.grad(nf, z, retain_graph=True)[0], torch.autograd.grad(corinfomax, z)[0]

    same, other = gradients(standardised)
    assert torch.allclose(same, other, atol=1e-10) and same.abs().max() > 0.1
    nf, corinfomax = gradients(lambda z: z)
    assert not torch.allclose(nf, corinfomax, atol=0.1)


def test_corinfomax_equals_its_formula_with_slogdet():
    z, v = views()
    log_dets = [np.linalg.slogdet(np.cov(view.numpy().T, bias=True) + 0.1 * np.eye(4)) for view in (z, v)]
    expected = -sum(d.logabsdet for d in log_dets) / 4 + 500 * float(((z - v) ** 2).mean())
    assert float(corinfomax_loss(z, v, epsilon=0.1, attraction=500.0)) == pytest.approx(expected)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), half=st.integers(1, 15), h=st.integers(1, 6), distortion=st.floats(0.01, 2))
def test_l_nf_of_one_view_is_mec_up_to_constants(seed, half, h, distortion):
    z = centred_unit_rows(half, h, seed)
    n = len(z)
    beta = n * distortion
    constant = (n + h * beta - h * math.log(beta)) / 2
    mec = mec_loss(z, z, distortion=distortion)
    assert torch.allclose(negative_free_loss(z, z, beta=beta, invariance=1.0), mec / (2 * distortion) + constant)


def test_mec_of_two_views_is_their_distance_to_first_order_only():
    z, v = F.normalize(rows(seed=1), dim=1), F.normalize(rows(seed=2), dim=1)
    distance = ((z - v) ** 2).sum(1).mean() / 2
    assert torch.allclose(mec_loss(z, v, distortion=1e4), distance - 1, atol=1e-4)
    assert not torch.allclose(mec_loss(z, v, distortion=0.1), distance - 1, atol=0.05)


def test_mec_equals_its_formula_with_eigenvalues():
    z, v = views(h=3)
    one, two = (view.numpy() / np.linalg.norm(view.numpy(), axis=1, keepdims=True) for view in (z, v))
    rate = 1 / (20 * 0.3)
    eigenvalues = np.linalg.eigvals(rate * one.T @ two)
    expected = -np.log(1 + eigenvalues).sum().real / (rate * 20)
    assert float(mec_loss(z, v, distortion=0.3)) == pytest.approx(expected)


def test_mec_prefers_spread_rows_to_collapsed_ones():
    spread, collapsed = torch.eye(8).double().repeat(4, 1), torch.ones(32, 8).double()
    loss = [float(mec_loss(z, z, distortion=0.2)) for z in (spread, collapsed)]
    assert loss[0] < loss[1]


# All of them


@pytest.mark.parametrize("method", METHODS)
def test_methods_have_the_gradient_of_finite_differences(method):
    z, v = (view.requires_grad_() for view in views(10, 3))
    assert gradcheck(method, (z, v))


@pytest.mark.parametrize("part", [covariance, off_diagonal, lambda z: whiten(z, shrinkage=0.1)])
def test_parts_have_the_gradient_of_finite_differences(part):
    assert gradcheck(part, rows(4, 4).requires_grad_())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_worked_out_in_float32(method, dtype):
    z, v = (view.to(dtype) for view in views(10, 3))
    wide = method(z.float(), v.float())
    assert wide.dtype == torch.float32
    assert torch.equal(method(z, v), wide)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(method(z.float(), v.float()), wide)


@pytest.mark.parametrize("method", METHODS)
def test_methods_are_blind_to_the_order_of_samples(method):
    z, v = views()
    order = torch.randperm(20, generator=gen(5))
    assert torch.allclose(method(z[order], v[order]), method(z, v))
