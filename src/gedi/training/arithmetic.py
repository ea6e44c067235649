"""Threads and number format: one rule for fits and predictions, from Python and from the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from gedi.training.encoder_registry import ENCODERS

if TYPE_CHECKING:
    from gedi.training.config import NetConfig, TrainingConfig

WIDE = 512  # units: from here on, the products of a layer take longer than the calls around them


@contextmanager
def threads_for(net: NetConfig) -> Iterator[None]:
    """One thread for narrow encoders of rows, torch's own number for all others; afterwards it is as it was.

    Narrow layers are too small to share: threads wait for each other in every operation. OMP_NUM_THREADS is respected
    if it is set.
    """
    before = torch.get_num_threads()
    if not _is_wide(net) and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _is_wide(net: NetConfig) -> bool:
    return ENCODERS[net.encoder].needs_images or max(net.hidden) >= WIDE


def in_bfloat16(precision: str, config: TrainingConfig, device: torch.device) -> bool:
    """Whether the networks train in bfloat16: if asked to, or where "auto" finds it faster and as good.

    It is faster for wide networks on processors that multiply it in hardware. Contrastive divergence needs float32: it
    learns from differences between energies, which are small compared with the energies themselves.
    """
    if precision != "auto":
        return precision == "bf16-mixed"
    generative = config.objective.get("generative")
    compares_energies = generative is not None and generative.needs_samples
    return _is_wide(config.net) and not compares_energies and multiplies_bfloat16(device)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether the device has instructions for products of bfloat16 numbers."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    found = torch.cpu.get_capabilities() if device.type == "cpu" else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))
