"""Scales rows of any unit and offset to zero mean and unit size, or black to -1 and white to 1, and back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Literal, Self

import numpy as np

from gedi.data.streaming import row_blocks
from gedi.errors import ConfigError, DataError

Mode = Literal["global", "feature", "pixels", "none"]

NUMBERS_AT_ONCE = 1 << 20  # numbers converted to float64 at a time: images in bytes would take eight times the memory
TINY = 1e-150  # columns of numbers below it are measured in larger units, because their squares would be zero
FAR = 1e15  # in units of the spread: values beyond are clipped, as float32 ends at 3e38


@dataclass(eq=False)
class Scaler:
    """Subtracts the mean of each feature and divides by a standard deviation.

    mode="global" has one mean and one deviation for all features, which keeps the geometry (circles stay circles);
    mode="feature" divides each feature by its own, for columns in unrelated units; mode="none" changes nothing.
    mode="pixels" maps black to -1 and white to 1. Black and white are 0 and 255 for bytes; for other numbers they are 0
    and 1 if all values lie between them, otherwise the smallest and the largest value.
    All arithmetic is in float64, so an offset far larger than the spread costs no precision.
    """

    mode: Mode = "global"
    centre: np.ndarray | None = None  # [d]
    scale: np.ndarray | None = None  # [d] if per feature, else []

    def fit(self, x: np.ndarray, mode: Mode | None = None, together: Sequence[Sequence[int]] = ()) -> Self:
        """Learn centre and scale from rows [n, d]; a constant column gets the scale 1.

        Features listed ``together`` are one column of the user's table. With mode="feature" they share one scale, by
        which their variances add up to 1: a category weighs as much as a number, however many values it has.
        """
        self.mode = self.mode if mode is None else mode
        if self.mode not in ("global", "feature", "pixels", "none"):
            raise ConfigError(f"The scaling mode must be 'global', 'feature', 'pixels' or 'none', got {self.mode!r}.")
        x = np.asarray(x)
        if x.ndim != 2 or len(x) == 0:
            raise DataError(f"Scaling needs rows of shape [n, d], got {x.shape}.")
        if self.mode == "none":
            self.centre, self.scale = np.zeros(x.shape[1]), np.array(1.0)
            return self
        if self.mode == "pixels":
            black, white = black_and_white(x)
            self.centre, self.scale = np.full(x.shape[1], (black + white) / 2), np.array((white - black) / 2)
            return self
        self.centre, variance, largest, unit = _moments(x, axis=0 if self.mode == "feature" else None)
        if self.mode == "global":  # one centre too, so that images can be shifted before or after scaling
            variance = variance + (self.centre / unit).var()
            self.centre = np.full_like(self.centre, self.centre.mean())
        elif together:
            for places in map(list, together):
                variance[places] = variance[places].sum()
        std = np.sqrt(variance) * unit
        # The mean of a constant column is off by a rounding error, which must not become its scale.
        rounding = 10 * np.finfo(np.float64).eps * largest
        self.scale = np.where(std > rounding, std, 1.0)
        return self

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Rows in the user's units -> scaled float32 rows."""
        centre, scale = self._fitted(x)
        x = np.asarray(x)
        scaled = np.empty(x.shape, np.float32)
        if x.dtype == np.uint8 and scale.ndim == 0 and (centre == centre[0]).all():  # the same numbers, looked up
            table = np.clip((np.arange(256.0) - centre[0]) / scale, -FAR, FAR).astype(np.float32)
            for start, block in row_blocks(x, max(1, NUMBERS_AT_ONCE // x.shape[1])):
                table.take(block, out=scaled[start : start + len(block)], mode="clip")  # "raise" would buffer
            return scaled
        done = 0
        for block in _float64_blocks(x):
            scaled[done : done + len(block)] = np.clip((block - centre) / scale, -FAR, FAR)
            done += len(block)
        return scaled

    def inverse(self, x: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
        """Scaled rows -> rows in the user's units; use float64 if the offset is much larger than the spread."""
        centre, scale = self._fitted(x)
        return (np.asarray(x, dtype=np.float64) * scale + centre).astype(dtype)

    def state(self) -> dict[str, Any]:
        """Plain numbers and lists, ready for JSON or YAML."""
        centre, scale = self._fitted()
        return {"mode": self.mode, "centre": centre.tolist(), "scale": scale.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The scaler that `state()` describes (lists or arrays)."""
        centre, scale = (np.asarray(state[name], dtype=np.float64) for name in ("centre", "scale"))
        return cls(state["mode"], centre, scale)

    def _fitted(self, x: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Centre and scale, after checking that they are known and fit the rows x."""
        if self.centre is None or self.scale is None:
            raise DataError("The scaler has not been fitted yet: call fit first.")
        if x is not None and (np.ndim(x) != 2 or np.shape(x)[1] != len(self.centre)):
            raise DataError(f"Expected rows of {len(self.centre)} features, got shape {np.shape(x)}.")
        return self.centre, self.scale


def black_and_white(x: np.ndarray) -> tuple[float, float]:
    """The darkest and the brightest value that pixels of these images can have."""
    if x.dtype == np.uint8:
        return 0.0, 255.0
    low, high = np.inf, -np.inf
    for block in _float64_blocks(x):
        low, high = min(low, float(block.min())), max(high, float(block.max()))
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 1.0, low + 1.0)


def _moments(x: np.ndarray, axis: int | None) -> tuple[np.ndarray, Any, Any, Any]:
    """The mean of every column; per column or of all, the variance around it, the largest absolute value and the unit.

    The variance is in this unit. It is 1, unless the numbers are `TINY`.
    """
    firsts = ((block.sum(axis=0), np.abs(block).max(axis=axis)) for block in _float64_blocks(x))
    total, largest = reduce(lambda one, other: (one[0] + other[0], np.maximum(one[1], other[1])), firsts)
    centre = total / len(x)
    unit = np.where((largest > 0) & (largest < TINY), largest, 1.0)
    squares = reduce(np.add, ((((block - centre) / unit) ** 2).sum(axis=axis) for block in _float64_blocks(x)))
    return centre, squares / (len(x) if axis == 0 else x.size), largest, unit


def _float64_blocks(x: np.ndarray) -> Iterator[np.ndarray]:
    """Copies of the rows of x in float64, in order, about `NUMBERS_AT_ONCE` numbers at a time whatever their type."""
    return (block.astype(np.float64) for _, block in row_blocks(x, max(1, NUMBERS_AT_ONCE // x.shape[1])))
