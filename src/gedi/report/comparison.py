"""Several runs side by side: settings that differ, measures, curves, whether the clusterings agree, and the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gedi.evaluation import nmi
from gedi.report.charts import Chart, View, axis, chart, cloud, matched
from gedi.report.history import CURVE_NAMES, ENERGY_GAP, OBJECTIVE, History, curves
from gedi.report.look import literal, percent, score_in_words, short
from gedi.report.measures import spread_evenly
from gedi.report.page import render
from gedi.report.records import about, settings
from gedi.report.run_view import RunView
from gedi.report.verdict import CANDIDATES, GRADES, LIMITS, headline, overall

MOST_RUNS = 12  # runs on one page
SMALL = 600  # points in each of the small maps
UNITS = {
    ENERGY_GAP: "log p of samples − of data",
    OBJECTIVE: "label-free objective",
    "clustering_augment": "loss",
    "negative_free": "loss",
}


def comparison_page(runs: list[RunView]) -> str:
    """The page that compares several runs."""
    names = distinct_names([run.name for run in runs])
    charts = {f"curve-{name}": made for name in UNITS if (made := _overlaid(runs, names, name)) is not None}
    shared, members = shared_clusterings(runs)
    context: dict[str, Any] = {"agreement": None, "maps": []}
    context["apart"] = [name for i, name in enumerate(names) if i not in members and runs[i].clusters is not None]
    if len(members) > 1:
        context["agreement"] = [[nmi(a, b) for b in members.values()] for a in members.values()]
        context["shared"] = shared.sample
        for i, made in _maps(shared, members).items():
            charts[f"clusters-{i}"] = made
            context["maps"].append((f"clusters-{i}", names[i]))
    return render(
        "comparison.html.j2",
        title=f"{len(runs)} runs compared",
        charts=charts,
        names=names,
        abouts=[dict(about(run)) for run in runs],
        verdicts=[(overall(run.judgements), headline(run.judgements)) for run in runs],
        differing=differing([dict(settings(run)) for run in runs]),
        measures=[(label, [value(run) for run in runs]) for label, value in MEASURES],
        curves=[(f"curve-{name}", CURVE_NAMES[name][0].upper() + CURVE_NAMES[name][1:]) for name in UNITS],
        indices=list(members),
        contest=contest(runs, names, list(members)),
        **context,
    )


def distinct_names(names: list[str]) -> list[str]:
    """Names that tell runs apart: folders in different places may have the same name.

    >>> distinct_names(["run", "other", "run"])
    ['run (1)', 'other', 'run (2)']
    """
    numbered = ((name, 1 + names[:i].count(name)) for i, name in enumerate(names))
    return [f"{name} ({number})" if names.count(name) > 1 else name for name, number in numbered]


def differing(settings: list[dict[str, str]]) -> list[tuple[str, list[str]]]:
    """Settings that differ between the runs, with the value in each."""
    names = dict.fromkeys(name for one in settings for name in one)
    lines = [(name, [one.get(name, "–") for one in settings]) for name in names]
    return [(name, values) for name, values in lines if len(set(values)) > 1]


MEASURES = [
    ("NMI with the labels (not used in training)", lambda r: score_in_words(r.label_scores.get("nmi"))),
    ("accuracy with the labels (not used in training)", lambda r: score_in_words(r.label_scores.get("accuracy"))),
    ("objective (label-free; comparable only between equal settings)", lambda r: short(r.results.get("objective"))),
    ("source of the clusters", lambda r: CANDIDATES.get(r.measures.winner, r.measures.winner) or "–"),
    ("unexplained by neighbours and walks (0 is best, 1 is chance)", lambda r: short(r.measures.unexplained)),
    ("crowding of the clusters’ borders (0%: gaps; 100%: arbitrary cuts)", lambda r: percent(r.measures.crowding)),
    ("mean certainty of a row’s cluster", lambda r: percent(r.measures.confidence)),
    ("rows between clusters", lambda r: percent(r.measures.unsure)),
    ("rows that keep their cluster under noise", lambda r: percent(r.measures.keeps_noise)),
    ("rows that keep their cluster along walks", lambda r: percent(r.measures.keeps_walk)),
    ("empty clusters", lambda r: short(r.measures.empty) if r.measures.sizes else "–"),
    ("entropy of the cluster sizes", lambda r: percent(r.measures.entropy)),
    ("effective rank of the embedding", lambda r: short(r.measures.effective_rank)),
    ("log p tells data from noise (AUROC)", lambda r: score_in_words(r.measures.noise_auroc)),
    ("accuracy of telling samples from data (50% is best)", lambda r: percent(r.measures.sample_test)),
    ("gap in log p between samples and data, late in training", lambda r: short(r.measures.energy_gap)),
    ("training time in seconds", lambda r: short(r.results.get("seconds"))),
    ("gradient evaluations of the sampler and walks", lambda r: short(r.results.get("gradient_evaluations"))),
]


def shared_clusterings(runs: list[RunView]) -> tuple[RunView, dict[int, np.ndarray]]:
    """The first run with clusters, and the clusters of its rows in every run, by the run's index.

    Runs whose rows may differ are left out.
    """
    first = next((run for run in runs if run.clusters is not None), runs[0])
    return first, {i: run.clusters for i, run in enumerate(runs) if run.clusters is not None and same_rows(run, first)}


def same_rows(run: RunView, other: RunView) -> bool:
    """Whether two runs with clusters show the same rows, in the same order.

    With --data, all runs read the same table, each only its own columns, so samples of the same size hold the same
    rows. Samples kept with the runs must have equal values and column names: tables of the same name may differ.
    """
    ours, theirs = run.sample, other.sample
    if ours is None or theirs is None or run.is_given != other.is_given:
        return False
    if run.is_given:
        return (ours.name, ours.total, len(ours.rows)) == (theirs.name, theirs.total, len(theirs.rows))
    return ours.feature_names == theirs.feature_names and np.array_equal(ours.rows, theirs.rows)


def _maps(shared: RunView, members: dict[int, np.ndarray]) -> dict[int, Chart]:
    """The same rows in the same places, coloured by each run's clusters."""
    assert shared.answers is not None
    points = shared.answers.on_map
    shown = spread_evenly(len(points), SMALL)
    reference = next(iter(members.values()))
    hidden = axis(showticklabels=False, zeroline=False)
    look: dict[str, Any] = {"height": 300, "xaxis": hidden, "yaxis": hidden, "showlegend": False}
    views = {i: View("clusters", matched(reference, cluster)) for i, cluster in members.items()}
    return {i: cloud(points, [view], shown=shown, **look) for i, view in views.items()}


def _overlaid(runs: list[RunView], names: list[str], measure: str) -> Chart | None:
    """One measure, with a line for each run."""
    traces: list[dict[str, Any]] = []
    for i, (run, name) in enumerate(zip(runs, names, strict=True)):
        traces += curves(History(run.history, []), [measure], prefix=literal(name), first_colour=i)
    return chart(traces, height=340, xaxis=axis("iteration"), yaxis=axis(UNITS[measure])) if traces else None


SAME_CLUSTERS = 0.95  # NMI above which two clusterings are taken to be the same


class Contest(NamedTuple):
    """The index of the best run, or None, and the reason in a sentence."""

    winner: int | None
    why: str


def contest(runs: Sequence[RunView], names: Sequence[str], same_rows: Sequence[int]) -> Contest:
    """The run whose clusters are best; ``same_rows`` are the runs that show the same rows in the same order."""
    entered = [i for i, run in enumerate(runs) if run.clusters is not None]
    if len(entered) < 2:
        return Contest(None, "No winner: fewer than two of the runs have clusters and rows to look at.")
    if set(same_rows) != set(entered):
        why = "No winner: these runs show different rows or columns, so their numbers cannot be compared."
        return Contest(None, f"{why} Use --data DATA to show all of them the same rows.")
    if len(numbers := sorted({runs[i].measures.n_clusters for i in entered})) > 1:
        asked = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
        return Contest(None, f"No winner: with {asked} clusters, these runs answer different questions.")
    clusters = [run.clusters for i in entered if (run := runs[i]).clusters is not None]
    if all(nmi(clusters[0], other) >= SAME_CLUSTERS for other in clusters[1:]):
        return Contest(None, "No winner is needed: these runs found the same clusters, which is a good sign. Use any.")
    ranked = sorted(entered, key=lambda i: _rank(runs[i]))
    first, second = (runs[i] for i in ranked[:2])
    (grade, crowding), (next_grade, next_crowding) = _rank(first), _rank(second)
    if grade < next_grade:
        why = next(one.why for one in first.judgements if one.ability == "clusters")
        return Contest(ranked[0], f"{names[ranked[0]]} is best: its clusters are {GRADES[grade]}. {why}")
    if next_crowding - crowding > LIMITS["behind"].good:
        numbers = f"crowding of its borders {percent(crowding)}, next run's {percent(next_crowding)}; 0% is best"
        return Contest(ranked[0], f"{names[ranked[0]]} is best: clearer gaps set its clusters apart ({numbers}).")
    why = f"No clear winner: {names[ranked[0]]} and {names[ranked[1]]} found different clusters that are set apart"
    between = f"crowding of their borders {percent(crowding)} and {percent(next_crowding)}"
    return Contest(None, f"{why} about equally well ({between}). Look at both.")


def _rank(run: RunView) -> tuple[int, float]:
    """The grade of its clusters, then how crowded their borders are; lower is better."""
    level = next(one.level for one in run.judgements if one.ability == "clusters")
    crowding = run.measures.crowding
    return GRADES.index(level), math.inf if crowding is None else crowding
