"""What a run recorded about itself, for the pages: facts, settings, cost, provenance. The files are not trusted."""

from __future__ import annotations

from typing import Any

from gedi.data.checks import few
from gedi.files.reading import mapping, nested, shown
from gedi.progress import duration
from gedi.report.history import STAGE_NAMES
from gedi.report.look import finite_number, percent, short
from gedi.report.run_view import RunView
from gedi.training.config import get, to_dict

MOST_COLUMNS = 100  # in the table of how columns were read
NAMED = 20  # unreadable files listed by name
POINTS_OF_CURVE = 200  # points in the curve of scores
COST_PARTS = {
    "sgld": "sampling (SGLD)",
    "dam": "walks (DAM)",
    "loss": "losses and their gradients",
    "optimiser": "optimiser",
    "data": "batches and views",
}


def about(run: RunView) -> list[tuple[str, str]]:
    """Key facts about the run, for the top of the page."""
    results, model = run.results, run.model
    own = shown(str(results.get("data") or (run.sample.name if run.sample else "unknown")))
    facts = [("data", own)]
    if run.is_given and run.sample is not None:
        facts = [("data", shown(run.sample.name)), ("trained on", own)]
    if run.sample is not None and model is not None:
        shape = model.image_shape
        width = model.n_features if model.table is None else len(model.table.used)
        each = f"{width:,}" if shape is None else " × ".join(map(str, shape[:2] if shape[2] == 1 else shape))
        facts.append(("rows" if shape is None else "images", f"{run.sample.total:,} × {each}"))
    if model is not None:
        facts.append(("clusters", str(model.n_clusters)))
        typed = nested(results, "asked", "random_state")  # GEDI makes the seed from it
        facts.append(("random_state", str(typed)) if type(typed) is int else ("seed", str(model.seed)))
    facts.append(("method", shown(str(results.get("method", "gedi")))))
    if (seconds := finite_number(results.get("seconds"))) is not None:
        facts.append(("trained in", duration(seconds)))
    return facts


def left_out(results: dict[str, Any]) -> str | None:
    """How many image files could not be read, and the names of the first few; None if all could."""
    names = results.get("unreadable")
    if not isinstance(names, list) or not names:
        return None
    were = "1 image file was" if len(names) == 1 else f"{len(names):,} image files were"
    return f"{were} left out as unreadable: {few((shown(str(name)) for name in names), NAMED)}."


def outside(run: RunView) -> str | None:
    """What `gedi fit --outliers` asked for; None if all rows are in a cluster."""
    if run.model is None or run.model.least_log_density is None:
        return None
    share = percent(run.model.results["outliers"].get("share"))
    return (
        f"Because of --outliers, gedi predict puts the rows with the lowest log density ({share} of the training data) "
        "in no cluster, and writes -1. This page shows them in the cluster that fits best."
    )


def columns_read(run: RunView) -> list[tuple[str, str, str]]:
    """How the columns of the training table were read: name, as what, details; empty if all are plain numbers."""
    table = run.model.table if run.model is not None else None
    if table is None or all(column.is_plain and not column.missing for column in table.columns):
        return []
    told = [(column.name, *column.in_words) for column in table.columns[:MOST_COLUMNS]]
    return [(shown(name, 60), shown(what, 60), shown(more, 200)) for name, what, more in told]


def number_of_clusters(results: dict[str, Any]) -> dict[str, Any] | None:
    """How the number of clusters was found, as `gedi.training.number` wrote it; None if it was given.

    ``curve`` has the score of each number tried.
    """
    found = mapping(results, "number")
    chosen, curve = found.get("chosen"), found.get("curve")
    if type(chosen) is not int or not isinstance(curve, dict):
        return None
    scores = {
        int(k): score
        for k, value in list(curve.items())[:POINTS_OF_CURVE]
        if str(k).isdecimal() and len(str(k)) < 7 and (score := finite_number(value)) is not None
    }
    runner_up = found.get("runner_up")
    return {
        "chosen": chosen,
        "runner_up": runner_up if type(runner_up) is int else None,
        "sure": found.get("sure"),
        "agreement": finite_number(found.get("agreement")),
        "curve": scores,
    }


def stages(run: RunView) -> list[dict[str, Any]]:
    """How long each stage took."""
    lines = []
    for name, words in STAGE_NAMES.items():
        taken, limit = (finite_number(nested(run.results, "stages", name, key)) for key in ("iterations", "limit"))
        if taken and limit:
            settles = bool(get(run.config, f"{name}.settle"))
            lines.append({"name": words, "iterations": int(taken), "limit": int(limit), "settles": settles})
    return lines


def chosen_at(run: RunView) -> float | None:
    """The iteration of step 2 at which the best candidate was chosen; None if there was no choice."""
    choose = get(run.config, "heads.choose")
    taken = [stage["iterations"] for stage in stages(run) if stage["name"] == STAGE_NAMES["step2"]]
    return choose * taken[0] if run.measures.candidates and choose is not None and taken else None


def cost(results: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Where the time went: part, seconds, share."""
    parts = mapping(results, "cost").items()
    parts = {name: seconds for name, value in parts if (seconds := finite_number(value)) is not None}
    total = sum(parts.values())
    ordered = sorted(parts.items(), key=lambda item: -item[1])[:12]
    return [(COST_PARTS.get(name, shown(name, 30)), value, value / total if total else 0.0) for name, value in ordered]


def settings(run: RunView) -> list[tuple[str, str]]:
    """The run's settings by dotted path; empty if they are not known."""
    return [] if run.config is None else flat_settings(to_dict(run.config))


def flat_settings(settings: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Settings by dotted path."""
    if not isinstance(settings, dict):
        return [(prefix, shown(_plain(settings), 100))]
    return [
        pair
        for key, value in settings.items()
        for pair in flat_settings(value, f"{prefix}.{key}" if prefix else str(key))
    ]


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "unset" if value is None else str(value)


def provenance_facts(results: dict[str, Any]) -> list[tuple[str, str]]:
    """Provenance and hardware, as recorded by the run."""
    facts = [(k, shown(v, 300)) for k, v in flat_settings(mapping(results, "provenance"))]
    facts += flat_settings(mapping(results, "hardware"), "hardware")
    for name in ("gradient_evaluations", "objective"):
        if (value := finite_number(results.get(name))) is not None:
            facts.append((name.replace("_", " "), short(value, 4)))
    return facts[:60]
