"""The first screen of a report: the clusters, what sets each apart, and typical rows of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gedi.report.differences import TABLE_COLUMNS, Difference, ShownColumn, strongest, telling
from gedi.report.look import literal, percent, short
from gedi.report.measures import UNSURE, Answers
from gedi.report.run_view import RunView

TYPICAL_ROWS = 3  # typical rows listed for each cluster
HOVER_VALUES = 8  # shown when a row is hovered over


def cluster_lines(run: RunView, answers: Answers) -> list[dict[str, Any]]:
    """One line per cluster with rows: its size, how sure the model is, what sets it apart, its most common label."""
    sizes = np.bincount(answers.cluster, minlength=answers.probability.shape[1])
    lines = []
    for k in np.flatnonzero(sizes).tolist():
        rows = int(sizes[k])
        mine = np.flatnonzero(answers.cluster == k)
        line = {"cluster": k, "rows": rows, "share": rows / len(answers.rows), "bar": 100 * rows / int(sizes.max())}
        line |= {"apart": strongest(run.differences[k]) if run.differences else []}
        line["typical"] = answers.typical(k, TYPICAL_ROWS).tolist()
        confidence = answers.confidence[mine]
        line |= {"confidence": float(confidence.mean()), "unsure": float((confidence < UNSURE).mean()), "label": None}
        if run.label_names is not None:
            ((name, often),) = Counter(run.label_names[i] for i in mine.tolist()).most_common(1)
            line["label"] = f"{name} ({percent(often / rows)})"
        lines.append(line)
    return lines


def column_table(found: Sequence[Sequence[Difference]]) -> dict[str, Any] | None:
    """The columns that tell clusters apart best, each with its value in every cluster; None if there are none."""
    columns, clusters = telling(found, TABLE_COLUMNS), [k for k, line in enumerate(found) if line]
    if not columns or len(clusters) < 2:
        return None
    most = max(1.0, *(abs(found[k][i].strength) for k in clusters for i in columns))
    lines = []
    for i in columns:
        cells = [{"text": found[k][i].own, "tint": _tint(found[k][i].strength / most)} for k in clusters]
        lines.append({"name": found[clusters[0]][i].column, "cells": cells})
    return {"clusters": clusters, "lines": lines, "all": len(columns) == len(found[clusters[0]])}


def _tint(strength: float) -> str:
    """Orange above the other rows, blue below; pale enough for text in both light and dark mode."""
    red, green, blue = (213, 94, 0) if strength > 0 else (10, 122, 191)
    return f"rgba({red}, {green}, {blue}, {0.55 * abs(strength):.2f})"


def row_texts(run: RunView, answers: Answers, shown: Sequence[int]) -> dict[int, str]:
    """The hover text of each row: its number and id, cluster, typicality, label, and values."""
    assert run.sample is not None
    columns = [] if run.kind == "images" else _first(run.columns, run.differences)
    texts = {}
    for i in shown:
        said = [f"<b>{literal(run.sample.row_name(i))}</b>"]
        if answers.model.has_clusters:
            said.append(f"cluster {answers.cluster[i]}, {percent(answers.confidence[i])} sure")
        said += [f"{literal(column.name)}: {literal(column.value(i))}" for column in columns]
        if len(columns) < len(run.columns) and columns:
            said.append("…")
        if answers.model.has_density:
            said.append(f"typicality (log p) {short(float(answers.log_density[i]))}")
        if run.label_names is not None:
            said.append(f"label {literal(run.label_names[i])} (not used in training)")
        texts[i] = "<br>".join(said)
    return texts


def _first(columns: Sequence[ShownColumn], found: Sequence[Sequence[Difference]]) -> list[ShownColumn]:
    """The columns shown for a row: all if there are few, otherwise those that tell clusters apart best."""
    if len(columns) <= HOVER_VALUES:
        return list(columns)
    best = telling(found, HOVER_VALUES) or range(HOVER_VALUES)
    return [columns[i] for i in best]


def typical_table(run: RunView, lines: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """Typical rows of every cluster with their values; None for images."""
    if run.kind == "images" or run.sample is None:
        return None
    columns = _first(run.columns, run.differences)
    rows = [
        {"cluster": line["cluster"], "name": run.sample.row_name(i), "values": [column.value(i) for column in columns]}
        for line in lines
        for i in line["typical"]
    ]
    return {"columns": [column.name for column in columns], "rows": rows} if rows else None
