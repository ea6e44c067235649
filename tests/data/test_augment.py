"""T(x'|x) of flat rows: the parts for images come first, and those that are off draw nothing."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA

from gedi.data import Scaler, augment
from gedi.data.augment import affine, neighbour_table, pick, row_augmentation, towards_neighbour
from gedi.data.image_augment import ImageAugment, change_images
from gedi.data.scaled_rows import scaled
from gedi.errors import ConfigError
from gedi.training.config import AugmentConfig

SHAPE = (8, 8, 3)
DATA = 2 * torch.rand(20, 192, generator=torch.Generator().manual_seed(0)) - 1
ROWS = torch.arange(6)


def generator():
    return torch.Generator().manual_seed(3)


def view(settings, shape=SHAPE, box=(-1.0, 1.0)):
    return row_augmentation(settings, DATA, shape, box=box)(DATA[ROWS], ROWS, generator())


def test_without_image_settings_the_same_numbers_are_drawn_as_ever():
    settings = AugmentConfig(noise=0.1, neighbours=4, towards=0.5, shift=1.0, rotate=8.0, scale=0.05, shear=0.05)
    g = generator()
    x = affine(DATA[ROWS], SHAPE, shift=1.0, rotate=8.0, scale=0.05, shear=0.05, generator=g)
    x = towards_neighbour(x, DATA[pick(neighbour_table(DATA, 4)[ROWS], g)], 0.5, g)
    x = x + 0.1 * torch.randn(x.shape, generator=g)
    assert torch.equal(view(settings), x)


def test_images_are_cropped_and_coloured_before_the_noise():
    settings = AugmentConfig(noise=0.1, crop=2, flip=True, jitter=0.7, gray=0.4, hue=0.2)
    g = generator()
    images = DATA[ROWS].view(-1, *SHAPE).permute(0, 3, 1, 2)
    same = ImageAugment(crop=2, flip=True, jitter=0.7, gray=0.4, hue=0.2, noise=0.0)
    x = change_images(images, same, g).permute(0, 2, 3, 1).reshape(6, -1)
    assert torch.equal(view(settings), x + 0.1 * torch.randn(x.shape, generator=g))
    assert not torch.equal(x, DATA[ROWS])


def test_a_crop_needs_neither_black_nor_white():
    moved = view(AugmentConfig(noise=0.0, crop=2, flip=True), box=None)
    for before, after in zip(DATA[ROWS], moved, strict=True):
        assert set(after.tolist()) <= set(before.tolist())


@pytest.mark.parametrize("setting", [{"crop": 2}, {"flip": True}, {"jitter": 0.1}, {"gray": 0.1}])
def test_rows_are_not_images(setting):
    with pytest.raises(ConfigError, match=f"augment.{next(iter(setting))}.*rows"):
        view(AugmentConfig(**setting), shape=None)


def test_colours_need_black_and_white():
    with pytest.raises(ConfigError, match=r"augment.jitter.*scaling pixels"):
        view(AugmentConfig(crop=1, jitter=0.1), box=None)


def test_a_crop_as_wide_as_the_image_is_refused_before_training():
    with pytest.raises(ConfigError, match=r"crop.*got 8 for 8x8"):
        row_augmentation(AugmentConfig(crop=8), DATA, SHAPE)


def test_neighbours_of_many_long_rows_are_looked_for_in_their_main_directions(monkeypatch):
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(80, 50)) @ rng.normal(size=(50, 120))
    data = torch.from_numpy(flat.astype(np.float32))
    whole = neighbour_table(data, 5)
    seen = []
    monkeypatch.setattr(augment, "MOST_PRODUCTS", 0)
    monkeypatch.setattr(augment, "PCA", lambda *a, **k: seen.append(a) or PCA(*a, **k))
    assert torch.equal(neighbour_table(data, 5), whole)  # 50 directions hold all of these rows
    assert seen == [(50,)]


def test_neighbours_of_very_many_images_are_looked_for_in_parts(monkeypatch):
    groups = np.random.default_rng(0).integers(0, 200, (2, 60))
    images = (np.tile(groups, (50, 1)) + np.random.default_rng(1).integers(0, 20, (100, 60))).astype(np.uint8)
    rows = scaled(images, Scaler().fit(images, mode="pixels"))
    whole = neighbour_table(rows, 4)
    monkeypatch.setattr(augment, "MOST_TOGETHER", 60)
    monkeypatch.setattr(augment, "TOGETHER", 30)
    table = neighbour_table(rows, 4)
    assert table.shape == whole.shape and not torch.equal(table, whole)
    places = torch.arange(100)[:, None]
    assert bool(((table != places) & (table % 2 == places % 2)).all())  # others, of the same group
    assert torch.equal(neighbour_table(rows, 4), table)
    as_floats = torch.from_numpy(Scaler().fit(images, mode="pixels").transform(images))
    assert torch.equal(neighbour_table(as_floats, 4), whole)
