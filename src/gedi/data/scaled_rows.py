"""Rows that keep their type and are scaled when read: the training data of a run on images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import torch

from gedi.data.scaling import Scaler
from gedi.data.streaming import is_mapped, row_blocks, take


class ScaledRows:
    """Used like a tensor [n, d] of all scaled rows, but takes a quarter of its memory, or none.

    The rows are bytes, or mapped from disk. They are scaled when they are read, to the same numbers as if all had been
    scaled in advance, and a mapped file is released after every read.
    """

    def __init__(self, raw: np.ndarray, scaler: Scaler, device: torch.device | str = "cpu") -> None:
        self.raw, self.scaler, self.device = raw, scaler, torch.device(device)

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def shape(self) -> tuple[int, int]:
        return self.raw.shape[0], self.raw.shape[1]

    def __getitem__(self, places: slice | torch.Tensor) -> torch.Tensor:
        """The scaled rows at these indices, in float32, on the device."""
        where = np.arange(*places.indices(len(self))) if isinstance(places, slice) else places.cpu().numpy()
        return torch.from_numpy(self.scaler.transform(take(self.raw, where))).to(self.device)

    def split(self, size: int) -> Iterator[torch.Tensor]:
        """All rows in order, ``size`` at a time."""
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def to(self, device: torch.device) -> ScaledRows:
        """The same rows, returned on another device."""
        return ScaledRows(self.raw, self.scaler, device)

    def extremes(self) -> torch.Tensor:
        """Two rows: the smallest and the largest value of every column."""
        low, high = np.array(self.raw[0]), np.array(self.raw[0])
        for _, block in row_blocks(self.raw):
            np.minimum(low, block.min(axis=0), out=low)
            np.maximum(high, block.max(axis=0), out=high)
        # Scaling keeps the order: the smallest stays the smallest.
        return torch.from_numpy(self.scaler.transform(np.stack([low, high]))).to(self.device)


Rows = torch.Tensor | ScaledRows


def scaled(x: np.ndarray, scaler: Scaler) -> Rows:
    """All rows [n, d], scaled: floats in memory become a tensor at once, other rows when they are read."""
    if x.dtype == np.uint8 or is_mapped(x):
        return ScaledRows(x, scaler)
    return torch.from_numpy(scaler.transform(x))


def joined(parts: Iterable[torch.Tensor], n: int) -> torch.Tensor:
    """Parts of ``n`` rows in total, at least one, joined in one tensor.

    torch.cat would need all parts at once, and small parts allocated among large temporaries keep that memory from
    being reused: we measured the heap growing by the size of all rows. So each part is copied as it comes.
    """
    whole, done = torch.empty(0), 0
    for part in parts:
        if not done:
            whole = part.new_empty((n, *part.shape[1:]))
        whole[done : done + len(part)] = part
        done += len(part)
    return whole
