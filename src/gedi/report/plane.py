"""Charts of models with two features: clusters over decision regions, typicality, walks and samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from gedi.report.charts import POINTS, Chart, View, axis, chart, cloud, scatter_trace
from gedi.report.images import data_uri
from gedi.report.look import PALETTE, colour, compact, rgb
from gedi.report.measures import Answers, can_walk, spread_evenly, walk_paths
from gedi.training.model import TrainedModel

REGIONS = 160  # pixels per side of the decision regions
GRID_SIDE = 90  # points per side of log p
CUT_OFF = 12.0  # log p is cut off at least this far below typical data
CONTOURS = 10  # contour lines
WALKS_DRAWN = 80
WINDOW_MARGIN = 0.12
PROPORTIONS = 1.35  # width over height of a chart
Window = list[tuple[float, float]]  # (low, high) of each axis


def plane_charts(
    answers: Answers, samples: np.ndarray | None, views: Sequence[View], text: Sequence[str], names: tuple[str, str]
) -> dict[str, Chart]:
    """The charts of the plane, by name; those with nothing to show are left out."""
    window = window_around(answers.rows)
    shown = spread_evenly(len(answers.rows), POINTS)
    regions = _stretched(_regions(answers.model, window), window)
    charts = {"map": cloud(answers.rows, views, text=text, shown=shown, height=560, images=[regions])}
    if answers.model.has_density:
        heights = typicality_grid(answers, window)
        lines = _contours(heights, window)
        charts["density"] = chart([lines], images=[_stretched(_landscape(heights), window)])
        if can_walk(answers.model):
            charts["walks"] = chart([lines, *_walks(answers)])
        if samples is not None:
            marker = {"size": 5, "color": colour(2), "opacity": 0.75}
            hover = "%{x:.3g}, %{y:.3g}<extra>sample</extra>"
            charts["samples"] = chart([lines, scatter_trace("sample", samples, marker=marker, hovertemplate=hover)])
    (left, right), (bottom, top) = window
    for name, made in charts.items():
        made["layout"] |= {
            "height": 560 if name == "map" else 420,
            "xaxis": axis(names[0], range=[left, right], zeroline=False),
            "yaxis": axis(names[1], range=[bottom, top], zeroline=False),
            "hovermode": "closest",
            "showlegend": name != "density",
        }
    return charts


def window_around(rows: np.ndarray) -> Window:
    """The data and a margin, in the proportions of a chart."""
    low, high = rows.min(0).astype(float), rows.max(0).astype(float)
    side = np.where(high > low, high - low, 1.0) * (1 + 2 * WINDOW_MARGIN)
    middle = (low + high) / 2
    if 0.2 < side[0] / side[1] < 5:  # the units are comparable: show shapes undistorted
        height = max(side[1], side[0] / PROPORTIONS)
        side = np.array([height * PROPORTIONS, height])
    return [(float(a), float(b)) for a, b in zip(middle - side / 2, middle + side / 2, strict=True)]


def _grid(window: Window, side: int) -> np.ndarray:
    xs, ys = (np.linspace(low, high, side) for low, high in window)
    return np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _stretched(source: str, window: Window) -> dict[str, Any]:
    """A picture behind a chart, over the whole window."""
    (left, right), (bottom, top) = window
    place = {"xref": "x", "yref": "y", "x": left, "y": top, "sizex": right - left, "sizey": top - bottom}
    return {"source": source, "sizing": "stretch", "layer": "below", **place}


def _regions(model: TrainedModel, window: Window) -> str:
    """p(y|x) over the plane as a picture: the clusters' colours, mixed by probability, stronger where it is certain."""
    probability = model.predict_proba(_grid(window, REGIONS))
    colours = np.array([rgb(k) for k in range(probability.shape[1])])
    mixed = probability @ colours
    certain = (probability.max(1) - 1 / probability.shape[1]) / (1 - 1 / max(2, probability.shape[1]))
    alpha = 40 + 50 * np.clip(certain, 0, 1)
    pixels = np.column_stack([mixed, alpha]).clip(0, 255).astype(np.uint8).reshape(REGIONS, REGIONS, 4)[::-1]
    return data_uri(Image.fromarray(pixels))


def typicality_grid(answers: Answers, window: Window) -> np.ndarray:
    """log p over the plane [GRID, GRID], 0 at the median of the data, cut off far below."""
    typical = float(np.median(answers.log_density))
    floor = max(CUT_OFF, 2 * (typical - float(np.quantile(answers.log_density, 0.01))))
    heights = answers.model.score_samples(_grid(window, GRID_SIDE)) - typical
    return np.maximum(heights, -floor).reshape(GRID_SIDE, GRID_SIDE)


def _landscape(heights: np.ndarray) -> str:
    """Heights as a picture: light where they are high."""
    from matplotlib import colormaps

    low, high = float(heights.min()), float(heights.max())
    pixels = colormaps["cividis"]((heights[::-1] - low) / max(high - low, 1e-9), bytes=True)
    return data_uri(Image.fromarray(np.asarray(pixels)))


def contour_lines(heights: np.ndarray, window: Window) -> list[np.ndarray]:
    """Lines of equal height, each [n, 2]."""
    from contourpy import contour_generator

    xs, ys = (np.linspace(low, high, GRID_SIDE) for low, high in window)
    levels = np.linspace(float(heights.min()), float(heights.max()), CONTOURS + 2)[1:-1]
    generator = contour_generator(xs, ys, heights)
    return [np.asarray(piece) for level in levels for piece in generator.lines(level)]


def _contours(heights: np.ndarray, window: Window) -> dict[str, Any]:
    """Lines of equal height, as one trace."""
    gap = np.full((1, 2), np.nan)  # lifts the pen between two lines
    pieces = [part for piece in contour_lines(heights, window) for part in (piece, gap)]
    ink = np.concatenate(pieces or [np.empty((0, 2))])
    line = {"width": 1, "color": "rgba(128,128,128,0.55)"}
    x, y = compact(ink[:, 0], 3), compact(ink[:, 1], 3)
    hidden = {"hoverinfo": "skip", "showlegend": False}
    return {"type": "scatter", "mode": "lines", "name": "log p", "x": x, "y": y, "line": line, **hidden}


def _walks(answers: Answers) -> list[dict[str, Any]]:
    model = answers.model
    paths = walk_paths(model, answers.rows, n=min(WALKS_DRAWN, len(answers.rows)))
    gap = np.full((len(paths), 1, 2), np.nan)  # lifts the pen between two walks
    ink = np.concatenate([paths, gap], axis=1).reshape(-1, 2)
    crossed = model.predict(paths[:, 0]) != model.predict(paths[:, -1])
    ends = [
        ("start", paths[:, 0], {"size": 4, "color": PALETTE[0]}),
        ("end in another cluster", paths[crossed, -1], {"size": 9, "color": PALETTE[4], "symbol": "x"}),
    ]
    line = {"color": PALETTE[3], "width": 1.6}
    traces = [scatter_trace("walk", ink, mode="lines", line=line, hoverinfo="skip")]
    return traces + [scatter_trace(name, points, marker=marker) for name, points, marker in ends if len(points)]
