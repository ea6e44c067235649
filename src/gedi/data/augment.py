"""T(x'|x): random views of scaled rows and images, in batches, drawn from an explicit generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import torch
from torch.nn import functional as F

from gedi.data.neighbours import neighbour_table
from gedi.data.scaled_rows import Rows
from gedi.errors import ConfigError
from gedi.settings import Natural, NotNegative, Rule, Share

Augment = Callable[..., tuple[torch.Tensor, torch.Tensor]]  # see `row_augmentation`
KNOTS = 4  # per side of the grid whose random displacements are smoothed into an elastic distortion
PART = Rule("lie in (0, 1]", lambda part: 0 < part <= 1)
STRETCH = 4 / 3  # largest aspect ratio of a window; the smallest is its inverse
HALF_TURN = Rule("lie between 0 and 0.5", lambda turn: 0 <= turn <= 0.5)
# Luminance and the two axes of colour, from red, green and blue.
LUMINANCE = (0.299, 0.587, 0.114)
YIQ = (LUMINANCE, (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass
class AugmentConfig:
    """T(x'|x), in units of the scaled data."""

    jitter: Share = 0.0  # images: probability of colour jitter, with the next four strengths
    brightness: Share = 0.4  # factor between 1 - this and 1 + this; the same for the next two
    contrast: Share = 0.4  # see brightness
    saturation: Share = 0.4  # see brightness
    hue: Annotated[float, HALF_TURN] = 0.1  # largest rotation of the colour wheel, in turns
    gray: Share = 0.0  # images: probability of conversion to grey
    noise: NotNegative | None = None  # standard deviation of additive noise; None: the data's resolution
    both: bool = True  # augment both views (paper: x itself and one view of it)
    neighbours: Natural = 10  # take the second view from one of this many mutual nearest neighbours (0: from x)
    learned: bool = False  # search for neighbours again, in the representation, once clusters are chosen
    early: bool = True  # use neighbours before clusters are chosen, too: those of the rows themselves
    shift: NotNegative = 0.0  # images: largest shift in pixels
    rotate: NotNegative = 0.0  # images: largest rotation in degrees
    scale: Share = 0.0  # images: largest relative change of size
    shear: NotNegative = 0.0  # images: largest shear
    elastic: NotNegative = 0.0  # images: standard deviation of smooth random displacements, in half sides of the image
    crop: Natural = 0  # images: random crop after reflecting the border by this many pixels
    area: Annotated[float, PART] = 1.0  # images: random windows of at least this share of the area, enlarged ...
    resize: Annotated[float, PART] = 1.0  # ... to this share of the sides: smaller views are faster
    flip: bool | None = False  # images: mirror left-right with probability 1/2; None: if mirror images look real


def row_augmentation(
    settings: AugmentConfig,
    data: Rows,
    image_shape: tuple[int, ...] | None = None,
    *,
    box: tuple[float, float] | None = None,
    words: Sequence[Sequence[int]] = (),
) -> Augment:
    """A function ``augment(x, rows, generator)``: two views of rows x, whose indices in ``data`` are ``rows``.

    Crop, flip and colours come first, then affine changes, then noise. ``box`` holds the values of black and white;
    without it, colours cannot be changed. Changes that are switched off draw no random numbers. The optional fourth
    argument is another table of neighbours [n, k]. ``words`` lists the features of each category (`partial_views`).
    Views smaller than the images (``resize``) are returned as images [n, H, W, C].
    """
    changes_images = _check_image_settings(settings, image_shape, box)
    uses_rows = settings.neighbours and settings.early
    nearest = neighbour_table(data, settings.neighbours, words) if uses_rows else None
    moves = any((settings.shift, settings.rotate, settings.scale, settings.shear, settings.elastic))

    def view(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if image_shape is not None and (changes_images or moves):
            height, width, channels = image_shape
            images = x.view(len(x), height, width, channels).permute(0, 3, 1, 2)
            if changes_images:
                images = change_images(images, settings, generator, box=box)
            if moves:
                images = affine(images, settings, generator)
            images = images.permute(0, 2, 3, 1)
            x = images.flatten(1) if settings.resize == 1 else images
        if not settings.noise:
            return x
        return x + settings.noise * torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)

    def augment(
        x: torch.Tensor, rows: torch.Tensor, generator: torch.Generator, table: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        near, table = x, nearest if table is None else table
        if table is not None:
            picked = pick(table[rows.to(table.device)].to(generator.device), generator)
            near = data[picked.to(data.device)].to(x.device)
        if not settings.both:
            return x, view(near, generator)
        first, second = view(torch.cat([x, near]), generator).chunk(2)
        return first, second

    return augment


def _check_image_settings(
    settings: AugmentConfig, image_shape: tuple[int, ...] | None, box: tuple[float, float] | None
) -> bool:
    """Whether any of crop, area, resize, flip, jitter and gray is set; those that do not fit the data are refused."""
    asked = [name for name in ("crop", "flip", "jitter", "gray") if getattr(settings, name)]
    asked += [name for name in ("area", "resize") if getattr(settings, name) < 1]
    if not asked:
        return False
    if image_shape is None:
        raise ConfigError(f"training.augment.{asked[0]} is for images, but the data are rows: remove it.")
    if box is None and (settings.jitter or settings.gray):
        colour = "jitter" if settings.jitter else "gray"
        raise ConfigError(
            f"training.augment.{colour} changes colours, so black and white must be known: "
            "set training.scaling to pixels."
        )
    height, width = image_shape[:2]
    if settings.crop >= min(height, width):
        raise ConfigError(
            f"training.augment.crop must be smaller than the images, got {settings.crop} for {height}x{width} pixels."
        )
    if settings.resize < 1 and settings.area == 1:
        raise ConfigError("training.augment.resize is for windows: set training.augment.area below 1, or resize to 1.")
    if settings.crop and settings.area < 1:
        raise ConfigError("training.augment.crop and .area are two ways to crop: set crop to 0 or area to 1.")
    return True


# ---- images ----


def affine(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Randomly shift (pixels), rotate (degrees), resize, shear and distort images [n, C, H, W]."""
    n, _, height, width = x.shape

    def between(most: float) -> torch.Tensor:
        return most * (2 * torch.rand(n, generator=generator, device=x.device) - 1)

    angle, zoom, slant = between(math.radians(settings.rotate)), 1 + between(settings.scale), between(settings.shear)
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    across, down = between(2 * settings.shift / width), between(2 * settings.shift / height)
    moved = torch.stack([cos, slant - sin, across, sin, cos, down], 1).view(n, 2, 3).to(x.dtype)
    if settings.elastic:
        knots = settings.elastic * torch.randn((n, 2, KNOTS**2), generator=generator, device=x.device, dtype=x.dtype)
        moved = torch.cat([moved, knots], 2)
    # The source of every pixel is linear in these few numbers: one matrix product computes it for all images.
    basis = _displacements(height, width).to(x)[: moved.shape[2]]
    grid = (moved.flatten(0, 1) @ basis).view(n, 2, height, width).permute(0, 2, 3, 1)
    # 'border' repeats the edge pixels: in scaled data, zero is the mean pixel, not the background.
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


@lru_cache(maxsize=4)
def _displacements(height: int, width: int) -> torch.Tensor:
    """Fields over the pixels, [3 + KNOTS^2, H W]: x, y and 1, then the smooth bump around each knot."""
    down, across = ((2 * torch.arange(side) + 1) / side - 1 for side in (height, width))
    places = torch.stack([*torch.meshgrid(across, down, indexing="xy"), torch.ones(height, width)])
    knots = torch.eye(KNOTS**2).view(-1, 1, KNOTS, KNOTS)
    bumps = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=True)
    return torch.cat([places.flatten(1), bumps.flatten(1)])


def change_images(
    x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator, *, box: tuple[float, float] | None
) -> torch.Tensor:
    """Crop and flip images [n, C, H, W], then change their colours; x itself is unchanged.

    ``box`` holds black and white; with None, colours do not change. The same random numbers are drawn whatever the
    probabilities, so changing one probability does not affect the other draws.
    """
    view = move(x, settings, generator) if settings.area == 1 else window(x, settings, generator)
    if box is None:
        return view
    low, high = box
    view = change_colours((view - low) / (high - low), settings, generator)
    return view * (high - low) + low


def move(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Crop the images at random, reflecting their borders, and mirror some; pixels are only copied."""
    n, _, height, width = x.shape
    top, left = (
        torch.randint(2 * settings.crop + 1, (n,), generator=generator, device=x.device) - settings.crop
        for _ in range(2)
    )
    mirrored = torch.rand(n, generator=generator, device=x.device) < (0.5 if settings.flip else 0.0)
    rows = _reflect(torch.arange(height, device=x.device) + top[:, None], height)
    columns = _reflect(torch.arange(width, device=x.device) + left[:, None], width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None]
    # Indices around a slice put the channels last, which is the layout the encoder wants.
    return x[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def window(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Cut windows of random area, shape and position out of the images, give them one size, and mirror some."""
    n = len(x)
    sides = [round(settings.resize * side) for side in x.shape[2:]]
    across, down, size, shape, turn = torch.rand((5, n), generator=generator, device=x.device, dtype=x.dtype)
    area, ratio = settings.area + (1 - settings.area) * size, STRETCH ** (2 * shape - 1)
    width, height = ((area * side).sqrt().clamp_max(1.0) for side in (ratio, 1 / ratio))
    across, down = (1 - width) * (2 * across - 1), (1 - height) * (2 * down - 1)
    if settings.flip:
        width = torch.where(turn < 0.5, -width, width)
    none = torch.zeros_like(width)
    places = torch.stack([width, none, across, none, height, down], 1).view(n, 2, 3)
    grid = F.affine_grid(places, [*x.shape[:2], *sides], align_corners=False)
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def _reflect(place: torch.Tensor, size: int) -> torch.Tensor:
    """Indices outside 0..size-1, reflected at the first and last pixel, which are not repeated."""
    return size - 1 - (size - 1 - place.abs()).abs()


# ---- colours ----


def change_colours(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Jitter the colours of some of the images x [n, C, H, W] (black 0, white 1), and turn some grey.

    Without three channels there is no hue or saturation: only brightness and contrast change. The same random numbers
    are drawn whatever the probabilities.

    Brightness, contrast, saturation and hue are linear in the colour of a pixel (hue as a rotation around the axis of
    greys, in the television standard's space YIQ), so one matrix and one offset per image hold all four of them, and
    the conversion to grey as well.
    """
    n = len(x)
    jittered, grayed = (
        torch.rand(n, generator=generator, device=x.device) < p for p in (settings.jitter, settings.gray)
    )
    draws = 2 * torch.rand((4, n), generator=generator, dtype=x.dtype, device=x.device) - 1
    has_colour = x.shape[1] == 3
    changed = jittered | grayed if has_colour else jittered
    if not bool(changed.any()):
        return x
    strengths = torch.tensor([settings.brightness, settings.contrast, settings.saturation, settings.hue]).to(draws)
    amounts = torch.where(jittered, strengths[:, None] * draws, torch.zeros_like(draws))[:, changed]
    view = x.clone()
    # Noise and samplers may leave the range from black to white; colours are undefined outside it.
    view[changed] = _changed(x[changed].clamp(0.0, 1.0), amounts, grayed[changed])
    return view


def _changed(x: torch.Tensor, amounts: torch.Tensor, grayed: torch.Tensor) -> torch.Tensor:
    """x after changes by ``amounts`` [4, n]: brightness, contrast, saturation and hue."""
    brightness, contrast, saturation = 1 + amounts[:3]
    pixels = x.permute(0, 2, 3, 1).flatten(1, 2)  # [n, H W, C]
    yiq = torch.tensor(YIQ).to(x)
    luminance = yiq[0] if x.shape[1] == 3 else torch.full((x.shape[1],), 1 / x.shape[1]).to(x)
    # Contrast stretches around the mean luminance.
    offset = brightness * (1 - contrast) * (pixels.mean(1) @ luminance)
    gain = brightness * contrast
    if x.shape[1] != 3:
        return (x * gain[:, None, None, None] + offset[:, None, None, None]).clamp_(0.0, 1.0)
    angle = 2 * math.pi * amounts[3]
    cos, sin, one = saturation * angle.cos(), saturation * angle.sin(), torch.ones_like(angle)
    none = torch.zeros_like(angle)
    turned = torch.stack([one, none, none, none, cos, -sin, none, sin, cos], 1).view(-1, 3, 3)
    matrix = gain[:, None, None] * (torch.linalg.inv(yiq) @ turned @ yiq)
    matrix = torch.where(grayed[:, None, None], (luminance @ matrix)[:, None].expand_as(matrix), matrix)
    colours = torch.baddbmm(offset[:, None, None].expand(-1, 1, 3), pixels, matrix.transpose(1, 2))
    return colours.clamp_(0.0, 1.0).view(len(x), *x.shape[2:], 3).permute(0, 3, 1, 2)


# ---- neighbours ----


def pick(table: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One random entry of every row of ``table``."""
    column = torch.randint(table.shape[1], (len(table), 1), generator=generator, device=table.device)
    return table.gather(1, column).squeeze(1)
