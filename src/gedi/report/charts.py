"""Charts as plain data for plotly.js, without colours of the page: those follow the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gedi.report.look import PALETTE, colour, compact, literal, short, symbol
from gedi.report.measures import Answers, spectrum

Chart = dict[str, Any]  # {"data": traces, "layout": layout}
POINTS = 1_500  # in one chart
BINS = 48
DASHES = ("solid", "dot", "dash", "dashdot", "longdash")


def chart(data: list[dict[str, Any]], *, height: int = 360, **layout: Any) -> Chart:
    return {"data": data, "layout": {"height": height, **layout}}


def axis(title: str = "", **options: Any) -> dict[str, Any]:
    return ({"title": {"text": title}} if title else {}) | options


def few(count: int, most: int = POINTS) -> np.ndarray:
    """Places of at most ``most`` rows, evenly spread: the same ones every time."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(int)


def clusters_as_traces(
    points: np.ndarray,
    cluster: np.ndarray,
    *,
    text: list[str] | None = None,
    places: np.ndarray | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """One scatter trace a cluster, each with its colour and its symbol; ``places`` ride along as custom data."""
    traces = []
    for k in np.unique(cluster):
        mine = np.flatnonzero(cluster == k)
        trace: dict[str, Any] = {
            "type": "scatter",
            "mode": "markers",
            "name": f"cluster {k}",
            "x": compact(points[mine, 0]),
            "y": compact(points[mine, 1]),
            "marker": {
                "color": colour(int(k)),
                "symbol": symbol(int(k)),
                "size": 6,
                "opacity": 0.8,
                "line": {"width": 0},
            },
            **more,
        }
        if text is not None:
            trace |= {"text": [text[i] for i in mine], "hovertemplate": "%{text}<extra></extra>"}
        if places is not None:
            trace["customdata"] = places[mine].tolist()
        traces.append(trace)
    return traces


def two_directions(embedding: np.ndarray) -> np.ndarray:
    """The two main directions of the embedding (PCA), signs fixed so that the picture is the same every time."""
    centred = embedding - embedding.mean(0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(1)])
    points = centred @ (directions * np.where(signs == 0, 1, signs)[:, None]).T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def embedding_map(answers: Answers, labels: Sequence[str] | None, shown: np.ndarray, *, thumbnails: bool) -> Chart:
    """The rows where the embedding puts them; with thumbnails the page draws what is hovered over itself."""
    points = two_directions(answers.embedding)[shown]
    cluster = answers.cluster[shown]
    text = [describe(answers, i, labels) for i in shown]
    traces = clusters_as_traces(points, cluster, text=text, places=np.arange(len(shown)))
    if thumbnails:
        traces = [trace | {"hoverinfo": "none", "hovertemplate": None} for trace in traces]
    names = [
        {
            "x": float(np.median(points[cluster == k, 0])),
            "y": float(np.median(points[cluster == k, 1])),
            "text": f"<b>{k}</b>",
            "showarrow": False,
            "bgcolor": colour(int(k)),
            "font": {"color": "#101010", "size": 12},
            "borderpad": 3,
            "opacity": 0.9,
        }
        for k in np.unique(cluster)
    ]
    hidden = {"showticklabels": False, "zeroline": False}
    return chart(
        traces,
        height=560,
        xaxis=axis("first direction", **hidden),
        yaxis=axis("second direction", **hidden),
        annotations=names,
        hovermode="closest",
    )


def describe(answers: Answers, row: int, labels: Sequence[str] | None) -> str:
    """One row in words."""
    label = "" if labels is None else f"<br>label {literal(labels[row])} (not used in training)"
    return (
        f"row {row} of the sample<br>cluster {answers.cluster[row]}, probability {answers.confidence[row]:.3f}"
        f"<br>log p {short(float(answers.log_density[row]))}{label}"
    )


def spectrum_chart(embedding: np.ndarray) -> Chart:
    """How much of the embedding lies in each of its directions."""
    shares = spectrum(embedding)[:32]
    bars = {
        "type": "bar",
        "x": list(range(1, len(shares) + 1)),
        "y": compact(100 * shares),
        "marker": {"color": PALETTE[0]},
        "hovertemplate": "direction %{x}: %{y:.1f} %<extra></extra>",
    }
    return chart([bars], height=260, xaxis=axis("direction"), yaxis=axis("% of singular values"), showlegend=False)


def histograms(scores: dict[str, np.ndarray], title: str) -> Chart:
    """Scores of several sets of rows as outlines; what lies far out is counted in the outermost bins."""
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
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": literal(name),
                "x": compact((edges[1:] + edges[:-1]) / 2),
                "y": compact(100 * counts),
                "line": {"shape": "hvh", "width": 2, "color": colour(i), "dash": DASHES[i % len(DASHES)]},
                "fill": "tozeroy" if i == 0 else "none",
                "hovertemplate": "%{y:.1f} % at %{x:.3g}",
            }
        )
    # Noise that all falls off the edge must not flatten the data.
    highest = 1.6 * max(traces[0]["y"])
    return chart(traces, height=320, xaxis=axis(title), yaxis=axis("% of rows", range=[0, highest]))
