"""A normalising flow is normalised, and its samples are those of its density."""

import sys
from functools import partial

import pytest
import torch
from sklearn.datasets import make_moons

from gedi.errors import ConfigError
from gedi.nets import FlowDensity

new_flow = partial(FlowDensity, kind="nsf", transforms=3, hidden=(64, 64))


def moons(n, seed):
    x = torch.tensor(make_moons(n, noise=0.1, random_state=seed)[0], dtype=torch.float32)
    return (x - torch.tensor([0.5, 0.25])) / 0.7


def trained(kind):
    torch.manual_seed(0)
    density = new_flow(2, kind=kind, transforms=2, hidden=[32])
    data, held_out = moons(500, 0), moons(1000, 1)
    before = density.log_density(held_out).mean().item()
    optimiser = torch.optim.Adam(density.parameters(), lr=5e-3)
    for _ in range(80):
        optimiser.zero_grad()
        density.loss(data, torch.Generator()).backward()
        optimiser.step()
    return density, before, density.log_density(held_out).mean().item()


@pytest.fixture(scope="module")
def flow():
    return trained("nsf")


@pytest.mark.parametrize("kind", ["nsf", "maf"])
def test_training_raises_the_likelihood_of_unseen_data(kind, flow):
    _, before, after = flow if kind == "nsf" else trained(kind)
    assert after > before + 0.4


def grid(side, reach):
    line = (torch.arange(side) + 0.5) / side * 2 * reach - reach
    return torch.cartesian_prod(line, line), (2 * reach / side) ** 2


@torch.no_grad()
def test_density_integrates_to_one(flow):
    points, cell = grid(400, 6.0)
    assert float(flow[0].log_density(points).exp().sum() * cell) == pytest.approx(1.0, abs=2e-3)


@torch.no_grad()
def test_samples_have_the_density(flow):
    """Share of samples in each of 12 x 12 squares against the integral of p over it."""
    n, reach, side, fine = 20_000, 3.0, 12, 30
    points, cell = grid(side * fine, reach)
    mass = (flow[0].log_density(points).exp() * cell).view(side, fine, side, fine).sum((1, 3))
    x = flow[0].sample(n, torch.Generator().manual_seed(0))
    inside = x[(x.abs() < reach).all(1)]
    places = ((inside + reach) / (2 * reach) * side).long()
    share = torch.zeros(side, side).index_put_((places[:, 0], places[:, 1]), torch.tensor(1.0 / n), accumulate=True)
    assert torch.allclose(share, mass, atol=5 * (0.1 / n) ** 0.5 / 2, rtol=0.05)
    assert float((share - mass).abs().sum()) < 0.1


def test_a_coupling_flow_has_the_shapes_of_its_rows():
    density = new_flow(6, passes=2, transforms=2, hidden=[8])
    x = density.sample(4, torch.Generator().manual_seed(0))
    assert x.shape == (4, 6) and density.log_density(x).shape == (4,) and density.score(x).shape == x.shape


def test_far_away_is_finite_and_improbable(flow):
    far = torch.tensor([[1e3, -1e3]])
    assert flow[0].log_density(far).isfinite().all() and flow[0].log_density(far) < -1e5
    assert flow[0].score(far).isfinite().all()


def test_the_state_dict_holds_what_was_learned():
    density = new_flow(2)
    assert set(density.state_dict()) == {name for name, _ in density.named_parameters()}


def test_without_zuko_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko", None)
    with pytest.raises(ConfigError, match=r"gedi-ssl\[flows\]"):
        new_flow(2)


def test_a_flow_that_would_not_fit_is_refused_before_it_is_made():
    with pytest.raises(ConfigError, match="fewer features"):
        new_flow(3072)
    with pytest.raises(ConfigError, match="the limit is"):
        new_flow(2, hidden=[10**9, 10**9])


def test_its_shapes_are_known_on_the_meta_device():
    with torch.device("meta"):
        flow = new_flow(3, hidden=[8])
    assert {k: v.shape for k, v in flow.state_dict().items()} == {
        k: v.shape for k, v in new_flow(3, hidden=[8]).state_dict().items()
    }
