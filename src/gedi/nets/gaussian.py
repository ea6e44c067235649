"""A Gaussian fitted in closed form, as the base of an energy."""

from __future__ import annotations

import math

import torch
from torch import nn


class Gaussian(nn.Module):
    """N(mean, C) with C = V diag(variances) V^T + rest (1 - V V^T): probabilistic PCA (Tipping & Bishop 1999).

    An energy on top of it does not have to learn the directions in which the data vary, and log p falls off by itself.
    Before `fit` it is a standard normal.
    """

    mean: torch.Tensor
    directions: torch.Tensor  # V^T: orthonormal rows, zero where the data had too few rows to fit one
    variances: torch.Tensor
    rest: torch.Tensor  # variance in all other directions

    def __init__(self, n_features: int, n_directions: int) -> None:
        super().__init__()
        n_directions = min(n_directions, n_features)
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("directions", torch.zeros(n_directions, n_features))
        self.register_buffer("variances", torch.ones(n_directions))
        self.register_buffer("rest", torch.ones(()))

    @torch.no_grad()
    def fit(self, x: torch.Tensor, blur: float) -> None:
        """Fit to the rows of ``x`` as if they had noise of size ``blur``."""
        from sklearn.decomposition import PCA  # takes a second to import

        count = min(len(self.variances), len(x) - 1)
        pca = PCA(count, random_state=0).fit(x.cpu().double().numpy())
        self.mean.copy_(torch.as_tensor(pca.mean_))
        self.rest.fill_(max(float(pca.noise_variance_) + blur**2, 1e-6))
        self.directions.zero_()
        self.directions[:count] = torch.as_tensor(pca.components_).to(self.directions)
        self.variances.fill_(float(self.rest))
        self.variances[:count] = torch.as_tensor(pca.explained_variance_ + blur**2).to(self.variances).clamp_min(1e-6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """log N(x), one value per row, shifted so that its mean under N itself is 0."""
        apart = x - self.mean
        squares = (apart @ self.directions.T).square() @ self._narrower()
        return (x.shape[1] - apart.square().sum(1) / self.rest - squares) / 2

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """d log N / dx."""
        apart = x - self.mean
        along = (apart @ self.directions.T * self._narrower()) @ self.directions
        return along.add_(apart / self.rest).neg_()

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """``n`` draws."""
        root = math.sqrt(float(self.rest))
        noise = torch.randn((n, len(self.mean)), generator=generator, device=self.mean.device)
        along = (noise @ self.directions.T * (self.variances.sqrt() - root)) @ self.directions
        return self.mean + root * noise + along

    def _narrower(self) -> torch.Tensor:
        """Precision along the fitted directions minus that of the rest; negative, as the data vary more along them."""
        return 1 / self.variances - 1 / self.rest
