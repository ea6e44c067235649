"""Images stored as flat rows, the way the samplers want them, through the ResNet."""

from __future__ import annotations

import torch
from torch import nn

from gedi.errors import ConfigError
from gedi.nets.resnet import SMALLEST, ResNet8

AT_ONCE = 256  # images a pass where no gradient is asked for: whole data sets come this way, and must not fill memory


class ImageEncoder(nn.Module):
    """Rows [n, H * W * C], pixels in the order (H, W, C), -> representation [n, width], by `ResNet8`."""

    def __init__(self, image_shape: tuple[int, ...], width: int) -> None:
        super().__init__()
        height, side, channels = image_shape
        if min(height, side) < SMALLEST:
            raise ConfigError(
                f"The resnet8 encoder needs images of at least {SMALLEST}x{SMALLEST} pixels, got {height}x{side}: "
                "make them larger, or use training.net.encoder mlp."
            )
        self.image_shape = (height, side, channels)
        self.resnet = ResNet8(channels, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.is_grad_enabled() or len(x) <= AT_ONCE:
            return self._encode(x)
        return torch.cat([self._encode(part) for part in x.split(AT_ONCE)])

    def _encode(self, x: torch.Tensor) -> torch.Tensor:
        # Channels are the last of (H, W, C) already: to the ResNet this is channels_last without a copy.
        return self.resnet(x.reshape(len(x), *self.image_shape).permute(0, 3, 1, 2))
