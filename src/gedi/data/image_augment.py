"""T(x'|x) for images: stochastic views, batched, on the images' device, from an explicit generator.

kornia's own random classes draw from torch's global generator; here every number is drawn from the one given, and
kornia only does the arithmetic of colours, with those numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from gedi.errors import ConfigError, DataError

Augment = Callable[[torch.Tensor, torch.Tensor, torch.Generator], torch.Tensor]  # as in gedi.data.augment


@dataclass(frozen=True)
class ImageAugment:
    """How strongly images are changed; the defaults are the paper's for SVHN."""

    jitter: float = 0.1  # chance that an image's colours are jittered
    brightness: float = 0.4  # factor from 1 - this to 1 + this, as the next two
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1  # turn of the colour wheel, of a whole turn, either way
    gray: float = 0.1  # chance that an image loses its colour
    crop: int = 4  # pixels of reflected border, from which a window of the image's size is cut; 0: no crop
    flip: bool = False  # mirror left and right, one time in two
    noise: float = 0.03  # standard deviation of the Gaussian noise, in the images' own scale

    def __post_init__(self) -> None:
        for name in ("jitter", "gray"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"The chance '{name}' is between 0 and 1, got {getattr(self, name)}.")
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"The strength '{name}' is between 0 and 1, got {getattr(self, name)}.")
        if not 0 <= self.hue <= 0.5:
            raise ConfigError(f"The turn 'hue' is between 0 and 0.5, got {self.hue}.")
        if self.crop < 0 or self.noise < 0:
            raise ConfigError(f"'crop' and 'noise' cannot be negative, got {self.crop} and {self.noise}.")


# The table of hyper-parameters, part 'Data augment.'. It says 'Random crop: Yes' and gives no strengths of the jitter:
# 4 pixels and (0.4, 0.4, 0.4, 0.1) are those of the code it builds on. Its column 'Addition' is MNIST.
PAPER = {
    "svhn": ImageAugment(),
    "cifar10": ImageAugment(flip=True),
    "cifar100": ImageAugment(flip=True),
    "mnist": ImageAugment(noise=0.3),
}


def augment_images(
    x: torch.Tensor,
    settings: ImageAugment,
    generator: torch.Generator,
    *,
    box: tuple[float, float] = (-1.0, 1.0),
) -> torch.Tensor:
    """One random view of every image of x [n, C, H, W], whose black and white are ``box``; x itself is not changed.

    Crop and flip, then colours, then noise. Two calls give two independent views. The same numbers are drawn whatever
    the chances are, so changing one of them leaves the others' draws as they were.
    """
    view = change_images(x, settings, generator, box=box)
    return view + settings.noise * torch.randn(view.shape, generator=generator, dtype=x.dtype, device=x.device)


def change_images(
    x: torch.Tensor,
    settings: ImageAugment,
    generator: torch.Generator,
    *,
    box: tuple[float, float] | None = (-1.0, 1.0),
) -> torch.Tensor:
    """`augment_images` without its noise; ``box=None``: black and white are not known, and colours stay."""
    check_images(x, settings)
    view = move(x, settings, generator)
    if box is None:
        return view
    low, high = box
    view = change_colours((view - low) / (high - low), settings, generator)
    return view * (high - low) + low


def image_augmentation(settings: ImageAugment, *, box: tuple[float, float] = (-1.0, 1.0)) -> Augment:
    """`augment_images` as the view ``augment(x, rows, generator)`` that training asks for."""

    def augment(x: torch.Tensor, rows: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return augment_images(x, settings, generator, box=box)

    return augment


def check_images(x: torch.Tensor, settings: ImageAugment) -> None:
    if x.ndim != 4 or not x.is_floating_point():
        raise DataError(f"Expected float images [n, C, H, W], got {x.dtype} of shape {list(x.shape)}.")
    if settings.crop >= min(x.shape[2:]):
        raise DataError(f"A border of {settings.crop} pixels cannot be reflected in images of shape {list(x.shape)}.")


def move(x: torch.Tensor, settings: ImageAugment, generator: torch.Generator) -> torch.Tensor:
    """Random crop out of the image with a reflected border, and mirroring; pure copying of pixels."""
    n, _, height, width = x.shape
    top, left = (_whole(n, 2 * settings.crop + 1, x, generator) - settings.crop for _ in range(2))
    mirrored = torch.rand(n, generator=generator, device=x.device) < (0.5 if settings.flip else 0.0)
    rows = _reflect(torch.arange(height, device=x.device) + top[:, None], height)
    columns = _reflect(torch.arange(width, device=x.device) + left[:, None], width)
    columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    image = torch.arange(n, device=x.device)[:, None, None]
    # Indices around a slice bring the channels last, which is how the encoder wants them.
    return x[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def change_colours(x: torch.Tensor, settings: ImageAugment, generator: torch.Generator) -> torch.Tensor:
    """Jitter some images of x, with black 0 and white 1, and make some gray; the others are left as they are.

    Images without colour (not three channels) have no hue and no saturation: their brightness and contrast change.
    The four changes come in a random order, one for the whole batch.
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
    """Brightness, contrast, saturation or hue, changed by one amount an image; the result is within [0, 1]."""
    from kornia import enhance  # a second or two, which only those who train on images should wait for

    x = x.clamp(0.0, 1.0)  # noise and samplers step outside; colours cannot
    if step == 0:
        return enhance.adjust_brightness_accumulative(x, 1 + amount)
    if step == 1:
        return enhance.adjust_contrast_with_mean_subtraction(x, 1 + amount)
    if step == 2:
        return enhance.adjust_saturation_with_gray_subtraction(x, 1 + amount)
    return enhance.adjust_hue(x, 2 * math.pi * amount)


def _whole(n: int, below: int, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randint(below, (n,), generator=generator, device=x.device)


def _reflect(place: torch.Tensor, size: int) -> torch.Tensor:
    """Places outside 0..size-1, reflected at the first and the last pixel (which are not repeated)."""
    return size - 1 - (size - 1 - place.abs()).abs()
