"""The look of pictures: colours that colour-blind readers can tell apart, few lines, axes with names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from gedi.errors import DataError
from gedi.report.charts import contour_lines, density_grid
from gedi.report.images import tiled
from gedi.report.look import colour
from gedi.report.measures import Answers, walk_paths
from gedi.training.model import TrainedModel

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


# ---- landscapes: a trained model of points in the plane ----

PANELS = 4
WALKS_OF_PANEL = 80
SAMPLES_OF_PANEL = 1000
GRID_OF_PANEL = 220


def draw_landscape(model: TrainedModel, x: np.ndarray, path: Path, title: str) -> Path:
    """A PNG of a model with two features and its training points ``x``, in the user's units."""
    made, grid = figure(1, PANELS, width=3.5, height=3.4)
    fill_row(model, x, grid[0])
    made.suptitle(title, fontsize=12)
    return save(made, path)


def fill_row(model: TrainedModel, x: np.ndarray, row: Any) -> None:
    """Draw clusters, energy landscape, DAM walks and samples in a row of four axes."""
    if model.n_features != 2:
        raise DataError(f"A landscape needs a model with two features; this one has {model.n_features}.")
    answers = Answers(model, np.asarray(x, dtype=np.float64))
    window = square_around(answers.rows, margin=0.3)
    heights = density_grid(answers, window, GRID_OF_PANEL)
    heights = np.minimum(heights, np.quantile(heights, 0.998))  # one narrow peak must not take all the colours
    clusters, energy, walks, samples = row

    scatter_clusters(clusters, answers.rows, model.predict(answers.rows))
    image = energy.imshow(
        heights, extent=(*window[0], *window[1]), origin="lower", cmap="cividis", interpolation="bilinear"
    )
    lines = contour_lines(heights, window)
    energy.add_collection(LineCollection(lines, colors="white", linewidths=0.4, alpha=0.7))
    energy.figure.colorbar(image, ax=energy, shrink=0.75, pad=0.02, extend="min").ax.tick_params(labelsize=7)
    walks.add_collection(LineCollection(lines, colors="#bbbbbb", linewidths=0.5))
    paths = walk_paths(model, answers.rows, n=min(WALKS_OF_PANEL, len(x)), seed=0)
    walks.add_collection(LineCollection(list(paths), colors=colour(3), linewidths=1.1, alpha=0.9))
    walks.scatter(paths[:, 0, 0], paths[:, 0, 1], s=5, color="black", linewidths=0, zorder=3)
    drawn = model.sample(SAMPLES_OF_PANEL, seed=0)
    samples.scatter(drawn[:, 0], drawn[:, 1], s=5, color=colour(2), linewidths=0)

    names = ("clusters", "log p, relative to data", f"DAM walks, T = {model.config.dam.steps}", "samples")
    for axes, title in zip(row, names, strict=True):
        axes.set_title(title, fontsize=10)
        plane(axes)
        axes.set(xlim=window[0], ylim=window[1])
