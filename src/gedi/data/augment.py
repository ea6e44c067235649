"""T(x'|x): random views of scaled rows and images, in batches, drawn from an explicit generator.

kornia's own random classes draw from torch's global generator. Here every random number comes from the generator given,
and kornia only does the arithmetic of colours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import torch
from torch.nn import functional as F

from gedi.data.neighbours import neighbour_table
from gedi.data.scaled_rows import Rows
from gedi.errors import ConfigError
from gedi.settings import Natural, NotNegative, Rule, Share

Augment = Callable[[torch.Tensor, torch.Tensor, torch.Generator], tuple[torch.Tensor, torch.Tensor]]
HALF_TURN = Rule("lie between 0 and 0.5", lambda turn: 0 <= turn <= 0.5)


@dataclass
class AugmentConfig:
    """T(x'|x), in units of the scaled data."""

    noise: NotNegative | None = None  # standard deviation of additive noise; None: the data's resolution
    both: bool = True  # both views are changed (paper: x itself, and a view of it)
    neighbours: Natural = 10  # the second view is that of one of this many mutual nearest neighbours (0: of x itself)
    learned: bool = False  # once clusters are chosen, neighbours are searched again, in the representation
    shift: float = 0.0  # images: largest shift in pixels
    rotate: float = 0.0  # images: largest rotation in degrees
    scale: float = 0.0  # images: largest relative change of size
    shear: float = 0.0  # images: largest shear
    elastic: NotNegative = 0.0  # images: standard deviation of smooth random displacements, in half sides of the image
    crop: Natural = 0  # images: random crop after reflecting the border by this many pixels
    flip: bool = False  # images: mirror left and right, one time in two
    jitter: Share = 0.0  # images: chance that colours are jittered, by the next four
    brightness: Share = 0.4  # factor from 1 - this to 1 + this, as the next two
    contrast: Share = 0.4  # see brightness
    saturation: Share = 0.4  # see brightness
    hue: Annotated[float, HALF_TURN] = 0.1  # turn of the colour wheel, of a whole turn, either way
    gray: Share = 0.0  # images: chance that colour is lost


def row_augmentation(
    settings: AugmentConfig,
    data: Rows,
    image_shape: tuple[int, ...] | None = None,
    *,
    box: tuple[float, float] | None = None,
) -> Augment:
    """The two views ``augment(x, rows, generator)`` of rows x of ``data``; ``rows`` are their places in it.

    A fourth argument may be a table of neighbours [n, k] to use from then on, instead of the nearest rows.

    Crop, flip and colours come first, then the affine change, and noise last. ``box`` is black and white; colours can
    only be changed if it is known. What is switched off draws no random numbers.
    """
    changes_images = _check_image_settings(settings, image_shape, box)
    nearest = neighbour_table(data, settings.neighbours) if settings.neighbours else None
    moves = any((settings.shift, settings.rotate, settings.scale, settings.shear, settings.elastic))

    def view(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        if image_shape is not None and (changes_images or moves):
            height, width, channels = image_shape
            images = x.view(len(x), height, width, channels).permute(0, 3, 1, 2)
            if changes_images:
                images = change_images(images, settings, generator, box=box)
            if moves:
                images = affine(images, settings, generator)
            x = images.permute(0, 2, 3, 1).reshape(len(x), -1)
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
    """Whether crop, flip, jitter or gray change anything; refuses them where they cannot."""
    asked = [name for name in ("crop", "flip", "jitter", "gray") if getattr(settings, name)]
    if not asked:
        return False
    if image_shape is None:
        raise ConfigError(f"training.augment.{asked[0]} changes images, but the data are rows: leave it out.")
    if box is None and (settings.jitter or settings.gray):
        raise ConfigError(
            f"training.augment.{asked[-1]} changes colours, which needs black and white to be known: "
            "use training.scaling pixels."
        )
    height, width = image_shape[:2]
    if settings.crop >= min(height, width):
        raise ConfigError(
            f"training.augment.crop must be smaller than the images, got {settings.crop} for {height}x{width} pixels."
        )
    return True


# ---- images ----


def affine(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Random shift (pixels), rotation (degrees), change of size, shear and elastic change of images [n, C, H, W]."""
    n, _, height, width = x.shape

    def between(most: float) -> torch.Tensor:
        return most * (2 * torch.rand(n, generator=generator, device=x.device) - 1)

    angle, zoom, slant = between(math.radians(settings.rotate)), 1 + between(settings.scale), between(settings.shear)
    cos, sin = torch.cos(angle) / zoom, torch.sin(angle) / zoom
    theta = torch.zeros(n, 2, 3, device=x.device)
    theta[:, 0, 0], theta[:, 0, 1], theta[:, 0, 2] = cos, -sin + slant, between(2 * settings.shift / width)
    theta[:, 1, 0], theta[:, 1, 1], theta[:, 1, 2] = sin, cos, between(2 * settings.shift / height)
    grid = F.affine_grid(theta.to(x.dtype), list(x.shape), align_corners=False)
    if settings.elastic:
        knots = settings.elastic * torch.randn((n, 2, 4, 4), generator=generator, device=x.device, dtype=x.dtype)
        smooth = F.interpolate(knots, size=(height, width), mode="bicubic", align_corners=True)
        grid = grid + smooth.permute(0, 2, 3, 1)
    # 'border' repeats the frame: zero would be the mean pixel of scaled data, not the background.
    return F.grid_sample(x, grid, padding_mode="border", align_corners=False)


def change_images(
    x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator, *, box: tuple[float, float] | None
) -> torch.Tensor:
    """Crop and flip, then colours, of images [n, C, H, W] whose black and white are ``box``; x itself is not changed.

    With ``box=None`` black and white are unknown, and colours stay. The same random numbers are drawn whatever the
    chances are, so changing one chance leaves the draws of the others as they were.
    """
    view = move(x, settings, generator)
    if box is None:
        return view
    low, high = box
    view = change_colours((view - low) / (high - low), settings, generator)
    return view * (high - low) + low


def move(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Random crops of the images with a reflected border, and mirroring; this only copies pixels."""
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


def _reflect(place: torch.Tensor, size: int) -> torch.Tensor:
    """Places outside 0..size-1, reflected at the first and the last pixel (which are not repeated)."""
    return size - 1 - (size - 1 - place.abs()).abs()


def change_colours(x: torch.Tensor, settings: AugmentConfig, generator: torch.Generator) -> torch.Tensor:
    """Jitter some images of x, with black 0 and white 1, and make some gray; the others stay as they are.

    Images without colour (not three channels) have no hue and no saturation: only brightness and contrast change. The
    four changes come in a random order, the same for the whole batch.
    """
    n = len(x)
    jittered, grayed = (
        torch.rand(n, generator=generator, device=x.device) < p for p in (settings.jitter, settings.gray)
    )
    strengths = (settings.brightness, settings.contrast, settings.saturation, settings.hue)
    draws = 2 * torch.rand((4, n), generator=generator, dtype=x.dtype, device=x.device) - 1
    order = torch.randperm(4, generator=generator, device=x.device).tolist()
    has_colour = x.shape[1] == 3
    changed = x.clone()
    if bool(jittered.any()):
        some = x[jittered]
        for step in order:
            if has_colour or step < 2:
                some = _jitter(step, some, strengths[step] * draws[step, jittered])
        changed[jittered] = some
    if has_colour and bool(grayed.any()):
        from kornia.color import rgb_to_grayscale

        changed[grayed] = rgb_to_grayscale(changed[grayed]).expand(-1, 3, -1, -1)
    return changed


def _jitter(step: int, x: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """Brightness, contrast, saturation or hue, changed by one amount per image; the result lies in [0, 1]."""
    from kornia import enhance  # takes a second or two: only those who train on images should wait for it

    x = x.clamp(0.0, 1.0)  # noise and samplers leave this range; colours cannot
    if step == 0:
        return enhance.adjust_brightness_accumulative(x, 1 + amount)
    if step == 1:
        return enhance.adjust_contrast_with_mean_subtraction(x, 1 + amount)
    if step == 2:
        return enhance.adjust_saturation_with_gray_subtraction(x, 1 + amount)
    return enhance.adjust_hue(x, 2 * math.pi * amount)


# ---- neighbours ----


def pick(table: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """One entry of every row of ``table``, uniformly."""
    column = torch.randint(table.shape[1], (len(table), 1), generator=generator, device=table.device)
    return table.gather(1, column).squeeze(1)
