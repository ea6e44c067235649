"""Data whose clusters are known, to calibrate the verdict: noise, clouds of several kinds, and mixed tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gedi.data.sources import TOYS

Labelled = tuple[np.ndarray, np.ndarray]  # rows [n, d], and the true cluster of each
SEGMENTS = 4  # of a mixed table
CATEGORIES = (3, 4)  # of its two categorical columns, each coded as columns of zeros and ones


def uniform(n: int, seed: int, *, columns: int) -> Labelled:
    """Evenly spread rows: there are no clusters."""
    return np.random.default_rng(seed).uniform(size=(n, columns)), np.zeros(n, dtype=int)


def gaussian(n: int, seed: int, *, columns: int) -> Labelled:
    """One Gaussian with correlated columns: there are no clusters."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(columns, columns))
    return rng.normal(size=(n, columns)) @ mixing, np.zeros(n, dtype=int)


def clouds(
    n: int, seed: int, *, columns: int, count: int, distance: float, unequal: bool = False, stretched: bool = False
) -> Labelled:
    """Gaussian clouds with centres about ``distance`` standard deviations apart.

    ``unequal``: sizes and widths differ by a factor of up to 5 and 3. ``stretched``: long in a random direction.
    """
    rng = np.random.default_rng(seed)
    centres = _far_apart(rng, count, columns) * distance
    shares = np.linspace(1, 5, count) if unequal else np.ones(count)
    widths = rng.permutation(np.linspace(0.5, 1.5, count)) if unequal else np.ones(count)
    y = rng.choice(count, n, p=shares / shares.sum())
    noise = rng.normal(size=(n, columns))
    if stretched:
        noise = noise * np.r_[0.3, np.ones(columns - 1)] @ np.linalg.qr(rng.normal(size=(columns, columns)))[0]
    return centres[y] + widths[y][:, None] * noise, y


def _far_apart(rng: np.random.Generator, count: int, columns: int) -> np.ndarray:
    """Random centres whose nearest pair is at distance 1."""
    tries = rng.normal(size=(200, count, columns))
    gaps = np.linalg.norm(tries[:, :, None] - tries[:, None], axis=-1) + 1e9 * np.eye(count)
    nearest = gaps.min((1, 2))
    best = int(np.argmax(nearest))
    return tries[best] / nearest[best]


def mixed_table(n: int, seed: int, *, distance: float, typical: float) -> Labelled:
    """A table of four segments: three numeric columns, and two categories coded as columns of zeros and ones.

    ``typical``: the share of rows with the typical category of their segment; the rest have a random one.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(0, SEGMENTS, n)
    columns = [_far_apart(rng, SEGMENTS, 3)[y] * distance + rng.normal(size=(n, 3))]
    for count in CATEGORIES:
        usual = rng.permutation(count)[np.arange(SEGMENTS) % count]
        category = np.where(rng.random(n) < typical, usual[y], rng.integers(0, count, n))
        columns.append(np.eye(count)[category])
    return np.hstack(columns), y


def toy(name: str) -> Callable[[int, int], Labelled]:
    return lambda n, seed: TOYS[name](n, seed=seed)


MADE: dict[str, Callable[[int, int], Labelled]] = {
    **{name: toy(name) for name in ("moons", "circles", "rings", "spirals", "smile", "blobs")},
    "uniform noise": lambda n, seed: uniform(n, seed, columns=2),
    "uniform noise, 5 columns": lambda n, seed: uniform(n, seed, columns=5),
    "one Gaussian": lambda n, seed: gaussian(n, seed, columns=2),
    "one Gaussian, 10 columns": lambda n, seed: gaussian(n, seed, columns=10),
    "one Gaussian, and words": lambda n, seed: (mixed_table(n, seed, distance=0, typical=0)[0], np.zeros(n, dtype=int)),
    "clouds": lambda n, seed: clouds(n, seed, columns=3, count=4, distance=6),
    "clouds that touch": lambda n, seed: clouds(n, seed, columns=2, count=4, distance=4),
    "clouds that overlap": lambda n, seed: clouds(n, seed, columns=2, count=4, distance=2),
    "unequal clouds": lambda n, seed: clouds(n, seed, columns=2, count=4, distance=6, unequal=True),
    "stretched clouds": lambda n, seed: clouds(n, seed, columns=2, count=3, distance=4, stretched=True),
    "clouds, 12 columns": lambda n, seed: clouds(n, seed, columns=12, count=5, distance=8),
    "mixed table": lambda n, seed: mixed_table(n, seed, distance=5, typical=0.9),
    "mixed table, vague": lambda n, seed: mixed_table(n, seed, distance=2, typical=0.7),
}
NOISE = tuple(name for name in MADE if name.startswith(("uniform", "one Gaussian")))
