"""What a trained model looks like in the plane: clusters, energy landscape, DAM walks, samples."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedi import runs
from gedi.errors import DataError
from gedi.experiments import Outcome, Request, plots
from gedi.experiments.cell_fits import MODELS, measure_cell
from gedi.experiments.cells import Cell, CellData, Measured, cell_data
from gedi.experiments.tabulate import DENSITY, Results, means, number, part, tabulate
from gedi.report.charts import CUT_OFF, Window, typicality_grid
from gedi.report.measures import Answers, walk_paths
from gedi.training.model import TrainedModel

PLANE_SETS = ("moons", "circles", "spirals")
PANELS = 4
WALKS_OF_PANEL = 80
SAMPLES_OF_PANEL = 1000
GRID_OF_PANEL = 220
WALKS_COMPARED = 2_000  # walks whose start and end are compared


def fig_landscapes(request: Request) -> Outcome:
    """The first seed's models, one row of panels per data set."""

    def draw(results: Results) -> Figure:
        made, grid = plots.figure(len(PLANE_SETS), PANELS, width=3.5, height=3.3)
        for row, data in zip(grid, PLANE_SETS, strict=True):
            cell, measured = results.cells[data,][0], results.first(data)
            if "diverged" in measured:
                row[0].set_title(f"{data}: diverged", fontsize=10)
                continue
            fill_row(runs.load(request.out / MODELS / cell.key), cell_data(cell).x_train, row)
            row[0].set_ylabel(f"{data}, NMI {measured['nmi']:.2f}", fontsize=10)
        return made

    return tabulate(
        request,
        "Clusters, energy landscapes, DAM walks and samples",
        parts=("dataset",),
        cells={(data,): Cell(data, 2) for data in PLANE_SETS},
        columns={
            "data set": part(),
            **means("nmi", "ami", *DENSITY),
            "walks that change cluster": number("walk_crossing", form=".2%"),
        },
        notes=[
            f"The picture shows seed {request.budget.seeds[0]}: training points by cluster, log p (cut off at "
            f"{CUT_OFF:g} nats or more below typical data), DAM walks from training points (a dot at each start), and "
            "samples of the model.",
        ],
        draw=draw,
        keep_models=True,
        measure=functools.partial(measure_cell, more=of_walks),
        needs="walk_crossing",
    )


def of_walks(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """The share of DAM's walks from training rows that end in another cluster."""
    assert model is not None
    x = data.x_train
    paths = walk_paths(model, x, n=min(WALKS_COMPARED, len(x)), seed=cell.seed)
    return {"walk_crossing": float(np.mean(model.predict(paths[:, 0]) != model.predict(paths[:, -1])))}


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
    heights = typicality_grid(answers, window, GRID_OF_PANEL)
    heights = np.minimum(heights, np.quantile(heights, 0.998))  # one narrow peak must not take all the colours
    clusters, energy, walks, samples = row

    plots.scatter_clusters(clusters, answers.rows, model.predict(answers.rows))
    image = energy.imshow(
        heights, extent=(*window[0], *window[1]), origin="lower", cmap="cividis", interpolation="bilinear"
    )
    _draw_contours(energy, heights, window, colors="white", linewidths=0.4, alpha=0.7)
    energy.figure.colorbar(image, ax=energy, shrink=0.75, pad=0.02, extend="min").ax.tick_params(labelsize=7)
    _draw_contours(walks, heights, window, colors="#bbbbbb", linewidths=0.5)
    for path in (paths := walk_paths(model, answers.rows, n=min(WALKS_OF_PANEL, len(x)), seed=0)):
        walks.plot(path[:, 0], path[:, 1], color=plots.colour(3), linewidth=1.1, alpha=0.9)
    walks.scatter(paths[:, 0, 0], paths[:, 0, 1], s=5, color="black", linewidths=0, zorder=3)
    drawn = model.sample(SAMPLES_OF_PANEL, seed=0)
    samples.scatter(drawn[:, 0], drawn[:, 1], s=5, color=plots.colour(2), linewidths=0)

    names = ("clusters", "log p, relative to data", f"DAM walks, T = {model.config.dam.steps}", "samples")
    for axes, title in zip(row, names, strict=True):
        axes.set_title(title, fontsize=10)
        plots.plane(axes)
        axes.set(xlim=window[0], ylim=window[1])


def _draw_contours(axes: Axes, heights: np.ndarray, window: Window, **style: Any) -> None:
    xs, ys = (np.linspace(low, high, GRID_OF_PANEL) for low, high in window)
    bottom, top = float(heights.min()), float(heights.max())
    levels = np.linspace(bottom, max(top, bottom + 1e-6), 7)[1:-1]
    axes.contour(xs, ys, heights, levels=levels, linestyles="solid", **style)
