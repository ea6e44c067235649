"""Charts as plain data for plotly.js. Page colours are left out: they follow the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedi.report.look import PALETTE, colour, compact, literal
from gedi.report.measures import spectrum

Chart = dict[str, Any]  # {"data": traces, "layout": layout}; or with "cloud", from which the page makes the traces
POINTS = 1_500  # in one chart
BINS = 48
DASHES = ("solid", "dot", "dash", "dashdot", "longdash")


def chart(data: list[dict[str, Any]], *, height: int = 360, **layout: Any) -> Chart:
    return {"data": data, "layout": {"height": height, **layout}}


def axis(title: str = "", **options: Any) -> dict[str, Any]:
    return ({"title": {"text": title}} if title else {}) | options


def scatter_trace(name: str, points: np.ndarray, *, mode: str = "markers", **more: Any) -> dict[str, Any]:
    """A trace of points [n, 2]."""
    x, y = compact(points[:, 0]), compact(points[:, 1])
    return {"type": "scatter", "mode": mode, "name": name, "x": x, "y": y, **more}


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

    ``text`` is shown when a point is hovered over. ``numbered``: each group's number is written at its centre.
    """
    shown = np.arange(len(points)) if shown is None else shown
    x, y = compact(points[shown, 0]), compact(points[shown, 1])
    each = None if text is None else [text[i] for i in shown]
    made = {"x": x, "y": y, "text": each, "numbered": numbered, "views": [view.written(shown) for view in views]}
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


def two_directions(embedding: np.ndarray) -> np.ndarray:
    """The embedding along its two main directions (PCA), with signs fixed so that the picture never flips."""
    from sklearn.utils.extmath import svd_flip

    centred = embedding - embedding.mean(0)
    left, _, directions = np.linalg.svd(centred, full_matrices=False)
    _, directions = svd_flip(left, directions, u_based_decision=False)
    points = centred @ directions[:2].T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


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
        "hovertemplate": "direction %{x}: %{y:.1f} %<extra></extra>",
    }
    return chart([bars], height=260, xaxis=axis("direction"), yaxis=axis("% of singular values"), showlegend=False)


# ---- the number of clusters ----


def number_chart(curve: dict[int, float], chosen: int) -> Chart:
    """The score of each number of clusters that was tried."""
    numbers = sorted(curve)
    sizes = [12 if k == chosen else 7 for k in numbers]
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "score",
        "x": numbers,
        "y": compact([curve[k] for k in numbers]),
        "line": {"color": PALETTE[0], "width": 2},
        "marker": {"size": sizes, "color": [PALETTE[3] if k == chosen else PALETTE[0] for k in numbers]},
        "hovertemplate": "%{x} clusters: %{y:.4g}<extra></extra>",
    }
    whole = axis("number of clusters", tickmode="linear" if len(numbers) <= 15 else "auto", dtick=1)
    return chart([line], height=260, xaxis=whole, yaxis=axis("score (higher is better)"), showlegend=False)


# ---- density ----


def histograms(scores: dict[str, np.ndarray], title: str) -> Chart:
    """Histograms of the scores of several sets of rows, as outlines; outliers are counted in the outermost bins."""
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
        hover = "%{y:.1f} % at %{x:.3g}"
        traces.append(scatter_trace(literal(name), outline, mode="lines", line=line, fill=fill, hovertemplate=hover))
    # A spike of noise in one bin must not flatten the data's histogram.
    highest = 1.6 * max(traces[0]["y"])
    return chart(traces, height=320, xaxis=axis(title), yaxis=axis("% of rows", range=[0, highest]))
