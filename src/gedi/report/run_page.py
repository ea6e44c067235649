"""The report of one run: the answer first, then the pictures, then how it was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from gedi.data.streaming import take
from gedi.evaluation import auroc, foreign_rows
from gedi.files.reading import shown
from gedi.report import charts as make
from gedi.report import records
from gedi.report.answer import cluster_lines, column_table, row_texts, typical_table
from gedi.report.charts import POINTS, Chart, View, matched
from gedi.report.history import EVENT_COLUMNS, History, training_charts
from gedi.report.images import THUMBNAILS, Painter, exemplars, sample_pictures, walk_strips
from gedi.report.look import literal, percent, setting, short
from gedi.report.measures import UNSURE, Answers, can_walk, guard_events, spread_evenly
from gedi.report.page import render
from gedi.report.plane import plane_charts
from gedi.report.run_view import RunView
from gedi.report.verdict import CANDIDATES

LARGEST_TABLE = 30  # clusters or labels in the table of clusters against labels
LISTED = 20  # clusters on the first screen; the rest are folded away
LABEL_VIEW = 100  # with more labels, the map has no view of them


def run_page(run: RunView) -> str:
    """The report of a run."""
    history = History(run.history, guard_events(run.results), chosen=records.chosen_at(run))
    charts = {f"training-{name}": made for name, made in training_charts(history).items()}
    number = records.number_of_clusters(run.results)
    if number is not None and len(number["curve"]) > 1:
        charts["number"] = make.number_chart(number["curve"], number["chosen"])
    context: dict[str, Any] = {
        "about": records.about(run),
        "judgements": run.judgements,
        "measures": run.measures,
        "number": number,
        "left_out": records.left_out(run.results),
        "candidates": run.measures.ranking,
        "candidate_names": CANDIDATES,
        "stages": records.stages(run),
        "has_choice": history.choice is not None,
        "has_constraint": bool(setting(run.settings, "objective", "symbolic")),
        "random_heads": setting(run.settings, "heads", "random"),
        "labelled": None,
        "clusters": [],
        "empty": [],
        "typical": None,
        "columns": None,
        "columns_read": records.columns_read(run),
        "exemplars": None,
        "listed": LISTED,
        "views": [],
        "events": history.event_rows(),
        "event_columns": EVENT_COLUMNS,
        "cost": records.cost(run.results),
        "settings": records.flat(run.settings),
        "provenance": records.provenance_facts(run.results),
        "sample": run.sample,
        "kind": run.kind,
        "unsure": UNSURE,
    }
    if run.answers is not None:
        lines = cluster_lines(run, run.answers) if run.measures.has_clusters else []
        context["empty"] = (
            sorted(set(range(run.measures.n_clusters)) - {line["cluster"] for line in lines}) if lines else []
        )
        context |= {"clusters": lines, "typical": typical_table(run, lines), "columns": column_table(run.differences)}
        context |= {"labelled": against_labels(run)} | _pictures(run, run.answers, charts)
    return render("run.html.j2", title=f"{run.name} · gedi report", charts=charts, **context)


def _pictures(run: RunView, answers: Answers, charts: dict[str, Chart]) -> dict[str, Any]:
    """The sections for this kind of data; charts are added to ``charts``."""
    assert run.sample is not None
    model, context = answers.model, {}
    images = run.kind == "images"
    places = spread_evenly(len(answers.rows), THUMBNAILS if images else POINTS)
    texts = row_texts(run, answers, places.tolist())
    text = [texts.get(i, "") for i in range(len(answers.rows))]
    views = context["views"] = map_views(run, answers)
    if run.kind == "plane":
        names = (literal(run.sample.feature(0)), literal(run.sample.feature(1)))
        drawn = plane_charts(answers, run.samples, views, text, names)
        charts |= {"map" if name == "map" else f"plane-{name}": made for name, made in drawn.items()}
    elif model.has_clusters:
        charts["map"] = make.embedding_map(make.two_directions(answers.embedding), views, text, places)
    if images:
        assert model.image_shape is not None
        painter = Painter(model.image_shape, float(answers.rows.min()), float(answers.rows.max()))
        context["sheet"] = painter.sheet(answers.rows[places])
        context["exemplars"] = {one["cluster"]: one for one in exemplars(painter, answers)}
        if run.samples is not None:
            context["drawn"] = sample_pictures(model, painter, answers.rows, run.samples)
        if can_walk(model):
            context["strips"] = walk_strips(model, painter, answers.rows)
    if model.has_clusters:
        charts["spectrum"] = make.spectrum_chart(answers.embedding)
    if model.has_density:
        context["foreign"] = _foreign(run, answers, charts)
    return context


def map_views(run: RunView, answers: Answers) -> list[View]:
    """The clusters of the run, of its rivals in matching colours, and the labels, to switch between on the map."""
    views = [View("gedi", answers.cluster, note="The clusters of this run.")]
    for name, cluster in run.rivals.items():
        same = matched(answers.cluster, cluster)
        share = percent(float((same == answers.cluster).mean()))
        views.append(View(name, same, note=f"{name} puts {share} of the rows in the same cluster as gedi."))
    if run.labels is not None and run.sample is not None:
        labels, group = np.unique(run.labels, return_inverse=True)
        if len(labels) <= LABEL_VIEW:
            names = [run.sample.label(int(value)) for value in labels]
            views.append(View("labels", group, names, "The labels of the data. They were not used in training."))
    return views


def _foreign(run: RunView, answers: Answers, charts: dict[str, Chart]) -> list[list[str]]:
    """Histograms of data and of rows that are not data, and how well both scores tell them apart."""
    others = foreign_rows(answers.rows)
    if run.samples is not None:
        others = {"own samples": run.samples} | others
    if run.foreign is not None:
        some = take(run.foreign.x, spread_evenly(len(run.foreign.x), POINTS))
        others[f"given: {shown(run.foreign.name)}"] = some.reshape(len(some), -1).astype(np.float64)
    found = {"data": answers} | {name: Answers(answers.model, rows) for name, rows in others.items()}
    densities = {name: one.log_density for name, one in found.items()}
    gradients = {name: one.ood_score for name, one in found.items()}
    charts["ood-density"] = make.histograms(densities, "typicality (log p)")
    charts["ood-gradient"] = make.histograms(gradients, "−‖∂ log p / ∂x‖")
    return [
        [name, *(short(auroc(scores["data"], scores[name])) for scores in (densities, gradients))] for name in others
    ]


def against_labels(run: RunView) -> dict[str, Any] | None:
    """Agreement with the labels, if there are any. They were not used in training."""
    if run.labels is None or run.sample is None or run.clusters is None:
        return None
    labels, places = np.unique(run.labels, return_inverse=True)
    counts = None
    if len(labels) <= LARGEST_TABLE and run.measures.n_clusters <= LARGEST_TABLE:
        table = np.zeros((run.measures.n_clusters, len(labels)), dtype=int)
        np.add.at(table, (run.clusters, places), 1)
        names = [run.sample.label(int(value)) for value in labels]
        counts = {"names": names, "rows": table.tolist(), "most": max(1, int(table.max()))}
    return {"scores": run.label_scores, "counts": counts, "whole": bool(run.written_scores) or run.sample.is_whole}
