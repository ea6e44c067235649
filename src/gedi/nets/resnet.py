"""The 8-layer ResNet for images (the architecture table of Appendix H)."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from gedi.errors import ConfigError, DataError

SLOPE = 0.2
SMALLEST = 8  # pixels: two poolings leave 2x2


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut; ``pool`` halves both, ``first`` takes raw pixels.

    The first block has no activation before its first convolution (it would throw away half of the pixels' range),
    and a 1x1 convolution in its shortcut, since the number of channels changes there.
    """

    def __init__(self, channels: int, width: int, *, first: bool = False, pool: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, width, 1) if first else nn.Identity()
        self.first, self.pool = first, pool

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.conv1(x if self.first else F.leaky_relu(x, SLOPE))
        h = self.conv2(F.leaky_relu(h, SLOPE))
        if self.pool:
            h, x = F.avg_pool2d(h, 2), F.avg_pool2d(x, 2)
        return h + self.shortcut(x)


class ResNet8(nn.Module):
    """Images [n, C, H, W], H and W at least 8, -> representation [n, width]: F of the paper's table is ``width``.

    Four residual blocks, the first two of which halve the image, then the mean over pixels. There is no normalisation
    layer: the energy of one image must not depend on the others of its batch. 1,037,184 parameters for F = 128 and
    4,138,752 for F = 256 with three channels.

    Weights and images are kept channels_last, which makes gradients with respect to images 1.4-1.7 times faster on CPU.
    """

    def __init__(self, channels: int = 3, width: int = 128) -> None:
        super().__init__()
        if channels < 1 or width < 1:
            raise ConfigError(f"ResNet8 needs at least one channel and width 1, got {channels} and {width}.")
        self.channels, self.width = channels, width
        self.blocks = nn.Sequential(
            Block(channels, width, first=True, pool=True),
            Block(width, width, pool=True),
            Block(width, width),
            Block(width, width),
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.xavier_uniform_(module.weight, gain=math.sqrt(2))
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]
        nn.init.xavier_uniform_(self.blocks[0].conv1.weight)  # type: ignore[arg-type]
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.ndim != 4 or x.shape[1] != self.channels or min(x.shape[2:]) < SMALLEST:
            raise DataError(
                f"ResNet8 takes images [n, {self.channels}, height, width] of at least {SMALLEST}x{SMALLEST} pixels, "
                f"got {list(x.shape)}."
            )
        h = self.blocks(x.contiguous(memory_format=torch.channels_last))
        return F.leaky_relu(h, SLOPE).mean((2, 3))
