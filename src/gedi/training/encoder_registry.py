"""The choices of training.net.encoder: how each is made, and what other code has to know about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gedi.errors import ConfigError
from gedi.nets import ConvNet, Encoder, ImageEncoder, MLPEncoder, ResNet8

if TYPE_CHECKING:
    from gedi.training.config import NetConfig

    Make = Callable[[NetConfig, int, tuple[int, ...] | None], Encoder]


class EncoderKind(NamedTuple):
    """One choice."""

    make: Make  # from the settings, the number of features and the shape of the images
    needs_images: bool = False  # it cannot read plain rows
    has_waves: bool = False  # it reads net.frequency, which is then set from the data


def check_encoder(config: NetConfig, n_features: int, image_shape: tuple[int, ...] | None) -> None:
    """Refuse an image encoder for data that are not images."""
    if ENCODERS[config.encoder].needs_images and image_shape is None:
        raise ConfigError(
            f"training.net.encoder {config.encoder} takes images, but the data are rows of {n_features} features: give "
            "an array [n, height, width, channels], or choose another preset or encoder."
        )


def width_of(config: NetConfig) -> int:
    """Size of the representation."""
    return config.representation or config.hidden[-1]


def _mlp(config: NetConfig, n_features: int, image_shape: tuple[int, ...] | None) -> Encoder:
    frequency = config.frequency if config.first == "waves" else None
    return MLPEncoder(
        n_features, config.hidden, config.representation, config.activation, frequency=frequency, norm=config.norm
    )


def _on_images(net: type[ResNet8] | type[ConvNet]) -> Make:
    def make(config: NetConfig, n_features: int, image_shape: tuple[int, ...] | None) -> Encoder:
        assert image_shape is not None
        return ImageEncoder(image_shape, width_of(config), net)

    return make


ENCODERS = {
    "mlp": EncoderKind(_mlp, has_waves=True),
    "resnet8": EncoderKind(_on_images(ResNet8), needs_images=True),
    "convnet": EncoderKind(_on_images(ConvNet), needs_images=True),
}
