"""Whether images may be mirrored, found without labels."""

from __future__ import annotations

import math

import numpy as np

from gedi.data.scaled_rows import Rows

ASKED, AMONG = 1000, 2000  # most images to mirror, and most to compare them with
SURE_DEVIATIONS = 3.0  # standard deviations of a fair coin


def is_mirrored(rows: np.ndarray | Rows, image_shape: tuple[int, ...]) -> bool:
    """Whether mirror images of the data look like more data: they do for photographs, but not for digits.

    If left and right mean nothing, the mirror image of an image is as near to the other images as the image itself:
    which of the two is nearer is a coin toss. Images are compared at equal brightness and contrast.
    """
    if len(rows) < 3:
        return False
    some = np.asarray(rows[:: math.ceil(len(rows) / AMONG)], dtype=np.float32).reshape(-1, *image_shape)
    places = np.arange(0, len(some), math.ceil(len(some) / ASKED))  # spread out: rows may be sorted by class
    others = _directions(some)

    def nearest(images: np.ndarray) -> np.ndarray:
        similar = _directions(images) @ others.T
        similar[np.arange(len(places)), places] = -np.inf  # not to itself
        return similar.max(1)

    plain, mirrored = nearest(some[places]), nearest(some[places][:, :, ::-1])
    differ = plain != mirrored
    excess = (plain > mirrored)[differ].sum() - differ.sum() / 2
    return bool(excess <= SURE_DEVIATIONS * math.sqrt(differ.sum()) / 2)


def _directions(images: np.ndarray) -> np.ndarray:
    """Images as unit vectors around their own mean."""
    flat = images.reshape(len(images), -1)
    flat = flat - flat.mean(1, keepdims=True)
    return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-6)
