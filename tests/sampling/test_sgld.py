import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.nets import score
from gedi.sampling import Box, sgld, sgld_step

WIDE = Box(torch.full((2,), -50.0), torch.full((2,), 50.0))


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def gaussian(mean, sd):
    """log density of an axis-aligned Gaussian, without its constant."""
    mean, sd = torch.as_tensor(mean), torch.as_tensor(sd)
    return lambda x: -(((x - mean) / sd) ** 2).sum(1) / 2


def towards(mean, sd):
    """Its gradient."""
    return partial(score, gaussian(mean, sd))


def langevin_variance(variance, *, step, noise):
    """Stationary variance of x' = x - step * x / variance + noise * N(0, 1), from var = (1 - a)^2 var + noise^2."""
    a = step / variance
    return noise**2 / (a * (2 - a))


# Box


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), low=st.floats(-1e4, 1e4), width=st.floats(1e-3, 1e4))
def test_uniform_draws_lie_in_the_box(seed, low, width):
    box = Box(torch.tensor([low, -1.0]), torch.tensor([low + width, 1.0]))
    x = box.uniform(200, gen(seed))
    assert x.shape == (200, 2)
    assert (x >= box.low).all() and (x <= box.high).all()


def test_uniform_draws_fill_the_box_evenly():
    box = Box(torch.tensor([-3.0, 10.0]), torch.tensor([1.0, 11.0]))
    n = 40_000
    share = (box.uniform(n, gen()) - box.low) / (box.high - box.low)
    # Mean 1/2 and variance 1/12, five standard errors each.
    assert ((share.mean(0) - 1 / 2).abs() < 5 / math.sqrt(12 * n)).all()
    assert ((share.var(0) - 1 / 12).abs() < 5 / math.sqrt(180 * n)).all()


def test_box_around_data_is_wider_by_the_margin():
    box = Box.around(torch.tensor([[0.0, 5.0], [2.0, -1.0]]), margin=0.5)
    assert box.low.tolist() == [-0.5, -1.5]
    assert box.high.tolist() == [2.5, 5.5]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 999),
    step=st.floats(0, 1e3),
    noise=st.floats(0, 1e3),
    slope=st.floats(-1e6, 1e6),
)
def test_samples_never_leave_the_box(seed, step, noise, slope):
    box = Box(torch.tensor([-1.0, 0.0]), torch.tensor([2.0, 0.1]))
    x = box.uniform(32, gen(seed + 10_000))
    y = sgld(lambda x: torch.full_like(x, slope), x, steps=3, step=step, noise=noise, box=box, generator=gen(seed))
    assert (y >= box.low).all() and (y <= box.high).all()


def test_the_box_knows_which_coordinates_are_driven_out():
    push = torch.tensor([[1e6, 0.0], [0.0, -1e6], [0.0, 0.0]])
    x = sgld(lambda _: push, torch.zeros(3, 2), steps=1, step=1.0, noise=0.0, box=WIDE, generator=gen())
    expected = [[True, False], [False, True], [False, False]]
    assert WIDE.reached(x).tolist() == WIDE.outward(x, push).tolist() == expected
    assert not WIDE.outward(x, -push).any() and not WIDE.unbounded().reached(x).any()


# One step


def test_samples_depend_on_the_generator_alone():
    one, same, other = (
        sgld(towards(0.0, 1.0), torch.zeros(64, 2), steps=5, noise=0.3, box=WIDE, generator=gen(s)) for s in (7, 7, 2)
    )
    assert torch.equal(one, same)
    assert not torch.isclose(one, other).any()


def test_the_global_generator_is_left_alone():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    sgld(towards(0.0, 1.0), torch.zeros(4, 2), steps=2, noise=0.3, box=WIDE, generator=gen())
    assert torch.equal(torch.rand(1), expected)


def test_the_start_is_not_changed_in_place():
    x = torch.zeros(8, 2)
    sgld(towards(1.0, 1.0), x, steps=3, noise=0.5, box=WIDE, generator=gen())
    assert torch.equal(x, torch.zeros(8, 2))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), step=st.floats(1e-3, 0.9))
def test_without_noise_every_step_climbs(seed, step):
    log_density = gaussian([1.0, -2.0], [1.0, 1.0])  # curvature 1: a step below 2 cannot overshoot
    x = WIDE.uniform(32, gen(seed))
    before = log_density(x)
    for _ in range(4):
        x = sgld_step(partial(score, log_density), x, step=step, noise=0.0, box=WIDE, generator=gen())
        after = log_density(x)
        assert (after > before).all()
        before = after


def test_without_noise_and_gradient_nothing_moves():
    x = WIDE.uniform(32, gen())
    y = sgld_step(torch.zeros_like, x, step=1.0, noise=0.0, box=WIDE, generator=gen(), max_drift=2.0)
    assert torch.equal(x, y)
    assert torch.equal(x, sgld(torch.zeros_like, x, steps=5, step=1.0, noise=0.0, box=WIDE, generator=gen()))


def test_the_kick_has_the_given_length():
    x = torch.zeros(50_000, 2)
    kick = sgld_step(torch.zeros_like, x, step=1.0, noise=0.3, box=WIDE, generator=gen())
    # Standard error of a standard deviation: sd / sqrt(2 n); five of them.
    assert (kick.std(0) - 0.3).abs().max() < 5 * 0.3 / math.sqrt(2 * len(x))
    assert kick.mean(0).abs().max() < 5 * 0.3 / math.sqrt(len(x))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 999),
    max_drift=st.floats(1e-2, 10),
    noise=st.floats(1e-3, 1),
    size=st.floats(1e-4, 1e4),
    shape=st.sampled_from([(2,), (7,), (3, 4, 4)]),
)
def test_max_drift_bounds_the_deterministic_move(seed, max_drift, noise, size, shape):
    x = torch.zeros(16, *shape, dtype=torch.float64)
    box = Box(torch.full(shape, -1e6, dtype=torch.float64), torch.full(shape, 1e6, dtype=torch.float64))
    gradient = size * torch.randn(x.shape, generator=gen(seed + 10_000), dtype=torch.float64)
    keep = dict(step=0.5, noise=noise, box=box, max_drift=max_drift)
    moved = sgld_step(lambda _: gradient, x, generator=gen(seed), **keep)
    kicked = sgld_step(torch.zeros_like, x, generator=gen(seed), **keep)
    drift, free = (moved - kicked).flatten(1), 0.5 * gradient.flatten(1)
    longest = max_drift * noise * math.sqrt(math.prod(shape))  # E|noise|^2 = noise^2 * dimensions
    assert (drift.norm(dim=1) <= longest * (1 + 1e-9)).all()
    # Only the length is bounded, never the direction, and short drifts are left as they are.
    expected = free * (longest / free.norm(dim=1, keepdim=True)).clamp(max=1)
    assert torch.allclose(drift, expected, rtol=1e-9, atol=2e-7)  # torch.renorm adds 1e-7 to the length


def test_without_max_drift_the_move_is_step_times_gradient():
    x = torch.zeros(4, 2)
    gradient = torch.tensor([[20.0, 0.0], [0.0, 0.5], [-3.0, 4.0], [1e-6, 0.0]])
    y = sgld_step(lambda _: gradient, x, step=0.5, noise=0.0, box=WIDE, generator=gen())
    assert torch.allclose(y, 0.5 * gradient)


# Chains


def test_temperature_one_recovers_mean_and_variance_of_a_gaussian():
    mean, sd = torch.tensor([0.5, -1.0]), torch.tensor([1.0, 0.4])
    noise, n = 0.2, 20_000
    box = Box(torch.full((2,), -6.0), torch.full((2,), 6.0))
    # 500 steps forget the uniform start: the slower axis contracts by 1 - 0.02 a step, to 4e-5.
    x = sgld(towards(mean, sd), box.uniform(n, gen()), steps=500, noise=noise, box=box, generator=gen(1))
    # Five standard errors of n independent chains: sd / sqrt(n) for means, variance * sqrt(2 / n) for variances.
    assert ((x.mean(0) - mean).abs() < 5 * sd / math.sqrt(n)).all()
    expected = langevin_variance(sd**2, step=noise**2 / 2, noise=noise)
    assert ((x.var(0) - expected).abs() < 5 * expected * math.sqrt(2 / n)).all()
    # The finite step widens the narrow axis by 7 % and the other by 1 %.
    assert ((x.var(0) / sd**2 - 1).abs() < 0.07 + 5 * math.sqrt(2 / n)).all()
    # The axes are independent: correlation within five standard errors of zero.
    assert abs(torch.corrcoef(x.T)[0, 1]) < 5 / math.sqrt(n)


def test_falling_noise_gives_finer_samples_on_a_thin_gaussian():
    thin = towards([0.0, 0.0], [1.0, 0.02])
    run = dict(steps=60, noise=0.03, box=WIDE)
    coarse = sgld(thin, torch.zeros(4000, 2), generator=gen(), **run)
    fine = sgld(thin, torch.zeros(4000, 2), generator=gen(), final_noise=0.006, **run)
    # At noise 0.03 the stationary standard deviation is 1.5 times the Gaussian's; 4000 chains know it to 1.2 %.
    assert coarse[:, 1].std() > 1.4 * 0.02
    assert fine[:, 1].std() == pytest.approx(0.02, rel=0.1)


def test_noise_falls_geometrically_from_first_to_final():
    x, seen = torch.zeros(1, 2), []

    def flat(y):
        seen.append(y.clone())
        return torch.zeros_like(y)

    last = sgld(flat, x, steps=4, noise=0.8, final_noise=0.1, box=WIDE, generator=gen())
    path = torch.stack([*seen, last])
    kicks = torch.stack([torch.randn(1, 2, generator=g) for g in [gen()] for _ in range(4)])
    assert torch.allclose(path.diff(dim=0), kicks * torch.tensor([0.8, 0.4, 0.2, 0.1]).view(-1, 1, 1), atol=1e-5)


def test_the_papers_setting_is_available_and_far_colder_than_the_density():
    variance = 4.0  # step 1 is stable where step / variance < 2
    paper = dict(step=1.0, noise=0.01)
    x = sgld(towards([0.0, 0.0], [2.0, 2.0]), torch.zeros(4000, 2), steps=60, box=WIDE, generator=gen(), **paper)
    expected = langevin_variance(variance, **paper)  # 2.3e-4
    assert x.var(0).tolist() == pytest.approx([expected] * 2, rel=5 * math.sqrt(2 / 4000))
    assert (x.var(0) < 1e-3 * variance).all()


def test_samples_carry_no_graph():
    x = torch.zeros(3, 2, requires_grad=True)
    y = sgld(lambda x: -x, x, steps=2, noise=0.1, box=WIDE, generator=gen())
    assert not y.requires_grad
