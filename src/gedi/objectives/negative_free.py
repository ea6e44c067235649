"""Negative-free terms: L_NF in its Gaussian form (Eqs. 6-7) and its relatives (Sec. 2.3, App. E).

Covariances are computed over the given rows: with several processes, gather the batch first and pass all of it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn import functional as F

from gedi.objectives.precision import full_precision
from gedi.objectives.term import Loss, Term
from gedi.settings import NotNegative, Positive, Share

if TYPE_CHECKING:
    from gedi.objectives.views import Views

SMALLEST_VARIANCE = 1e-4  # added before VICReg takes a root, whose gradient is infinite at 0


def scatter_matrix(z: torch.Tensor, beta: float) -> torch.Tensor:
    """Sigma of Eq. 6: sum_i (z_i - mean)(z_i - mean)^T + beta I."""
    centred = z - z.mean(dim=0, keepdim=True)
    return centred.T @ centred + beta * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)


def gaussian_kl(sigma: torch.Tensor) -> torch.Tensor:
    """Tr(Sigma)/2 - log|Sigma|/2 (Eq. 7, first part): its minimum, h/2, is at the identity."""
    # Cholesky rather than slogdet: it fails loudly when Sigma is not positive definite.
    log_det = 2 * torch.linalg.cholesky(sigma).diagonal().log().sum()
    return (torch.trace(sigma) - log_det) / 2


@full_precision
def negative_free_loss(
    z: torch.Tensor,
    z_view: torch.Tensor,
    *,
    beta: float,
    invariance: float,
    between: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """-L_NF of Eq. 7 for features of x and of its view x'; ``invariance=1`` is the paper's.

    ``between`` are the vectors whose distance counts, if not these features: in the paper Sigma is computed after a
    projector, but the distance between enc(x) and enc(x'). Always float32 or wider: the log-determinant of a
    half-precision scatter matrix is noise.
    """
    one, two = between or (z, z_view)
    return gaussian_kl(scatter_matrix(z, beta)) + invariance * ((one - two) ** 2).sum() / 2


def covariance(z: torch.Tensor) -> torch.Tensor:
    """Unbiased covariance of the columns: Sigma of Eq. 6 without beta, divided by n - 1."""
    return scatter_matrix(z, 0.0) / (len(z) - 1)


def off_diagonal(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix with zeros on its diagonal."""
    return matrix - torch.diag(matrix.diagonal())


@full_precision
def corinfomax_loss(z: torch.Tensor, z_view: torch.Tensor, *, epsilon: float, attraction: float) -> torch.Tensor:
    """CorInfoMax without its running averages: -(log|R + eI| + log|R' + eI|) / h + attraction mean (z - z')^2.

    R is the covariance with divisor n. Sec. 2.3 says that L_NF recovers this. With beta = n e and attraction = 2n,

        -L_NF(z, z') - L_NF(z', z) = h/2 corinfomax_loss - h log n + (Tr Sigma + Tr Sigma') / 2,

    so it does if the traces are constant, that is for standardised features. Otherwise L_NF also has a preferred scale,
    and CorInfoMax does not.
    """
    h, eye = z.shape[1], torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    log_dets = torch.stack(
        [
            torch.linalg.cholesky(scatter_matrix(v, 0.0) / len(v) + epsilon * eye).diagonal().log().sum()
            for v in (z, z_view)
        ]
    )
    return -2 * log_dets.sum() / h + attraction * F.mse_loss(z, z_view)


@full_precision
def mec_loss(z: torch.Tensor, z_view: torch.Tensor, *, distortion: float) -> torch.Tensor:
    """Maximum entropy coding: -log|I + l Z^T Z'| / (l n) for rows of unit norm, with l = 1 / (n distortion).

    Its authors take the first 4 terms of the logarithm's series, which converges only while the eigenvalues of l Z^T Z'
    are below one.

    Sec. 2.3 says that L_NF recovers this. For one view, columns of mean zero and beta = n distortion,

        -L_NF(z, z) = mec_loss(z, z) / (2 distortion) + (n + h beta - h log beta) / 2,

    where the last summand is constant. Between two views L_NF measures their distance and MEC the determinant of their
    product: to first order in l both are sum_i z_i^T z'_i up to constants; beyond that they differ.
    """
    n = len(z)
    coupling = F.normalize(z, dim=1).T @ F.normalize(z_view, dim=1) / (n * distortion)
    eye = torch.eye(len(coupling), dtype=z.dtype, device=z.device)
    return -distortion * torch.linalg.slogdet(eye + coupling).logabsdet


@full_precision
def cross_correlation(z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
    """CCorr of App. E: z^T z' / n after batch normalisation without scale and shift."""
    one, two = (F.batch_norm(v, None, None, training=True) for v in (z, z_view))
    return one.T @ two / len(z)


def barlow_twins_loss(z: torch.Tensor, z_view: torch.Tensor, *, redundancy: float) -> torch.Tensor:
    """Barlow Twins: sum_i (C_ii - 1)^2 + redundancy sum_{i != j} C_ij^2.

    App. E's ||C * Lambda - I||^2 squares its lambda together with C: it is this with redundancy = lambda^2.
    """
    correlation = cross_correlation(z, z_view)
    return ((correlation.diagonal() - 1) ** 2).sum() + redundancy * (off_diagonal(correlation) ** 2).sum()


@full_precision
def vicreg_loss(
    z: torch.Tensor, z_view: torch.Tensor, *, invariance: float, variance: float, decorrelation: float
) -> torch.Tensor:
    """VICReg: squared distance of the views, hinge on each feature's standard deviation, squared covariances (App. E).

    Averages over features and rows, where App. E has sums, so that the published weights keep their meaning. The hinges
    of both views are averaged, as in the authors' code; their paper adds them (``variance=50`` is the paper's).
    """
    hinge = torch.stack([F.relu(1 - torch.sqrt(v.var(dim=0) + SMALLEST_VARIANCE)).mean() for v in (z, z_view)]).mean()
    redundancy = torch.stack([(off_diagonal(covariance(v)) ** 2).sum() / z.shape[1] for v in (z, z_view)]).sum()
    return invariance * F.mse_loss(z, z_view) + variance * hinge + decorrelation * redundancy


@full_precision
def whiten(z: torch.Tensor, *, shrinkage: float) -> torch.Tensor:
    """Rows with mean 0 and covariance I: L^-1 (z - mean) with L L^T = (1 - s) Cov + s I, by Cholesky (App. E).

    ``shrinkage`` keeps the factor defined if there are fewer rows than columns, or if columns are dependent.
    """
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    factor = torch.linalg.cholesky((1 - shrinkage) * covariance(z) + shrinkage * eye)
    # A triangular solve rather than an inverse: as stable as the factor itself.
    return torch.linalg.solve_triangular(factor, (z - z.mean(dim=0)).T, upper=False).T


def w_mse_loss(z: torch.Tensor, z_view: torch.Tensor, *, shrinkage: float) -> torch.Tensor:
    """W-MSE: mean ||v_i - v'_i||^2 = 2 - 2 Tr(V V'^T) / n of whitened, then normalised, views (App. E).

    The whole batch is whitened at once; the authors average over slices of it, since the whitening matrix of a small
    batch is noisy.
    """
    one, two = (F.normalize(whiten(v, shrinkage=shrinkage), dim=1) for v in (z, z_view))
    return ((one - two) ** 2).sum(dim=1).mean()


# -- terms ------------------------------------------------------------------------------------------------------------


@dataclass
class NegativeFree(Term, family="negative_free"):
    """A loss between the features of two views, computed by L_NF's own projector."""

    def losses(self, views: Views) -> dict[str, Loss]:
        return {"negative_free": Loss(self.loss(*views.features.chunk(2)), self.weight)}

    @abstractmethod
    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        """The loss between the features of x and of its view."""


@dataclass
class Gaussian(NegativeFree):
    """-L_NF with the distance between enc(x) and enc(x'), divided by the batch size as in the paper's table."""

    kind: str = "gaussian"
    beta: Positive = 1e-3  # added to the diagonal of Sigma
    invariance: NotNegative = 1.0  # weight of dist(x, x') within L_NF (paper: 1)
    per_sample: bool = False  # average over samples and dimensions; distance between features, not enc(x)
    equation: ClassVar[str] = "Eqs. 6-7"

    def losses(self, views: Views) -> dict[str, Loss]:
        z, n = views.features, views.n
        if not self.per_sample:
            return {"negative_free": Loss(self.loss(z[:n], z[n:], between=views.pair(views.h)) / n, self.weight)}
        # The same term for z / sqrt(n), symmetric in the views and divided by the dimension: neither its size nor the
        # meaning of its weight changes with the batch size or the width.
        z = z / math.sqrt(n)
        both = self.loss(*z.split(n)) + self.loss(*z.split(n)[::-1])
        return {"negative_free": Loss(both / (2 * z.shape[1]), self.weight)}

    def loss(
        self, z: torch.Tensor, z_view: torch.Tensor, *, between: tuple[torch.Tensor, torch.Tensor] | None = None
    ) -> torch.Tensor:
        return negative_free_loss(z, z_view, beta=self.beta, invariance=self.invariance, between=between)


@dataclass
class CorInfoMax(NegativeFree):
    """CorInfoMax, with the batch's own covariance."""

    kind: str = "corinfomax"
    epsilon: Positive = 1e-3  # added to the diagonal of the covariance
    attraction: NotNegative = 500.0  # weight of the views' distance
    equation: ClassVar[str] = "Sec. 2.3"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return corinfomax_loss(z, z_view, epsilon=self.epsilon, attraction=self.attraction)


@dataclass
class Mec(NegativeFree):
    """Maximum entropy coding, by its determinant."""

    kind: str = "mec"
    distortion: Positive = 1 / 32  # distortion of the code; lower is more precise
    equation: ClassVar[str] = "Sec. 2.3"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return mec_loss(z, z_view, distortion=self.distortion)


@dataclass
class Barlow(NegativeFree):
    """Barlow Twins."""

    kind: str = "barlow"
    redundancy: NotNegative = 0.0051  # weight of the off-diagonal entries
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return barlow_twins_loss(z, z_view, redundancy=self.redundancy)


@dataclass
class Vicreg(NegativeFree):
    """VICReg."""

    kind: str = "vicreg"
    invariance: NotNegative = 25.0  # weight of the views' distance
    variance: NotNegative = 25.0  # weight of the hinge on every feature's standard deviation
    decorrelation: NotNegative = 1.0  # weight of the squared covariances
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return vicreg_loss(
            z, z_view, invariance=self.invariance, variance=self.variance, decorrelation=self.decorrelation
        )


@dataclass
class WMse(NegativeFree):
    """W-MSE: the distance between whitened views."""

    kind: str = "w-mse"
    shrinkage: Share = 1e-2  # shrinkage towards the identity: keeps whitening defined when features are dependent
    equation: ClassVar[str] = "App. E"

    def loss(self, z: torch.Tensor, z_view: torch.Tensor) -> torch.Tensor:
        return w_mse_loss(z, z_view, shrinkage=self.shrinkage)
