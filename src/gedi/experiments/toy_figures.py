"""Figures on points in the plane: clusters, NMI against the number of DAM steps T, and landscapes of trained models."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gedi import runs
from gedi.experiments import Budget, Outcome, Request, paper, plots
from gedi.experiments.cell_fits import MODELS, measure_cell
from gedi.experiments.cells import Cell, CellData, Measured, cell_data
from gedi.experiments.table1 import TWO_SHAPES
from gedi.experiments.tabulate import (
    DENSITY,
    HEADINGS,
    METHOD_NAMES,
    NOTE_JEM,
    Entry,
    Results,
    mean,
    mean_std,
    means,
    number,
    part,
    tabulate,
)
from gedi.report.charts import CUT_OFF
from gedi.report.look import marker
from gedi.report.measures import walk_paths
from gedi.training.model import TrainedModel

CLUSTERS_SHOWN = ("swav", "gedi")  # methods whose clusters are drawn
RANDOM_HEADS = "random heads only"  # the variant without starts, as in the paper
# The paper's four variants in our terms: our default has no L_NF.
ABLATED = {
    "with L_NF": f"{RANDOM_HEADS} + with L_NF",
    "no NF": RANDOM_HEADS,
    "no NF, no step 1": f"{RANDOM_HEADS} + no step 1",
    "no NF, 2 encoders": f"{RANDOM_HEADS} + two encoders",
}
# Without step 1 or a shared encoder, the clusters' encoder trains for fewer iterations. These controls make up for it.
LONG = f"{RANDOM_HEADS} + long step 2"
FIGURE_CONTROLS = {
    "no NF, no step 1, long": f"{LONG} + no step 1",
    "no NF, 2 encoders, long": f"{LONG} + two encoders",
    "no NF, no density, long": f"{LONG} + no density",
}
NOTE_RANDOM = (
    "GEDI is our default without starts: cluster heads begin at random, as in the paper, and the one whose clusters "
    "are left unexplained the least by pairs of views is kept. A start could solve the data by itself and hide the "
    "effect of T."
)


def fig_clusters(request: Request) -> Outcome:
    """Ground truth, SwAV and GEDI: test points of the first seed, coloured by cluster."""
    budget = request.budget
    return tabulate(
        request,
        "Clusters found on moons and circles",
        parts=("dataset", "method"),
        cells={(data, method): toy_cell(budget, data, method) for data in TWO_SHAPES for method in CLUSTERS_SHOWN},
        rows=[(data,) for data in TWO_SHAPES],
        columns={"data set": part()}
        | {f"{METHOD_NAMES[m]}, {s.upper()}": mean(s, m) for m in CLUSTERS_SHOWN for s in ("nmi", "ami")},
        notes=[
            f"The picture shows the test points of seed {budget.seeds[0]}. Clusters are coloured in order of "
            "appearance, so equal partitions have equal colours.",
        ],
        draw=_draw_clusters,
    )


def fig_steps(request: Request) -> Outcome:
    """JEM, SwAV and GEDI against T in {1, 2, 5, 8, 10}."""
    curves: dict[Entry, Cell] = {}
    marks: dict[Entry, tuple[int, float]] = {}
    for data in TWO_SHAPES:
        curves |= {(data, METHOD_NAMES[m]): toy_cell(request.budget, data, m) for m in ("jem", "swav")}
        curves[data, METHOD_NAMES["gedi"]] = Cell(data, 2, variant=RANDOM_HEADS)
        marks[data, "GEDI in the paper (Table 1)"] = 10, float(paper.TABLE1[data]["gedi"].split()[0])
    notes = [
        NOTE_RANDOM,
        NOTE_JEM,
        "JEM and SwAV have no DAM: one fit per seed, drawn as a dashed line.",
        "The paper prints this figure without numbers; the value at T = 10 is in its Table 1.",
    ]
    title = "NMI against the number of DAM steps T, on moons and circles"
    return _curves(request, title, curves, notes, marks)


def fig_ablation(request: Request) -> Outcome:
    """The paper's four variants against T, and controls."""
    curves = {}
    for data in TWO_SHAPES:
        curves |= {(data, label): Cell(data, 2, variant=variant) for label, variant in ABLATED.items()}
        longest = max(_steps(request.budget))
        curves |= {(data, label): Cell(data, 2, variant=v, dam_steps=longest) for label, v in FIGURE_CONTROLS.items()}
    notes = [
        NOTE_RANDOM,
        "'no NF' is this default, which has no L_NF; 'with L_NF' adds it, as in the paper's GEDI. 'no step 1': without "
        "step 1. '2 encoders': with a separate encoder for the energy.",
        "'long': without step 1, or with an encoder of their own, clusters train an encoder for the iterations of step "
        "2 only. Here step 2 has the iterations of both steps, so that the encoder is trained for as long as in 'no "
        "NF'. 'no density': neither log p nor walks. These controls have one T, and are drawn as dashed lines.",
        "The paper prints this figure without numbers. It finds that DAM helps more with larger T, that it needs step "
        "1, and that one encoder does better than two on circles.",
    ]
    return _curves(request, "Ablation on moons and circles: NMI against T", curves, notes)


def fig_classes(request: Request) -> Outcome:
    """GEDI with 2, 4 and 6 clusters, against T (Appendix H)."""
    curves = {
        (data, f"GEDI, c = {c}"): Cell(data, c, variant=RANDOM_HEADS)
        for data in TWO_SHAPES
        for c in paper.FIGURE_CLASSES
    }
    notes = [
        NOTE_RANDOM,
        "With 2 classes in the data, 4 or 6 clusters cannot reach NMI 1: splitting each class into equal halves gives "
        "0.67, into equal thirds 0.56.",
        "The paper prints this figure without numbers. It finds that DAM almost never helps for c = 4 or 6.",
    ]
    title = "NMI against T for 2, 4 and 6 clusters, on moons and circles (Appendix H)"
    return _curves(request, title, curves, notes)


def toy_cell(budget: Budget, data: str, method: str) -> Cell:
    """A method on one of our toys, with our settings; at the paper scale, JEM and SwAV have the paper's."""
    of_paper = method != "gedi" and budget.scale == "paper"
    return Cell(data, 2, method=method, preset="paper" if of_paper else None, guarded=not of_paper)


# ---- curves ----


def _curves(
    request: Request,
    title: str,
    curves: Mapping[Entry, Cell],
    notes: Sequence[str],
    printed: Mapping[Entry, tuple[int, float]] | None = None,
) -> Outcome:
    """Curves by panel and label, and the paper's numbers: (T, NMI) by panel and label.

    A method without DAM has the same cells at every T, and so has a cell with a T of its own.
    """
    steps = _steps(request.budget)
    marks = {row: mark for row, mark in (printed or {}).items() if mark[0] in steps}
    panels = list(dict.fromkeys(panel for panel, _ in curves))

    def text(results: Results, row: Entry, t: int) -> str:
        if row in marks:
            return f"{marks[row][1]:.2f}" if t == marks[row][0] else ""
        return mean_std(results.groups[*row, t]) if curves[row].dam_steps in (None, t) else ""

    def at_most_steps(score: str) -> Callable[[Results, Entry], str]:
        return lambda results, row: "" if row in marks else mean_std(results.groups[*row, max(steps)], score)

    return tabulate(
        request,
        title,
        parts=("panel", "curve", "T"),
        cells={
            (*row, t): replace(cell, dam_steps=cell.dam_steps or t) if cell.method == "gedi" else cell
            for row, cell in curves.items()
            for t in steps
        },
        rows=sorted([*curves, *marks], key=lambda row: panels.index(row[0])),
        columns={
            "panel": part(0),
            "curve": part(1),
            **{f"T = {t}": lambda results, row, t=t: text(results, row, t) for t in steps},
            **{f"{HEADINGS[score]}, T = {max(steps)}": at_most_steps(score) for score in ("ami", "ari")},
        },
        notes=notes,
        draw=lambda results: _draw_curves(title, panels, results, marks),
    )


def _steps(budget: Budget) -> Sequence[int]:
    """The values of T."""
    return budget.dam_steps or paper.FIGURE_STEPS


# ---- pictures ----


def _draw_clusters(results: Results) -> Figure:
    made, grid = plots.figure(len(TWO_SHAPES), 1 + len(CLUSTERS_SHOWN), width=3.2, height=3.0)
    for row, data in zip(grid, TWO_SHAPES, strict=True):
        _, x, y = cell_data(results.cells[data, "gedi"][0])
        panels = [("ground truth", y)]
        for method in CLUSTERS_SHOWN:
            measured = results.first(data, method)
            panels.append((f"{METHOD_NAMES[method]}, NMI {measured['nmi']:.2f}", np.asarray(measured["labels"])))
        for axes, (title, labels) in zip(row, panels, strict=True):
            plots.scatter_clusters(axes, x, labels, size=7)
            axes.set_title(title, fontsize=10)
            x_limits, y_limits = plots.square_around(x)
            axes.set(xlim=x_limits, ylim=y_limits)
        row[0].set_ylabel(data, fontsize=11)
    return made


def _draw_curves(
    title: str, panels: Sequence[str], results: Results, marks: Mapping[Entry, tuple[int, float]]
) -> Figure:
    curves: dict[str, dict[str, dict[int, dict[str, float]]]] = {panel: {} for panel in panels}
    for (panel, label, t), group in results.groups.items():
        curves[panel].setdefault(label, {})[t] = group["nmi"]
    made, grid = plots.figure(1, len(panels))
    handles: dict[str, Any] = {}
    for (panel, mine), axes in zip(curves.items(), grid[0], strict=True):
        for k, (label, curve) in enumerate(mine.items()):
            # Shifted slightly along T, so that curves at the same height stay visible.
            offset = 0.06 * (k - (len(mine) - 1) / 2)
            lowest, *_, highest = curve
            varies = results.cells[panel, label, lowest] != results.cells[panel, label, highest]
            handles[label] = _draw_curve(axes, curve, k, offset, "-" if varies else "--")
        for (where, label), (t, nmi) in marks.items():
            if where == panel:
                (handles[label],) = axes.plot(t, nmi, "*", markersize=13, markerfacecolor="none", color="black")
        axes.set_title(panel, fontsize=10)
        axes.set(xlabel="DAM steps T", xticks=list(next(iter(mine.values()))), ylim=(-0.05, 1.08))
        plots.quiet(axes)
    grid[0, 0].set_ylabel("NMI on test points")
    made.suptitle(f"{title}\nmean over seeds, band from lowest to highest", fontsize=10)
    # Below the panels: inside, the legend would hide curves near 0 and 1.
    made.legend(handles.values(), handles, frameon=False, loc="outside lower center", ncols=min(4, len(handles)))
    return made


def _draw_curve(axes: Axes, curve: dict[int, dict[str, float]], index: int, offset: float, style: str) -> Any:
    places = [t + offset for t in curve]
    low, middle, high = ([score[name] for score in curve.values()] for name in ("min", "mean", "max"))
    colour, shape = plots.colour(index), marker(index)
    axes.fill_between(places, low, high, color=colour, alpha=0.15, linewidth=0)
    (line,) = axes.plot(places, middle, color=colour, marker=shape, markersize=5, linestyle=style, clip_on=False)
    return line


# ---- landscapes: clusters, log p, DAM walks and samples of a trained model ----

PLANE_SETS = ("moons", "circles", "spirals")
WALKS_COMPARED = 2_000  # walks whose start and end are compared


def fig_landscapes(request: Request) -> Outcome:
    """The first seed's models, one row of panels per data set."""

    def draw(results: Results) -> Figure:
        made, grid = plots.figure(len(PLANE_SETS), plots.PANELS, width=3.5, height=3.3)
        for row, data in zip(grid, PLANE_SETS, strict=True):
            cell, measured = results.cells[data,][0], results.first(data)
            if "diverged" in measured:
                row[0].set_title(f"{data}: diverged", fontsize=10)
                continue
            plots.fill_row(runs.load(request.out / MODELS / cell.key), cell_data(cell).x_train, row)
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
