"""report.json: a run's verdict and the numbers it rests on, for programs."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from gedi.files.writing import finite, replace_text
from gedi.report.gaps import MeasuredClusters
from gedi.report.measures import Measures
from gedi.report.run_view import RunView
from gedi.report.verdict import headline, overall

ABILITIES = ("clusters", "density", "samples", "training")  # in every file
NOT_NUMBERS = ("own", "rivals", "warnings", "candidates")


def summary(run: RunView) -> dict[str, Any]:
    """What report.json holds. Its verdict always has the same form; grades are good, fair, poor or not graded."""
    found = {judgement.ability: judgement for judgement in run.judgements}
    verdict = {name: {"grade": j.level, "why": j.why, "try": j.advice} for name, j in found.items()}
    return {
        "verdict": {name: verdict[name] for name in ABILITIES} | verdict,
        "overall": overall(run.judgements),
        "headline": headline(run.judgements),
        "findings": {
            name: [
                {"grade": f.level, "text": f.text, "try": f.command, "measure": f.measure, "value": f.value}
                for f in j.worst_first
            ]
            for name, j in found.items()
        },
        "run": run.name,
        "rows": None if run.sample is None else {"measured": len(run.sample.rows), "total": run.sample.total},
        "measures": plain_measures(run.measures),
        "gaps": None if run.measures.own is None else gaps(run.measures.own),
        "rivals": {name: gaps(rival) for name, rival in run.measures.rivals.items()},
        "candidates": run.measures.candidates,
    }


def plain_measures(m: Measures) -> dict[str, Any]:
    """The plain measures by name; null where there is none."""
    return {item.name: getattr(m, item.name) for item in fields(m) if item.name not in NOT_NUMBERS}


def gaps(clustering: MeasuredClusters) -> dict[str, Any]:
    """How well a clustering is set apart."""
    found = clustering.gaps
    return {
        "crowding": clustering.crowding,
        "hidden_share": found.hidden_share,
        "clusters_without_gap": found.crowded,
        "clusters_in_parts": found.hidden,
        "silhouette": clustering.silhouette,
        "agreement": clustering.agreement,
    }


def write_summary(run: RunView, path: Path) -> Path:
    """Write report.json, whole or not at all."""
    replace_text(path, json.dumps(finite(summary(run)), indent=1, ensure_ascii=False) + "\n")
    return path
