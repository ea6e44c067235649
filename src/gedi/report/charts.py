"""Charts as plain data for plotly.js. Page colours are left out: they follow the reader's light or dark mode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gedi.report.data_sample import DataSample
from gedi.report.look import PALETTE, colour, compact, literal, rgb, short, symbol
from gedi.report.measures import Answers, spectrum

Chart = dict[str, Any]  # {"data": traces, "layout": layout}
POINTS = 1_500  # in one chart
BINS = 48
DASHES = ("solid", "dot", "dash", "dashdot", "longdash")
COLUMNS = 24  # in the chart of profiles
TOP = 5  # columns named for each cluster
DISTINCTIVE = 0.5  # standard deviations; smaller differences are not mentioned


def chart(data: list[dict[str, Any]], *, height: int = 360, **layout: Any) -> Chart:
    return {"data": data, "layout": {"height": height, **layout}}


def axis(title: str = "", **options: Any) -> dict[str, Any]:
    return ({"title": {"text": title}} if title else {}) | options


def scatter(name: str, points: np.ndarray, *, mode: str = "markers", **more: Any) -> dict[str, Any]:
    """A trace of points [n, 2]."""
    x, y = compact(points[:, 0]), compact(points[:, 1])
    return {"type": "scatter", "mode": mode, "name": name, "x": x, "y": y, **more}


def clusters_as_traces(
    points: np.ndarray,
    cluster: np.ndarray,
    *,
    text: list[str] | None = None,
    places: np.ndarray | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """One scatter trace per cluster, each with its own colour and symbol; ``places`` become its custom data."""
    traces = []
    for k in np.unique(cluster).tolist():
        mine = np.flatnonzero(cluster == k)
        marker = {"color": colour(k), "symbol": symbol(k), "size": 6, "opacity": 0.8, "line": {"width": 0}}
        trace = scatter(f"cluster {k}", points[mine], marker=marker, **more)
        if text is not None:
            trace |= {"text": [text[i] for i in mine], "hovertemplate": "%{text}<extra></extra>"}
        if places is not None:
            trace["customdata"] = places[mine].tolist()
        traces.append(trace)
    return traces


# ---- embedding ----


def two_directions(embedding: np.ndarray) -> np.ndarray:
    """The embedding along its two main directions (PCA), with signs fixed so that the picture never flips."""
    from sklearn.utils.extmath import svd_flip

    centred = embedding - embedding.mean(0)
    left, _, directions = np.linalg.svd(centred, full_matrices=False)
    _, directions = svd_flip(left, directions, u_based_decision=False)
    points = centred @ directions[:2].T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def embedding_map(answers: Answers, labels: Sequence[str] | None, shown: np.ndarray, *, thumbnails: bool) -> Chart:
    """Rows at their place in the embedding. With thumbnails, the page shows its own picture instead of a hover text."""
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
    """The hover text of a row."""
    said = [
        f"row {row} of the sample",
        f"cluster {answers.cluster[row]}, probability {answers.confidence[row]:.3f}",
    ]
    if answers.model.has_density:
        said.append(f"log p {short(float(answers.log_density[row]))}")
    if labels is not None:
        said.append(f"label {literal(labels[row])} (not used in training)")
    return "<br>".join(said)


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
        traces.append(scatter(literal(name), outline, mode="lines", line=line, fill=fill, hovertemplate=hover))
    # A spike of noise in a single bin must not flatten the data.
    highest = 1.6 * max(traces[0]["y"])
    return chart(traces, height=320, xaxis=axis(title), yaxis=axis("% of rows", range=[0, highest]))


# ---- columns ----


@dataclass(frozen=True)
class Profile:
    """The columns in which a cluster differs most, and by how many standard deviations."""

    cluster: int
    rows: int
    differences: list[tuple[str, float]]


def differences(rows: np.ndarray, cluster: np.ndarray, n_clusters: int) -> np.ndarray:
    """Mean of each cluster minus the mean of all other rows, in standard deviations of the column: [clusters, d].

    NaN for a cluster that has no rows, or all of them.
    """
    rows = np.asarray(rows, dtype=np.float64)
    spread = rows.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    found = np.full((n_clusters, rows.shape[1]), np.nan)
    for k in range(n_clusters):
        mine = cluster == k
        if mine.any() and not mine.all():
            found[k] = (rows[mine].mean(0) - rows[~mine].mean(0)) / spread
    return found


def profiles(sample: DataSample, cluster: np.ndarray, found: np.ndarray) -> list[Profile]:
    """The most distinctive columns of each cluster, from its `differences`."""
    made = []
    for k, line in enumerate(found):
        if np.isnan(line).all():
            continue
        top = [i for i in np.argsort(-np.abs(line), kind="stable")[:TOP] if abs(line[i]) >= DISTINCTIVE]
        made.append(Profile(k, int((cluster == k).sum()), [(sample.feature(int(i)), float(line[i])) for i in top]))
    return made


def profile_chart(sample: DataSample, found: np.ndarray) -> Chart | None:
    """Heat map of the `differences`: the most distinctive columns against the clusters."""
    used = np.flatnonzero(~np.isnan(found).all(axis=1))
    if not len(used):
        return None
    strength = np.abs(found[used]).max(0)
    columns = np.sort(np.argsort(-strength, kind="stable")[:COLUMNS])[::-1]
    z = found[np.ix_(used, columns)].T
    top = max(1.0, float(np.abs(z).max()))
    names = [literal(sample.feature(int(i))) for i in columns]
    # Half transparent, so that the numbers in the cells are readable in light and dark mode.
    below, above = ("rgba({},{},{},0.6)".format(*rgb(i)) for i in (0, 3))
    heat = {
        "type": "heatmap",
        "z": [compact(line, 3) for line in z],
        "x": [f"cluster {k}" for k in used],
        "y": list(range(len(columns))),
        "colorscale": [[0, below], [0.5, "rgba(140,140,140,0.08)"], [1, above]],
        "zmin": -top,
        "zmax": top,
        "xgap": 2,
        "ygap": 2,
        "texttemplate": "%{z:+.1f}" if len(used) <= 12 else None,
        "customdata": [[name] * len(used) for name in names],
        "hovertemplate": "%{customdata}, %{x}: %{z:+.2f} standard deviations<extra></extra>",
        "colorbar": {"thickness": 10, "len": 0.8},
    }
    return chart(
        [heat],
        height=120 + 26 * len(columns),
        xaxis=axis(type="category", side="top", showgrid=False),
        yaxis=axis(tickvals=list(range(len(columns))), ticktext=names, showgrid=False, automargin=True, zeroline=False),
    )
