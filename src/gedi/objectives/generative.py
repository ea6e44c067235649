"""The generative term: CE(p, p_Psi) of an energy-based model (Eqs. 8 and 12)."""

from __future__ import annotations

import torch


def contrastive_divergence(log_p_data: torch.Tensor, log_p_samples: torch.Tensor) -> torch.Tensor:
    """Surrogate whose gradient is that of CE(p, p_Psi) per sample (Eq. 12).

    ``log_p_*`` are unnormalised log densities u^T enc(x) at data and at samples of p_Psi. The normaliser's gradient is
    minus the expectation over p_Psi; the paper's Eq. 12 prints that term without its minus sign.

    The value is the energy gap, not a likelihood: it is near zero for a well fitted model.
    """
    return log_p_samples.mean() - log_p_data.mean()
