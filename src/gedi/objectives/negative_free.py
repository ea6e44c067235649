"""Negative-free term in its Gaussian form: L_NF (Eqs. 6-7)."""

from __future__ import annotations

import torch


def scatter(z: torch.Tensor, beta: float) -> torch.Tensor:
    """Sigma of Eq. 6: sum_i (z_i - mean)(z_i - mean)^T + beta I."""
    centred = z - z.mean(dim=0, keepdim=True)
    return centred.T @ centred + beta * torch.eye(z.shape[1], dtype=z.dtype, device=z.device)


def gaussian_kl(sigma: torch.Tensor) -> torch.Tensor:
    """Tr(Sigma)/2 - log|Sigma|/2 (Eq. 7, first part): smallest, at h/2, where Sigma is the identity."""
    # Cholesky rather than slogdet: it fails loudly when Sigma is not positive definite.
    log_det = 2 * torch.linalg.cholesky(sigma).diagonal().log().sum()
    return (torch.trace(sigma) - log_det) / 2


def negative_free_loss(
    z: torch.Tensor, z_view: torch.Tensor, *, beta: float = 1e-3, invariance: float = 1.0
) -> torch.Tensor:
    """-L_NF of Eq. 7 for representations of x and of its view x'; ``invariance=1`` is the paper's.

    Float32 or wider throughout: the log-determinant of a half-precision scatter matrix is noise.
    """
    dtype = torch.promote_types(z.dtype, torch.float32)
    z, z_view = z.to(dtype), z_view.to(dtype)
    with torch.autocast(z.device.type, enabled=False):  # it would take the scatter back to half precision
        return gaussian_kl(scatter(z, beta)) + invariance * ((z - z_view) ** 2).sum() / 2
