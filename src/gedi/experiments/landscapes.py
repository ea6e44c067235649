"""What a trained model looks like in the plane: clusters, energy landscape, DAM walks, samples."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedi import runs
from gedi.errors import DataError
from gedi.evaluation import nmi
from gedi.experiments import plots
from gedi.experiments.cells import MODELS, Cell, cell_data, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import divergence_notes, mean_std, spread_note, summary, write_json
from gedi.report.plane import walk_paths
from gedi.training.model import TrainedModel

NAME, TITLE = "fig-landscapes", "Clusters, energy landscapes, DAM walks and samples"
DATASETS = ("moons", "circles", "spirals")
PANELS = 4
WALKS = 80
SAMPLES = 1000
GRID = 220
SHOWN = 12.0  # nats below typical data at which the landscape is cut off


class Landscape(NamedTuple):
    """log p over a window of the plane, relative to the typical point of the data."""

    x: np.ndarray
    y: np.ndarray
    log_density: np.ndarray
    floor: float  # where the picture is cut off: outside the data, log p falls without end


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and draw the first seed's models, one row a data set."""
    table = {
        data: [
            Cell(data, 2, seed, preset=budget.preset, rows=budget.rows, iterations=budget.iterations)
            for seed in budget.seeds
        ]
        for data in DATASETS
    }
    found = run_cells([cell for cells in table.values() for cell in cells], out, jobs, say, keep_models=True)
    groups = {data: summary([found[cell] for cell in cells]) for data, cells in table.items()}
    made, grid = plots.figure(len(DATASETS), PANELS, width=3.5, height=3.3)
    for row, data in zip(grid, DATASETS, strict=True):
        cell = table[data][0]
        if "diverged" in found[cell]:
            row[0].set_title(f"{data}: diverged", fontsize=10)
            continue
        landscape_figure(runs.load(out / MODELS / cell.key), cell_data(cell).x_train, row)
        row[0].set_ylabel(f"{data}, NMI {found[cell]['nmi']:.2f}", fontsize=10)
    picture = plots.save(made, out / f"{NAME}.png")
    rows = [
        [data, mean_std(g), f"{100 * g['walk_crossing']['mean']:.2f} %" if "walk_crossing" in g else ""]
        for data, g in groups.items()
    ]
    notes = [
        spread_note(budget),
        f"The picture shows seed {budget.seeds[0]}: training points by cluster, log p (cut off {SHOWN:g} nats or more "
        "below typical data), DAM walks from training points (a dot where they start), and samples of the model.",
    ]
    columns = ["data set", "NMI", "walks that change cluster"]
    outcome = Outcome(TITLE, columns, rows, notes + divergence_notes(found), [picture])
    write_json(NAME, outcome, budget, out, found, [{"dataset": d, **group} for d, group in groups.items()])
    return outcome


def draw_landscape(
    model: TrainedModel, x: np.ndarray, path: Path, title: str, y: np.ndarray | None = None, *, seed: int = 0
) -> Path:
    """One PNG of a model of two features: clusters, energy landscape, DAM walks, samples.

    ``x`` are the points it was trained on, in the user's units. Known labels ``y`` only add the NMI to the title.
    """
    made, grid = plots.figure(1, PANELS, width=3.5, height=3.4)
    landscape_figure(model, x, grid[0], seed=seed)
    score = "" if y is None else f", NMI {nmi(y, model.predict(x)):.2f}"
    made.suptitle(f"{title}{score}", fontsize=12)
    return plots.save(made, path)


def landscape_figure(model: TrainedModel, x: np.ndarray, row: Any, *, seed: int = 0) -> Figure:
    """Fill a row of four axes; gives back the figure they belong to."""
    if model.n_features != 2:
        raise DataError(f"A landscape can be drawn of two features, this model has {model.n_features}.")
    x = np.asarray(x, dtype=np.float64)
    land = log_density_grid(model, x)
    clusters, energy, walks, samples = row

    plots.scatter_clusters(clusters, x, plots.in_order_of_appearance(model.predict(x)))
    image = _heat(energy, land)
    bar = energy.figure.colorbar(image, ax=energy, shrink=0.75, pad=0.02, extend="min")
    bar.ax.tick_params(labelsize=7)
    _contours(walks, land)
    _draw_walks(walks, walk_paths(model, x, n=min(WALKS, len(x)), seed=seed))
    drawn = model.sample(SAMPLES, seed=seed)
    samples.scatter(drawn[:, 0], drawn[:, 1], s=5, color=plots.colour(2), linewidths=0)

    names = ("clusters", "log p, relative to data", f"DAM walks, T = {model.config.dam.steps}", "samples")
    for axes, name in zip(row, names, strict=True):
        axes.set_title(name, fontsize=10)
        plots.plane(axes)
        axes.set_xlim(land.x[0], land.x[-1])
        axes.set_ylim(land.y[0], land.y[-1])
    return energy.figure


def log_density_grid(model: TrainedModel, x: np.ndarray) -> Landscape:
    """log p over the data's window and a margin; 0 is the median of the data."""
    xs, ys = (np.linspace(low, high, GRID) for low, high in plots.window(x, margin=0.3))
    plane = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    data = model.score_samples(x)
    typical = float(np.median(data))
    floor = max(SHOWN, 2 * (typical - float(np.quantile(data, 0.01))))  # an energy on a larger scale needs more
    return Landscape(xs, ys, model.score_samples(plane).reshape(GRID, GRID) - typical, -floor)


def _heat(axes: Axes, land: Landscape) -> Any:
    top, bottom = _range(land)
    image = axes.imshow(
        np.clip(land.log_density, bottom, top),
        extent=(land.x[0], land.x[-1], land.y[0], land.y[-1]),
        origin="lower",
        cmap="cividis",
        interpolation="bilinear",
        vmin=bottom,
        vmax=top,
    )
    levels = np.linspace(bottom, top, 7)[1:-1]
    axes.contour(
        land.x, land.y, land.log_density, levels=levels, colors="white", linewidths=0.4, alpha=0.7, linestyles="solid"
    )
    return image


def _contours(axes: Axes, land: Landscape) -> None:
    top, bottom = _range(land)
    levels = np.linspace(bottom, top, 7)[1:-1]
    axes.contour(land.x, land.y, land.log_density, levels=levels, colors="#bbbbbb", linewidths=0.5, linestyles="solid")


def _range(land: Landscape) -> tuple[float, float]:
    """What is shown: from the peaks down to the floor, or to the lowest point of a flatter landscape."""
    top = float(np.quantile(land.log_density, 0.998))
    bottom = max(land.floor, float(land.log_density.min()))
    return (top, bottom) if top > bottom else (bottom + 1e-6, bottom)


def _draw_walks(axes: Axes, paths: np.ndarray) -> None:
    for path in paths:
        axes.plot(path[:, 0], path[:, 1], color=plots.colour(3), linewidth=1.1, alpha=0.9)
    axes.scatter(paths[:, 0, 0], paths[:, 0, 1], s=5, color="black", linewidths=0, zorder=3)
