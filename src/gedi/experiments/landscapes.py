"""Pictures of a trained model of points in the plane: clusters, log p, DAM walks and samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection

from gedi.errors import DataError
from gedi.experiments import plots
from gedi.report.charts import contour_lines, density_grid
from gedi.report.measures import Answers, walk_paths
from gedi.training.model import TrainedModel

PANELS = 4
WALKS_OF_PANEL = 80
SAMPLES_OF_PANEL = 1000
GRID_OF_PANEL = 220


def draw_landscape(model: TrainedModel, x: np.ndarray, path: Path, title: str) -> Path:
    """A PNG of a model with two features and its training points ``x``, in the user's units."""
    made, grid = plots.figure(1, PANELS, width=3.5, height=3.4)
    fill_row(model, x, grid[0])
    made.suptitle(title, fontsize=12)
    return plots.save(made, path)


def fill_row(model: TrainedModel, x: np.ndarray, row: Any) -> None:
    """Draw clusters, energy landscape, DAM walks and samples in a row of four axes."""
    if model.n_features != 2:
        raise DataError(f"A landscape needs a model with two features; this one has {model.n_features}.")
    answers = Answers(model, np.asarray(x, dtype=np.float64))
    window = plots.square_around(answers.rows, margin=0.3)
    heights = density_grid(answers, window, GRID_OF_PANEL)
    heights = np.minimum(heights, np.quantile(heights, 0.998))  # one narrow peak must not take all the colours
    clusters, energy, walks, samples = row

    plots.scatter_clusters(clusters, answers.rows, model.predict(answers.rows))
    image = energy.imshow(
        heights, extent=(*window[0], *window[1]), origin="lower", cmap="cividis", interpolation="bilinear"
    )
    lines = contour_lines(heights, window)
    energy.add_collection(LineCollection(lines, colors="white", linewidths=0.4, alpha=0.7))
    energy.figure.colorbar(image, ax=energy, shrink=0.75, pad=0.02, extend="min").ax.tick_params(labelsize=7)
    walks.add_collection(LineCollection(lines, colors="#bbbbbb", linewidths=0.5))
    paths = walk_paths(model, answers.rows, n=min(WALKS_OF_PANEL, len(x)), seed=0)
    walks.add_collection(LineCollection(list(paths), colors=plots.colour(3), linewidths=1.1, alpha=0.9))
    walks.scatter(paths[:, 0, 0], paths[:, 0, 1], s=5, color="black", linewidths=0, zorder=3)
    drawn = model.sample(SAMPLES_OF_PANEL, seed=0)
    samples.scatter(drawn[:, 0], drawn[:, 1], s=5, color=plots.colour(2), linewidths=0)

    names = ("clusters", "log p, relative to data", f"DAM walks, T = {model.config.dam.steps}", "samples")
    for axes, title in zip(row, names, strict=True):
        axes.set_title(title, fontsize=10)
        plots.plane(axes)
        axes.set(xlim=window[0], ylim=window[1])
