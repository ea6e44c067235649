"""The energy-based densities: u^T enc(x), Eq. 9 and JEM's, and how they learn from samples."""

from functools import partial

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from gedi.nets import ClusterDensity, ContrastiveDensity, EnergyDensity, GediNet, MLPEncoder
from gedi.nets.gedinet import energy_density
from gedi.objectives.contrastive import SIMILARITIES, contrastive_log_density
from gedi.objectives.generative import contrastive_divergence

new_net = partial(GediNet, head="projector", density=energy_density)

KINDS = ["energy", "contrastive", "cluster"]
SUPPORT = (torch.full((2,), -2.0), torch.full((2,), 2.0))


def rows(n=16, d=2, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def by(name, *, tau):
    """Eq. 9 with this similarity."""
    return partial(contrastive_log_density, tau=tau, similarity=name)


# Learning from samples (Eq. 12)


def grid(side=60, reach=3.0):
    line = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 2 * reach - reach
    return torch.cartesian_prod(line, line)


@pytest.mark.parametrize("kind", KINDS)
def test_gradient_of_contrastive_divergence_is_that_of_the_likelihood(make, kind):
    """With samples of the model, in proportion to p on a grid, against finite differences of the normalised NLL."""
    density, data, points = make(kind, sharpen=1.5), 0.7 * rows(seed=4), grid()

    @torch.no_grad()
    def nll():
        return torch.logsumexp(density.log_density(points), 0) - density.log_density(data).mean()

    n = 100_000
    with torch.no_grad():
        mass = torch.softmax(density.log_density(points), 0).cumsum(0)
    places = torch.searchsorted(mass, (torch.arange(n, dtype=torch.float64) + 0.5) / n).clamp(max=len(points) - 1)
    contrastive_divergence(density.log_density(data), density.log_density(points[places])).backward()

    g, h = torch.Generator().manual_seed(0), 1e-5
    for parameter in density.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in torch.randint(len(flat), (2,), generator=g).tolist():
            kept = flat[i].item()
            values = []
            for moved in (kept + h, kept - h):
                flat[i] = moved
                values.append(nll())
            flat[i] = kept
            slope = (values[0] - values[1]) / (2 * h)
            assert float(gradient[i]) == pytest.approx(float(slope), rel=0.01, abs=2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_walls_make_the_far_away_improbable(make, kind):
    far = torch.tensor([[50.0, -50.0]], dtype=torch.float64)
    near = torch.zeros(1, 2, dtype=torch.float64)
    walled, open_ = make(kind), make(kind, support=None)
    assert torch.equal(walled.log_density(near), open_.log_density(near))
    fall = 2 * 48**2 / (2 * 0.1**2)
    assert torch.allclose(open_.log_density(far) - walled.log_density(far), torch.tensor(fall).double())


@pytest.mark.parametrize("kind", ["contrastive", "cluster"])
def test_gedinet_reads_its_heads_in_eval_mode_and_restores_every_mode(kind):
    def density(net, support):
        if kind == "cluster":
            return ClusterDensity(net.scores, tau=1.0)
        return ContrastiveDensity(net.embed, torch.eye(3), marginal=by("negative_squared_distance", tau=0.1))

    sizes = {"representation": 4, "embedding": 3, "projector_hidden": 4, "n_clusters": 2}
    net, x = new_net(MLPEncoder(2, [16, 8], 4), density=density, **sizes).train(), rows(dtype=torch.float32)
    net.nf_projector.eval()
    modes = [part.training for part in net.modules()]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    whole, slope = net.log_density(x), net.score(x)
    assert torch.allclose(net.log_density(x[:3]), whole[:3], atol=1e-5)
    assert torch.allclose(net.score(x[:3]), slope[:3], atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    net.refresh_density(x)
    assert [part.training for part in net.modules()] == modes


# (a) u^T enc(x)


@pytest.mark.parametrize("support", [None, SUPPORT])
def test_the_energy_of_gedinet_is_the_one_of_its_parts(support):
    torch.manual_seed(0)
    net = new_net(
        MLPEncoder(2, [16, 8], 4), representation=4, embedding=3, projector_hidden=4, n_clusters=2, support=support
    )
    energy = nn.Sequential(net.encoder, net.energy_head, nn.Flatten(0))
    density, x = EnergyDensity(energy, support=support), 3 * rows(dtype=torch.float32)
    assert torch.equal(density.log_density(x), net.log_density(x))
    assert torch.allclose(density.score(x), net.score(x), rtol=1e-4, atol=1e-5)


# (b) Eq. 9


def test_contrastive_density_is_equation_9_on_numbers():
    bank = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    density = ContrastiveDensity(nn.Identity(), bank, marginal=by("negative_squared_distance", tau=0.5))
    x = torch.tensor([[0.0, 0.0], [3.0, 4.0]])  # squared distances 0 and 1, 25 and 20
    expected = torch.tensor([1 + torch.exp(torch.tensor(-2.0)).item(), 0]).log()
    expected[1] = -40 + torch.log1p(torch.exp(torch.tensor(-10.0)))
    assert torch.allclose(density.log_density(x), expected, atol=1e-5)


@pytest.mark.parametrize("name", list(SIMILARITIES))
def test_contrastive_density_sums_over_its_bank(name):
    density = ContrastiveDensity(nn.Identity(), rows(6, 3, seed=1), marginal=by(name, tau=0.2))
    x = rows(4, 3)
    expected = sum(torch.exp(SIMILARITIES[name](x, z[None])[:, 0] / 0.2) for z in density.bank).log()
    assert torch.allclose(density.log_density(x), expected, atol=1e-12)


@pytest.mark.parametrize("n", [3, 5, 12])
def test_refresh_fills_the_bank_with_embeddings_of_rows_spread_over_the_data(make, n):
    density = make("contrastive")
    x = rows(n, seed=7)
    density.refresh(x)
    chosen = x[[n * i // 5 for i in range(5)]]
    assert torch.equal(density.bank, density.embed(chosen)) and not density.bank.requires_grad
    assert torch.equal(load(save(density.state_dict()))["bank"], density.bank)


def test_a_live_bank_takes_part_in_the_gradient(make):
    density, x = make("contrastive"), rows(5)
    view, weight = x + 0.1, density.embed[0].last.weight
    density.refresh(view)
    values = [
        density.log_density(x),
        density.log_density_by(x, density.embed(view)),
        density.log_density_by(x, density.embed(view).detach()),
    ]
    assert torch.allclose(values[0], values[1], atol=1e-12)
    still, live, detached = (torch.autograd.grad(value.mean(), weight)[0] for value in values)
    assert not torch.allclose(still, live, atol=1e-6)
    assert torch.allclose(still, detached, atol=1e-12)


# (c) JEM's


def test_log_density_is_the_marginal_of_the_joint_over_clusters(make):
    density, x = make("cluster", support=None).eval(), rows()
    joint = density.scorer(x) / 0.3
    assert torch.allclose(density.log_density(x), joint.exp().sum(1).log(), atol=1e-12)
    conditional = joint - density.log_density(x)[:, None]
    assert torch.allclose(conditional, torch.log_softmax(joint, dim=1), atol=1e-12)


def test_large_scores_do_not_overflow():
    density = ClusterDensity(nn.Identity(), tau=0.01)
    assert torch.allclose(density.log_density(torch.tensor([[50.0, 10.0]])), torch.tensor([5000.0]))
