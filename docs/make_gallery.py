"""Run the examples of the gallery, draw their pictures, and keep what they print.

    python docs/make_gallery.py [NAME ...]     # default: all

Writes docs/images/gallery-*.png, results/laptop/gallery.json, and the outputs in docs/gallery.md. Each example takes
seconds of one core, except mnist, which takes a few minutes and needs `gedi fetch mnist`.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

from gedi import runs

DOCS = Path(__file__).resolve().parent
IMAGES, EXAMPLES = DOCS / "images", DOCS / "examples"
RESULTS = DOCS.parent / "results" / "laptop" / "gallery.json"
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
SHOWN = 14  # thumbnails in a row


def customers(frame: pd.DataFrame) -> Figure:
    """Age and spending, by cluster."""
    age, spend = (pd.to_numeric(frame[name].str.removesuffix(" EUR")) for name in ("age", "spend"))
    figure, axes = plt.subplots(figsize=(6.4, 3.2))
    for cluster, colour in enumerate(COLOURS):
        own = frame["cluster"] == cluster
        axes.scatter(age[own], spend[own], s=8, color=colour, label=f"cluster {cluster}")
    axes.set(xlabel="age", ylabel="EUR per order", yscale="log")
    axes.legend(frameon=False, bbox_to_anchor=(1, 1), loc="upper left")
    return figure


def anomalies(answer: tuple[np.ndarray, np.ndarray]) -> Figure:
    """Log densities of both kinds of rows."""
    log_density, malignant = answer
    lowest = np.quantile(log_density, 0.02)  # the few rows far below would squeeze all others
    shown = np.maximum(log_density, lowest)
    figure, axes = plt.subplots(figsize=(6.4, 2.8))
    edges = np.linspace(shown.min(), shown.max(), 40)
    kinds = {"benign": shown[~malignant], "malignant": shown[malignant]}
    axes.hist(list(kinds.values()), edges, stacked=True, color=COLOURS[:2], label=list(kinds))
    axes.set(xlabel="log density (the lowest 2% are in the first bar)", ylabel="rows")
    axes.legend(frameon=False)
    return figure


def digits(answer: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The most certain images of each cluster."""
    images, probabilities = answer
    chosen = [images[np.argsort(-column, kind="stable")[:SHOWN]] for column in probabilities.T]
    return thumbnails(chosen, "gray_r")


def mnist(answer: np.ndarray) -> Figure:
    """Some of the samples."""
    return thumbnails(answer[: 3 * SHOWN].reshape(3, SHOWN, 28, 28), "gray_r")


def pretrained(answer: tuple[np.ndarray, np.ndarray]) -> Figure:
    """The first pictures of each cluster."""
    pictures, clusters = answer
    return thumbnails([pictures[clusters == cluster][:SHOWN] for cluster in np.unique(clusters)], "gray_r")


def two_machines(answer: dict[str, list[float]]) -> Figure:
    """The objective of both runs."""
    figure, axes = plt.subplots(figsize=(6.4, 2.8))
    for (name, curve), colour, style in zip(answer.items(), COLOURS, ("-", "--"), strict=False):
        axes.plot(50 * np.arange(1, len(curve) + 1), curve, style, color=colour, label=name)
    axes.set(xlabel="iterations of step 2", ylabel="objective (lower is better)")
    axes.legend(frameon=False)
    return figure


def image_folder(answer: list[tuple[np.ndarray, str]]) -> Figure:
    """The first images of each cluster."""
    clusters = sorted({cluster for _, cluster in answer})
    return thumbnails([[image for image, own in answer if own == cluster][:SHOWN] for cluster in clusters])


def constraint(answer: tuple[np.ndarray, np.ndarray]) -> Figure:
    """Rows by their cluster, with lines from the first row of a pair to the second."""
    rows, labels = answer
    figure, axes = plt.subplots(figsize=(5, 3.4))
    for first, second in rows.reshape(-1, 2, 2):
        axes.annotate("", second, first, arrowprops={"arrowstyle": "->", "color": "0.8", "lw": 0.5}, zorder=0)
    for cluster, colour in enumerate(COLOURS[:3]):
        own = rows[labels == cluster]
        axes.scatter(*own.T, s=8, color=colour)
        above = (np.median(own[:, 0]), own[:, 1].max() + 0.1)
        axes.annotate(f"cluster {cluster}", above, ha="center", va="bottom", color=colour, weight="bold")
    axes.margins(0.12)
    axes.set_axis_off()
    return figure


def thumbnails(groups: Sequence[Sequence[np.ndarray]], colours: str | None = None) -> Figure:
    """One row of images per cluster."""
    figure, axes = plt.subplots(len(groups), SHOWN, figsize=(0.45 * SHOWN, 0.47 * len(groups)), squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    for line, group in zip(axes, groups, strict=True):
        for axis, image in zip(line, group, strict=False):
            axis.imshow(image, cmap=colours)
    figure.subplots_adjust(0, 0, 1, 1, 0.06, 0.06)
    return figure


# What is drawn of the value that an example's `main` returns; None: nothing.
DRAWN: dict[str, Callable[[Any], Figure] | None] = {
    "customers": customers,
    "anomalies": anomalies,
    "image_folder": image_folder,
    "digits": digits,
    "mnist": mnist,
    "constraint": constraint,
    "compare": None,  # docs/make_screenshots.py shows the page
    "pretrained": pretrained,
    "two_machines": two_machines,
}


def run(name: str) -> tuple[Any, dict[str, Any]]:
    """What an example returns, and the record of its run."""
    began, printed = processor_seconds(), io.StringIO()
    with contextlib.redirect_stdout(printed):
        answer = importlib.import_module(name).main()
    seconds = round(processor_seconds() - began, 1)
    made = runs.provenance() | {"command": f"python docs/examples/{name}.py"}
    return answer, {"printed": printed.getvalue().splitlines(), "processor_seconds": seconds, "provenance": made}


def processor_seconds() -> float:
    """Of this process and of those it has started and waited for."""
    return sum(os.times()[:4])


def write_picture(figure: Figure, path: Path) -> None:
    """A PNG of at most 128 colours: small enough for a repository."""
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=150, bbox_inches="tight", format="png")
    Image.open(drawn).convert("RGB").quantize(128).save(path, optimize=True)
    plt.close(figure)


def main(names: Sequence[str]) -> None:
    sys.path[:0] = [str(EXAMPLES), str(DOCS)]
    from hooks import renew_pages

    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in names or DRAWN:
        answer, kept[name] = run(name)
        if (draw := DRAWN[name]) is not None:
            write_picture(draw(answer), IMAGES / f"gallery-{name}.png")
        RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=1) + "\n", encoding="utf-8")
        renew_pages()
        print(f"{name}: {kept[name]['processor_seconds']} s of one core", *kept[name]["printed"], sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
