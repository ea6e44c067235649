"""Bounds on Gaussians with correlation rho, whose mutual information is -log(1 - rho^2) / 2.

The critic f(x, z) = a x z - b x^2 has Z(z) = (1 + 2b)^(-1/2) exp(a^2 z^2 / (2 (1 + 2b))) in closed form, and with the
right a and b it is the optimal one up to a function of z.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from gedi.objectives.bounds import elbo_ebm, infonce_bound, log_partition, nwj_bound, tuba_bound, uba_bound

CRITICS = dict(rho=st.floats(-0.9, 0.9), a=st.floats(-1.2, 1.2), b=st.floats(0, 1))


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def information(rho):
    return -math.log1p(-(rho**2)) / 2


def pairs(n, rho, seed=0):
    noise = torch.randn(2, n, generator=gen(seed), dtype=torch.float64)
    return noise[0], rho * noise[0] + math.sqrt(1 - rho**2) * noise[1]


def quadrature(rho, nodes=40):
    """Pairs (x, z) and weights that integrate polynomials against their joint density exactly."""
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    t, w = torch.tensor(t), torch.tensor(w / w.sum())
    x = t.repeat_interleave(nodes)
    return x, rho * x + math.sqrt(1 - rho**2) * t.repeat(nodes), (w[:, None] * w).flatten()


def critic(x, z, a, b):
    return a * x * z - b * x**2


def log_z(z, a, b):
    return a**2 * z**2 / (2 * (1 + 2 * b)) - math.log(1 + 2 * b) / 2


def best(rho):
    """a and b of log p(x|z) - log p(x), up to a function of z."""
    return rho / (1 - rho**2), rho**2 / (2 * (1 - rho**2))


def exact_uba(rho, a, b):
    """E over the joint density, by quadrature: weighted values are averaged like samples."""
    x, z, w = quadrature(rho)
    return uba_bound(critic(x, z, a, b) * w * len(w), log_z(z, a, b) * w * len(w))


def test_the_closed_form_of_z_is_right():
    x = torch.randn(400_000, generator=gen(), dtype=torch.float64)
    for z in (-1.0, 0.0, 1.5):
        assert float(critic(x, z, 0.7, 0.3).exp().mean().log()) == pytest.approx(
            float(log_z(torch.tensor(z), 0.7, 0.3)), abs=5e-3
        )


@settings(max_examples=50, deadline=None)
@given(**CRITICS)
def test_uba_never_exceeds_the_mutual_information(rho, a, b):
    assert exact_uba(rho, a, b) <= information(rho) + 1e-12


@pytest.mark.parametrize("rho", [-0.9, 0.0, 0.3, 0.8])
def test_uba_reaches_the_mutual_information_at_the_best_critic_only(rho):
    a, b = best(rho)
    assert float(exact_uba(rho, a, b)) == pytest.approx(information(rho), abs=1e-10)
    assert exact_uba(rho, a + 0.1, b) < information(rho) - 1e-4


def test_uba_from_samples_comes_close():
    x, z = pairs(200_000, 0.8)
    a, b = best(0.8)
    assert float(uba_bound(critic(x, z, a, b), log_z(z, a, b))) == pytest.approx(information(0.8), abs=0.01)


@settings(max_examples=50, deadline=None)
@given(**CRITICS, seed=st.integers(0, 999), size=st.floats(0, 2))
def test_tuba_and_nwj_never_exceed_uba(rho, a, b, seed, size):
    x, z = pairs(50, rho, seed)
    joint, partition = critic(x, z, a, b), log_z(z, a, b)
    log_eta = size * torch.randn(50, generator=gen(seed + 1), dtype=torch.float64)
    uba = uba_bound(joint, partition)
    assert tuba_bound(joint, partition, log_eta) <= uba + 1e-12
    assert nwj_bound(joint, partition) <= uba + 1e-12


@settings(max_examples=25, deadline=None)
@given(**CRITICS, seed=st.integers(0, 999))
def test_tuba_is_uba_at_eta_z_and_nwj_at_eta_e(rho, a, b, seed):
    x, z = pairs(50, rho, seed)
    joint, partition = critic(x, z, a, b), log_z(z, a, b)
    assert torch.allclose(tuba_bound(joint, partition, partition), uba_bound(joint, partition))
    assert torch.allclose(tuba_bound(joint, partition, torch.ones_like(partition)), nwj_bound(joint, partition))


def test_nwj_is_tight_at_one_plus_the_log_ratio():
    rho = 0.6
    a, b = best(rho)
    x, z, w = quadrature(rho)
    joint = critic(x, z, a, b) - log_z(z, a, b) + 1  # now Z = e for every z
    assert float(nwj_bound(joint * w * len(w), torch.ones_like(z))) == pytest.approx(information(rho), abs=1e-10)


# InfoNCE


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 9999), n=st.integers(1, 20), size=st.floats(0, 100))
def test_infonce_never_exceeds_log_n(seed, n, size):
    values = size * torch.randn(n, n, generator=gen(seed), dtype=torch.float64)
    assert infonce_bound(values) <= math.log(n) + 1e-12


def test_infonce_reaches_log_n_for_a_certain_critic_and_zero_for_a_blind_one():
    assert float(infonce_bound(100 * torch.eye(8))) == pytest.approx(math.log(8))
    assert float(infonce_bound(torch.randn(8, 1, generator=gen()) * torch.zeros(8))) == 0.0


def test_infonce_contrasts_over_x_and_ignores_a_function_of_z():
    values = torch.randn(6, 6, generator=gen(), dtype=torch.float64)
    shift = torch.tensor([5.0, 0, 0, 0, 0, 0])
    assert torch.allclose(infonce_bound(values + shift), infonce_bound(values))
    assert infonce_bound(values + shift[:, None]) < infonce_bound(values) - 1


def test_infonce_equals_appendix_c():
    f = torch.randn(5, 5, generator=gen(), dtype=torch.float64).numpy()
    terms = [math.log(math.exp(f[i, i]) / (sum(math.exp(f[k, i]) for k in range(5)) / 5)) for i in range(5)]
    assert float(infonce_bound(torch.tensor(f))) == pytest.approx(sum(terms) / 5)


def test_with_an_estimated_z_infonce_and_tuba_stay_bounds_on_average_and_uba_does_not():
    rho, n = 0.9, 8
    a, b = best(rho)
    nce, tuba, uba = [], [], []
    for seed in range(400):
        x, z = pairs(n, rho, seed)
        values = critic(x[:, None], z[None, :], a, b)
        joint, partition = values.diagonal(), log_partition(values)
        nce.append(float(infonce_bound(values)))
        tuba.append(float(tuba_bound(joint, partition, log_z(z, a, b) + math.log(2))))
        uba.append(float(uba_bound(joint, partition)))
    assert information(rho) - 0.3 < np.mean(nce) < information(rho)
    # At eta = 2 Z the distance to I is 1/2 + log 2 - 1, estimate or not.
    assert np.mean(tuba) == pytest.approx(information(rho) - math.log(2) + 0.5, abs=0.08)
    # Jensen: the logarithm of a mean over seven samples is too small, and the "bound" too large.
    assert np.mean(uba) > information(rho) + 0.15


def test_log_partition_leaves_out_the_pair_itself():
    f = torch.randn(5, 5, generator=gen(), dtype=torch.float64)
    expected = [math.log(sum(math.exp(f[k, i]) for k in range(5) if k != i) / 4) for i in range(5)]
    assert log_partition(f).tolist() == pytest.approx(expected)


# ELBO_EBM


def test_elbo_is_infonce_less_the_log_normaliser_of_the_nonparametric_prior():
    # App. C on a finite set of z: p(z) = Gamma(z) / mean_k exp f(x_k, z) / Gamma(Theta), whatever Gamma(z) is.
    n, codes = 6, 9
    f = torch.randn(n, codes, generator=gen(1), dtype=torch.float64)
    log_gamma = torch.randn(codes, generator=gen(2), dtype=torch.float64)
    ratio = log_gamma - (torch.logsumexp(f, 0) - math.log(n))
    log_normaliser = torch.logsumexp(ratio, 0)
    code = torch.randperm(codes, generator=gen(3))[:n]  # g(x_i)
    elbo = elbo_ebm(f[torch.arange(n), code], log_gamma[code], (ratio - log_normaliser)[code])
    assert torch.allclose(elbo, infonce_bound(f[:, code]) - log_normaliser)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), values=st.integers(2, 10), codes=st.integers(1, 6))
def test_for_discrete_z_the_elbo_bounds_the_log_likelihood(seed, values, codes):
    f = torch.randn(values, codes, generator=gen(seed), dtype=torch.float64)
    log_prior = torch.log_softmax(torch.randn(codes, generator=gen(seed + 1), dtype=torch.float64), 0)
    p = torch.softmax(torch.randn(values, generator=gen(seed + 2), dtype=torch.float64), 0)
    code = torch.randint(codes, (values,), generator=gen(seed + 3))
    log_gamma = torch.logsumexp(f, 0)
    weight = p * values  # the mean over x is then the expectation under p
    elbo = elbo_ebm(f[torch.arange(values), code] * weight, log_gamma[code] * weight, log_prior[code] * weight)
    model = torch.logsumexp(f - log_gamma + log_prior, 1)  # log p(x; Theta)
    assert elbo <= (p * model).sum() + 1e-12
    assert (p * model).sum() <= (p * p.log()).sum() + 1e-12


def test_for_continuous_z_the_elbo_of_appendix_b_exceeds_the_log_likelihood():
    # f = log p(x) + f~ and a prior of density one on z in [0, 1]: ELBO = -H(X) + I_UBA, as App. B says ...
    x = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1] + 0.0005  # p(x) is uniform on [0, 1], H(X) = 0
    tilde = -50 * (x[:, None] - x[None, :]) ** 2  # g(x) = x
    log_gamma = torch.logsumexp(tilde, 0) - math.log(len(x))
    elbo = elbo_ebm(tilde.diagonal(), log_gamma, torch.zeros_like(x))
    assert torch.allclose(elbo, uba_bound(tilde.diagonal(), log_gamma))
    # ... which cannot be below E log p(x) = 0, as App. A says.
    assert elbo > 1


def test_bounds_have_the_gradient_of_finite_differences():
    f = torch.randn(4, 4, generator=gen(1), dtype=torch.float64, requires_grad=True)
    one, two, three = (torch.randn(4, generator=gen(s), dtype=torch.float64, requires_grad=True) for s in (2, 3, 4))
    assert gradcheck(infonce_bound, f)
    assert gradcheck(log_partition, f)
    assert gradcheck(uba_bound, (one, two)) and gradcheck(nwj_bound, (one, two))
    assert gradcheck(tuba_bound, (one, two, three)) and gradcheck(elbo_ebm, (one, two, three))
