"""T(x'|x): stochastic views of scaled rows, batched, from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors
from torch.nn import functional as F

from gedi.data.image_augment import ImageAugment, change_images
from gedi.data.scaled_rows import Rows, ScaledRows
from gedi.data.streaming import release, scratch, take
from gedi.errors import ConfigError


class AugmentSettings(Protocol):
    """What `row_augmentation` reads of a config."""

    noise: float | None
    neighbours: int
    towards: float
    shift: float
    rotate: float
    scale: float
    shear: float
    crop: int
    flip: bool
    jitter: float
    brightness: float
    contrast: float
    saturation: float
    hue: float
    gray: float


MOST_PRODUCTS = 1e11  # of the distances between all rows: about a minute on one core
MAIN_DIRECTIONS = 50  # in which the neighbours of more and longer rows are looked for
PCA_ROWS = 5000  # that those directions are found from
MOST_TOGETHER, TOGETHER = 100_000, 25_000  # images: of more than so many, about so many are compared with each other
IMAGE_PART = ("crop", "flip", "jitter", "gray")  # settings of which one is enough to change images beyond `affine`

Augment = Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]


def row_augmentation(
    settings: AugmentSettings,
    data: Rows,
    image_shape: tuple[int, ...] | None = None,
    *,
    box: tuple[float, float] | None = None,
) -> Augment:
    """The view ``augment(x, rows, generator)`` of rows of ``data``; ``rows`` are their places in it.

    Crop, flip and colours first, then the affine change, the way towards a neighbour, and noise last. ``box`` is black
    and white; colours cannot be changed where it is not known.
    """
    change = _image_part(settings, image_shape, box)
    table = neighbour_table(data, settings.neighbours) if settings.neighbours else None
    is_affine = image_shape is not None and any((settings.shift, settings.rotate, settings.scale, settings.shear))

    def augment(x: torch.Tensor, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if change is not None:
            x = change(x, generator)
        if is_affine and image_shape is not None:
            x = affine(
                x,
                image_shape,
                shift=settings.shift,
                rotate=settings.rotate,
                scale=settings.scale,
                shear=settings.shear,
                generator=generator,
            )
        if table is not None:
            picked = pick(table[rows].to(x.device), generator).to(data.device)
            x = towards_neighbour(x, data[picked].to(x.device), settings.towards, generator)
        return x + (settings.noise or 0.0) * torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)

    return augment


def _image_part(
    settings: AugmentSettings, image_shape: tuple[int, ...] | None, box: tuple[float, float] | None
) -> Callable[[torch.Tensor, torch.Generator], torch.Tensor] | None:
    """What crop, flip, jitter and gray do to flat rows; None if all are off."""
    asked = [name for name in IMAGE_PART if getattr(settings, name)]
    if not asked:
        return None
    if image_shape is None:
        raise ConfigError(f"training.augment.{asked[0]} changes images, and the data are rows: leave it out.")
    if box is None and (settings.jitter or settings.gray):
        raise ConfigError(
            f"training.augment.{asked[-1]} changes colours, which needs to know black and white: "
            "use training.scaling pixels."
        )
    height, width, channels = image_shape
    if settings.crop >= min(height, width):
        raise ConfigError(
            f"training.augment.crop must be below the images' side, got {settings.crop} for {height}x{width} pixels."
        )
    shared = {name: getattr(settings, name) for name in (*IMAGE_PART, "brightness", "contrast", "saturation", "hue")}
    strengths = ImageAugment(**shared, noise=0.0)

    def change(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        images = x.view(len(x), height, width, channels).permute(0, 3, 1, 2)
        return change_images(images, strengths, generator, box=box).permute(0, 2, 3, 1).reshape(len(x), -1)

    return change


def neighbour_table(data: Rows, k: int) -> torch.Tensor:
    """Places of up to k near rows of every row, [n, k]: those that are among each other's k nearest.

    One-sided neighbours often belong to another component (a stray row's neighbours do not know it), so they are left
    out, and a row's mutual neighbours are repeated to fill its line; a row that has none keeps its nearest.
    Of very many images, neighbours are looked for in random parts: time grows with their number, not with its square.
    """
    n, k = len(data), min(k, len(data) - 1)
    near_in = _affordable(data)
    parts = [np.arange(n)]
    if n > MOST_TOGETHER and isinstance(data, ScaledRows):
        shuffled = np.random.default_rng(0).permutation(n)
        parts = [np.sort(part) for part in np.array_split(shuffled, math.ceil(n / TOGETHER))]
    table = torch.empty(n, k, dtype=torch.int64)
    for part in parts:
        found = _mutual_neighbours(near_in if len(part) == n else take(near_in, part), k)
        table[torch.from_numpy(part)] = torch.from_numpy(part[found])
    return table


def _mutual_neighbours(x: np.ndarray, k: int) -> np.ndarray:
    """The table of rows that are compared with all others, [n, k]."""
    n = len(x)
    # A row's nearest is itself, unless it has a twin: remove it by place, not by rank.
    found = NearestNeighbors(n_neighbors=k + 1).fit(x).kneighbors(x, return_distance=False)
    own = found == np.arange(n)[:, None]
    own[~own.any(1), -1] = True
    near = found[~own].reshape(n, k)
    table = np.empty_like(near)
    for rows in np.array_split(np.arange(n), n // 1000 + 1):  # the neighbours of all neighbours are many
        mutual = (near[near[rows]] == rows[:, None, None]).any(2)
        mutual[~mutual.any(1), 0] = True
        order = np.argsort(~mutual, axis=1, kind="stable")
        filled = np.take_along_axis(order, np.arange(k)[None, :] % mutual.sum(1)[:, None], axis=1)
        table[rows] = np.take_along_axis(near[rows], filled, axis=1)
    return table


def _affordable(data: Rows) -> np.ndarray:
    """All rows, or their main directions where all distances between whole rows would take many minutes."""
    n, d = data.shape
    if n**2 * d <= MOST_PRODUCTS or d <= MAIN_DIRECTIONS:
        return np.asarray(data[:])
    return main_directions(data)


def main_directions(data: Rows | np.ndarray) -> np.ndarray:
    """The rows in the directions in which they differ most; as they are if they have no more of them."""
    n, d = data.shape
    if min(n, d) <= MAIN_DIRECTIONS:
        return np.asarray(data[:])
    some = np.asarray(data[:: math.ceil(n / PCA_ROWS)])
    pca = PCA(MAIN_DIRECTIONS, svd_solver="randomized", random_state=0).fit(some)
    directions = scratch((n, MAIN_DIRECTIONS), np.float32)
    for rows in np.array_split(np.arange(n), n // 1000 + 1):
        directions[rows] = pca.transform(np.asarray(data[rows[0] : rows[-1] + 1]))
        release(directions)
    return directions


def pick(table: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One entry of every row of ``table``, uniformly."""
    column = torch.randint(table.shape[1], (len(table), 1), generator=generator, device=table.device)
    return table.gather(1, column).squeeze(1)


def towards_neighbour(
    x: torch.Tensor, neighbour: torch.Tensor, most: float, generator: torch.Generator
) -> torch.Tensor:
    """A point on the way from x to a neighbour, at most ``most`` of the way."""
    share = most * torch.rand((len(x), 1), generator=generator, dtype=x.dtype, device=x.device)
    return x + share * (neighbour - x)


def affine(
    x: torch.Tensor,
    image_shape: tuple[int, ...],
    *,
    shift: float,
    rotate: float,
    scale: float,
    shear: float,
    generator: torch.Generator,
) -> torch.Tensor:
    """Random shift (pixels), rotation (degrees), change of size and shear of images stored as flat rows (H, W, C)."""
    height, width, channels = image_shape
    n = len(x)

    def between(most: float) -> torch.Tensor:
        return most * (2 * torch.rand(n, generator=generator, device=x.device) - 1)

    angle, zoom, slant = between(math.radians(rotate)), 1 + between(scale), between(shear)
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 1], theta[:, 0, 2] = cos, -sin + slant, between(2 * shift / width)
    theta[:, 1, 0], theta[:, 1, 1], theta[:, 1, 2] = sin, cos, between(2 * shift / height)
    images = x.view(n, height, width, channels).permute(0, 3, 1, 2)
    grid = F.affine_grid(theta.to(x.dtype), list(images.shape), align_corners=False)
    # 'border' repeats the frame: zero would be the mean pixel of scaled data, not the background.
    moved = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    return moved.permute(0, 2, 3, 1).reshape(n, -1)
