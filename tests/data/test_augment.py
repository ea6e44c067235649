"""T(x'|x): what is drawn, in which order, and how strongly rows and images change."""

import ast
import inspect
import io
import tokenize
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from gedi.data.augment import (
    YIQ,
    AugmentConfig,
    affine,
    change_colours,
    change_images,
    move,
    neighbour_table,
    pick,
    row_augmentation,
    window,
)
from gedi.errors import ConfigError
from gedi.training.config import TrainingConfig, override
from gedi.training.presets import preset

SHAPE = (8, 8, 3)
BOX = (-1.0, 1.0)
PAPER = {name: preset(f"paper-{name}", n_features=2).augment for name in ("svhn", "cifar10", "cifar100", "mnist")}
DATA = 2 * torch.rand(20, 192, generator=torch.Generator().manual_seed(0)) - 1
ROWS = torch.arange(6)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def views(settings, shape=SHAPE, box=BOX):
    return row_augmentation(settings, DATA, shape, box=box)(DATA[ROWS], ROWS, generator(3))


def view(settings, shape=SHAPE, box=BOX):
    """The second view, if the first is x itself."""
    first, second = views(replace(settings, both=False), shape, box)
    assert torch.equal(first, DATA[ROWS])
    return second


def images(n=6, channels=3, height=12, width=10, seed=0):
    """In [-1, 1]."""
    return 2 * torch.rand(n, channels, height, width, generator=generator(seed)) - 1


def unit(n=6, channels=3, **options):
    return (images(n, channels, **options) + 1) / 2


def changed_share(x, y):
    return float(((x - y).abs().flatten(1).amax(1) > 1e-6).float().mean())


def flat_view(x, settings, seed=0):
    """A view of images [n, C, H, W] that training would see, of the images themselves."""
    settings = replace(settings, both=False, neighbours=0)
    n, channels, height, width = x.shape
    rows = x.permute(0, 2, 3, 1).reshape(n, -1)
    augment = row_augmentation(settings, rows, (height, width, channels), box=BOX)
    _, seen = augment(rows, torch.arange(n), generator(seed) if isinstance(seed, int) else seed)
    return seen.view(n, height, width, channels).permute(0, 3, 1, 2)


def test_every_setting_has_a_comment_beside_it():
    """They become docs/settings.md."""
    source = inspect.getsource(AugmentConfig)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    fields = [node for node in ast.parse(source).body[0].body if isinstance(node, ast.AnnAssign)]
    assert len(fields) == len(AugmentConfig.__annotations__) and {node.lineno for node in fields} <= commented


@pytest.mark.parametrize(
    "wrong",
    [
        {"jitter": 1.5},
        {"gray": -0.1},
        {"hue": 0.6},
        {"brightness": 2.0},
        {"crop": -1},
        {"noise": -0.1},
        {"elastic": -0.1},
        {"resize": 0.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ConfigError, match=rf"training\.augment\.{next(iter(wrong))} must"):
        override(TrainingConfig(), {"augment": wrong})


# ---- rows ----


def test_without_image_settings_no_other_numbers_are_drawn():
    settings = AugmentConfig(noise=0.1, neighbours=4, shift=1.0, rotate=8.0, scale=0.05, shear=0.05)
    g = generator(3)
    near = DATA[pick(neighbour_table(DATA, 4)[ROWS], g)]
    x = affine(near.view(-1, *SHAPE).permute(0, 3, 1, 2), settings, g).permute(0, 2, 3, 1).reshape(6, -1)
    x = x + 0.1 * torch.randn(x.shape, generator=g)
    assert torch.equal(view(settings), x)


# ---- two views ----


def test_both_views_are_changed_each_in_its_own_way():
    first, second = views(AugmentConfig(noise=0.1, neighbours=0))
    noises = [one - DATA[ROWS] for one in (first, second)]
    assert not torch.allclose(*noises)
    for noise in noises:
        assert float(noise.std()) == pytest.approx(0.1, rel=0.1) and abs(float(noise.mean())) < 0.02


def test_the_papers_first_view_is_the_row_itself():
    first, second = views(AugmentConfig(noise=0.1, neighbours=0, both=False))
    assert torch.equal(first, DATA[ROWS]) and not torch.allclose(first, second, atol=0.01)


@pytest.mark.parametrize("both", [True, False])
def test_the_second_view_is_that_of_a_neighbour(both):
    table = neighbour_table(DATA, 3)
    augment = row_augmentation(AugmentConfig(noise=0.0, neighbours=3, both=both), DATA)
    g, seen = generator(), set()
    for _ in range(200):
        first, second = augment(DATA[ROWS], ROWS, g)
        assert torch.equal(first, DATA[ROWS])
        places = (second[:, None] == DATA).all(2).int().argmax(1)
        assert torch.equal(DATA[places], second)
        assert all(int(place) in table[row].tolist() for row, place in zip(ROWS, places, strict=True))
        seen |= set(zip(ROWS.tolist(), places.tolist(), strict=True))
    assert seen == {(row, place) for row in ROWS.tolist() for place in table[row].tolist()}  # each is drawn


def test_rows_are_known_by_their_places_and_not_by_their_order():
    augment = row_augmentation(AugmentConfig(noise=0.0, neighbours=1), DATA)
    some = torch.tensor([7, 2, 19])
    _, second = augment(DATA[some], some, generator())
    assert torch.equal(second, DATA[neighbour_table(DATA, 1)[some, 0]])


# ---- elastic ----


def test_elastic_displacements_have_their_size_and_are_smooth():
    """A picture of its own coordinates shows where every pixel came from."""
    n, size = 400, 32
    grid = (torch.arange(size) + 0.5) * 2 / size - 1  # half sides of the image
    x = torch.stack(torch.meshgrid(grid, grid, indexing="ij")).expand(n, 2, size, size)
    moved = affine(x, AugmentConfig(elastic=0.05), generator()) - x
    inside = moved[..., 8:-8, 8:-8]  # the border cannot show where beyond it a pixel came from
    assert abs(float(inside.mean())) < 0.005 and 0.02 < float(inside.std()) < 0.05
    steps = (inside[..., 1:] - inside[..., :-1]).abs()
    assert float(steps.mean()) < 0.25 * float(inside.std())  # neighbouring pixels move together
    corners = moved[:, 1, size // 2, size // 2]
    assert float(corners.std()) > 0.02  # every image has its own displacements
    double = affine(x, AugmentConfig(elastic=0.1), generator()) - x
    assert torch.allclose(double[..., 8:-8, 8:-8], 2 * inside, atol=1e-4)


def test_elastic_changes_images_alone_and_draws_nothing_where_it_is_off():
    x = images()
    assert changed_share(x, affine(x, AugmentConfig(elastic=0.05), generator())) == 1
    assert torch.equal(
        view(AugmentConfig(elastic=0.05, noise=0.1, neighbours=0), shape=None, box=None),
        view(AugmentConfig(noise=0.1, neighbours=0), shape=None, box=None),
    )
    one, two = generator(), generator()
    affine(x, AugmentConfig(shift=1.0), one), affine(x, AugmentConfig(rotate=1.0), two)
    assert torch.equal(one.get_state(), two.get_state())
    affine(x, AugmentConfig(elastic=0.05), three := generator())
    assert not torch.equal(one.get_state(), three.get_state())


# ---- images ----


def test_images_are_cropped_and_coloured_before_the_noise():
    settings = AugmentConfig(noise=0.1, neighbours=0, crop=2, flip=True, jitter=0.7, gray=0.4, hue=0.2)
    g = generator(3)
    images = DATA[ROWS].view(-1, *SHAPE).permute(0, 3, 1, 2)
    x = change_images(images, settings, g, box=BOX).permute(0, 2, 3, 1).reshape(6, -1)
    assert torch.equal(view(settings), x + 0.1 * torch.randn(x.shape, generator=g))
    assert not torch.equal(x, DATA[ROWS])


def test_a_crop_needs_neither_black_nor_white():
    moved = view(AugmentConfig(noise=0.0, neighbours=0, crop=2, flip=True), box=None)
    for before, after in zip(DATA[ROWS], moved, strict=True):
        assert set(after.tolist()) <= set(before.tolist())


@pytest.mark.parametrize("setting", [{"crop": 2}, {"area": 0.5}, {"flip": True}, {"jitter": 0.1}, {"gray": 0.1}])
def test_rows_are_not_images(setting):
    with pytest.raises(ConfigError, match=f"augment.{next(iter(setting))}.*rows"):
        view(AugmentConfig(**setting), shape=None)


def test_colours_need_black_and_white():
    with pytest.raises(ConfigError, match=r"augment.jitter.*scaling to pixels"):
        view(AugmentConfig(crop=1, jitter=0.1), box=None)


def test_a_crop_as_wide_as_the_image_is_refused_before_training():
    with pytest.raises(ConfigError, match=r"crop.*got 8 for 8x8"):
        row_augmentation(AugmentConfig(crop=8), DATA, SHAPE)


def test_neighbours_wait_until_they_are_learned():
    augment = row_augmentation(AugmentConfig(noise=0.0, neighbours=1, early=False), DATA)
    assert torch.equal(augment(DATA[ROWS], ROWS, generator())[1], DATA[ROWS])
    table = (torch.arange(len(DATA)) + 7).remainder(len(DATA))[:, None]
    assert torch.equal(augment(DATA[ROWS], ROWS, generator(), table)[1], DATA[ROWS + 7])


# ---- the paper's table ----


@pytest.mark.parametrize("name, channels", [("svhn", 3), ("cifar10", 3), ("cifar100", 3), ("mnist", 1)])
def test_views_are_of_the_same_kind_and_leave_the_images_alone(name, channels):
    x = images(64, channels, 32, 32)
    before = x.clone()
    view = change_images(x, PAPER[name], generator(), box=BOX)
    assert view.shape == x.shape and view.dtype == x.dtype and bool(view.isfinite().all())
    assert torch.equal(x, before) and changed_share(x, flat_view(x, PAPER[name])) == 1
    assert view.is_contiguous(memory_format=torch.channels_last)


# ---- the generator ----


def test_views_come_from_the_generator_alone():
    x = images(32, 3, 32, 32)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = flat_view(x, PAPER["cifar10"], 7)
    assert torch.equal(torch.get_rng_state(), before)  # nothing touched the global one
    torch.manual_seed(2)
    assert torch.equal(one, flat_view(x, PAPER["cifar10"], 7))
    assert not torch.equal(one, flat_view(x, PAPER["cifar10"], 8))
    shared = generator(7)
    first, second = (flat_view(x, PAPER["cifar10"], shared) for _ in range(2))
    assert torch.equal(first, one) and changed_share(first, second) == 1  # two independent views


def test_one_chance_does_not_move_the_draws_of_another():
    x = images(200)
    plain, gray = (flat_view(x, AugmentConfig(noise=0.03, crop=4, gray=p)) for p in (0.0, 0.5))
    same = (plain - gray).abs().flatten(1).amax(1) < 1e-6
    assert 0.35 < float(same.float().mean()) < 0.65  # crop and noise agree where it stayed in colour


def test_with_everything_off_nothing_happens():
    x = images()
    assert torch.equal(flat_view(x, AugmentConfig(noise=0.0)), x)
    assert torch.allclose(change_images(x, AugmentConfig(), generator(), box=BOX), x, atol=1e-6)


# ---- crop and flip ----


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), crop=st.integers(0, 5), flip=st.booleans())
def test_every_view_is_a_window_of_the_reflected_image(seed, crop, flip):
    x = images(3, 2, 7, 6, seed)
    view = move(x, AugmentConfig(crop=crop, flip=flip), generator(seed))
    padded = F.pad(x, (crop,) * 4, mode="reflect")
    windows = padded.unfold(2, 7, 1).unfold(3, 6, 1)  # [n, C, top, left, 7, 6]
    for one, image in zip(view, windows, strict=True):
        candidates = [image] + ([image.flip(-1)] if flip else [])
        assert any(bool((one[:, None, None] == c).flatten(3).all(3).all(0).any()) for c in candidates)


def test_every_offset_is_equally_likely():
    """A picture of its own coordinates shows where it was cut out."""
    n, crop, size = 8100, 4, 20
    x = torch.arange(size * size, dtype=torch.float64).view(1, 1, size, size).expand(n, 1, size, size)
    middle = move(x, AugmentConfig(crop=crop), generator())[:, 0, size // 2, size // 2].long()
    top, left = middle // size - size // 2, middle % size - size // 2
    counts = torch.bincount((top + crop) * (2 * crop + 1) + left + crop, minlength=81).double()
    assert len(counts) == 81
    assert float(((counts - n / 81) ** 2 / (n / 81)).sum()) < 131  # chi-square, 80 degrees: 1 in 4,000


def test_half_of_the_images_are_mirrored():
    x = images(4000, 1, 8, 8)
    view = move(x, AugmentConfig(flip=True), generator())
    mirrored = (view == x.flip(3)).flatten(1).all(1)
    assert bool((mirrored | (view == x).flatten(1).all(1)).all())
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert torch.equal(move(x, AugmentConfig(), generator()), x)


def test_windows_show_parts_of_the_image_enlarged():
    """A picture of its own coordinates shows which part was cut out."""
    n, size, least = 4000, 32, 0.2
    ramp = (torch.arange(size) + 0.5) / size
    x = torch.stack(torch.meshgrid(ramp, ramp, indexing="ij")).expand(n, 2, size, size)
    view = window(x, AugmentConfig(area=least, flip=True), generator())
    mirrored = view[:, 1, 0, 0] > view[:, 1, 0, -1]
    assert float(mirrored.float().mean()) == pytest.approx(0.5, abs=0.03)
    height = (view[:, 0, -2, 5] - view[:, 0, 1, 5]) * size / (size - 3)  # the outermost pixels repeat the border
    width = (view[:, 1, 5, -2] - view[:, 1, 5, 1]).abs() * size / (size - 3)
    area = height * width
    assert least - 0.01 < float(area.min()) < least + 0.05 and 0.95 < float(area.max()) < 1.01
    assert float((width / height).max()) < 4 / 3 + 0.01 and float((height / width).max()) < 4 / 3 + 0.01


def test_smaller_windows_show_the_same_parts():
    """Averaged over squares of four pixels, windows at full size are those at half size."""
    ramp = (torch.arange(16) + 0.5) / 16
    x = torch.stack(torch.meshgrid(ramp, ramp, indexing="ij")).expand(50, 2, 16, 16)
    whole, half = (window(x, AugmentConfig(area=0.2, resize=resize), generator()) for resize in (1.0, 0.5))
    assert half.shape == (50, 2, 8, 8)
    inner = slice(1, -1)  # the outermost pixels repeat the border
    assert torch.allclose(F.avg_pool2d(whole, 2)[..., inner, inner], half[..., inner, inner], atol=1e-5)


def test_smaller_views_are_images():
    first, second = views(AugmentConfig(area=0.2, resize=0.75, jitter=0.8, noise=0.01, neighbours=0))
    assert first.shape == second.shape == (6, 6, 6, 3)


def test_whole_images_are_not_made_smaller():
    with pytest.raises(ConfigError, match="area below 1, or resize to 1"):
        row_augmentation(AugmentConfig(resize=0.5), DATA, SHAPE)


def test_two_ways_to_crop_are_refused():
    with pytest.raises(ConfigError, match="crop to 0 or area to 1"):
        row_augmentation(AugmentConfig(crop=2, area=0.5), DATA, SHAPE)


# ---- colours ----


@pytest.mark.parametrize("p", [0.0, 0.1, 0.7, 1.0])
def test_chances_are_frequencies(p):
    x = unit(4000, 3, height=4, width=4)
    jittered = change_colours(x, AugmentConfig(jitter=p), generator())
    assert changed_share(x, jittered) == pytest.approx(p, abs=0.03)
    grayed = change_colours(x, AugmentConfig(gray=p), generator())
    is_gray = (grayed == grayed[:, :1]).flatten(1).all(1)
    assert float(is_gray.float().mean()) == pytest.approx(p, abs=0.03)
    assert changed_share(x[~is_gray], grayed[~is_gray]) in (0.0,) or p == 1


def test_jitter_and_gray_are_independent():
    x = unit(8000, 3, height=4, width=4)
    both = change_colours(x, AugmentConfig(jitter=0.5, gray=0.5), generator())
    gray_only = change_colours(x, AugmentConfig(gray=0.5), generator())
    is_gray = (both == both[:, :1]).flatten(1).all(1)
    jittered = (both - gray_only).abs().flatten(1).amax(1) > 1e-6
    assert float((is_gray & jittered).float().mean()) == pytest.approx(0.25, abs=0.03)


def test_gray_is_the_luminance():
    x = unit()
    view = change_colours(x, AugmentConfig(gray=1), generator())
    weights = torch.tensor([0.299, 0.587, 0.114])
    assert torch.allclose(view, (x * weights[:, None, None]).sum(1, keepdim=True).expand_as(x), atol=1e-6)


def only(**strength):
    return AugmentConfig(jitter=1, **({"brightness": 0, "contrast": 0, "saturation": 0, "hue": 0} | strength))


def test_brightness_is_a_factor_within_its_range():
    x = 0.2 + 0.4 * unit(2000, height=4, width=4)  # 0.6 * 1.4 is still below white
    factor = (change_colours(x, only(brightness=0.4), generator()) / x).flatten(1)
    assert torch.allclose(factor, factor[:, :1].expand_as(factor), atol=1e-4)
    assert 0.6 <= float(factor.min()) < 0.61 and 1.39 < float(factor.max()) <= 1.4 + 1e-4
    assert float(factor[:, 0].mean()) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("channels", [1, 3])
def test_contrast_keeps_the_mean_luminance(channels):
    x = 0.35 + 0.3 * unit(500, channels)
    view = change_colours(x, only(contrast=0.4), generator())
    weights = torch.tensor([0.299, 0.587, 0.114] if channels == 3 else [1.0])[:, None, None]
    assert torch.allclose((view * weights).sum(1).mean((1, 2)), (x * weights).sum(1).mean((1, 2)), atol=1e-5)
    ratio = view.std((1, 2, 3)) / x.std((1, 2, 3))
    assert 0.55 < float(ratio.min()) < 0.7 and 1.3 < float(ratio.max()) < 1.45


def test_saturation_keeps_the_luminance():
    x = 0.4 + 0.2 * unit(500)
    view = change_colours(x, only(saturation=0.4), generator())
    weights = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    assert torch.allclose((x * weights).sum(1), (view * weights).sum(1), atol=1e-5) and changed_share(x, view) > 0.95


def test_hue_turns_colours_around_grey_by_at_most_a_tenth():
    muted = torch.tensor([0.6, 0.45, 0.45]).view(1, 3, 1, 1).expand(2000, 3, 2, 2)
    before, after = (
        a[:, :, 0, 0] @ torch.tensor(YIQ).T for a in (muted, change_colours(muted, only(hue=0.1), generator()))
    )
    assert torch.allclose(before[:, 0], after[:, 0], atol=1e-5)  # luminance and saturation stay
    assert torch.allclose(before[:, 1:].norm(dim=1), after[:, 1:].norm(dim=1), atol=1e-5)
    turn = (torch.atan2(after[:, 2], after[:, 1]) - torch.atan2(before[:, 2], before[:, 1])) / (2 * torch.pi)
    assert -0.1 - 1e-4 <= float(turn.min()) < -0.098 and 0.098 < float(turn.max()) <= 0.1 + 1e-4


def test_grey_images_have_only_brightness_and_contrast():
    x = unit(50, 1)
    assert torch.equal(change_colours(x, AugmentConfig(gray=1), generator()), x)
    assert torch.equal(change_colours(x, only(saturation=0.4, hue=0.1), generator()), x)
    assert changed_share(x, change_colours(x, only(brightness=0.4), generator())) > 0.95


def test_colours_stay_between_black_and_white():
    x = 3 * images(200)  # samplers leave the box
    view = change_images(x, AugmentConfig(jitter=1), generator(), box=BOX)
    assert float(view.min()) >= -1 - 1e-5 and float(view.max()) <= 1 + 1e-5


def test_the_box_is_only_a_unit():
    x = images(40)
    settings = AugmentConfig(crop=4, jitter=1)
    one = change_images(x, settings, generator(), box=BOX)
    two = change_images((x + 1) * 127.5, settings, generator(), box=(0, 255))
    assert torch.allclose((one + 1) * 127.5, two, atol=0.05)


# ---- noise ----


@pytest.mark.parametrize("std", [0.03, 0.3])
def test_noise_has_its_size(std):
    x = images(50, 3, 32, 32)
    noise = flat_view(x, AugmentConfig(noise=std)) - x
    assert float(noise.std()) == pytest.approx(std, rel=0.01)
    assert abs(float(noise.mean())) < 0.01 * std
