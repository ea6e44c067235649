"""How many threads torch uses: one rule for fits and predictions, from Python and from the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gedi.training.config import NetConfig


@contextmanager
def threads_for(net: NetConfig) -> Iterator[None]:
    """Use one thread for an mlp, torch's own number for images; the number is restored afterwards.

    The layers of an mlp are too small to share: threads wait for each other in every operation, and a fit takes three
    times as long as soon as other work occupies one of their cores. OMP_NUM_THREADS, if set, is respected.
    """
    before = torch.get_num_threads()
    if net.encoder == "mlp" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
