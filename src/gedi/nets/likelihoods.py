"""Models with a likelihood of their own: a normalising flow, whose log p is exact, and a variational autoencoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from gedi.errors import ConfigError
from gedi.nets.densities import Density
from gedi.nets.encoders import MLPEncoder

OUTPUTS = {"nsf": 23, "maf": 2}  # of a flow's networks, per feature: 8 widths, 8 heights and 7 slopes; shift and scale
LARGEST_FLOW = 2**25  # most values in a flow's weights and in its mask of which output may depend on which feature
LOG_SIGMA_LIMIT = 8.0  # of the VAE: q's widths stay between e^-8 and e^8, however far out x is
MIN_SCALE = 1e-3  # of the VAE's s: for data that lie exactly on a manifold, s would go to 0 and log p to infinity


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
        kind: str,
        transforms: int,
        hidden: Sequence[int],
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


def quasi_normal(n: int, size: int) -> torch.Tensor:
    """``n`` evenly spread Gaussian points in ``size`` dimensions (scrambled Sobol), the same in every call."""
    unit = torch.quasirandom.SobolEngine(size, scramble=True, seed=0).draw(n, dtype=torch.float64)
    return torch.special.ndtri(unit.clamp(1e-9, 1 - 1e-9)).float()


class VaeDensity(Density):
    """p(x) = int N(x; dec(z), s^2 I) N(z; 0, I) dz, with q(z|x) = N(mu(x), diag sigma(x)^2) and a learned s.

    ``loss`` is the negative ELBO. ``log_density`` is the importance-weighted bound log 1/K sum_k p(x, z_k) / q(z_k|x),
    z_k = mu + sigma e_k, with K = ``importance`` fixed noises e_k, the same for all x: a smooth, deterministic function
    of x whose score samplers can follow. On average over the noise it is a bound: at most log p(x), and closer to it
    for larger K. With the noise fixed it is an estimate of that bound, and can exceed log p(x) at single points.
    """

    noise: torch.Tensor

    def __init__(
        self,
        n_features: int,
        *,
        latent: int,
        hidden: Sequence[int],
        importance: int,
    ) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = MLPEncoder(n_features, hidden, 2 * latent)
        self.decoder = MLPEncoder(latent, list(reversed(hidden)), n_features)
        self.log_scale = nn.Parameter(torch.zeros(()))
        # Stored with the weights: log p of a saved model must not depend on the Sobol numbers of a later version.
        self.register_buffer("noise", quasi_normal(importance, latent))

    @property
    def scale(self) -> torch.Tensor:
        """s, one number for all features: with one per feature, a constant feature could raise log p without limit."""
        return MIN_SCALE + self.log_scale.exp()

    def posterior(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """mu(x) and log sigma(x) of q(z|x)."""
        mean, raw = self.encoder(x).chunk(2, dim=1)
        return mean, LOG_SIGMA_LIMIT * torch.tanh(raw / LOG_SIGMA_LIMIT)

    def log_likelihood(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """log p(x|z), for z of shape [..., n, latent]."""
        error = (x - self.decoder(z)) / self.scale
        return -0.5 * error.square().sum(-1) - error.shape[-1] * (self.scale.log() + 0.5 * math.log(2 * math.pi))

    def bound(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """Importance-weighted bound on log p(x) from noise [k, latent], or [k, n, latent] for noise per row.

        Averaged over Gaussian noise it is at most log p(x), and it grows with k.
        """
        with torch.autocast(x.device.type, enabled=False):
            mean, log_sigma = self.posterior(x)
            noise = noise if noise.ndim == 3 else noise[:, None]
            z = mean + log_sigma.exp() * noise
            # log p(z) - log q(z|x); the constants of the two Gaussians cancel.
            log_ratio = (0.5 * noise.square() - 0.5 * z.square() + log_sigma).sum(-1)
            return torch.logsumexp(self.log_likelihood(x, z) + log_ratio, dim=0) - math.log(len(noise))

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """The bound on log p(x), from the noise fixed when the model was made."""
        return self.bound(x, self.noise)

    def loss(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Negative ELBO in nats per sample, a bound on Eq. 8: one z per row from ``generator``, KL in closed form."""
        with torch.autocast(x.device.type, enabled=False):
            mean, log_sigma = self.posterior(x)
            noise = torch.randn(mean.shape, generator=generator, device=mean.device, dtype=mean.dtype)
            kl = 0.5 * (mean.square() + (2 * log_sigma).exp() - 1).sum(1) - log_sigma.sum(1)
            return (kl - self.log_likelihood(x, mean + log_sigma.exp() * noise)).mean()

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """Exact draws from the model, including the noise of the likelihood."""

        def normal(size: int) -> torch.Tensor:
            return torch.randn((n, size), generator=generator, device=self.noise.device, dtype=self.noise.dtype)

        mean = self.decoder(normal(self.latent))
        return mean + self.scale * normal(mean.shape[1])
