"""The mixture of Gaussians under an energy, against torch's own distributions."""

import pytest
import torch
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from gedi.nets import mixture as mixture_module
from gedi.nets.densities import EnergyDensity, score
from gedi.nets.mixture import Mixture

BLUR = 0.3


def rows(n=400, d=6, seed=0):
    """One Gaussian of unequal widths."""
    g = torch.Generator().manual_seed(seed)
    wide = torch.tensor([3.0, 2.0, 1.0, 0.5, 0.5, 0.5])[:d]
    mixing = torch.linalg.qr(torch.randn(d, d, generator=g))[0]
    return torch.randn(n, d, generator=g) * wide @ mixing + 2.0


def groups(n=800, seed=0):
    """Eight Gaussians far apart, at the corners of a cube, of unequal sizes."""
    g = torch.Generator().manual_seed(seed)
    corners = torch.cartesian_prod(*[torch.tensor([-4.0, 4.0])] * 3)
    places = torch.multinomial(torch.arange(1.0, 9.0), n, replacement=True, generator=g)
    x = torch.cat([corners[places], torch.zeros(n, 3)], dim=1)
    return x + torch.randn(n, 6, generator=g) * torch.tensor([0.5, 0.2, 0.4, 0.3, 0.3, 0.3])


def fitted(axes, x=None):
    mixture = Mixture(6, axes, 64)
    mixture.fit(rows() if x is None else x, BLUR)
    return mixture.double()


def covariances(mixture):
    """In all six dimensions, one matrix per component that is used."""
    c, v = mixture.components, mixture.axes
    used = c.weights > 0
    e = c.directions[used]
    inside = e.transpose(1, 2) @ torch.diag_embed(c.variances[used] - c.rest[used, None]) @ e
    inside = inside + c.rest[used, None, None] * torch.eye(len(v)).double()
    return v.T @ inside @ v + mixture.rest * (torch.eye(6).double() - v.T @ v)


def truth(mixture):
    c = mixture.components
    used = c.weights > 0
    centres = mixture.mean + c.centres[used] @ mixture.axes
    return MixtureSameFamily(Categorical(c.weights[used]), MultivariateNormal(centres, covariances(mixture)))


def test_of_one_component_the_covariance_is_that_of_blurred_data():
    mixture = fitted(6)
    expected = torch.cov(rows().double().T, correction=0) + BLUR**2 * torch.eye(6)
    assert len(covariances(mixture)) == 1
    torch.testing.assert_close(covariances(mixture)[0], expected, rtol=1e-4, atol=1e-4)


def test_held_out_rows_decide_how_many_components_there_are():
    assert int((fitted(6, groups()).component_weights > 0).sum()) == 8
    assert int((fitted(6, rows(5000)).component_weights > 0).sum()) == 1


def test_only_components_with_a_weight_are_computed():
    for x, n in ((rows(), 1), (groups(), 8)):
        mixture, z = fitted(6, x), rows(50).double()
        assert len(mixture.used.weights) == n < len(mixture.components.weights)
        for answer in (mixture_module.log_density, mixture_module.gradient):
            torch.testing.assert_close(answer(z, mixture.used), answer(z, mixture.components), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("own", [2, 100])
@pytest.mark.parametrize("axes", [1, 4, 6])
@pytest.mark.parametrize("data", [rows, groups])
def test_log_density_and_gradient_are_those_of_the_distribution(monkeypatch, data, axes, own):
    monkeypatch.setattr(mixture_module, "OWN_DIRECTIONS", own)
    mixture, x = fitted(axes, data()), data(20, seed=1).double()
    ours, theirs = mixture(x), truth(mixture).log_prob(x)
    torch.testing.assert_close(ours - ours[0], theirs - theirs[0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(mixture.gradient(x), score(truth(mixture).log_prob, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axes", [2, 6])
@pytest.mark.parametrize("data", [rows, groups])
def test_draws_have_its_mean_and_covariance(data, axes):
    mixture = fitted(axes, data())
    drawn = mixture.float().sample(200_000, torch.Generator().manual_seed(0)).double()
    expected = truth(mixture.double())
    torch.testing.assert_close(drawn.mean(0), expected.mean, atol=0.04, rtol=0)
    torch.testing.assert_close(drawn.var(0), expected.variance, atol=0.1, rtol=0.03)


def test_the_mean_over_the_data_is_about_zero():
    x = groups(4000)
    assert abs(float(fitted(3, x)(x.double()).mean())) < 0.2


@pytest.mark.parametrize("x", [rows(3), torch.ones(50, 6)], ids=["fewer rows than directions", "rows all alike"])
def test_too_little_data_still_gives_a_proper_density(x):
    mixture = fitted(6, x)
    assert torch.isfinite(mixture(rows(5).double())).all()
    assert torch.isfinite(mixture.gradient(rows(5).double())).all()
    assert torch.linalg.eigvalsh(covariances(mixture)).min() > 0


def test_an_energy_is_added_to_it():
    mixture, x = fitted(3, groups()), groups(5, seed=2).double()
    support = (torch.full((6,), -100.0).double(), torch.full((6,), 100.0).double())
    density = EnergyDensity(lambda x: x.sin().sum(1), gradient=torch.cos, support=support, base=mixture)
    torch.testing.assert_close(density.log_density(x), x.sin().sum(1) + mixture(x))
    torch.testing.assert_close(density.score(x), score(density.log_density, x))
