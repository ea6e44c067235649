"""Brings rows of any unit and offset to zero mean and unit size, or black to -1 and white to 1, and back."""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from gedi.errors import ConfigError, DataError

Mode = Literal["global", "feature", "pixels", "none"]

BLOCK = 1 << 22  # numbers turned into float64 at a time: images of a byte a pixel must not become eight
FAR = 1e15  # in units of the spread: further out is no different, and float32 ends at 3e38


@dataclass(eq=False)
class Scaler:
    """Subtracts the mean of each feature and divides by a standard deviation.

    mode="global" divides by one number for all features, which keeps the geometry (circles stay circles);
    mode="feature" divides each feature by its own, for columns in unrelated units; mode="none" leaves all as it is.
    mode="pixels" takes black to -1 and white to 1: those of bytes are 0 and 255, those of other numbers 0 and 1 if all
    lie between, else the least and the largest there are.
    All arithmetic is in float64, so that an offset far larger than the spread costs no precision.
    """

    mode: Mode = "global"
    centre: np.ndarray | None = None  # [d]
    scale: np.ndarray | None = None  # [d] if per feature, else []

    def fit(self, x: np.ndarray, mode: Mode | None = None) -> Self:
        """Learn centre and scale from rows [n, d]; a spread of zero is left as it is (scale 1)."""
        self.mode = self.mode if mode is None else mode
        if self.mode not in ("global", "feature", "pixels", "none"):
            raise ConfigError(f"The scaling mode is 'global', 'feature', 'pixels' or 'none', got {self.mode!r}.")
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
        x = x.astype(np.float64, copy=False)
        axis = 0 if self.mode == "feature" else None
        self.centre = x.mean(axis=0)
        std = np.sqrt(np.mean((x - self.centre) ** 2, axis=axis))
        # The mean of a constant column is off by a rounding error, which must not become its scale.
        rounding = 10 * np.finfo(np.float64).eps * np.abs(x).max(axis=axis)
        self.scale = np.where(std > rounding, std, 1.0)
        return self

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Rows in the user's units -> scaled float32 rows."""
        centre, scale = self._fitted(x)
        x = np.asarray(x)
        scaled = np.empty(x.shape, np.float32)
        rows = max(1, BLOCK // x.shape[1])
        for start in range(0, len(x), rows):
            block = (x[start : start + rows].astype(np.float64) - centre) / scale
            scaled[start : start + rows] = np.clip(block, -FAR, FAR)
        return scaled

    def inverse(self, x: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
        """Scaled rows -> rows in the user's units; ask for float64 if the offset dwarfs the spread."""
        centre, scale = self._fitted(x)
        return (np.asarray(x, dtype=np.float64) * scale + centre).astype(dtype)

    def state(self) -> dict[str, Any]:
        """Plain numbers and lists, ready for JSON or YAML."""
        if self.centre is None or self.scale is None:
            raise DataError("The scaler has not been fitted yet: call fit first.")
        return {"mode": self.mode, "centre": self.centre.tolist(), "scale": self.scale.tolist()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The scaler that `state()` was taken from (lists or arrays)."""
        return cls(
            mode=state["mode"],
            centre=np.asarray(state["centre"], dtype=np.float64),
            scale=np.asarray(state["scale"], dtype=np.float64),
        )

    def _fitted(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.centre is None or self.scale is None:
            raise DataError("The scaler has not been fitted yet: call fit first.")
        if np.ndim(x) != 2 or np.shape(x)[1] != len(self.centre):
            raise DataError(f"Expected rows of {len(self.centre)} features, got shape {np.shape(x)}.")
        return self.centre, self.scale


def black_and_white(x: np.ndarray) -> tuple[float, float]:
    """The darkest and the brightest value that a pixel of such images can have."""
    if x.dtype == np.uint8:
        return 0.0, 255.0
    low, high = float(x.min()), float(x.max())
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 1.0, low + 1.0)
