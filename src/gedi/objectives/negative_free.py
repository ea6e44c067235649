"""Negative-free terms: L_NF in its Gaussian form (Eqs. 6-7) and its relatives (Sec. 2.3, App. E).

Covariances are those of the rows given: with several processes, gather the batch first and pass all of it.
"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from gedi.objectives.precision import full_precision


def scatter(z: torch.Tensor, beta: float) -> torch.Tensor:
    """Sigma of Eq. 6: sum_i (z_i - mean)(z_i - mean)^T + beta I."""
    centred = z - z.mean(dim=0, keepdim=True)
    return centred.T @ centred + beta * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)


def gaussian_kl(sigma: torch.Tensor) -> torch.Tensor:
    """Tr(Sigma)/2 - log|Sigma|/2 (Eq. 7, first part): smallest, at h/2, where Sigma is the identity."""
    # Cholesky rather than slogdet: it fails loudly when Sigma is not positive definite.
    log_det = 2 * torch.linalg.cholesky(sigma).diagonal().log().sum()
    return (torch.trace(sigma) - log_det) / 2


@full_precision
def negative_free_loss(
    z: torch.Tensor, z_view: torch.Tensor, *, beta: float = 1e-3, invariance: float = 1.0
) -> torch.Tensor:
    """-L_NF of Eq. 7 for representations of x and of its view x'; ``invariance=1`` is the paper's.

    Float32 or wider throughout: the log-determinant of a half-precision scatter matrix is noise.
    """
    return gaussian_kl(scatter(z, beta)) + invariance * ((z - z_view) ** 2).sum() / 2


def covariance(z: torch.Tensor) -> torch.Tensor:
    """Unbiased covariance of the columns: what Eq. 6 calls Sigma, without beta, over n - 1."""
    return scatter(z, 0.0) / (len(z) - 1)


def off_diagonal(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix with zeros on its diagonal."""
    return matrix - torch.diag(matrix.diagonal())


@full_precision
def corinfomax_loss(
    z: torch.Tensor, z_view: torch.Tensor, *, epsilon: float = 1e-3, attraction: float = 500.0
) -> torch.Tensor:
    """CorInfoMax without its running averages: -(log|R + eI| + log|R' + eI|) / h + attraction mean (z - z')^2.

    R is the covariance over n. Sec. 2.3 says that L_NF recovers this. With beta = n e and attraction = 2n,

        -L_NF(z, z') - L_NF(z', z) = h/2 corinfomax_loss - h log n + (Tr Sigma + Tr Sigma') / 2,

    so it does where the traces are constant, that is for standardised features; for free features L_NF also has a
    preferred scale and CorInfoMax has not.
    """
    h, eye = z.shape[1], torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    log_dets = torch.stack(
        [torch.linalg.cholesky(scatter(v, 0.0) / len(v) + epsilon * eye).diagonal().log().sum() for v in (z, z_view)]
    )
    return -2 * log_dets.sum() / h + attraction * F.mse_loss(z, z_view)


@full_precision
def mec_loss(
    z: torch.Tensor, z_view: torch.Tensor, *, distortion: float = 1 / 32, order: int | None = 4
) -> torch.Tensor:
    """Maximum entropy coding: -log|I + l Z^T Z'| / (l n) for rows of unit norm, with l = 1 / (n distortion).

    ``order`` terms of the logarithm's series are its authors' choice; the series converges only while the eigenvalues
    of l Z^T Z' are below one, so few dimensions ask for a larger ``distortion`` or for None, the determinant itself.

    Sec. 2.3 says that L_NF recovers this. For one view, columns of mean zero and beta = n distortion,

        -L_NF(z, z) = mec_loss(z, z, order=None) / (2 distortion) + (n + h beta - h log beta) / 2,

    constants all. Between two views L_NF measures their distance and MEC the determinant of their product: to first
    order in l both are sum_i z_i^T z'_i up to constants, beyond it they differ.
    """
    n = len(z)
    coupling = F.normalize(z, dim=1).T @ F.normalize(z_view, dim=1) / (n * distortion)
    if order is None:
        eye = torch.eye(len(coupling), dtype=z.dtype, device=z.device)
        log_det = torch.linalg.slogdet(eye + coupling).logabsdet
    else:
        power, log_det = coupling, torch.trace(coupling)
        for k in range(2, order + 1):
            power = power @ coupling
            log_det = log_det - (-1) ** k * torch.trace(power) / k
    return -distortion * log_det


@full_precision
def cross_correlation(z: torch.Tensor, z_view: torch.Tensor, *, epsilon: float = 1e-5) -> torch.Tensor:
    """CCorr of App. E: z^T z' / n after batch normalisation without scale and shift."""
    one, two = (F.batch_norm(v, None, None, training=True, eps=epsilon) for v in (z, z_view))
    return one.T @ two / len(z)


def barlow_twins_loss(z: torch.Tensor, z_view: torch.Tensor, *, redundancy: float = 0.0051) -> torch.Tensor:
    """Barlow Twins: sum_i (C_ii - 1)^2 + redundancy sum_{i != j} C_ij^2.

    App. E's ||C * Lambda - I||^2 squares its lambda together with C: it is this with redundancy = lambda^2.
    """
    correlation = cross_correlation(z, z_view)
    return ((correlation.diagonal() - 1) ** 2).sum() + redundancy * (off_diagonal(correlation) ** 2).sum()


@full_precision
def vicreg_loss(
    z: torch.Tensor,
    z_view: torch.Tensor,
    *,
    invariance: float = 25.0,
    variance: float = 25.0,
    decorrelation: float = 1.0,
    epsilon: float = 1e-4,
) -> torch.Tensor:
    """VICReg: squared distance of the views, hinge on each feature's deviation, squared covariances (App. E).

    Means, not App. E's sums, over features and rows, so that the published weights mean what they meant; and, as in
    the authors' code, the mean of both views' hinges, where their paper adds them (``variance=50`` is the paper's).
    """
    hinge = torch.stack([F.relu(1 - torch.sqrt(v.var(dim=0) + epsilon)).mean() for v in (z, z_view)]).mean()
    redundancy = torch.stack([(off_diagonal(covariance(v)) ** 2).sum() / z.shape[1] for v in (z, z_view)]).sum()
    return invariance * F.mse_loss(z, z_view) + variance * hinge + decorrelation * redundancy


@full_precision
def whiten(z: torch.Tensor, *, shrinkage: float = 0.0) -> torch.Tensor:
    """Rows of mean zero and covariance one: L^-1 (z - mean) with L L^T = (1 - s) Cov + s I, by Cholesky (App. E).

    ``shrinkage`` keeps the factor defined where there are fewer rows than columns or columns that depend on others.
    """
    eye = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
    factor = torch.linalg.cholesky((1 - shrinkage) * covariance(z) + shrinkage * eye)
    # A triangular solve rather than an inverse: as stable as the factor itself.
    return torch.linalg.solve_triangular(factor, (z - z.mean(dim=0)).T, upper=False).T


def w_mse_loss(
    z: torch.Tensor,
    z_view: torch.Tensor,
    *,
    shrinkage: float = 1e-4,
    slice_size: int | None = None,
    repeats: int = 1,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """W-MSE: mean ||v_i - v'_i||^2 = 2 - 2 Tr(V V'^T) / n of whitened, then normalised, views (App. E).

    Whitening uses the whole batch, or random slices of at least ``slice_size`` rows drawn ``repeats`` times: a small
    batch's whitening matrix is noisy, and averaging over slices is its authors' remedy. A slice needs more rows than
    there are columns; theirs have twice as many.
    """
    n = len(z)
    if slice_size is None:
        slices = [torch.arange(n)]
    else:
        orders = [torch.randperm(n, generator=generator) for _ in range(repeats)]
        slices = [rows for order in orders for rows in order.tensor_split(max(1, n // slice_size))]
    gaps = []
    for rows in slices:
        one, two = (F.normalize(whiten(v[rows.to(v.device)], shrinkage=shrinkage), dim=1) for v in (z, z_view))
        gaps.append(((one - two) ** 2).sum(dim=1))
    return torch.cat(gaps).mean()
