import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gedi import sampling
from gedi.nets import score
from gedi.sampling.dam import tangent, uniform_in_ball

CENTRES = np.array([[-1.0, 0.2], [1.5, -0.3]])
WIDTHS = np.array([0.7, 0.4])


def dam(log_density, x, **options):
    return sampling.dam(log_density, x, gradient=lambda x: score(log_density, x), **options)


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def points(n=16, d=2, seed=0, dtype=torch.float64):
    # Other seeds than those of the walks: with the same seed, delta would point along x.
    return torch.randn(n, d, generator=gen(seed + 10_000), dtype=dtype)


def mixture(x):
    """log of an unnormalised mixture of two round Gaussians."""
    centres, widths = torch.as_tensor(CENTRES).to(x), torch.as_tensor(WIDTHS).to(x)
    return torch.logsumexp(-((x[:, None] - centres) ** 2).sum(2) / (2 * widths**2), dim=1)


def ring(x):
    return -((x.norm(dim=1) - 1) ** 2) / 0.02


def energy(x):
    """A curved, never flat energy in any number of dimensions and of any shape."""
    x = x.flatten(1)
    weights = torch.linspace(0.5, 1.5, x.shape[1], dtype=x.dtype)
    return -((x * weights) ** 2).sum(1) / 2 + torch.sin(x + weights).sum(1)


# Delta


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), d=st.integers(1, 50), radius=st.floats(1e-6, 1e6))
def test_delta_lies_in_the_ball(seed, d, radius):
    delta = uniform_in_ball(torch.zeros(100, d, dtype=torch.float64), radius, gen(seed))
    assert delta.shape == (100, d)
    assert (delta.norm(dim=1) <= radius * (1 + 1e-12)).all()


@pytest.mark.parametrize("d", [1, 2, 10])
def test_delta_is_uniform_in_the_ball(d):
    delta = uniform_in_ball(torch.zeros(5000, d, dtype=torch.float64), 0.3, gen(1))
    # The share of the ball's volume within |delta| is uniform on [0, 1].
    volume = (delta.norm(dim=1) / 0.3) ** d
    assert stats.kstest(volume.numpy(), "uniform").pvalue > 1e-3
    # No direction is preferred: E x_j = 0, E x_j x_k = r^2 / (d + 2) where j = k and 0 elsewhere.
    scale = 0.3 / math.sqrt(d + 2)
    assert (delta.mean(0).abs() < 5 * scale / math.sqrt(5000)).all()
    covariance = delta.T @ delta / 5000
    assert torch.allclose(covariance / scale**2, torch.eye(d, dtype=torch.float64), atol=5 * math.sqrt(2 / 5000))


# Tangent


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 999), d=st.integers(1, 30))
def test_tangent_is_orthogonal_to_the_gradient_and_the_rest_parallel(seed, d):
    delta, gradient = points(8, d, seed), points(8, d, seed + 1)
    along = tangent(delta, gradient)
    cosine = (along * gradient).sum(1) / (delta.norm(dim=1) * gradient.norm(dim=1))
    assert cosine.abs().max() < 1e-12
    # What was taken away is a multiple of the gradient: nothing else is lost.
    rest = delta - along
    across = rest - (rest * gradient).sum(1, keepdim=True) / (gradient**2).sum(1, keepdim=True) * gradient
    assert across.abs().max() < 1e-12


@settings(max_examples=40, deadline=None)
@given(exponent=st.floats(-30, 30), seed=st.integers(0, 999))
def test_tangent_does_not_depend_on_the_gradients_length_in_float32(exponent, seed):
    delta, gradient = points(8, 4, seed, torch.float32), points(8, 4, seed + 1, torch.float32)
    gradient[:, 0] = 1.0  # no row is much shorter than the others
    assert torch.allclose(tangent(delta, gradient * 10.0**exponent), tangent(delta, gradient), atol=1e-5)


def test_where_the_gradient_vanishes_delta_is_kept_whole():
    delta = points(3)
    gradient = torch.tensor([[0.0, 0.0], [0.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    along = tangent(delta, gradient)
    assert torch.equal(along[[0, 2]], delta[[0, 2]])
    assert torch.allclose(along[1], torch.stack([delta[1, 0], torch.zeros((), dtype=torch.float64)]))


# Walks


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), d=st.integers(2, 20), radius=st.floats(1e-3, 1))
def test_every_step_is_orthogonal_to_the_gradient(seed, d, radius):
    x = points(8, d, seed)
    delta = uniform_in_ball(x, radius, gen(seed))
    path = [x] + [dam(energy, x, radius=radius, steps=t, generator=gen(seed))[0] for t in range(1, 5)]
    for here, there in pairwise(path):
        gradient = score(energy, here + delta)  # Eq. 11 takes it at the perturbed point
        product = ((there - here) * gradient).sum(1)
        assert (product.abs() <= 1e-10 * delta.norm(dim=1) * gradient.norm(dim=1)).all()
        assert (there != here).any(1).all()


@settings(max_examples=40, deadline=None)
@given(exponent=st.floats(-6, 6), seed=st.integers(0, 999))
def test_the_scale_of_the_log_density_does_not_matter(exponent, seed):
    x, factor = points(seed=seed), 10.0**exponent
    plain, _ = dam(energy, x, radius=0.2, steps=5, generator=gen(seed))
    scaled, _ = dam(lambda x: factor * energy(x), x, radius=0.2, steps=5, generator=gen(seed))
    assert torch.allclose(plain, scaled, rtol=1e-9, atol=1e-9)


def test_on_a_flat_density_delta_is_kept_whole():
    x = points()
    y, info = dam(lambda x: 0 * x.sum(1), x, radius=0.2, steps=7, generator=gen(3), max_drop=0.5)
    assert torch.allclose(y, x + 7 * uniform_in_ball(x, 0.2, gen(3)))
    assert torch.isfinite(info.distance).all() and (info.log_density_change == 0).all()


def numpy_walk(x, delta, steps):
    """Alg. 1 for ``mixture``, with the gradient of p itself, as the paper writes it."""
    for _ in range(steps):
        at = x + delta
        gap = CENTRES[None] - at[:, None]
        p = np.exp(-(gap**2).sum(2) / (2 * WIDTHS**2))
        gradient = ((p / WIDTHS**2)[:, :, None] * gap).sum(1)
        inner = np.einsum("nd,nd->n", gradient, delta)
        x = x + delta - (inner / np.einsum("nd,nd->n", gradient, gradient))[:, None] * gradient
    return x


@pytest.mark.parametrize("steps", [0, 1, 2, 10])
def test_walk_equals_algorithm_1_with_delta_drawn_once(steps):
    x = points()
    delta = uniform_in_ball(x, 0.1, gen(5))
    y, _ = dam(mixture, x, radius=0.1, steps=steps, generator=gen(5))
    assert np.allclose(y.numpy(), numpy_walk(x.numpy(), delta.numpy(), steps), rtol=1e-9, atol=1e-9)


def test_without_a_bound_steps_are_taken_however_far_they_fall():
    # The paper's walk: a large radius leads far off the ring, and max_drop=inf (the default) does not stop it.
    x = points(64)
    x = x / x.norm(dim=1, keepdim=True)
    free, info = dam(ring, x, radius=2.0, steps=3, generator=gen())
    assert info.log_density_change.min() < -20
    told, _ = dam(ring, x, radius=2.0, steps=3, generator=gen(), max_drop=math.inf)
    assert torch.equal(free, told)


def test_a_bound_never_reached_changes_nothing():
    x = points()
    free, info = dam(mixture, x, radius=0.1, steps=5, generator=gen())
    held, _ = dam(mixture, x, radius=0.1, steps=5, generator=gen(), max_drop=1 - float(info.log_density_change.min()))
    assert torch.equal(free, held)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), radius=st.floats(0.01, 3), max_drop=st.floats(0, 5))
def test_no_point_of_the_path_lies_more_than_max_drop_below_the_start(seed, radius, max_drop):
    x = points(seed=seed)
    floor = mixture(x) - max_drop
    # Delta is drawn once, so a walk of t steps is the beginning of a longer one.
    for steps in range(1, 8):
        y, info = dam(mixture, x, radius=radius, steps=steps, generator=gen(seed), max_drop=max_drop)
        assert (mixture(y) >= floor).all()
        assert (info.log_density_change >= -max_drop - 1e-12).all()


def test_walks_do_not_cross_the_valley_between_two_gaussians():
    centres, widths = torch.tensor([[-1.0, 0.0], [1.0, 0.0]]), torch.tensor([0.3, 0.05])

    def two(x):  # a row of two flat ellipses, with a valley of exp(-5.6) between their tips
        return torch.logsumexp(-(((x[:, None] - centres) / widths) ** 2).sum(2) / 2, dim=1)

    side = torch.tensor([-1.0, 1.0]).repeat(200)
    x = torch.stack([side, torch.zeros(400)], dim=1) + 0.5 * widths * points(400, dtype=torch.float32)
    held, info = dam(two, x, radius=0.1, steps=60, generator=gen(2), max_drop=2.0)
    assert (held[:, 0].sign() == side).all()
    assert info.distance.mean() > 0.1  # they do walk
    # The bound is what holds them: without it some cross.
    free, _ = dam(two, x, radius=0.1, steps=60, generator=gen(2))
    assert (free[:, 0].sign() != side).any()


@pytest.mark.parametrize("max_drop", [math.inf, 0.5])
def test_diagnostics_equal_direct_recomputation(max_drop):
    x = points(64)
    y, info = dam(mixture, x, radius=0.5, steps=6, generator=gen(), max_drop=max_drop)
    assert torch.allclose(info.distance, ((y - x) ** 2).sum(1).sqrt())
    assert torch.allclose(info.log_density_change, mixture(y) - mixture(x))


def test_images_walk_like_the_same_numbers_in_rows():
    rows = points(5, 3 * 4 * 4)
    run = dict(radius=0.5, steps=4, max_drop=0.3)
    flat, flat_info = dam(energy, rows, generator=gen(), **run)
    images, info = dam(energy, rows.view(5, 3, 4, 4), generator=gen(), **run)
    assert images.shape == (5, 3, 4, 4)
    assert torch.allclose(images.flatten(1), flat)
    assert torch.allclose(info.distance, flat_info.distance)
    assert info.distance.shape == info.log_density_change.shape == (5,)


def test_walks_are_independent_of_the_other_rows():
    x = points(64)
    y, info = dam(mixture, x, radius=1.0, steps=5, generator=gen(), max_drop=0.2)
    # Some are held from the first step on, which does not hold the others.
    assert (info.distance[:32] == 0).any() and (info.distance[:32] > 0).any()
    changed = x.clone()
    changed[32:] += 5
    z, _ = dam(mixture, changed, radius=1.0, steps=5, generator=gen(), max_drop=0.2)
    assert torch.allclose(y[:32], z[:32])


def test_same_generator_gives_the_same_walk():
    x = points(dtype=torch.float32)
    one, two, three = (dam(ring, x, radius=0.1, steps=5, generator=gen(s))[0] for s in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)


def test_walks_follow_a_ring_further_than_a_free_step_could():
    angle = torch.linspace(0, 2 * math.pi, 200, dtype=torch.float64)
    x = torch.stack([angle.cos(), angle.sin()], dim=1)
    y, info = dam(ring, x, radius=0.05, steps=30, generator=gen(), max_drop=2.0)
    assert (y.norm(dim=1) - 1).abs().max() <= math.sqrt(2.0 * 0.02) + 1e-9  # where log p is 2 lower
    assert info.distance.max() > 4 * 0.05


def test_walks_carry_no_graph_and_spare_parameters():
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    x = points()
    before = x.clone()
    y, info = dam(lambda x: -((x * weight) ** 2).sum(1), x, radius=0.1, steps=3, generator=gen())
    assert not y.requires_grad and not info.distance.requires_grad and not info.log_density_change.requires_grad
    assert weight.grad is None
    assert torch.equal(x, before)


@pytest.mark.parametrize("max_drop", [math.inf, 0.2])
def test_the_path_is_where_shorter_walks_end_and_keeping_it_changes_nothing(max_drop):
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(1))

    def walked(steps, **options):
        g = torch.Generator().manual_seed(0)
        return dam(lambda x: x.square().sum(1), x, radius=0.5, steps=steps, generator=g, max_drop=max_drop, **options)

    end, about = walked(6, keep_path=True)
    assert about.path.shape == (20, 7, 3) and torch.equal(about.path[:, 0], x)
    assert all(torch.equal(about.path[:, t], walked(t)[0]) for t in range(1, 7))
    assert torch.equal(end, about.path[:, -1]) and walked(6)[1].path is None
    if math.isfinite(max_drop):
        ended = (about.path[:, 5] == end).all(1)
        assert ended.any() and not ended.all()
