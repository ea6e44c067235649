"""Products by oneDNN: the same numbers as F.linear, up to rounding, with all their gradients."""

import pytest
import torch
from torch.nn import functional as F

from gedi import products

needs_onednn = pytest.mark.skipif(
    not (torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")),
    reason="this torch has no oneDNN",
)


@pytest.fixture(params=[False, True], ids=["mkl", "onednn"])
def library(request, monkeypatch):
    """Each library in turn, also for small products."""
    if request.param and not torch.backends.mkldnn.is_available():
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "WORTHWHILE", 0)
    monkeypatch.setattr(products, "prefers_onednn", lambda: request.param)


def matrices(*shapes):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_product_is_that_of_f_linear(library, is_transposed):
    a, b, bias = matrices((40, 30), (30, 20) if is_transposed else (20, 30), (20,))
    b = b.T if is_transposed else b
    torch.testing.assert_close(products.product(a, b, bias), F.linear(a, b, bias))


def test_first_and_second_gradients_are_those_of_f_linear(library):
    """Denoising score matching differentiates a gradient."""
    a, b, bias = (values.requires_grad_() for values in matrices((8, 6), (5, 6), (5,)))

    def gradients(multiply):
        (slope,) = torch.autograd.grad(multiply(a, b, bias).tanh().square().sum(), a, create_graph=True)
        return slope, *torch.autograd.grad(slope.square().sum(), (a, b, bias))

    torch.testing.assert_close(gradients(products.product), gradients(F.linear))


def test_autocast_and_float64_are_left_to_torch(library):
    a, b = matrices((40, 30), (20, 30))
    with torch.autocast("cpu", torch.bfloat16):
        assert products.product(a, b).dtype == torch.bfloat16
    assert products.product(a.double(), b.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"avx512_f": True, "cpu_name": "AMD EPYC"}, True),
        ({"avx512_f": False, "cpu_name": "AMD EPYC"}, False),
        ({"avx512_f": True, "cpu_name": "Intel Xeon"}, False),
        ({}, False),
    ],
)
@needs_onednn
def test_onednn_is_for_amd_processors_with_avx512(monkeypatch, found, expected):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found)
    assert products.prefers_onednn.__wrapped__() is expected
