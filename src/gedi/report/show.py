"""The report and pictures of a model in memory: what `GEDI.report`, `GEDI.plot` and notebooks show."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from gedi.errors import DataError
from gedi.report.charts import contour_lines, density_grid, window_around
from gedi.report.data_sample import DataSample
from gedi.report.look import colour, marker, percent, swatch
from gedi.report.measures import Answers, spread_evenly
from gedi.report.page import write_page
from gedi.report.run_page import run_page
from gedi.report.run_view import view_of
from gedi.training.model import TrainedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINTS_DRAWN = 2_000  # drawn in a picture


def write_model_report(model: TrainedModel, sample: DataSample | None, path: str | Path | None) -> Path:
    """Write the page to ``path``; without one, to a temporary file that opens in a browser if there is a display."""
    if sample is None:
        raise DataError("This model was loaded without rows, so it has none to show: pass some as data.")
    run = view_of(Path("model"), model, model.results, sample)
    page = Path(path) if path is not None else Path(tempfile.mkdtemp(prefix="gedi-")) / "report.html"
    write_page(run_page(run), page)
    if path is None and _has_display():
        webbrowser.open(page.as_uri())
    return page


def _has_display() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def draw(model: TrainedModel, sample: DataSample | None, axes: Axes | None) -> Axes:
    """Rows by cluster: for two columns, over the contours of the density; otherwise on a map of the embedding."""
    if sample is None:
        raise DataError("This model was loaded without rows, so it has none to draw: pass some as X.")
    if axes is None:
        from matplotlib import pyplot

        axes = pyplot.subplots(layout="constrained")[1]
    assert axes is not None
    answers = Answers(model, np.asarray(sample.rows, dtype=np.float64))
    is_plane = model.n_features == 2
    if is_plane and model.has_density:
        window = window_around(answers.rows)
        for line in contour_lines(density_grid(answers, window), window):
            axes.plot(line[:, 0], line[:, 1], color="0.7", linewidth=0.8, zorder=0)
    points = answers.on_map
    shown = spread_evenly(len(points), POINTS_DRAWN)
    for k in np.unique(answers.cluster).tolist():
        mine = shown[answers.cluster[shown] == k]
        label = f"cluster {k}" if model.has_clusters else "rows"
        axes.scatter(points[mine, 0], points[mine, 1], s=12, color=colour(k), marker=marker(k), label=label)
    names = (sample.feature(0), sample.feature(1)) if is_plane else ("first direction", "second direction")
    axes.set(xlabel=names[0], ylabel=names[1])
    axes.legend(loc="best", fontsize="small")
    return axes


def facts(model: TrainedModel, labels: Sequence[int] | np.ndarray | None) -> str:
    """What a fitted model is, as HTML for notebooks."""
    what = "×".join(map(str, model.image_shape)) if model.image_shape else f"{model.n_features} features"
    known: list[tuple[str, Any]] = [
        ("trained on", what),
        ("clusters", model.n_clusters if model.has_clusters else "none"),
        ("density", "yes" if model.has_density else "no"),
        ("iterations", f"{model.iterations:,}"),
    ]
    rows = Markup("").join(Markup("<tr><th>{}</th><td>{}</td></tr>").format(*pair) for pair in known)
    if labels is not None and model.has_clusters:
        sizes = np.bincount(np.asarray(labels), minlength=model.n_clusters)
        share = sizes / max(1, sizes.sum())
        each = (Markup("{} {} ({:,}, {})").format(swatch(k), k, int(n), percent(share[k])) for k, n in enumerate(sizes))
        rows += Markup("<tr><th>sizes</th><td>{}</td></tr>").format(Markup(" &nbsp; ").join(each))
    style = "<style>.gedi-facts .swatch {width: .8em; height: .8em} .gedi-facts th {text-align: left}</style>"
    return style + f'<table class="gedi-facts">{rows}</table>'
