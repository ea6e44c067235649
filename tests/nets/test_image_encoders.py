"""The ResNet of the paper's table, the faster net, and flat rows of pixels on their way through them."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gedi.errors import ConfigError, DataError
from gedi.nets import ConvNet, GediNet, ImageEncoder, ResNet8
from gedi.nets.gedinet import energy_density

new_net = partial(GediNet, head="projector", density=energy_density)

BOTH = pytest.mark.parametrize("kind", [ResNet8, ConvNet])


def net(channels=3, width=8, seed=0, kind=ResNet8):
    torch.manual_seed(seed)
    return kind(channels, width)


def images(n=4, channels=3, height=32, width=32, seed=0):
    return torch.randn(n, channels, height, width, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("width, parameters", [(128, 1_037_184), (256, 4_138_752)])
def test_the_papers_networks_have_their_parameters(width, parameters):
    assert sum(p.numel() for p in ResNet8(3, width).parameters()) == parameters


def test_it_is_the_table_written_out():
    """An independent reading of the architecture table, line by line."""
    model, x = net(), images()
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    c1, c2, short, c3, c4, c5, c6, c7, c8 = convolutions

    def act(h):
        return torch.where(h > 0, h, 0.2 * h)

    h = F.avg_pool2d(c2(act(c1(x))), 2) + short(F.avg_pool2d(x, 2))
    h = F.avg_pool2d(c4(act(c3(act(h)))) + h, 2)
    h = h + c6(act(c5(act(h))))
    h = h + c8(act(c7(act(h))))
    expected = act(h).flatten(2).mean(2)
    assert torch.allclose(model(x), expected, atol=1e-5)
    assert [c.kernel_size[0] for c in convolutions] == [3, 3, 1] + [3] * 6
    assert not [m for m in model.modules() if "Norm" in type(m).__name__]


@pytest.mark.parametrize("channels, height, width", [(1, 28, 28), (3, 8, 8), (4, 33, 47), (2, 9, 64)])
@BOTH
def test_any_channels_and_sizes(channels, height, width, kind):
    out = net(channels, kind=kind)(images(2, channels, height, width))
    assert out.shape == (2, 8) and bool(out.isfinite().all())


def test_weights_start_as_they_should():
    model = net(3, 64)
    first = model.blocks[0].conv1
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            a, b = (c * module.kernel_size[0] ** 2 for c in (module.in_channels, module.out_channels))
            bound = (1 if module is first else math.sqrt(2)) * math.sqrt(6 / (a + b))
            assert bound * 0.9 < float(module.weight.detach().abs().max()) <= bound
            assert float(module.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.1)
            assert not module.bias.detach().any()


@BOTH
def test_weights_and_images_are_channels_last(kind):
    model, seen = net(kind=kind), []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            assert module.weight.is_contiguous(memory_format=torch.channels_last)
            module.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    model(images())
    assert len(seen) == 9 and all(h.is_contiguous(memory_format=torch.channels_last) for h in seen)


@BOTH
def test_the_layout_of_the_images_changes_nothing(kind):
    model, x = net(kind=kind), images()
    assert torch.equal(model(x), model(x.contiguous(memory_format=torch.channels_last)))


@BOTH
def test_an_image_does_not_feel_the_others_of_its_batch(kind):
    model, x = net(kind=kind).train(), images()
    other = x.clone()
    other[1:] = 100 * images(3, seed=5)
    assert torch.allclose(model(other)[:1], model(x)[:1], atol=1e-5)


@BOTH
def test_gradients_reach_every_weight_and_pixel(kind):
    model, x = net(kind=kind), images().requires_grad_()
    model(x).square().sum().backward()
    assert all(bool((p.grad != 0).any()) for p in model.parameters())
    assert float((x.grad != 0).float().mean()) > 0.99


def test_state_round_trip_and_seed():
    one, two, x = net(seed=0), net(seed=1), images()
    assert not torch.equal(one(x), two(x)) and torch.equal(one(x), net(seed=0)(x))
    two.load_state_dict(one.state_dict())
    assert torch.equal(one(x), two(x))


@BOTH
def test_it_works_under_the_heads(kind):
    torch.manual_seed(0)
    encoder = ImageEncoder((32, 32, 3), 8, kind)
    gedi = new_net(encoder, representation=8, embedding=8, projector_hidden=16, n_clusters=10)
    x = images().flatten(1)
    assert gedi.log_density(x).shape == (4,) and gedi.scores(x).shape == (4, 10)
    gradient = gedi.score(x)
    moved = gedi.double().log_density(x.double() + 1e-5 * gradient.double())
    slope = (moved - gedi.log_density(x.double())) / 1e-5
    assert torch.allclose(slope, gradient.double().square().sum(1), rtol=1e-3)


@pytest.mark.parametrize("shape", [(4, 1, 32, 32), (4, 3, 7, 32), (4, 3, 32), (4, 32, 32, 3)])
@BOTH
def test_images_of_a_wrong_shape_are_refused(shape, kind):
    with pytest.raises(DataError, match=rf"{kind.__name__} takes images \[n, 3, height, width\]"):
        net(kind=kind)(torch.zeros(shape))
    with pytest.raises(ConfigError, match="at least one channel"):
        kind(0, 8)


def test_features_of_the_faster_net_cost_fewer_multiplications():
    def cost(model):
        counted = []
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                module.register_forward_hook(lambda m, _, out: counted.append(m.weight.numel() * out[0, 0].numel()))
        model(images(1))
        return sum(counted)

    assert cost(ConvNet(3, 128)) < cost(ResNet8(3, 32))


# Flat rows


def encoder(shape=(8, 10, 3)):
    torch.manual_seed(0)
    return ImageEncoder(shape, 4)


def test_rows_are_read_as_height_width_channels():
    images = torch.randn(5, 3, 8, 10)
    net = encoder()
    assert torch.allclose(net(images.permute(0, 2, 3, 1).flatten(1)), net.resnet(images), atol=1e-6)


def test_images_of_another_size_need_not_be_rows():
    net, images = encoder(), torch.randn(5, 3, 9, 8)
    assert torch.allclose(net(images.permute(0, 2, 3, 1)), net.resnet(images), atol=1e-6)


def test_many_images_without_a_gradient_go_through_in_parts(monkeypatch):
    monkeypatch.setattr(ImageEncoder, "rows_at_once", 3)
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
