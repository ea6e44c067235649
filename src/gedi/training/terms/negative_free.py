"""Negative-free terms: L_NF and its relatives."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from gedi.objectives import (
    barlow_twins_loss,
    corinfomax_loss,
    mec_loss,
    negative_free_loss,
    vicreg_loss,
    w_mse_loss,
)
from gedi.training.objective import Term, positive

if TYPE_CHECKING:
    from gedi.training.views import Views


@dataclass
class NegativeFree(Term):
    """A loss of two views' features, by L_NF's own projector."""

    def names(self) -> tuple[str, ...]:
        return ("negative_free",)

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        return {"negative_free": self.loss(*views.features.chunk(2))}

    @abstractmethod
    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        """The loss between the features of x and of its view."""


@dataclass
class Gaussian(NegativeFree):
    """-L_NF, divided by the batch size as in the paper's table of weights."""

    kind: str = "gaussian"
    beta: float = 1e-3  # added to the diagonal of Sigma
    invariance: float = 1.0  # weight of dist(x, x') within L_NF (the paper: 1)
    per_sample: bool = False  # Sigma as a mean over samples and the term per dimension, rather than Eq. 6's sum
    equation: ClassVar[str] = "Eqs. 6-7"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        z, n = views.features, views.n
        if not self.per_sample:
            return {"negative_free": self.loss(z[:n], z[n:]) / n}
        # The same term of z / sqrt(n), symmetric in the views and divided by the dimension: its size does not change
        # with batch or width, and neither does the meaning of its weight.
        z = z / math.sqrt(n)
        both = self.loss(*z.split(n)) + self.loss(*z.split(n)[::-1])
        return {"negative_free": both / (2 * z.shape[1])}

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return negative_free_loss(z, z_view, beta=self.beta, invariance=self.invariance)

    def check(self) -> None:
        super().check()
        positive(beta=self.beta)


@dataclass
class CorInfoMax(NegativeFree):
    """CorInfoMax, with the batch's own covariance."""

    kind: str = "corinfomax"
    epsilon: float = 1e-3  # added to the diagonal of the covariance
    attraction: float = 500.0  # weight of the views' distance
    equation: ClassVar[str] = "Sec. 2.3"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return corinfomax_loss(z, z_view, epsilon=self.epsilon, attraction=self.attraction)


@dataclass
class Mec(NegativeFree):
    """Maximum entropy coding, by its determinant."""

    kind: str = "mec"
    distortion: float = 1 / 32  # the coding precision
    equation: ClassVar[str] = "Sec. 2.3"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return mec_loss(z, z_view, distortion=self.distortion, order=None)


@dataclass
class Barlow(NegativeFree):
    """Barlow Twins."""

    kind: str = "barlow"
    redundancy: float = 0.0051  # weight of what is off the diagonal
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return barlow_twins_loss(z, z_view, redundancy=self.redundancy)


@dataclass
class Vicreg(NegativeFree):
    """VICReg."""

    kind: str = "vicreg"
    invariance: float = 25.0  # weight of the views' distance
    variance: float = 25.0  # weight of the hinge on every feature's deviation
    decorrelation: float = 1.0  # weight of the squared covariances
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return vicreg_loss(
            z, z_view, invariance=self.invariance, variance=self.variance, decorrelation=self.decorrelation
        )


@dataclass
class WMse(NegativeFree):
    """W-MSE: the distance of whitened views."""

    kind: str = "w-mse"
    shrinkage: float = 1e-2  # towards the identity: keeps whitening defined where features depend on each other
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return w_mse_loss(z, z_view, shrinkage=self.shrinkage)
