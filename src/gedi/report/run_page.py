"""The report of one run: which sections it has, and what is in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gedi.data.streaming import take
from gedi.evaluation import auroc, foreign_rows
from gedi.files.reading import shown
from gedi.report import charts as make
from gedi.report.charts import POINTS, Chart
from gedi.report.history import EVENT_COLUMNS, History, training_charts
from gedi.report.images import THUMBNAILS, Painter, exemplars, sample_pictures
from gedi.report.look import literal, number, percent, short
from gedi.report.measures import UNSURE, Answers, few, guard_events
from gedi.report.page import render
from gedi.report.plane import plane_charts
from gedi.report.run_view import RunView
from gedi.report.verdict import CANDIDATES, headline, overall
from gedi.training.cost import duration

LARGEST_TABLE = 30  # clusters or labels in the table of clusters against labels
NAMED = 20  # unreadable files listed by name
COST_PARTS = {
    "sgld": "sampling (SGLD)",
    "dam": "walks (DAM)",
    "loss": "losses and their gradients",
    "optimiser": "optimiser",
    "data": "batches and views",
}


def run_page(run: RunView) -> str:
    """The report of a run."""
    history = History(run.history, guard_events(run.results), chosen=chosen_at(run))
    charts = {f"training-{name}": made for name, made in training_charts(history).items()}
    context: dict[str, Any] = {
        "about": about(run),
        "level": overall(run.judgements),
        "headline": headline(run.judgements),
        "judgements": run.judgements,
        "measures": run.measures,
        "left_out": left_out(run.results),
        "candidates": run.measures.ranking,
        "candidate_names": CANDIDATES,
        "has_choice": history.choice is not None,
        "has_constraint": bool(_within(run.settings, "objective", "symbolic")),
        "random_heads": _within(run.settings, "heads", "random"),
        "labelled": None,
        "clusters": [],
        "events": history.event_rows(),
        "event_columns": EVENT_COLUMNS,
        "cost": cost(run.results),
        "settings": flat(run.settings),
        "provenance": provenance(run.results),
        "sample": run.sample,
        "unsure": UNSURE,
        "sheet": None,
    }
    if run.answers is not None:
        context |= {"clusters": cluster_table(run.answers, run.label_names), "labelled": against_labels(run)}
        context |= _pictures(run, run.answers, charts)
    return render("run.html.j2", title=f"{run.name} · gedi report", charts=charts, **context)


def _pictures(run: RunView, answers: Answers, charts: dict[str, Chart]) -> dict[str, Any]:
    """The sections for this kind of data; charts are added to ``charts``."""
    assert run.sample is not None
    model, context = answers.model, {}
    images = run.kind == "images"
    shown_rows = few(len(answers.rows), THUMBNAILS if images else POINTS)
    if run.kind == "plane":
        names = (literal(run.sample.feature(0)), literal(run.sample.feature(1)))
        drawn = plane_charts(answers, run.samples, run.label_names, names)
        charts |= {f"plane-{name}": made for name, made in drawn.items()}
    if images:
        assert model.image_shape is not None
        painter = Painter(model.image_shape, float(answers.rows.min()), float(answers.rows.max()))
        context["sheet"] = painter.sheet(answers.rows[shown_rows])
        context["exemplars"] = exemplars(painter, answers)
        if run.samples is not None:
            context["drawn"] = sample_pictures(model, painter, answers.rows, run.samples)
    if run.kind == "rows" and model.has_clusters:
        found = make.differences(answers.rows, answers.cluster, model.n_clusters)
        context["profiles"] = make.profiles(run.sample, answers.cluster, found)
        if (heat := make.profile_chart(run.sample, found)) is not None:
            charts["profile"] = heat
    if model.has_clusters:
        charts["spectrum"] = make.spectrum_chart(answers.embedding)
        if run.kind != "plane":
            charts["map"] = make.embedding_map(answers, run.label_names, shown_rows, thumbnails=images)
    if model.has_density:
        context["foreign"] = _foreign(run, answers, charts)
    return context


def _foreign(run: RunView, answers: Answers, charts: dict[str, Chart]) -> list[list[str]]:
    """Histograms of data and of rows that are not data, and how well both scores tell them apart."""
    others = foreign_rows(answers.rows)
    if run.samples is not None:
        others = {"own samples": run.samples} | others
    if run.foreign is not None:
        some = take(run.foreign.x, few(len(run.foreign.x), POINTS))
        others[f"given: {shown(run.foreign.name)}"] = some.reshape(len(some), -1).astype(np.float64)
    found = {"data": answers} | {name: Answers(answers.model, rows) for name, rows in others.items()}
    densities = {name: one.log_density for name, one in found.items()}
    gradients = {name: one.ood_score for name, one in found.items()}
    charts["ood-density"] = make.histograms(densities, "log p")
    charts["ood-gradient"] = make.histograms(gradients, "−‖∂ log p / ∂x‖")
    return [
        [name, *(short(auroc(scores["data"], scores[name])) for scores in (densities, gradients))] for name in others
    ]


def about(run: RunView) -> list[tuple[str, str]]:
    """Key facts about the run, for the top of the page."""
    results, model = run.results, run.model
    own = shown(str(results.get("data") or (run.sample.name if run.sample else "unknown")))
    facts = [("data", own)]
    if run.is_given and run.sample is not None:
        facts = [("data", shown(run.sample.name)), ("trained on", own)]
    if run.sample is not None and model is not None:
        shape = model.image_shape
        each = f"{model.n_features:,}" if shape is None else " × ".join(map(str, shape[:2] if shape[2] == 1 else shape))
        facts.append(("rows" if shape is None else "images", f"{run.sample.total:,} × {each}"))
    if model is not None:
        facts += [("clusters", str(model.n_clusters)), ("seed", str(model.seed))]
    facts.append(("method", shown(str(results.get("method", "gedi")))))
    if (seconds := number(results.get("seconds"))) is not None:
        facts.append(("trained in", duration(seconds)))
    return facts


def left_out(results: dict[str, Any]) -> str | None:
    """How many image files could not be read, and the names of the first few; None if all could."""
    names = results.get("unreadable")
    if not isinstance(names, list) or not names:
        return None
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    were = "1 image file was" if len(names) == 1 else f"{len(names):,} image files were"
    return f"{were} left out as unreadable: {', '.join(shown(str(name)) for name in names[:NAMED])}{more}."


def cluster_table(answers: Answers, labels: Sequence[str] | None) -> list[dict[str, Any]]:
    """One line per cluster."""
    sizes = np.bincount(answers.cluster, minlength=answers.probability.shape[1])
    lines = []
    for k, rows in enumerate(sizes.tolist()):
        mine = np.flatnonzero(answers.cluster == k)
        line = {"cluster": k, "rows": rows, "share": rows / len(answers.rows), "bar": 100 * rows / int(sizes.max())}
        line |= dict.fromkeys(("confidence", "unsure", "label"))
        if rows:
            confidence = answers.confidence[mine]
            line |= {"confidence": float(confidence.mean()), "unsure": float((confidence < UNSURE).mean())}
        if rows and labels is not None:
            ((name, often),) = Counter(labels[i] for i in mine.tolist()).most_common(1)
            line["label"] = f"{name} ({percent(often / rows)})"
        lines.append(line)
    return lines


def chosen_at(run: RunView) -> float | None:
    """The iteration of step 2 at which the best candidate was chosen; None if there was no choice."""
    choose, iterations = _within(run.settings, "heads", "choose"), _within(run.settings, "step2", "iterations")
    if not run.measures.candidates or number(choose) is None or number(iterations) is None:
        return None
    return choose * iterations


def _within(settings: Any, *names: str) -> Any:
    """A nested setting, or None if the run has no such setting."""
    for name in names:
        settings = settings.get(name) if isinstance(settings, dict) else None
    return settings


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


def cost(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Where the time went: part, seconds, share."""
    parts = results.get("cost")
    parts = {k: v for k, value in parts.items() if (v := number(value)) is not None} if isinstance(parts, dict) else {}
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])[:12]
    return [(COST_PARTS.get(name, shown(name, 30)), value, value / total if total else 0.0) for name, value in ordered]


def flat(settings: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Settings by dotted path."""
    if not isinstance(settings, dict):
        return [(prefix, shown(_plain(settings), 100))]
    return [pair for key, value in settings.items() for pair in flat(value, f"{prefix}.{key}" if prefix else str(key))]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "unset" if value is None else str(value)


def provenance(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Provenance and hardware, as recorded by the run."""
    written = results.get("provenance")
    facts = [(k, shown(v, 300)) for k, v in flat(written)] if isinstance(written, dict) else []
    hardware = results.get("hardware")
    facts += [(f"hardware.{k}", v) for k, v in flat(hardware)] if isinstance(hardware, dict) else []
    for name in ("gradient_evaluations", "objective"):
        if (value := number(results.get(name))) is not None:
            facts.append((name.replace("_", " "), short(value, 4)))
    return facts[:60]
