"""The look of pictures: colours that colour-blind readers can tell apart, few lines, axes with names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedi.report.images import tiled
from gedi.report.look import colour

PANEL_COLUMNS = 8  # images in a row of a panel


def figure(rows: int, columns: int, *, width: float = 4.2, height: float = 3.6) -> tuple[Figure, np.ndarray]:
    """A figure of panels, without pyplot's global state; the axes are always a 2-D array."""
    made = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return made, made.subplots(rows, columns, squeeze=False)


def save(made: Figure, path: Path) -> Path:
    """Write a PNG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    made.savefig(path, dpi=120, format="png", metadata={"Software": None})
    return path


def scatter_clusters(axes: Axes, x: np.ndarray, labels: np.ndarray, *, size: float = 5) -> None:
    """Points in the plane, coloured by cluster in order of appearance: equal partitions look equal."""
    for i, cluster in enumerate(dict.fromkeys(labels.tolist())):
        axes.scatter(*x[labels == cluster].T, s=size, color=colour(i), linewidths=0)
    plane(axes)


def plane(axes: Axes) -> None:
    """Equal units and no ticks: only the shape matters."""
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.spines[:].set_color("#bbbbbb")


def square_around(x: np.ndarray, *, margin: float = 0.1) -> list[tuple[float, float]]:
    """A square around all points: (low, high) of each axis."""
    low, high = x.min(0), x.max(0)
    half = (1 + margin) / 2 * max(float((high - low).max()), 1e-9)
    return [(float(m - half), float(m + half)) for m in (low + high) / 2]


def quiet(axes: Axes) -> None:
    """A light grid and no box."""
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def image_panels(panels: dict[str, np.ndarray]) -> Figure:
    """Panels side by side, each with a title and a grid of byte images [n, H, W, C]."""
    made, axes = figure(1, len(panels))
    for place, (title, images) in zip(axes.ravel(), panels.items(), strict=True):
        place.set_title(title if len(images) else f"{title}: none")
        place.set_axis_off()
        if len(images):
            grid = tiled(images, PANEL_COLUMNS)
            place.imshow(grid.squeeze(-1) if grid.shape[-1] == 1 else grid, cmap="gray", vmin=0, vmax=255)
    return made
