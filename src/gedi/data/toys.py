"""Data made from a seed: shapes with known clusters, and triplets of digits for addition.

Shapes are float32 points [n, 2] (links: [n, 3]) with int64 labels [n].
"""

# pyright: reportMissingTypeStubs=false
from typing import Any, cast

import numpy as np

from gedi.errors import DataError

RING_RADII = (0.4, 0.8, 1.2)
SPIRAL_START = 0.3  # radius of the inner end of an arm: the two inner ends are 0.6 apart
SPIRAL_SPACING = 0.55  # radial distance between neighbouring arms
SPIRAL_TURNS = 1.5
SMILE_SHARES = (0.5, 0.26, 0.12, 0.12)  # outline, mouth, left eye, right eye
BLOBS = ((-1.2, -0.8, 0.10), (-0.9, 0.8, 0.25), (0.1, 0.0, 0.15), (1.0, 0.9, 0.20), (1.2, -0.7, 0.30))  # x, y, width
# All pairs with 0 <= a + b <= 9.
PAIRS = np.array([(a, b) for a in range(10) for b in range(10 - a)])
ADDITION_RULE = "a, b, c : 10\na + b == c\n"  # the constraint on a triplet


def moons(
    n: int, *, seed: int = 0, noise: float = 0.05, weights: tuple[float, float] = (0.5, 0.5)
) -> tuple[np.ndarray, np.ndarray]:
    """Two interleaved half circles; `weights` are the shares of points of the upper and the lower one."""
    from sklearn.datasets import make_moons  # pyright: ignore[reportUnknownVariableType]

    _check(n, noise)
    if min(weights) <= 0:
        raise DataError(f"The weights of the two moons must be above 0, got {weights}.")
    upper = int(n * weights[0] / sum(weights) + 1e-9)  # 1e-9: 0.29 * 100 is 28.999...
    sizes: Any = (upper, n - upper)  # scikit-learn takes a pair, but its type stubs do not say so
    drawn = cast(Any, make_moons(n_samples=sizes, noise=noise, random_state=seed))
    return np.asarray(drawn[0], dtype=np.float32), np.asarray(drawn[1], dtype=np.int64)


def circles(n: int, *, seed: int = 0, noise: float = 0.05, factor: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Two concentric circles of radius 1 (label 0) and `factor` (label 1)."""
    from sklearn.datasets import make_circles  # pyright: ignore[reportUnknownVariableType]

    _check(n, noise)
    drawn = cast(Any, make_circles(n_samples=n, noise=noise, factor=factor, random_state=seed))
    return np.asarray(drawn[0], dtype=np.float32), np.asarray(drawn[1], dtype=np.int64)


def paper_moons(n: int, *, seed: int = 0, noise: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """`moons` as in the code the paper builds on: more noise, twice as large, and around the origin."""
    x, y = moons(n, seed=seed, noise=noise)
    return 2 * x - np.array([1.0, 0.2], dtype=np.float32), y


def paper_circles(n: int, *, seed: int = 0, noise: float = 0.08) -> tuple[np.ndarray, np.ndarray]:
    """`circles` as in the code the paper builds on: more noise, and three times as large."""
    x, y = circles(n, seed=seed, noise=noise)
    return 3 * x, y


def rings(n: int, *, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Three concentric rings with equal numbers of points, labelled from the inside out."""
    rng, y = _labelled(n, noise, seed, len(RING_RADII))
    angle = rng.uniform(0, 2 * np.pi, n)
    return _noisy(_polar(np.asarray(RING_RADII)[y], angle), noise, rng), y


def spirals(n: int, *, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Two Archimedean spirals, half a turn apart, with points spread evenly along their length."""
    rng, y = _labelled(n, noise, seed, 2)
    growth = SPIRAL_SPACING / np.pi  # arms half a turn apart are `growth * pi` apart
    turn = np.linspace(0, SPIRAL_TURNS * 2 * np.pi, 1000)
    speed = np.hypot(SPIRAL_START + growth * turn, growth)
    # Invert the arc length: a uniform angle would crowd the points into the centre.
    length = np.concatenate([[0.0], np.cumsum((speed[1:] + speed[:-1]) / 2)])
    angle = np.interp(rng.uniform(0, length[-1], n), length, turn)
    return _noisy(_polar(SPIRAL_START + growth * angle, angle + np.pi * y), noise, rng), y


def links(n: int, *, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Two rings in space, linked like a chain: no plane separates them."""
    rng, y = _labelled(n, noise, seed, 2)
    angle = rng.uniform(0, 2 * np.pi, n)
    flat, cos, sin = np.zeros(n), np.cos(angle), np.sin(angle)
    ring = np.where(y == 0, np.stack([cos, sin, flat]), np.stack([1 + cos, flat, sin])).T
    return _noisy(ring, noise, rng), y


def smile(n: int, *, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """A face: outline (label 0), mouth, left and right eye, of very different sizes and shapes."""
    _check(n, noise)
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.searchsorted(np.cumsum(SMILE_SHARES), (np.arange(n) + 0.5) / n))
    angle = np.where(y == 0, rng.uniform(0, 2 * np.pi, n), rng.uniform(1.15 * np.pi, 1.85 * np.pi, n))
    face = _polar(np.where(y == 0, 1.0, 0.6), angle)
    eyes = np.stack([np.where(y == 2, -0.35, 0.35), np.full(n, 0.3)], axis=1) + 0.05 * rng.standard_normal((n, 2))
    return _noisy(np.where((y >= 2)[:, None], eyes, face), noise, rng), y.astype(np.int64)


def blobs(n: int, *, seed: int = 0, noise: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """Five round clouds of different widths, plus the noise."""
    rng, y = _labelled(n, noise, seed, len(BLOBS))
    place, width = np.asarray(BLOBS)[y, :2], np.asarray(BLOBS)[y, 2:]
    return _noisy(place, np.hypot(width, noise), rng), y


def rotate(x: np.ndarray, degrees: float) -> np.ndarray:
    """The points, rotated anticlockwise around the origin."""
    a = np.deg2rad(degrees)
    turn = np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]])
    return (np.asarray(x, dtype=np.float64) @ turn.T).astype(np.float32)


def triplets(y: np.ndarray, n: int, *, seed: int) -> np.ndarray:
    """Indices of images in n triplets for addition, [n, 3] (Sec. 5.3, Appendix K): the third shows the others' sum.

    Pairs are drawn uniformly, images without replacement. ``y`` are the digits that the images show, which training
    never sees.

    >>> y = np.repeat(np.arange(10), 50)
    >>> shown = y[triplets(y, 20, seed=0)]
    >>> bool((shown[:, 0] + shown[:, 1] == shown[:, 2]).all())
    True
    """
    if n < 1:
        raise DataError(f"The number of triplets must be at least 1, got {n}.")
    random = np.random.default_rng(seed)
    drawn = PAIRS[random.integers(len(PAIRS), size=n)]
    digits = np.column_stack([drawn, drawn.sum(1)]).ravel()
    places = np.empty(3 * n, dtype=np.int64)
    for digit in range(10):
        wanted, there = np.flatnonzero(digits == digit), np.flatnonzero(y == digit)
        if len(wanted) > len(there):
            raise DataError(
                f"{n} triplets need {len(wanted)} images of the digit {digit}, but there are {len(there)}: "
                "ask for fewer triplets."
            )
        places[wanted] = random.permutation(there)[: len(wanted)]
    return places.reshape(n, 3)


def _labelled(n: int, noise: float, seed: int, count: int) -> tuple[np.random.Generator, np.ndarray]:
    """A generator, and labels drawn from it for ``count`` shapes with equal numbers of points."""
    _check(n, noise)
    rng = np.random.default_rng(seed)
    return rng, rng.permutation(np.arange(n, dtype=np.int64) % count)


def _polar(radius: np.ndarray, angle: np.ndarray) -> np.ndarray:
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def _noisy(x: np.ndarray, noise: float | np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return (x + noise * rng.standard_normal(x.shape)).astype(np.float32)


def _check(n: int, noise: float) -> None:
    if n < 2:
        raise DataError(f"A toy data set needs at least 2 points, got n={n}.")
    if noise < 0:
        raise DataError(f"The noise of a toy data set cannot be negative, got {noise}.")
