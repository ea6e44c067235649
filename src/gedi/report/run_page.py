"""The report of one run: the answer first, then the pictures, then how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gedi.data.streaming import take
from gedi.evaluation import auroc
from gedi.files.reading import shown
from gedi.report import charts as make
from gedi.report import records
from gedi.report.charts import POINTS, Chart, View, matched
from gedi.report.data_sample import DataSample
from gedi.report.differences import TABLE_COLUMNS, Difference, ShownColumn, telling
from gedi.report.history import EVENT_COLUMNS, History, training_charts
from gedi.report.images import THUMBNAILS, Painter, exemplars, sample_pictures, walk_strips
from gedi.report.look import literal, percent, short
from gedi.report.measures import UNSURE, Answers, can_walk, guard_events, spread_evenly
from gedi.report.page import render
from gedi.report.run_view import RunView
from gedi.report.verdict import CANDIDATES
from gedi.training.config import get

LARGEST_TABLE = 30  # clusters or labels in the table of clusters against labels
LISTED = 20  # clusters on the first screen, and on the terminal; the page folds away the rest
LABEL_VIEW = 100  # with more labels, the map has no view of them
HOVER_VALUES = 8  # shown when a row is hovered over


def run_page(run: RunView) -> str:
    """The report of a run."""
    history = History(run.history, guard_events(run.results), chosen=records.chosen_at(run))
    charts = {f"training-{name}": made for name, made in training_charts(history).items()}
    number = records.number_of_clusters(run.results)
    if number is not None and len(number["curve"]) > 1:
        charts["number"] = make.number_chart(number["curve"], number["chosen"])
    context: dict[str, Any] = {
        "run": run,
        "about": records.about(run),
        "number": number,
        "left_out": records.left_out(run.results),
        "outside": records.outside(run),
        "candidate_names": CANDIDATES,
        "stages": records.stages(run),
        "has_choice": history.choice is not None,
        "has_constraint": get(run.config, "objective.symbolic") is not None,
        "random_heads": get(run.config, "heads.random"),
        "labelled": against_labels(run),
        "empty": [k for k, size in enumerate(run.measures.sizes) if not size],
        "typical": typical_table(run),
        "columns": column_table(run.differences),
        "columns_read": records.columns_read(run),
        "listed": LISTED,
        "events": history.event_rows(),
        "event_columns": EVENT_COLUMNS,
        "cost": records.cost(run.results),
        "settings": records.settings(run),
        "provenance": records.provenance_facts(run.results),
        "unsure": UNSURE,
        **_pictures(run, charts),
    }
    return render("run.html.j2", title=f"{run.name} · gedi report", charts=charts, **context)


# ---- the answer ----


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


def typical_table(run: RunView) -> dict[str, Any] | None:
    """Typical rows of every cluster with their values; None for images."""
    if run.kind == "images" or run.sample is None:
        return None
    columns = _first(run.columns, run.differences)
    rows = [
        {"cluster": line["cluster"], "name": run.sample.row_name(i), "values": [column.value(i) for column in columns]}
        for line in run.cluster_lines
        for i in line["typical"]
    ]
    return {"columns": [column.name for column in columns], "rows": rows} if rows else None


def _first(columns: Sequence[ShownColumn], found: Sequence[Sequence[Difference]]) -> list[ShownColumn]:
    """The columns shown for a row: all if there are few, otherwise those that tell clusters apart best."""
    if len(columns) <= HOVER_VALUES:
        return list(columns)
    best = telling(found, HOVER_VALUES) or range(HOVER_VALUES)
    return [columns[i] for i in best]


def against_labels(run: RunView) -> dict[str, Any] | None:
    """Agreement with the labels, if there are any. They were not used in training."""
    if run.labels is None or run.sample is None or run.clusters is None:
        return None
    names, group = run.sample.label_groups(run.labels)
    counts = None
    if len(names) <= LARGEST_TABLE and run.measures.n_clusters <= LARGEST_TABLE:
        table = np.zeros((run.measures.n_clusters, len(names)), dtype=int)
        np.add.at(table, (run.clusters, group), 1)
        counts = {"names": names, "rows": table.tolist(), "most": max(1, int(table.max()))}
    return {"scores": run.label_scores, "counts": counts, "whole": bool(run.written_scores) or run.sample.is_whole}


# ---- the pictures ----


def _pictures(run: RunView, charts: dict[str, Chart]) -> dict[str, Any]:
    """The sections for this kind of data; charts are added to ``charts``."""
    context: dict[str, Any] = {"exemplars": None, "views": []}
    answers, sample = run.answers, run.sample
    if answers is None or sample is None:
        return context
    model, images = answers.model, run.kind == "images"
    views = context["views"] = map_views(run, answers, sample)
    places = spread_evenly(len(answers.rows), THUMBNAILS if images else POINTS)
    text = row_texts(run, answers, sample, places.tolist())
    if run.kind == "plane":
        names = (literal(sample.feature(0)), literal(sample.feature(1)))
        drawn = make.plane_charts(answers, run.samples, views, text, places, names)
        charts |= {"map" if name == "map" else f"plane-{name}": made for name, made in drawn.items()}
    elif model.has_clusters:
        charts["map"] = make.embedding_map(answers.on_map, views, text, places)
    if images:
        assert model.image_shape is not None
        painter = Painter(model.image_shape, float(answers.rows.min()), float(answers.rows.max()))
        context["sheet"] = painter.sheet(answers.rows[places])
        context["exemplars"] = {one["cluster"]: one for one in exemplars(painter, answers)}
        if run.samples is not None:
            context["drawn"] = sample_pictures(painter, answers, run.samples)
        if can_walk(model):
            context["strips"] = walk_strips(model, painter, answers.rows)
    if model.has_clusters:
        charts["spectrum"] = make.spectrum_chart(answers.embedding)
    if model.has_density:
        context["foreign"] = _foreign(run, answers, charts)
    return context


def map_views(run: RunView, answers: Answers, sample: DataSample) -> list[View]:
    """The clusters of the run, of its rivals in matching colours, and the labels, to switch between on the map."""
    views = [View("gedi", answers.cluster, note="The clusters of this run.")]
    for name, rival in run.measures.rivals.items():
        same = matched(answers.cluster, rival.labels)
        share = percent(float((same == answers.cluster).mean()))
        views.append(View(name, same, note=f"{name} puts {share} of the {run.things} in the same cluster as gedi."))
    if sample.labels is not None:
        names, group = sample.label_groups(sample.labels)
        if len(names) <= LABEL_VIEW:
            views.append(View("labels", group, names, "The labels of the data. They were not used in training."))
    return views


def row_texts(run: RunView, answers: Answers, sample: DataSample, rows: Sequence[int]) -> list[str]:
    """The hover texts of rows: number and id, cluster, log density, label, and values."""
    columns = [] if run.kind == "images" else _first(run.columns, run.differences)
    texts = []
    for i in rows:
        said = [f"<b>{literal(sample.row_name(i))}</b>"]
        if answers.model.has_clusters:
            said.append(f"cluster {answers.cluster[i]}, {percent(answers.confidence[i])} sure")
        said += [f"{literal(column.name)}: {literal(column.value(i))}" for column in columns]
        if len(columns) < len(run.columns) and columns:
            said.append("…")
        if answers.model.has_density:
            said.append(f"log density {short(float(answers.log_density[i]))}")
        if run.label_names is not None:
            said.append(f"label {literal(run.label_names[i])} (not used in training)")
        texts.append("<br>".join(said))
    return texts


def _foreign(run: RunView, answers: Answers, charts: dict[str, Chart]) -> list[list[str]]:
    """Histograms of data and of rows that are not data, and how well both scores tell them apart."""
    others = dict(answers.foreign)
    if run.kind == "images":
        others["shuffled pixels"] = others.pop("shuffled columns")
    if run.samples is not None:
        others = {"own samples": Answers(answers.model, run.samples)} | others
    if run.foreign is not None:
        some = take(run.foreign.x, spread_evenly(len(run.foreign.x), POINTS))
        rows = some.reshape(len(some), -1).astype(np.float64)
        others[f"given: {shown(run.foreign.name)}"] = Answers(answers.model, rows)
    densities = {name: one.log_density for name, one in [("data", answers), *others.items()]}
    gradients = {name: one.ood_score for name, one in [("data", answers), *others.items()]}
    charts["ood-density"] = make.histograms(densities, "log density", run.things)
    charts["ood-gradient"] = make.histograms(gradients, "−‖∂ log p / ∂x‖", run.things)
    return [
        [name, *(short(auroc(scores["data"], scores[name])) for scores in (densities, gradients))] for name in others
    ]
