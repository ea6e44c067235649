import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.sampling import Box, ReplayBuffer, distinct

BOX = Box(torch.tensor([-2.0, 0.0]), torch.tensor([3.0, 1.0]))
OUTSIDE = 100.0  # a value no restart can give


def gen(seed=0):
    return torch.Generator().manual_seed(seed)


def marked(size):
    """A buffer whose chains all lie outside the box, each with its own value, so that restarts can be recognised."""
    buffer = ReplayBuffer(size, BOX, gen())
    buffer.put(torch.arange(size), OUTSIDE + torch.arange(2.0 * size).view(size, 2))
    return buffer


def draw(buffer, n, **options):
    return buffer.draw(n, **{"data": torch.zeros(1, 2), "from_data": 0.0, "blur": 0.0} | options)


def in_box(x):
    return ((x >= BOX.low) & (x <= BOX.high)).all(1)


def test_a_new_buffer_lies_in_the_box():
    buffer = ReplayBuffer(500, BOX, gen())
    assert buffer.chains.shape == (500, 2)
    assert in_box(buffer.chains).all()


def test_chains_may_begin_in_another_box():
    inner = Box(torch.full((2,), -1.0), torch.full((2,), 1.0))
    buffer = ReplayBuffer(500, BOX, gen(), inner)
    drawn, _ = draw(buffer, 500, restart=1.0, generator=gen(1))
    for chains in (buffer.chains, drawn):
        assert (chains.abs() <= 1).all() and not in_box(chains).all()
        assert (chains.amin(0) < -0.98).all() and (chains.amax(0) > 0.98).all()


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), size=st.integers(1, 60), data=st.data())
def test_draw_gives_distinct_places(seed, size, data):
    n = data.draw(st.integers(1, size))
    chains, places = draw(marked(size), n, restart=0.5, generator=gen(seed))
    assert len(chains) == len(places) == n
    assert len(set(places.tolist())) == n
    assert all(0 <= p < size for p in places.tolist())


def test_every_place_is_drawn_equally_often():
    buffer, g, counts = marked(20), gen(), torch.zeros(20)
    for _ in range(2000):
        counts[draw(buffer, 5, restart=0.0, generator=g)[1]] += 1
    # Each count is binomial(2000, 1/4): 500 with standard deviation 19.4; five of them.
    assert ((counts - 500).abs() < 5 * math.sqrt(2000 / 4 * 3 / 4)).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999))
def test_put_writes_to_the_drawn_places_and_nowhere_else(seed):
    buffer = marked(30)
    before = buffer.chains.clone()
    chains, places = draw(buffer, 10, restart=0.0, generator=gen(seed))
    buffer.put(places, -chains)
    assert torch.equal(buffer.chains[places], -chains)
    others = torch.ones(30, dtype=torch.bool).index_fill(0, places, False)
    assert torch.equal(buffer.chains[others], before[others])


def test_put_chains_come_back():
    buffer = ReplayBuffer(8, BOX, gen())
    new = torch.arange(16.0).view(8, 2)
    buffer.put(torch.arange(8), new)
    chains, places = draw(buffer, 8, restart=0.0, generator=gen(1))
    assert torch.equal(chains, new[places])


def test_draw_does_not_change_the_buffer():
    buffer = marked(30)
    before = buffer.chains.clone()
    chains, _ = draw(buffer, 30, restart=0.5, generator=gen())
    chains.zero_()
    assert torch.equal(buffer.chains, before)


def test_restart_zero_gives_the_chains_unchanged():
    buffer = marked(200)
    chains, places = draw(buffer, 200, restart=0.0, generator=gen())
    assert torch.equal(chains, buffer.chains[places])


def test_restart_one_gives_only_fresh_points_in_the_box():
    chains, _ = draw(marked(500), 500, restart=1.0, generator=gen())
    assert in_box(chains).all()
    assert len(chains.unique(dim=0)) == 500
    # Fresh points are uniform: mean at the middle, five standard errors of width / sqrt(12 n).
    middle, width = (BOX.low + BOX.high) / 2, BOX.high - BOX.low
    assert ((chains.mean(0) - middle).abs() < 5 * width / math.sqrt(12 * 500)).all()


@pytest.mark.parametrize("restart", [0.05, 0.3, 0.8])
def test_share_of_restarts_is_binomial(restart):
    n = 20_000
    chains, _ = draw(marked(n), n, restart=restart, generator=gen())
    count = int(in_box(chains).sum())
    assert abs(count - n * restart) < 5 * math.sqrt(n * restart * (1 - restart))


def test_chains_restart_whole_not_by_coordinate():
    chains, _ = draw(marked(500), 500, restart=0.5, generator=gen())
    outside = (chains >= OUTSIDE).sum(1)
    assert set(outside.tolist()) == {0, 2}


def test_restarts_from_data_are_rows_of_the_data():
    data = -50.0 - torch.arange(20.0).view(10, 2)
    n, restart, from_data = 20_000, 0.2, 0.3
    buffer = marked(n)
    chains, places = draw(buffer, n, restart=restart, generator=gen(), data=data, from_data=from_data)
    rows = (chains[:, None] == data).all(2)
    kept = (chains == buffer.chains[places]).all(1)
    fresh = in_box(chains)
    # Every chain is exactly one of the three, and each share is binomial.
    assert (rows.any(1).int() + kept.int() + fresh.int() == 1).all()
    for share, expected in ((rows.any(1), from_data), (fresh, restart), (kept, 1 - restart - from_data)):
        assert abs(int(share.sum()) - n * expected) < 5 * math.sqrt(n * expected * (1 - expected))
    # All rows are used, evenly: counts binomial(n * from_data, 1/10).
    assert ((rows.sum(0) - 600).abs() < 5 * math.sqrt(6000 * 0.1)).all()


def test_chains_from_data_are_blurred_and_the_others_are_not():
    data = -50.0 - 10 * torch.arange(20.0).view(10, 2)
    n, blur = 20_000, 0.1
    buffer = marked(n)
    how = dict(restart=0.2, data=data, from_data=0.3, blur=blur)
    chains, places = draw(buffer, n, generator=gen(), **how)
    from_data = chains[:, 0] < -40
    assert abs(int(from_data.sum()) - 0.3 * n) < 5 * math.sqrt(n * 0.3 * 0.7)
    noise = (chains[from_data][:, None] - data).abs().amin(1)  # the distance to the row it came from
    assert 0 < float(noise.max()) < 6 * blur
    signed = chains[from_data] - data[(chains[from_data][:, None] - data).abs().sum(2).argmin(1)]
    assert float(signed.std()) == pytest.approx(blur, rel=0.05) and abs(float(signed.mean())) < 0.01
    others = ~from_data
    kept = (chains == buffer.chains[places]).all(1)
    assert (kept | in_box(chains))[others].all()


def test_with_all_chains_from_data_the_buffer_plays_no_part():
    """Contrastive divergence."""
    data = -50.0 - torch.arange(20.0).view(10, 2)
    how = dict(restart=0.0, data=data, from_data=1.0)
    one, two = (draw(buffer, 40, generator=gen(), **how)[0] for buffer in (marked(40), ReplayBuffer(40, BOX, gen(3))))
    assert torch.equal(one, two) and (one[:, None] == data).all(2).any(1).all()
    blurred = draw(marked(40), 40, generator=gen(), blur=0.1, **how)[0]
    assert (one != blurred).all() and torch.allclose(one, blurred, atol=0.6)


def test_data_unused_without_a_share():
    buffer = marked(50)
    chains, places = draw(buffer, 50, restart=0.0, generator=gen(), data=torch.zeros(3, 2))
    assert torch.equal(chains, buffer.chains[places])


def test_same_generator_gives_the_same_draw():
    one, two = (draw(ReplayBuffer(40, BOX, gen(5)), 20, restart=0.5, generator=gen(6)) for _ in "ab")
    assert torch.equal(one[0], two[0]) and torch.equal(one[1], two[1])


def test_images_keep_their_shape():
    box = Box(torch.zeros(3, 4, 4), torch.ones(3, 4, 4))
    buffer = ReplayBuffer(12, box, gen())
    buffer.put(torch.arange(12), torch.full((12, 3, 4, 4), OUTSIDE))
    chains, _ = draw(buffer, 6, restart=0.5, generator=gen(1), data=torch.full((2, 3, 4, 4), -1.0), from_data=0.3)
    assert chains.shape == (6, 3, 4, 4)
    # An image restarts as a whole.
    outside = (chains == OUTSIDE).flatten(1).float().mean(1)
    assert set(outside.tolist()) <= {0.0, 1.0}


# Distinct numbers


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), n=st.integers(1, 3000), size=st.integers(1, 60))
def test_distinct_numbers_are_distinct_and_below_n(seed, n, size):
    drawn = distinct(n, size, gen(seed)).tolist()
    assert len(drawn) == len(set(drawn)) == min(n, size)
    assert min(drawn) >= 0 and max(drawn) < n
    assert drawn == distinct(n, size, gen(seed)).tolist()


def test_of_many_numbers_each_is_drawn_equally_often_and_at_every_place():
    g, n, draws = gen(), 256, 4000
    counts = torch.stack([torch.bincount(distinct(n, 4, g), minlength=n) for _ in range(draws)]).sum(0)
    # Each count is binomial(4000, 4 / 256): 62.5 with standard deviation 7.8; five of them.
    assert ((counts - draws * 4 / n).abs() < 5 * math.sqrt(draws * 4 / n)).all()
    first = torch.stack([distinct(n, 4, g)[0] for _ in range(draws)]).float()
    assert abs(first.mean() - (n - 1) / 2) < 5 * n / math.sqrt(12 * draws)
