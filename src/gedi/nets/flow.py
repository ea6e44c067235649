"""A normalising flow as the generative model: log p is exact, and so are its samples. Needs zuko."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gedi.errors import ConfigError
from gedi.nets.densities import Density

OUTPUTS = {"nsf": 23, "maf": 2}  # of the inner networks, per feature: 8 widths, 8 heights and 7 slopes; shift and scale
LARGEST_FLOW = 2**25  # most values in a flow's weights and in its mask of which output may depend on which feature


def zuko_flow(kind: str) -> Any:
    """zuko's class for ``kind``; zuko is imported only here."""
    try:
        import zuko
    except ImportError as error:
        raise ConfigError("A normalising flow needs zuko: pip install 'gedi-ssl[flows]'.") from error
    return getattr(zuko.flows, kind.upper())


class FlowDensity(Density):
    """log p(x) = log N(f(x); 0, I) + log |det df/dx|: exact and normalised, so ``loss`` is the likelihood of Eq. 8.

    ``nsf`` (rational-quadratic splines) bends the cube [-5, 5]^d and is the identity outside it, so the data should
    have about unit variance; ``maf`` (affine) has no such cube and is less flexible. ``passes=None`` is autoregressive:
    sampling costs one pass per feature. ``passes=2`` is a coupling flow, for many features.

    The inner nets use SiLU, not zuko's ReLU, whose kinks would make the score jump. The knots of the splines remain:
    the score of ``nsf`` is continuous only between them, while that of ``maf`` is smooth.
    """

    def __init__(
        self,
        n_features: int,
        *,
        kind: str = "nsf",
        transforms: int = 3,
        hidden: Sequence[int] = (64, 64),
        passes: int | None = None,
    ) -> None:
        super().__init__()
        self.n_features = n_features
        make = zuko_flow(kind)
        sizes = [n_features, *hidden, n_features * OUTPUTS[kind]]
        numbers = transforms * sum(a * b for a, b in pairwise(sizes)) + n_features * sizes[-1]
        if numbers > LARGEST_FLOW:
            raise ConfigError(
                f"A flow of {n_features} features with these layers needs {numbers:,} numbers, but the limit is "
                f"{LARGEST_FLOW:,}: use fewer features, smaller layers, fewer transforms, or another generative model."
            )
        # zuko computes its masks with operations that need real tensors, even under the meta device.
        with torch.device("cpu"):
            self.flow: nn.Module = make(
                n_features, transforms=transforms, hidden_features=tuple(hidden), passes=passes, activation=nn.SiLU
            )
        # Masks, orders and the base follow from the settings. The state dict holds only what was learned, so nothing in
        # it can break the triangular structure that makes the determinant exact.
        for part in self.flow.modules():
            for name, buffer in list(part.named_buffers(recurse=False)):
                part.register_buffer(name, buffer, persistent=False)

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """log p(x), exact."""
        # The sum of log-slopes over layers and features does not survive half precision.
        with torch.autocast(x.device.type, enabled=False):
            return self.flow().log_prob(x)

    def loss(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Negative log-likelihood in nats per sample; draws nothing from ``generator``."""
        return -self.log_density(x).mean()

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """f^-1 of Gaussian noise, drawn here because zuko's own sampling takes no generator."""
        like = next(self.parameters())
        noise = torch.randn((n, self.n_features), generator=generator, device=like.device, dtype=like.dtype)
        return self.flow().transform.inv(noise)
