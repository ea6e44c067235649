"""Charts of models with two features: clusters over decision regions, energy, walks and samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image

from gedi.report.charts import POINTS, Chart, axis, chart, clusters_as_traces, describe, scatter
from gedi.report.images import data_uri
from gedi.report.look import PALETTE, colour, compact, rgb
from gedi.report.measures import Answers, can_walk, few, walked
from gedi.training.model import TrainedModel

REGIONS = 160  # pixels per side of the decision regions
GRID = 90  # points per side of the energy
CUT_OFF = 12.0  # nats below typical data at which the energy is cut off
WALKS = 80
MARGIN = 0.12
PROPORTIONS = 1.35  # width over height of a chart
Window = list[tuple[float, float]]  # (low, high) of each axis


def plane_charts(
    answers: Answers, samples: np.ndarray | None, labels: Sequence[str] | None, names: tuple[str, str]
) -> dict[str, Chart]:
    """The charts of the plane by name, as far as the run has something to show."""
    window = _window(answers.rows)
    charts = {"clusters": _clusters(answers, labels, window)}
    if answers.model.has_density:
        energy = _energy(answers, window)
        charts["energy"] = chart([energy | {"contours": {"coloring": "heatmap"}}])
        line = {"width": 1, "color": "rgba(128,128,128,0.45)", "smoothing": 0.8}
        lines = energy | {"contours": {"coloring": "none"}, "line": line, "hoverinfo": "skip", "showlegend": False}
        if can_walk(answers.model):
            charts["walks"] = chart([lines, *_walks(answers)])
        if samples is not None:
            marker = {"size": 5, "color": colour(2), "opacity": 0.75}
            hover = "%{x:.3g}, %{y:.3g}<extra>sample</extra>"
            charts["samples"] = chart([lines, scatter("sample", samples, marker=marker, hovertemplate=hover)])
    (left, right), (bottom, top) = window
    for made in charts.values():
        made["layout"] |= {
            "height": 420,
            "xaxis": axis(names[0], range=[left, right], zeroline=False),
            "yaxis": axis(names[1], range=[bottom, top], zeroline=False),
            "hovermode": "closest",
            "showlegend": True,
        } | {k: v for k, v in made["layout"].items() if k == "images"}
    return charts


def _window(rows: np.ndarray) -> Window:
    """The data and a margin, in the proportions of a chart."""
    low, high = rows.min(0).astype(float), rows.max(0).astype(float)
    side = np.where(high > low, high - low, 1.0) * (1 + 2 * MARGIN)
    middle = (low + high) / 2
    if 0.2 < side[0] / side[1] < 5:  # the units are comparable: show shapes undistorted
        height = max(side[1], side[0] / PROPORTIONS)
        side = np.array([height * PROPORTIONS, height])
    return [(float(a), float(b)) for a, b in zip(middle - side / 2, middle + side / 2, strict=True)]


def _grid(window: Window, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    xs, ys = (np.linspace(low, high, side) for low, high in window)
    return xs, ys, np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _clusters(answers: Answers, labels: Sequence[str] | None, window: Window) -> Chart:
    shown = few(len(answers.rows), POINTS)
    text = [describe(answers, i, labels) for i in shown]
    traces = clusters_as_traces(answers.rows[shown], answers.cluster[shown], text=text)
    (left, right), (bottom, top) = window
    under = {
        "source": _regions(answers.model, window),
        "xref": "x",
        "yref": "y",
        "x": left,
        "y": top,
        "sizex": right - left,
        "sizey": top - bottom,
        "sizing": "stretch",
        "layer": "below",
    }
    return chart(traces, images=[under])


def _regions(model: TrainedModel, window: Window) -> str:
    """p(y|x) over the plane as a picture: the clusters' colours, mixed by probability, stronger where it is certain."""
    _, _, places = _grid(window, REGIONS)
    probability = model.predict_proba(places)
    colours = np.array([rgb(k) for k in range(probability.shape[1])])
    mixed = probability @ colours
    certain = (probability.max(1) - 1 / probability.shape[1]) / (1 - 1 / max(2, probability.shape[1]))
    alpha = 40 + 50 * np.clip(certain, 0, 1)
    pixels = np.column_stack([mixed, alpha]).clip(0, 255).astype(np.uint8).reshape(REGIONS, REGIONS, 4)[::-1]
    return data_uri(Image.fromarray(pixels))


def _energy(answers: Answers, window: Window) -> dict[str, Any]:
    """log p over the plane, 0 at the median of the data."""
    xs, ys, places = _grid(window, GRID)
    typical = float(np.median(answers.log_density))
    floor = max(CUT_OFF, 2 * (typical - float(np.quantile(answers.log_density, 0.01))))
    above = {"y": 1.01, "yanchor": "bottom"}
    z = np.maximum(answers.model.score_samples(places) - typical, -floor)
    return {
        "type": "contour",
        "x": compact(xs),
        "y": compact(ys),
        "z": [compact(row, 3) for row in z.reshape(GRID, GRID)],
        "colorscale": "Cividis",
        "ncontours": 14,
        "line": {"width": 0.7, "color": "rgba(255,255,255,0.45)", "smoothing": 0.8},
        "colorbar": {"orientation": "h", "thickness": 8, "len": 0.7, "ticklabelposition": "outside top"} | above,
        "hovertemplate": "log p %{z:.2f}<extra></extra>",
    }


def _walks(answers: Answers) -> list[dict[str, Any]]:
    model = answers.model
    paths = walk_paths(model, answers.rows, n=min(WALKS, len(answers.rows)))
    gap = np.full((len(paths), 1, 2), np.nan)  # lifts the pen between two walks
    ink = np.concatenate([paths, gap], axis=1).reshape(-1, 2)
    crossed = model.predict(paths[:, 0]) != model.predict(paths[:, -1])
    ends = [
        ("start", paths[:, 0], {"size": 4, "color": PALETTE[0]}),
        ("end in another cluster", paths[crossed, -1], {"size": 9, "color": PALETTE[4], "symbol": "x"}),
    ]
    line = {"color": PALETTE[3], "width": 1.6}
    traces = [scatter("walk", ink, mode="lines", line=line, hoverinfo="skip")]
    return traces + [scatter(name, points, marker=marker) for name, points, marker in ends if len(points)]


def walk_paths(model: TrainedModel, x: np.ndarray, *, n: int, seed: int = 0) -> np.ndarray:
    """DAM walks from ``n`` of the points, [n, T + 1, 2], in the user's units."""
    rows = np.random.default_rng(seed).choice(len(x), n, replace=False)
    start = torch.from_numpy(model.scaler.transform(x[rows]))
    # A walk draws its one Delta first: with the same seed, t steps are the first t steps of the whole walk.
    walks = (walked(model, start, t, torch.Generator().manual_seed(seed)) for t in range(1, model.config.dam.steps + 1))
    return np.stack([model.scaler.inverse(p.numpy(), dtype=np.float64) for p in (start, *walks)], axis=1)
