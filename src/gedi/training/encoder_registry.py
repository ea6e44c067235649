"""The choices of training.net.encoder: how each is made, and on how many threads and in which format it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import torch

from gedi.errors import ConfigError
from gedi.nets import ConvNet, Encoder, ImageEncoder, MLPEncoder, ResNet8
from gedi.objectives.generative import density_of

if TYPE_CHECKING:
    from gedi.training.config import NetConfig, TrainingConfig

    Make = Callable[[NetConfig, int, tuple[int, ...] | None], Encoder]

WIDE = 512  # units: from here on, the products of a layer take longer than the calls around them


class EncoderKind(NamedTuple):
    """One choice."""

    make: Make  # from the settings, the number of features and the shape of the images
    is_wide: Callable[[NetConfig], bool]  # its layers are large enough for several threads, and for bfloat16
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


def _on_images(net: type[ResNet8] | type[ConvNet]) -> EncoderKind:
    def make(config: NetConfig, n_features: int, image_shape: tuple[int, ...] | None) -> Encoder:
        assert image_shape is not None
        return ImageEncoder(image_shape, width_of(config), net)

    return EncoderKind(make, is_wide=lambda config: True, needs_images=True)


ENCODERS = {
    "mlp": EncoderKind(_mlp, is_wide=lambda config: max(config.hidden) >= WIDE, has_waves=True),
    "resnet8": _on_images(ResNet8),
    "convnet": _on_images(ConvNet),
}


# -- threads and number format: one rule for fits and predictions, from Python and from the command line --------------


@contextmanager
def threads_for(net: NetConfig) -> Iterator[None]:
    """One thread for narrow encoders, torch's own number for wide ones; the old number is restored afterwards.

    Narrow layers are too small to share: threads wait for each other in every operation. OMP_NUM_THREADS is respected
    if it is set.
    """
    before = torch.get_num_threads()
    if not ENCODERS[net.encoder].is_wide(net) and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def in_bfloat16(precision: str, config: TrainingConfig, device: torch.device) -> bool:
    """Whether the networks train in bfloat16: if asked to, or where "auto" finds it faster and as good.

    It is faster for wide networks on processors that multiply it in hardware. Contrastive divergence needs float32: it
    learns from differences between energies, which are small compared with the energies themselves.
    """
    if precision != "auto":
        return precision == "bf16-mixed"
    density = density_of(config.objective)
    compares_energies = density is not None and density.needs_samples
    is_wide = ENCODERS[config.net.encoder].is_wide(config.net)
    return is_wide and not compares_energies and multiplies_bfloat16(device)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    found = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))
