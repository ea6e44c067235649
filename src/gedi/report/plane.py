"""Charts of models of two features: clusters over decision regions, energy, walks, samples."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import numpy as np
import torch
from PIL import Image

from gedi.report.charts import Chart, axis, chart, clusters_as_traces, describe, few
from gedi.report.look import PALETTE, colour, compact, rgb
from gedi.report.measures import Answers
from gedi.sampling import dam
from gedi.training.model import TrainedModel

REGIONS = 160  # pixels of the decision regions, a side
GRID = 90  # of the energy, a side
CUT_OFF = 12.0  # nats below typical data at which the energy is cut off
WALKS = 80
MARGIN = 0.12
PROPORTIONS = 1.35  # width over height of a window


def plane_charts(
    model: TrainedModel,
    answers: Answers,
    samples: np.ndarray | None,
    labels: Sequence[str] | None,
    names: tuple[str, str],
) -> dict[str, Chart]:
    """All charts of the plane that the run has something to show for, by name."""
    window = _window(answers.rows)
    charts = {"clusters": _clusters(model, answers, labels, window)}
    if model.has_density:
        energy = _energy(model, answers, window)
        charts["energy"] = chart([energy | {"contours": {"coloring": "heatmap"}}])
        line = {"width": 1, "color": "rgba(128,128,128,0.45)", "smoothing": 0.8}
        lines = energy | {"contours": {"coloring": "none"}, "line": line, "hoverinfo": "skip", "showlegend": False}
        if model.config.dam.steps and model.config.dam.radius:
            charts["walks"] = chart([lines, *_walks(model, answers)])
        if samples is not None:
            charts["samples"] = chart([lines, _samples(samples)])
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


def _window(rows: np.ndarray) -> list[tuple[float, float]]:
    """(low, high) of either axis: the data and a margin, in the proportions of a chart."""
    low, high = rows.min(0).astype(float), rows.max(0).astype(float)
    side = np.where(high > low, high - low, 1.0) * (1 + 2 * MARGIN)
    middle = (low + high) / 2
    if 0.2 < side[0] / side[1] < 5:  # the units can be compared: show shapes as they are
        height = max(side[1], side[0] / PROPORTIONS)
        side = np.array([height * PROPORTIONS, height])
    return [(float(a), float(b)) for a, b in zip(middle - side / 2, middle + side / 2, strict=True)]


def _grid(window: list[tuple[float, float]], side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    xs, ys = (np.linspace(low, high, side) for low, high in window)
    return xs, ys, np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)


def _clusters(model: TrainedModel, answers: Answers, labels: Sequence[str] | None, window: Any) -> Chart:
    shown = few(len(answers.rows))
    text = [describe(answers, i, labels) for i in shown]
    traces = clusters_as_traces(answers.rows[shown], answers.cluster[shown], text=text)
    (left, right), (bottom, top) = window
    under = {
        "source": _regions(model, window),
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


def _regions(model: TrainedModel, window: Any) -> str:
    """p(y|x) over the plane as a picture: clusters' colours, mixed by probability, stronger where it is certain."""
    _, _, places = _grid(window, REGIONS)
    probability = model.predict_proba(places)
    colours = np.array([rgb(k) for k in range(probability.shape[1])])
    mixed = probability @ colours
    certain = (probability.max(1) - 1 / probability.shape[1]) / (1 - 1 / max(2, probability.shape[1]))
    alpha = 40 + 50 * np.clip(certain, 0, 1)
    pixels = np.column_stack([mixed, alpha]).clip(0, 255).astype(np.uint8).reshape(REGIONS, REGIONS, 4)[::-1]
    return png_uri(pixels)


def png_uri(pixels: np.ndarray) -> str:
    """Pixels [h, w], [h, w, 3] or [h, w, 4] as a data URI."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _energy(model: TrainedModel, answers: Answers, window: Any) -> dict[str, Any]:
    """log p over the plane, 0 at the median of the data."""
    xs, ys, places = _grid(window, GRID)
    typical = float(np.median(answers.log_density))
    floor = max(CUT_OFF, 2 * (typical - float(np.quantile(answers.log_density, 0.01))))
    z = np.maximum(model.score_samples(places) - typical, -floor)
    return {
        "type": "contour",
        "x": compact(xs),
        "y": compact(ys),
        "z": [compact(row, 3) for row in z.reshape(GRID, GRID)],
        "colorscale": "Cividis",
        "ncontours": 14,
        "line": {"width": 0.7, "color": "rgba(255,255,255,0.45)", "smoothing": 0.8},
        "colorbar": {
            "orientation": "h",
            "thickness": 8,
            "len": 0.7,
            "y": 1.01,
            "yanchor": "bottom",
            "ticklabelposition": "outside top",
        },
        "hovertemplate": "log p %{z:.2f}<extra></extra>",
    }


def _walks(model: TrainedModel, answers: Answers) -> list[dict[str, Any]]:

    paths = walk_paths(model, answers.rows, n=min(WALKS, len(answers.rows)))
    gap = np.full((len(paths), 1, 2), np.nan)  # lifts the pen between two walks
    ink = np.concatenate([paths, gap], axis=1).reshape(-1, 2)
    crossed = model.predict(paths[:, 0]) != model.predict(paths[:, -1])
    line = {"color": PALETTE[3], "width": 1.6}
    ends = [
        ("begins", paths[:, 0], {"size": 4, "color": PALETTE[0]}),
        ("ends in another cluster", paths[crossed, -1], {"size": 9, "color": PALETTE[4], "symbol": "x"}),
    ]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "walk",
            "x": compact(ink[:, 0]),
            "y": compact(ink[:, 1]),
            "line": line,
            "hoverinfo": "skip",
        }
    ]
    for name, points, marker in ends:
        if len(points):
            x, y = compact(points[:, 0]), compact(points[:, 1])
            traces.append({"type": "scatter", "mode": "markers", "name": name, "x": x, "y": y, "marker": marker})
    return traces


def _samples(samples: np.ndarray) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "sample",
        "x": compact(samples[:, 0]),
        "y": compact(samples[:, 1]),
        "marker": {"size": 5, "color": colour(2), "opacity": 0.75},
        "hovertemplate": "%{x:.3g}, %{y:.3g}<extra>sample</extra>",
    }


def walk_paths(model: TrainedModel, x: np.ndarray, *, n: int, seed: int = 0) -> np.ndarray:
    """DAM walks from ``n`` of the points, [n, T + 1, 2], in the user's units."""
    c = model.config.dam
    assert c.radius is not None
    rows = np.random.default_rng(seed).choice(len(x), n, replace=False)
    start = torch.from_numpy(model.scaler.transform(x[rows]))
    places = [start]
    for steps in range(1, c.steps + 1):
        # A walk draws its one Delta first: with the same seed, t steps are the first t steps of the whole walk.
        generator = torch.Generator().manual_seed(seed)
        drop = math.inf if c.max_drop is None else c.max_drop
        places.append(
            dam(model.net.eval().log_density, start, radius=c.radius, steps=steps, generator=generator, max_drop=drop)[
                0
            ]
        )
    return np.stack([model.scaler.inverse(p.detach().numpy(), dtype=np.float64) for p in places], axis=1)
