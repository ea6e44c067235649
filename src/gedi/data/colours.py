"""Random changes of colour, as one affine map of each image's colours: a matrix product for the whole batch.

Brightness, contrast, saturation and hue are linear in the colour of a pixel (hue as a rotation around the axis of
greys, in the television standard's space YIQ), so one matrix and one offset per image hold all four of them, and the
conversion to grey as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import torch

from gedi.settings import Rule, Share

HALF_TURN = Rule("lie between 0 and 0.5", lambda turn: 0 <= turn <= 0.5)
# Luminance and the two axes of colour, from red, green and blue.
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))


@dataclass
class ColourConfig:
    """How often and how strongly the colours of images change."""

    jitter: Share = 0.0  # images: probability of colour jitter, with the next four strengths
    brightness: Share = 0.4  # factor between 1 - this and 1 + this; likewise the next two
    contrast: Share = 0.4  # see brightness
    saturation: Share = 0.4  # see brightness
    hue: Annotated[float, HALF_TURN] = 0.1  # largest rotation of the colour wheel, in turns
    gray: Share = 0.0  # images: probability of conversion to grey


def change_colours(x: torch.Tensor, settings: ColourConfig, generator: torch.Generator) -> torch.Tensor:
    """Jitter the colours of some of the images x [n, C, H, W] (black 0, white 1), and turn some grey.

    Without three channels there is no hue or saturation: only brightness and contrast change. The same random numbers
    are drawn whatever the probabilities.
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
