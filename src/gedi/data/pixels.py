"""Which values stand for black and white in image data, and pictures in such values."""

from __future__ import annotations

import numpy as np

from gedi.data.streaming import release, row_blocks, scratch
from gedi.errors import DataError

WHITES = (1.0, 16.0, 255.0, 65535.0)  # what image data calls white: shares, scikit-learn's digits, bytes, 16 bits


def usual_ends(darkest: float, lightest: float) -> tuple[float, float]:
    """Black and white of images whose values were seen to lie between; if no convention fits, these very values.

    >>> usual_ends(0.0, 15.0), usual_ends(-0.9, 1.0), usual_ends(-0.4, 2.8)
    ((0.0, 16.0), (-1.0, 1.0), (-0.4, 2.8))
    """
    tolerance = 1e-3 * max(1.0, abs(lightest))  # of the way through float32 and back
    if darkest < -tolerance:
        is_signed = darkest >= -1 - tolerance and lightest <= 1 + tolerance
        return (-1.0, 1.0) if is_signed else (darkest, lightest)
    return 0.0, next((white for white in WHITES if lightest <= white + tolerance), lightest)


def values_of_bytes(pixels: np.ndarray, black: float, white: float) -> np.ndarray:
    """Bytes 0 .. 255 between black and white, in float32; they stay as they are where these are 0 and 255."""
    if (black, white) == (0.0, 255.0):
        return pixels
    if (black, white) != (-1.0, 1.0) and (black != 0.0 or white not in WHITES):
        raise DataError(
            f"The run was trained on images with values from {black:.4g} to {white:.4g}, which does not tell what a "
            "picture's black and white are: give an array of such values (.npy or .npz) instead of pictures."
        )
    values = scratch(pixels.shape, np.float32)
    for start, some in row_blocks(pixels):
        values[start : start + len(some)] = black + some * ((white - black) / 255.0)
        release(values)
    return values
