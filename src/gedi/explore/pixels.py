"""Rows that are images, as pictures."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from gedi.training.model import TrainedModel

LONGEST_SIDE = 96  # of a thumbnail


def thumbnail(row: np.ndarray, model: TrainedModel) -> bytes:
    """One image of a run as a small PNG."""
    black, white = model.black_and_white
    assert model.image_shape is not None
    shares = (row.reshape(model.image_shape) - black) / (white - black)
    pixels = np.clip(shares * 255.0, 0, 255).round().astype(np.uint8)
    picture = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
    picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
