"""Flat rows of pixels become images on the way into the ResNet, and nothing else changes."""

import pytest
import torch

from gedi.errors import ConfigError
from gedi.nets import ImageEncoder, image_encoder


def encoder(shape=(8, 10, 3)):
    torch.manual_seed(0)
    return ImageEncoder(shape, 4)


def test_rows_are_read_as_height_width_channels():
    images = torch.randn(5, 3, 8, 10)
    net = encoder()
    assert torch.allclose(net(images.permute(0, 2, 3, 1).flatten(1)), net.resnet(images), atol=1e-6)


def test_many_images_without_a_gradient_go_through_in_parts(monkeypatch):
    monkeypatch.setattr(image_encoder, "AT_ONCE", 3)
    net, x = encoder(), torch.randn(7, 240)
    sizes = []
    net.resnet.register_forward_hook(lambda module, given, found: sizes.append(len(given[0])))
    with torch.no_grad():
        parts = net(x)
    assert sizes == [3, 3, 1]
    assert torch.allclose(parts, net(x), atol=1e-6)
    assert sizes[3:] == [7]


def test_images_too_small_for_two_poolings_are_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"8x8 pixels, got 7x10.*encoder mlp"):
        encoder((7, 10, 3))
