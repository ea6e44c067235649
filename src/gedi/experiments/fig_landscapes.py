"""What a trained model looks like in the plane: clusters, energy landscape, DAM walks, samples."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedi import runs
from gedi.errors import DataError
from gedi.experiments import Outcome, Request, plots
from gedi.experiments.cell_fits import MODELS, measure_cell
from gedi.experiments.cells import Cell, cell_data, cells_of
from gedi.experiments.scores import of_walks
from gedi.experiments.tabulate import DENSITY, Results, means, number, part, tabulate
from gedi.report.measures import walk_paths
from gedi.training.model import TrainedModel

PLANE_SETS = ("moons", "circles", "spirals")
PANELS = 4
WALKS_OF_PANEL = 80
SAMPLES_OF_PANEL = 1000
GRID_OF_PANEL = 220
LOWEST = 12.0  # nats below typical data at which the landscape is cut off


class Landscape(NamedTuple):
    """log p over a window of the plane, relative to the typical point of the data."""

    x: np.ndarray
    y: np.ndarray
    log_density: np.ndarray
    bottom: float  # the lowest value shown: the floor, or the minimum of a flatter landscape
    top: float  # the highest value shown


def fig_landscapes(request: Request) -> Outcome:
    """The first seed's models, one row of panels per data set."""
    budget = request.budget

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
        cells={(data,): cells_of(budget, Cell(data, 2)) for data in PLANE_SETS},
        columns={
            "data set": part(),
            **means("nmi", "ami", *DENSITY),
            "walks that change cluster": number("walk_crossing", form=".2%"),
        },
        notes=[
            f"The picture shows seed {budget.seeds[0]}: training points by cluster, log p (cut off at {LOWEST:g} nats "
            "or more below typical data), DAM walks from training points (a dot at each start), and samples of the "
            "model.",
        ],
        draw=draw,
        keep_models=True,
        measure=functools.partial(measure_cell, more=of_walks),
        needs="walk_crossing",
    )


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
    x = np.asarray(x, dtype=np.float64)
    land = log_density_grid(model, x)
    clusters, energy, walks, samples = row

    plots.scatter_clusters(clusters, x, plots.in_order_of_appearance(model.predict(x)))
    _draw_energy(energy, land)
    _draw_contours(walks, land, colors="#bbbbbb", linewidths=0.5)
    for path in (paths := walk_paths(model, x, n=min(WALKS_OF_PANEL, len(x)), seed=0)):
        walks.plot(path[:, 0], path[:, 1], color=plots.colour(3), linewidth=1.1, alpha=0.9)
    walks.scatter(paths[:, 0, 0], paths[:, 0, 1], s=5, color="black", linewidths=0, zorder=3)
    drawn = model.sample(SAMPLES_OF_PANEL, seed=0)
    samples.scatter(drawn[:, 0], drawn[:, 1], s=5, color=plots.colour(2), linewidths=0)

    names = ("clusters", "log p, relative to data", f"DAM walks, T = {model.config.dam.steps}", "samples")
    for axes, title in zip(row, names, strict=True):
        axes.set_title(title, fontsize=10)
        plots.plane(axes)
        axes.set(xlim=land.x[[0, -1]], ylim=land.y[[0, -1]])


def log_density_grid(model: TrainedModel, x: np.ndarray) -> Landscape:
    """log p over a window around the data, relative to the data's median."""
    xs, ys = (np.linspace(low, high, GRID_OF_PANEL) for low, high in plots.square_around(x, margin=0.3))
    plane = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    data = model.score_samples(x)
    typical = float(np.median(data))
    log_density = model.score_samples(plane).reshape(GRID_OF_PANEL, GRID_OF_PANEL) - typical
    # Outside the data, log p falls without limit. An energy on a larger scale needs a lower floor.
    floor = -max(LOWEST, 2 * (typical - float(np.quantile(data, 0.01))))
    bottom, top = max(floor, float(log_density.min())), float(np.quantile(log_density, 0.998))
    return Landscape(xs, ys, log_density, bottom, top if top > bottom else bottom + 1e-6)


def _draw_energy(axes: Axes, land: Landscape) -> None:
    image = axes.imshow(
        np.clip(land.log_density, land.bottom, land.top),
        extent=(land.x[0], land.x[-1], land.y[0], land.y[-1]),
        origin="lower",
        cmap="cividis",
        interpolation="bilinear",
        vmin=land.bottom,
        vmax=land.top,
    )
    _draw_contours(axes, land, colors="white", linewidths=0.4, alpha=0.7)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.75, pad=0.02, extend="min")
    bar.ax.tick_params(labelsize=7)


def _draw_contours(axes: Axes, land: Landscape, **style: Any) -> None:
    levels = np.linspace(land.bottom, land.top, 7)[1:-1]
    axes.contour(land.x, land.y, land.log_density, levels=levels, linestyles="solid", **style)
