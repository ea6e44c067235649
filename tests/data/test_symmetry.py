"""Images are mirrored only if their mirror images look like more data."""

import numpy as np
import pytest
import torch

from gedi.data import Scaler, load
from gedi.data.pictures import is_mirrored
from gedi.data.scaled_rows import ScaledRows


def slopes(n, *, both_ways):
    """Noisy images that get brighter towards the right, or towards either side."""
    rng = np.random.default_rng(0)
    slope = rng.uniform(0.5, 1.5, n) * (rng.choice([-1, 1], n) if both_ways else 1)
    ramp = np.linspace(-1, 1, 12)[None, None, :, None]
    return (slope[:, None, None, None] * ramp + rng.normal(0, 0.3, (n, 12, 12, 3))).astype(np.float32)


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize("n", [40, 900])
def test_left_and_right_are_told_apart_where_they_differ(n, both_ways):
    x = slopes(n, both_ways=both_ways)
    assert is_mirrored(torch.from_numpy(x.reshape(n, -1)), x.shape[1:]) is both_ways


def test_bytes_in_the_order_of_their_classes():
    digits = load("digits")
    x = (16 * digits.x[np.argsort(digits.y, kind="stable")]).clip(0, 255).astype(np.uint8)
    assert not is_mirrored(ScaledRows(x, Scaler().fit(x, mode="pixels")), (8, 8, 1))


def test_too_few_images_stay_as_they_are():
    assert not is_mirrored(torch.zeros(1, 12), (2, 2, 3))
