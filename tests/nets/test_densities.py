"""What every density promises."""

from functools import partial

import pytest
import torch
from safetensors.torch import load, save

from gedi.nets import GediNet, MLPEncoder, score
from gedi.nets.gedinet import energy_density
from gedi.sampling import Box, dam, sgld

new_net = partial(GediNet, head="projector", density=energy_density)

ENERGY_BASED = ["energy", "contrastive", "cluster"]
KINDS = [*ENERGY_BASED, "flow", "vae"]


def rows(n=16, d=2, seed=0, dtype=torch.float64):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_score_is_the_slope_of_log_density(make, kind):
    density, x, h = make(kind, sharpen=1.5), 1.5 * rows(), 1e-6  # some rows lie beyond the support
    slopes = [
        (density.log_density(x + h * e) - density.log_density(x - h * e)) / (2 * h) for e in torch.eye(2).double()
    ]
    assert torch.allclose(density.score(x), torch.stack(slopes, dim=1).detach(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_score_works_without_grad_and_leaves_the_parameters_alone(make, kind):
    density, x = make(kind), rows()
    with torch.no_grad():
        quiet = density.score(x)
    assert torch.equal(quiet, density.score(x)) and not quiet.requires_grad
    assert torch.allclose(quiet, score(density.log_density, x), atol=1e-12)
    assert all(p.grad is None for p in density.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_point_does_not_feel_the_other_rows_and_leaves_no_trace(make, kind):
    density, x = make(kind), rows()
    before = {name: value.clone() for name, value in density.state_dict().items()}
    whole, slope = density.log_density(x), density.score(x)
    assert whole.shape == (16,) and density.log_density(x[:1]).shape == (1,)
    assert torch.allclose(density.log_density(x[:3]), whole[:3], atol=1e-12)
    assert torch.allclose(density.score(x[:3]), slope[:3], atol=1e-12)
    assert torch.equal(density.log_density(x), whole)  # no hidden noise
    assert all(torch.equal(value, before[name]) for name, value in density.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_dam_walks_on_it(make, kind):
    density, x = make(kind, sharpen=1.5), rows(dtype=torch.float64)

    def walk(**options):
        g = torch.Generator().manual_seed(3)
        return dam(density.log_density, x, radius=0.1, steps=10, generator=g, max_drop=0.05, **options)

    (end, info), (other, _) = walk(gradient=density.score), walk(gradient=partial(score, density.log_density))
    assert torch.allclose(end, other, atol=1e-10)
    change = density.log_density(end) - density.log_density(x)
    assert torch.allclose(info.log_density_change, change, atol=1e-10)
    assert info.log_density_change.min() >= -0.05 and info.distance.max() > 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_langevin_steps_climb_it_and_stay_in_the_box(make, kind):
    density, x = make(kind, sharpen=1.5), rows(64)
    box = Box(torch.full((2,), -2.0).double(), torch.full((2,), 2.0).double())  # the walls' own
    start = 0.9 * box.clamp(x)
    generator = torch.Generator().manual_seed(0)
    end = sgld(density.score, start, noise=1e-9, step=1e-6, steps=20, box=box, generator=generator)
    assert (box.clamp(end) == end).all()
    gain = (density.log_density(end) - density.log_density(start)).mean().detach()
    expected = 20 * 1e-6 * density.score(start).square().sum(1).mean()  # first order in the step
    assert float(gain) == pytest.approx(float(expected), rel=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_safetensors_round_trip_gives_the_same_numbers(make, kind):
    density, other, x = make(kind, 0), make(kind, 1), rows()
    assert not torch.allclose(density.log_density(x), other.log_density(x))
    other.load_state_dict(load(save(density.state_dict())))
    assert torch.equal(density.log_density(x), other.log_density(x))
    assert torch.equal(density.score(x), other.score(x))


@pytest.mark.parametrize("kind", KINDS)
def test_who_draws_the_samples(make, kind):
    density = make(kind)
    draws = [density.sample(7, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1)]
    if kind in ENERGY_BASED:
        assert draws == [None] * 3
        with pytest.raises(NotImplementedError, match="up to a constant"):
            density.loss(rows(), torch.Generator())
    else:
        assert draws[0].shape == (7, 2) and not draws[0].requires_grad
        assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_leaves_log_p_in_float32(make, kind):
    density, x = make(kind).float(), rows(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = density.log_density(x)
    assert half.isfinite().all()
    if kind in ("flow", "vae"):
        assert torch.equal(half, density.log_density(x))
    elif kind != "energy":  # u^T enc(x) is a plain product, as in GediNet
        assert half.dtype == torch.float32


def test_score_by_autograd_equals_finite_differences_and_spares_the_parameters():
    torch.manual_seed(0)
    net = new_net(MLPEncoder(3, [16, 16], 4), representation=4, embedding=2, projector_hidden=4, n_clusters=2).double()
    x, h = torch.randn(5, 3, dtype=torch.float64), 1e-5
    numeric = torch.empty_like(x)
    for j in range(3):
        shift = torch.zeros(3, dtype=torch.float64)
        shift[j] = h
        numeric[:, j] = ((net.log_density(x + shift) - net.log_density(x - shift)) / (2 * h)).detach()
    gradient = score(net.log_density, x)
    assert torch.allclose(gradient, numeric, rtol=1e-7, atol=1e-9)
    assert not gradient.requires_grad
    assert all(p.grad is None for p in net.parameters())


def test_score_by_autograd_works_under_no_grad_and_leaves_x_alone():
    x = torch.ones(3, 2)
    with torch.no_grad():
        gradient = score(lambda x: -x.square().sum(1) / 2, x)
    assert torch.equal(gradient, -x)
    assert not x.requires_grad and x.grad is None
