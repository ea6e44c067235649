"""The Gaussian under an energy: probabilistic PCA, against torch's own normal distribution."""

import pytest
import torch
from torch.distributions import MultivariateNormal

from gedi.nets.densities import EnergyDensity, score
from gedi.nets.gaussian import Gaussian

BLUR = 0.3


def rows(n=400, d=6, seed=0):
    g = torch.Generator().manual_seed(seed)
    wide = torch.tensor([3.0, 2.0, 1.0, 0.5, 0.5, 0.5])[:d]
    mixing = torch.linalg.qr(torch.randn(d, d, generator=g))[0]
    return torch.randn(n, d, generator=g) * wide @ mixing + 2.0


def fitted(k, x=None):
    gaussian = Gaussian(6, k)
    gaussian.fit(rows() if x is None else x, BLUR)
    return gaussian.double()


def covariance(gaussian):
    v, rest = gaussian.directions, gaussian.rest
    return v.T @ torch.diag(gaussian.variances) @ v + rest * (torch.eye(6).double() - v.T @ v)


def test_with_all_directions_it_has_the_covariance_of_blurred_data():
    expected = torch.cov(rows().double().T) + BLUR**2 * torch.eye(6)
    torch.testing.assert_close(covariance(fitted(6)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_log_density_and_gradient_are_those_of_its_covariance(k):
    gaussian, x = fitted(k), rows(20, seed=1).double()
    truth = MultivariateNormal(gaussian.mean, covariance(gaussian))
    ours, theirs = gaussian(x), truth.log_prob(x)
    torch.testing.assert_close(ours - ours[0], theirs - theirs[0], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gaussian.gradient(x), score(truth.log_prob, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [2, 6])
def test_draws_have_its_mean_and_covariance(k):
    gaussian = fitted(k)
    drawn = gaussian.float().sample(200_000, torch.Generator().manual_seed(0)).double()
    torch.testing.assert_close(drawn.mean(0), gaussian.mean.double(), atol=0.03, rtol=0)
    torch.testing.assert_close(torch.cov(drawn.T), covariance(gaussian.double()), atol=0.1, rtol=0.03)


def test_the_mean_over_blurred_data_is_about_zero():
    x = rows(20_000)
    blurred = x + BLUR * torch.randn(x.shape, generator=torch.Generator().manual_seed(1))
    gaussian = fitted(3, x)
    assert abs(float(gaussian(blurred.double()).mean())) < 0.1


@pytest.mark.parametrize("x", [rows(3), torch.ones(50, 6)], ids=["fewer rows than directions", "rows all alike"])
def test_too_little_data_still_gives_a_proper_density(x):
    gaussian = fitted(6, x)
    assert torch.isfinite(gaussian(rows(5).double())).all()
    assert torch.linalg.eigvalsh(covariance(gaussian)).min() > 0


def test_an_energy_is_added_to_it():
    gaussian, x = fitted(3), rows(5, seed=2).double()
    support = (torch.full((6,), -100.0).double(), torch.full((6,), 100.0).double())
    gradient = torch.cos
    density = EnergyDensity(lambda x: x.sin().sum(1), gradient=gradient, support=support, base=gaussian)
    torch.testing.assert_close(density.log_density(x), x.sin().sum(1) + gaussian(x))
    torch.testing.assert_close(density.score(x), score(density.log_density, x))
