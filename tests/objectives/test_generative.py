from functools import partial

import pytest
import torch

from gedi.nets import GediNet, MLPEncoder
from gedi.nets.densities import score
from gedi.nets.gedinet import energy_density
from gedi.objectives.generative import contrastive_divergence, denoising_error, half_squared_slope

new_net = partial(GediNet, head="projector", density=energy_density)

GRID = torch.linspace(-3, 3, 401, dtype=torch.float64).view(-1, 1)
CELL = 6 / 400


def small_net(seed=0):
    torch.manual_seed(seed)
    net = new_net(MLPEncoder(1, [8], 3), representation=3, embedding=2, projector_hidden=2, n_clusters=2).double()
    with torch.no_grad():
        net.energy_head.weight.mul_(5)  # a density that is far from flat
    return net


def data(n=50):
    return torch.randn(n, 1, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 0.5 + 0.7


def log_normaliser(net):
    """log of the integral of exp(u^T enc(x)) over the box, by the trapezoidal rule."""
    weights = torch.full((401,), CELL, dtype=torch.float64)
    weights[0] = weights[-1] = CELL / 2
    return torch.logsumexp(net.log_density(GRID) + weights.log(), dim=0), weights


def cross_entropy(net, x):
    """-E_p log p_Psi, normaliser and all."""
    return log_normaliser(net)[0] - net.log_density(x).mean()


def exact_samples(net, n=400_000):
    """Grid points, each as often as p_Psi says (up to rounding): samples without sampling noise."""
    with torch.no_grad():
        log_z, weights = log_normaliser(net)
        p = torch.exp(net.log_density(GRID) - log_z) * weights
    return torch.repeat_interleave(torch.arange(401), (p * n).round().long())


def energy_parameters(net):
    return [*net.encoder.parameters(), *net.energy_head.parameters()]


def surrogate_gradient(net, x):
    loss = contrastive_divergence(net.log_density(x), net.log_density(GRID)[exact_samples(net)])
    return torch.autograd.grad(loss, energy_parameters(net))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradient_is_that_of_the_true_cross_entropy_by_finite_differences(seed):
    net, x, h = small_net(seed), data(), 1e-5
    parameters, gradient = energy_parameters(net), surrogate_gradient(net, x)
    checked = 0
    for parameter, analytic in zip(parameters, gradient, strict=True):
        flat = parameter.data.view(-1)
        for j in range(0, len(flat), 3):
            value = float(flat[j])
            flat[j] = value + h
            above = float(cross_entropy(net, x).detach())
            flat[j] = value - h
            below = float(cross_entropy(net, x).detach())
            flat[j] = value
            # Rounding the multiplicities moves each of 401 weights by at most 1 / 800,000.
            assert (above - below) / (2 * h) == pytest.approx(float(analytic.view(-1)[j]), abs=2e-3)
            checked += 1
    assert checked >= 10
    assert max(float(g.abs().max()) for g in gradient) > 0.1  # there is something to compare


def test_descending_the_surrogate_lowers_the_true_cross_entropy():
    net, x = small_net(), data()
    before = cross_entropy(net, x)
    for _ in range(5):
        gradient = surrogate_gradient(net, x)
        with torch.no_grad():
            for parameter, direction in zip(energy_parameters(net), gradient, strict=True):
                parameter -= 0.02 * direction
        after = cross_entropy(net, x)
        assert after < before
        before = after


def test_descending_raises_data_over_samples():
    net, x, samples = small_net(), data(), torch.linspace(-3, 0, 50, dtype=torch.float64).view(-1, 1)
    gap = (net.log_density(x).mean() - net.log_density(samples).mean()).detach()
    loss = contrastive_divergence(net.log_density(x), net.log_density(samples))
    gradient = torch.autograd.grad(loss, energy_parameters(net))
    with torch.no_grad():
        for parameter, direction in zip(energy_parameters(net), gradient, strict=True):
            parameter -= 1e-3 * direction
    assert net.log_density(x).mean() - net.log_density(samples).mean() > gap


def test_value_is_the_energy_gap_whatever_the_numbers_of_rows():
    assert float(contrastive_divergence(torch.tensor([1.0, 3.0]), torch.tensor([7.0, 5.0, 6.0]))) == pytest.approx(4.0)


def test_a_constant_in_the_log_density_does_not_matter():
    a, b = torch.randn(5, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    assert torch.allclose(contrastive_divergence(a + 3, b + 3), contrastive_divergence(a, b))


def test_gradient_is_zero_where_samples_are_the_data():
    net, x = small_net(), data()
    loss = contrastive_divergence(net.log_density(x), net.log_density(x.clone()))
    assert all(g.abs().max() < 1e-12 for g in torch.autograd.grad(loss, energy_parameters(net)))


# ---- denoising ----


def test_denoising_error_is_fishers_divergence_up_to_a_constant():
    """Differences between two models equal those of E ||s - grad log p_sigma||^2, with p_sigma in closed form."""
    centres, sigma, n = torch.tensor([[-1.0], [0.5]], dtype=torch.float64), 0.4, 400_000

    def blurred_log_density(x):
        return torch.logsumexp(-((x - centres.T) ** 2) / (2 * sigma**2), dim=1)

    g = torch.Generator().manual_seed(0)
    x = centres[torch.randint(2, (n,), generator=g)]
    models = [lambda x: -x, lambda x: -2 * x + 0.3, lambda x: torch.sin(3 * x)]
    ours = [denoising_error(model, x, sigma, torch.Generator().manual_seed(1)) for model in models]
    shown = x + sigma * torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    truth = score(blurred_log_density, shown)
    theirs = [(sigma * (model(shown) - truth)).square().mean() for model in models]
    assert float(ours[1] - ours[0]) == pytest.approx(float(theirs[1] - theirs[0]), abs=0.005)
    assert float(ours[2] - ours[0]) == pytest.approx(float(theirs[2] - theirs[0]), abs=0.005)
    best = denoising_error(lambda x: score(blurred_log_density, x), x, sigma, torch.Generator().manual_seed(1))
    assert float(best) < min(map(float, ours))


def test_a_flat_density_has_an_error_of_one():
    found = denoising_error(torch.zeros_like, torch.zeros(100_000, 2), 0.1, torch.Generator().manual_seed(0))
    assert float(found) == pytest.approx(1.0, abs=0.01)


# ---- the slope penalty ----


def test_the_slope_penalty_equals_the_closed_form_of_a_net_written_out():
    """log p = u^T (W2 silu(W1 x + b1) + b2): its slope by hand, and the penalty's gradient by finite differences."""
    net, x = small_net(), data()
    first, last, u = net.encoder.linears[0], net.encoder.last, net.energy_head.weight

    def by_hand():
        a = x @ first.weight.T + first.bias
        silu = a.sigmoid() * (1 + a * (1 - a.sigmoid()))  # its derivative
        return (((u @ last.weight) * silu) @ first.weight).square().sum(1) / 2

    found = half_squared_slope(net.log_density, x)
    assert torch.allclose(found, by_hand())
    gradient, h = torch.autograd.grad(found.mean(), first.weight)[0], 1e-5
    for i in range(len(first.weight)):
        sides = []
        for sign in (1, -1):
            first.weight.data[i, 0] += sign * h
            sides.append(by_hand().mean().item())
            first.weight.data[i, 0] -= sign * h
        assert float(gradient[i, 0]) == pytest.approx((sides[0] - sides[1]) / (2 * h), rel=1e-5, abs=1e-9)


def test_the_slope_penalty_needs_no_gradient_mode_and_leaves_x_alone():
    net, x = small_net(), data()
    with torch.no_grad():
        assert half_squared_slope(net.log_density, x).shape == (50,)
    assert not x.requires_grad
