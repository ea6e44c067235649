"""The VAE's bound, where log p is known: linear decoder, Gaussian everything."""

import math
from functools import partial

import pytest
import torch
from sklearn.datasets import make_moons
from torch.distributions import MultivariateNormal

from gedi.nets import VaeDensity
from gedi.nets.likelihoods import LOG_SIGMA_LIMIT, MIN_SCALE, quasi_normal

new_vae = partial(VaeDensity, hidden=(64, 64), importance=64)


def linear_gaussian(*, shift=0.0, widen=0.0):
    """p(x) = N(b, WW^T + s^2 I). W has orthogonal columns, so the posterior is diagonal and q can be exact.

    ``shift`` moves q's mean and ``widen`` its log width away from the posterior's; also gives KL(q || posterior).
    """
    vae = new_vae(3, latent=2, hidden=()).double()
    w = torch.tensor([[1.0, 0.5], [0.5, -1.0], [0.0, 0.0]], dtype=torch.float64)
    b = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64)
    s = 0.6
    variance = 1 / (1 + w.square().sum(0) / s**2)
    gain = variance[:, None] * w.T / s**2
    with torch.no_grad():
        vae.decoder.last.weight.copy_(w)
        vae.decoder.last.bias.copy_(b)
        vae.log_scale.fill_(math.log(s - MIN_SCALE))
        vae.encoder.last.weight.copy_(torch.cat([gain, torch.zeros(2, 3)]))
        log_sigma = LOG_SIGMA_LIMIT * torch.atanh((0.5 * variance.log() + widen) / LOG_SIGMA_LIMIT)
        vae.encoder.last.bias.copy_(torch.cat([shift - gain @ b, log_sigma]))
    kl = (0.5 * (math.exp(2 * widen) + shift**2 / variance - 1) - widen).sum()
    return vae, MultivariateNormal(b, w @ w.T + s**2 * torch.eye(3, dtype=torch.float64)), float(kl)


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X = gaussian(20, 3, seed=1)
AMISS = [{"shift": 0.3, "widen": -0.15}, {"shift": 0.3, "widen": 0.4}]  # a q too narrow, a q too wide


@torch.no_grad()
def test_with_the_true_posterior_the_bound_is_log_p():
    vae, truth, _ = linear_gaussian()
    for noise in (vae.noise, gaussian(1, 2), gaussian(5, 20, 2)):
        assert torch.allclose(vae.bound(X, noise), truth.log_prob(X), atol=1e-9)
    assert torch.allclose(vae.log_density(X), truth.log_prob(X), atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("amiss", AMISS)
def test_on_average_it_is_a_bound_and_gets_tighter_with_more_noise(amiss):
    vae, truth, kl = linear_gaussian(**amiss)
    draws, gaps = 1000, []
    for k in (1, 4, 16, 64):
        values = vae.bound(X.repeat(draws, 1), gaussian(k, draws * len(X), 2, seed=k)).view(draws, len(X))
        gaps.append(truth.log_prob(X) - values.mean(0))
        assert (gaps[-1] > -4 * values.std(0) / draws**0.5).all()
    means = [float(gap.mean()) for gap in gaps]
    assert means[0] == pytest.approx(kl, rel=0.05)
    assert means == sorted(means, reverse=True) and means[-1] < means[0] / 5


@torch.no_grad()
@pytest.mark.parametrize("amiss", AMISS)
def test_fixed_noise_gets_closer_to_log_p_with_more_of_it(amiss):
    vae, truth, kl = linear_gaussian(**amiss)
    errors = [
        float((vae.bound(X, quasi_normal(k, 2).double()) - truth.log_prob(X)).abs().mean()) for k in (2, 32, 1024)
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < kl / 20


@torch.no_grad()
def test_with_fixed_noise_it_is_not_a_bound_at_every_point():
    """As the docstring says: at the mean of a q that is e^0.4 times too wide, p(x, z) / q(z|x) is e^0.8 p(x)."""
    vae, truth, _ = linear_gaussian(widen=0.4)
    assert torch.allclose(vae.bound(X, torch.zeros(1, 2).double()), truth.log_prob(X) + 2 * 0.4, atol=1e-9)


@torch.no_grad()
@pytest.mark.parametrize("amiss", AMISS)
def test_loss_is_the_negative_elbo(amiss):
    vae, truth, kl = linear_gaussian(**amiss)
    loss = vae.loss(X.repeat(5000, 1), generator=torch.Generator().manual_seed(0))
    assert float(loss) == pytest.approx(kl - float(truth.log_prob(X).mean()), abs=0.02)


def test_the_loss_draws_from_the_generator_alone():
    vae = new_vae(2, latent=2, hidden=[8])
    x = gaussian(6, 2).float()
    one, same, other = (vae.loss(x, generator=torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_samples_have_the_models_moments():
    vae, truth, _ = linear_gaussian()
    x = vae.sample(40_000, torch.Generator().manual_seed(0))
    assert torch.allclose(x.mean(0), truth.mean, atol=0.03)
    assert torch.allclose(x.T.cov(), truth.covariance_matrix, atol=0.05)


def test_fixed_noise_is_gaussian_and_always_the_same():
    noise = quasi_normal(1024, 3)
    assert torch.equal(noise, quasi_normal(1024, 3))
    assert torch.allclose(noise.mean(0), torch.zeros(3), atol=0.01)
    assert torch.allclose(noise.T.cov(), torch.eye(3), atol=0.02)


def test_making_one_leaves_the_global_generator_where_the_weights_left_it():
    def after(importance):
        torch.manual_seed(0)
        new_vae(2, latent=2, importance=importance)
        return torch.rand(1)

    assert torch.equal(after(4), after(64))


def moons(n, seed):
    x = torch.tensor(make_moons(n, noise=0.1, random_state=seed)[0], dtype=torch.float32)
    return (x - torch.tensor([0.5, 0.25])) / 0.7


def test_training_raises_the_likelihood_of_unseen_data():
    torch.manual_seed(0)
    vae = new_vae(2, latent=2, hidden=[32, 32])
    data, held_out, generator = moons(1000, 0), moons(1000, 1), torch.Generator().manual_seed(0)
    before = vae.log_density(held_out).mean().item()
    optimiser = torch.optim.Adam(vae.parameters(), lr=5e-3)
    for _ in range(400):
        optimiser.zero_grad()
        vae.loss(data, generator=generator).backward()
        optimiser.step()
    after = vae.log_density(held_out).mean().item()
    assert after > before + 0.3
    assert after > -vae.loss(held_out, generator=generator).item()  # 64 noises are tighter than one


def test_samples_have_the_shape_of_rows_and_far_away_is_finite():
    vae = new_vae(16, latent=3, hidden=[16])
    x = vae.sample(5, torch.Generator().manual_seed(0))
    assert x.shape == (5, 16) and vae.log_density(x).shape == (5,)
    assert vae.log_density(1e3 * x).isfinite().all() and vae.score(1e3 * x).isfinite().all()
