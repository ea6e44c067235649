"""Charts as plain data for plotly.js. Page colours are left out: they follow the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gedi.report.images import data_uri
from gedi.report.look import PALETTE, colour, compact, literal, rgb
from gedi.report.measures import Answers, can_walk, spectrum, walk_paths
from gedi.training.model import TrainedModel

Chart = dict[str, Any]  # {"data": traces, "layout": layout}; or with "cloud", from which the page makes the traces
POINTS = 1_500  # in one chart
BINS = 48
HIGHEST = 2.5  # a histogram's top, in heights of the data's highest bin
DASHES = ("solid", "dot", "dash", "dashdot", "longdash")


def chart(data: list[dict[str, Any]], *, height: int = 360, **layout: Any) -> Chart:
    return {"data": data, "layout": {"height": height, **layout}}


def axis(title: str = "", **options: Any) -> dict[str, Any]:
    return ({"title": {"text": title}} if title else {}) | options


def trace(name: str, x: Sequence[Any], y: Sequence[Any], *, mode: str = "markers", **more: Any) -> dict[str, Any]:
    """Points or lines."""
    return {"type": "scatter", "mode": mode, "name": name, "x": x, "y": y, **more}


def scatter_trace(name: str, points: np.ndarray, **more: Any) -> dict[str, Any]:
    """A trace of points [n, 2]."""
    return trace(name, compact(points[:, 0]), compact(points[:, 1]), **more)


@dataclass(frozen=True, eq=False)
class View:
    """One way to colour the points of a cloud."""

    name: str  # on the button that shows it
    group: np.ndarray  # int [n]
    names: Sequence[str] | None = None  # of the groups; None: "cluster 0", "cluster 1", ...
    note: str = ""  # shown under the chart

    def written(self, shown: np.ndarray) -> dict[str, Any]:
        names = None if self.names is None else [literal(name) for name in self.names]
        return {"name": self.name, "group": self.group[shown].tolist(), "names": names, "note": self.note}


def cloud(
    points: np.ndarray,
    views: Sequence[View],
    *,
    text: Sequence[str] | None = None,
    numbered: bool = False,
    shown: np.ndarray | None = None,
    **layout: Any,
) -> Chart:
    """Points [n, 2], a colour and a symbol for each group; the reader switches between ``views`` of the same points.

    ``text`` has the hover text of each of the points ``shown``. ``numbered``: each group's number is written at its
    centre.
    """
    shown = np.arange(len(points)) if shown is None else shown
    x, y = compact(points[shown, 0]), compact(points[shown, 1])
    made = {"x": x, "y": y, "text": text, "numbered": numbered, "views": [view.written(shown) for view in views]}
    return {"cloud": made} | chart([], hovermode="closest", **layout)


def matched(reference: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """Clusters renumbered to overlap most with the reference, so that the same groups get the same colour."""
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = np.asarray(contingency_matrix(cluster, reference))
    numbers = np.concatenate([np.unique(reference), reference.max() + 1 + np.arange(len(table))])
    # One more column for each cluster, since there may be more clusters than in the reference.
    _, columns = linear_sum_assignment(np.pad(table, ((0, 0), (0, len(table)))), maximize=True)
    return numbers[columns][np.unique(cluster, return_inverse=True)[1]]


# ---- embedding ----


def embedding_map(points: np.ndarray, views: Sequence[View], text: Sequence[str], shown: np.ndarray) -> Chart:
    """The rows in the embedding."""
    hidden = {"showticklabels": False, "zeroline": False}
    axes = {"xaxis": axis("first direction", **hidden), "yaxis": axis("second direction", **hidden)}
    return cloud(points, views, text=text, numbered=True, shown=shown, height=560, **axes)


def spectrum_chart(embedding: np.ndarray) -> Chart:
    """How much of the embedding lies along each of its directions."""
    shares = spectrum(embedding)[:32]
    bars = {
        "type": "bar",
        "x": list(range(1, len(shares) + 1)),
        "y": compact(100 * shares),
        "marker": {"color": PALETTE[0]},
        "hovertemplate": "direction %{x}: %{y:.1f}%<extra></extra>",
    }
    return chart([bars], height=260, xaxis=axis("direction"), yaxis=axis("% of singular values"), showlegend=False)


# ---- the number of clusters ----


def number_chart(curve: dict[int, float], chosen: int) -> Chart:
    """The score of each number of clusters that was tried."""
    numbers = sorted(curve)
    colours = [PALETTE[3] if k == chosen else PALETTE[0] for k in numbers]
    look = {
        "line": {"color": PALETTE[0], "width": 2},
        "marker": {"size": [12 if k == chosen else 7 for k in numbers], "color": colours},
        "hovertemplate": "%{x} clusters: %{y:.4g}<extra></extra>",
    }
    line = trace("score", numbers, compact([curve[k] for k in numbers]), mode="lines+markers", **look)
    whole = axis("number of clusters", tickmode="linear" if numbers[-1] <= 12 else "auto", dtick=1)
    return chart([line], height=260, xaxis=whole, yaxis=axis("score (higher is better)"), showlegend=False)


# ---- density ----


def histograms(scores: dict[str, np.ndarray], title: str, things: str) -> Chart:
    """Histograms of the scores of several sets, as outlines; outliers are counted in the outermost bins."""
    own = next(iter(scores.values()))
    low, high = np.quantile(own, [0.002, 0.998])
    width = max(float(high - low), 1e-9)
    every = np.concatenate(list(scores.values()))
    low, high = max(float(every.min()), low - 2 * width), min(float(every.max()), high + width)
    bins = int(np.clip(2 * np.sqrt(len(own)), 8, BINS))
    edges = np.linspace(low, max(high, low + 1e-9), bins + 1)
    traces = []
    for i, (name, values) in enumerate(scores.items()):
        counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / len(values)
        outline = np.column_stack([(edges[1:] + edges[:-1]) / 2, 100 * counts])
        line = {"shape": "hvh", "width": 2, "color": colour(i), "dash": DASHES[i % len(DASHES)]}
        fill = "tozeroy" if i == 0 else "none"
        hover = "%{y:.1f}% at %{x:.3g}"
        traces.append(scatter_trace(literal(name), outline, mode="lines", line=line, fill=fill, hovertemplate=hover))
    # A spike of noise in one bin must not flatten the data's histogram.
    highest = 1.05 * min(HIGHEST * max(traces[0]["y"]), max(max(trace["y"]) for trace in traces))
    return chart(traces, height=320, xaxis=axis(title), yaxis=axis(f"% of {things}", range=[0, highest]))


# ---- two features: clusters over decision regions, log density, walks and samples ----

REGIONS = 160  # pixels per side of the decision regions
GRID_SIDE = 90  # points per side of log p
CUT_OFF = 12.0  # log p is cut off at least this far below typical data
CONTOURS = 10  # contour lines
WALKS_DRAWN = 80
WINDOW_MARGIN = 0.12
PROPORTIONS = 1.35  # width over height of a chart
Window = list[tuple[float, float]]  # (low, high) of each axis


def plane_charts(
    answers: Answers,
    samples: np.ndarray | None,
    views: Sequence[View],
    text: Sequence[str],
    shown: np.ndarray,
    names: tuple[str, str],
) -> dict[str, Chart]:
    """The charts of the plane, by name; those with nothing to show are left out."""
    window = window_around(answers.rows)
    regions = _stretched(_regions(answers.model, window), window)
    charts = {"map": cloud(answers.rows, views, text=text, shown=shown, images=[regions])}
    if answers.model.has_density:
        heights = density_grid(answers, window)
        grey = {"width": 1, "color": "rgba(128,128,128,0.55)"}
        lines = _lines("log p", contour_lines(heights, window), line=grey, showlegend=False)
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


def density_grid(answers: Answers, window: Window, side: int = GRID_SIDE) -> np.ndarray:
    """log p over the plane [side, side], 0 at the median of the data.

    Outside the data, log p falls without limit, so it is cut off far below; further if it varies more over the data.
    """
    typical = float(np.median(answers.log_density))
    floor = max(CUT_OFF, 2 * (typical - float(np.quantile(answers.log_density, 0.01))))
    heights = answers.model.score_samples(_grid(window, side)) - typical
    return np.maximum(heights, -floor).reshape(side, side)


def _landscape(heights: np.ndarray) -> str:
    """Heights as a picture: light where they are high."""
    from matplotlib import colormaps

    low, high = float(heights.min()), float(heights.max())
    pixels = colormaps["cividis"]((heights[::-1] - low) / max(high - low, 1e-9), bytes=True)
    return data_uri(Image.fromarray(np.asarray(pixels)))


def contour_lines(heights: np.ndarray, window: Window) -> list[np.ndarray]:
    """Lines of equal height, each [n, 2]."""
    from contourpy import contour_generator

    xs, ys = (np.linspace(low, high, len(heights)) for low, high in window)
    levels = np.linspace(float(heights.min()), float(heights.max()), CONTOURS + 2)[1:-1]
    generator = contour_generator(xs, ys, heights)
    return [np.asarray(piece) for level in levels for piece in generator.lines(level)]


def _lines(name: str, pieces: Iterable[np.ndarray], **look: Any) -> dict[str, Any]:
    """Lines, each [n, 2], as one trace."""
    gap = np.full((1, 2), np.nan)  # lifts the pen between two lines
    ink = [np.empty((0, 2)), *(part for piece in pieces for part in (piece, gap))]
    return scatter_trace(name, np.concatenate(ink), mode="lines", hoverinfo="skip", **look)


def _walks(answers: Answers) -> list[dict[str, Any]]:
    model = answers.model
    paths = walk_paths(model, answers.rows, n=min(WALKS_DRAWN, len(answers.rows)))
    crossed = model.predict(paths[:, 0]) != model.predict(paths[:, -1])
    ends = [
        ("start", paths[:, 0], {"size": 4, "color": PALETTE[0]}),
        ("end in another cluster", paths[crossed, -1], {"size": 9, "color": PALETTE[4], "symbol": "x"}),
    ]
    traces = [_lines("walk", paths, line={"color": PALETTE[3], "width": 1.6})]
    return traces + [scatter_trace(name, points, marker=marker) for name, points, marker in ends if len(points)]
