"""Rows that are images, as pictures, and pictures as such rows."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from gedi.training.model import TrainedModel

WHITES = (1.0, 16.0, 255.0, 65535.0)  # what image data calls white: shares, scikit-learn's digits, bytes, 16 bits
LONGEST_SIDE = 96  # of a thumbnail


def black_and_white(model: TrainedModel) -> tuple[float, float]:
    """Which values a run's images have for black and white, by the values it was trained on."""
    margin = model.config.sampler.box_margin
    low, high = model.box.low + margin, model.box.high - margin
    darkest = float(model.scaler.inverse(low.numpy()[None]).min())
    lightest = float(model.scaler.inverse(high.numpy()[None]).max())
    tolerance = 1e-3 * max(1.0, abs(lightest))  # of the way through float32 and back
    white = next((white for white in WHITES if lightest <= white + tolerance), lightest)
    return (-white if darkest < -tolerance else 0.0), white


def as_values(pixels: np.ndarray, model: TrainedModel) -> np.ndarray:
    """Bytes 0 .. 255 in the run's own values."""
    black, white = black_and_white(model)
    return black + pixels.astype(np.float64) * ((white - black) / 255.0)


def thumbnail(row: np.ndarray, model: TrainedModel) -> bytes:
    """One image of a run as a small PNG."""
    black, white = black_and_white(model)
    assert model.image_shape is not None
    shares = (row.reshape(model.image_shape) - black) / (white - black)
    pixels = np.clip(shares * 255.0, 0, 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
