"""A RUN folder as a report sees it: the model, a sample of the data, and its records. Parts may be missing."""

from __future__ import annotations

import json
import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gedi import runs
from gedi.data import Dataset, check_rows, load
from gedi.errors import GediError, RunError
from gedi.evaluation import clustering_scores
from gedi.files.reading import mapping, shown
from gedi.files.writing import finite, replace_text
from gedi.report.data_sample import DataSample, read_sample, sample_of
from gedi.report.differences import Difference, ShownColumn, columns_of, differences, strongest
from gedi.report.gaps import MeasuredClusters
from gedi.report.look import finite_number, percent
from gedi.report.measures import UNSURE, Answers, Measures, measure
from gedi.report.rerun import Rerun, rerun_of
from gedi.report.verdict import Judgement, headline, judge, overall
from gedi.runs import Plan
from gedi.training.config import TrainingConfig
from gedi.training.model import TrainedModel

SCORES = ("nmi", "accuracy", "ari")  # with the labels
ROW_SAMPLES, IMAGE_SAMPLES = 500, 96
TYPICAL_ROWS = 3  # typical rows listed for each cluster


@dataclass(eq=False)
class RunView:
    """One run, and everything computed from it for its pages; each part is computed once."""

    folder: Path
    name: str
    model: TrainedModel | None
    results: dict[str, Any]
    history: list[dict[str, Any]]
    given: Dataset | None = None  # data to show instead of the run's own; the run's recorded scores do not apply
    foreign: Dataset | None = None  # out-of-distribution data to compare with
    plan: Plan | None = None  # None: unknown, as for a folder that `GEDI.save` made
    kept: DataSample | None = None  # of a model in memory: some rows that it was trained on

    @property
    def is_given(self) -> bool:
        return self.given is not None

    @property
    def config(self) -> TrainingConfig | None:
        """The settings the run trained with, if they are known."""
        if self.model is not None:
            return self.model.config
        return None if self.plan is None else self.plan.settings

    @cached_property
    def sample(self) -> DataSample | None:
        if self.model is None or self.kept is not None:
            return self.kept
        return _own_sample(self.folder, self.model, self.plan) if self.given is None else sample_of(self.given)

    @cached_property
    def answers(self) -> Answers | None:
        if self.model is None or self.sample is None:
            return None
        return Answers(self.model, np.asarray(self.sample.rows, dtype=np.float64))

    @cached_property
    def samples(self) -> np.ndarray | None:
        """Samples to look at; None if the run has no density to draw them from."""
        if self.model is None or not self.model.has_density:
            return None
        return self.model.sample(IMAGE_SAMPLES if self.model.image_shape else ROW_SAMPLES)

    @cached_property
    def measures(self) -> Measures:
        return measure(self.model, self.answers, self.samples, self.results, self.history)

    @cached_property
    def judgements(self) -> list[Judgement]:
        return judge(self.measures, self.rerun)

    @cached_property
    def rerun(self) -> Rerun:
        """How to fit the same data again, for commands to paste."""
        return rerun_of(self.folder, self.plan, self.config, self.model)

    @property
    def clusters(self) -> np.ndarray | None:
        """The cluster of each row; None without rows or without at least two clusters."""
        return self.answers.cluster if self.answers is not None and self.measures.has_clusters else None

    @cached_property
    def columns(self) -> list[ShownColumn]:
        """The columns as the user knows them; empty for images and without rows."""
        if self.sample is None or self.model is None or self.kind == "images":
            return []
        return columns_of(self.sample, self.model.table)

    @cached_property
    def differences(self) -> list[list[Difference]]:
        """How each cluster differs in every column; empty without columns or clusters."""
        if self.clusters is None or not self.columns:
            return []
        return differences(self.columns, self.clusters, self.measures.n_clusters)

    @cached_property
    def cluster_lines(self) -> list[dict[str, Any]]:
        """One line per cluster with rows: its size, how sure the model is, what sets it apart, its main label."""
        answers = self.answers
        if answers is None or self.clusters is None:
            return []
        lines = []
        for k in np.flatnonzero(answers.sizes).tolist():
            rows, mine = int(answers.sizes[k]), np.flatnonzero(answers.cluster == k)
            line = {"cluster": k, "rows": rows, "share": rows / len(answers.rows), "label": None}
            line["bar"] = 100 * rows / int(answers.sizes.max())
            line["apart"] = strongest(self.differences[k]) if self.differences else []
            line["typical"] = answers.typical(k, TYPICAL_ROWS).tolist()
            line["confidence"] = float(answers.confidence[mine].mean())
            line["unsure"] = float((answers.confidence[mine] < UNSURE).mean())
            if self.label_names is not None:
                ((name, often),) = Counter(self.label_names[i] for i in mine.tolist()).most_common(1)
                line["label"] = f"{name} ({percent(often / rows)})"
            lines.append(line)
        return lines

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.sample is None else self.sample.labels

    @cached_property
    def written_scores(self) -> dict[str, float]:
        """Agreement with the labels of all rows, as the run recorded it; empty if other data is shown."""
        written = {} if self.is_given else mapping(self.results, "scores")
        return {name: value for name in SCORES if (value := finite_number(written.get(name))) is not None}

    @cached_property
    def label_scores(self) -> dict[str, float]:
        """Agreement with the labels of the data shown; empty without labels or clusters."""
        if self.written_scores or self.labels is None or self.clusters is None:
            return self.written_scores
        found = clustering_scores(self.labels, self.clusters)
        return {name: found[name] for name in SCORES}

    @cached_property
    def label_names(self) -> list[str] | None:
        """The name of each row's label."""
        if self.sample is None or self.labels is None:
            return None
        return [self.sample.label(int(value)) for value in self.labels]

    @property
    def kind(self) -> str:
        """'images', 'plane' or 'rows': decides which pictures there are to show."""
        if self.model is not None and self.model.image_shape is not None:
            return "images"
        return "plane" if self.model is not None and self.model.n_features == 2 else "rows"

    @property
    def things(self) -> str:
        """What the data consists of."""
        return "images" if self.kind == "images" else "rows"


def view_of(
    folder: Path,
    model: TrainedModel,
    results: dict[str, Any],
    kept: DataSample | None = None,
    plan: Plan | None = None,
) -> RunView:
    """A finished run whose model is in memory."""
    name = shown(folder.resolve().name, 80)
    return RunView(folder, name, model, results, model.history, plan=plan, kept=kept)


def read_run(folder: Path) -> RunView:
    """A RUN folder, finished or diverged."""
    if os.path.lexists(runs.existing(folder) / runs.MODEL):
        model = runs.load(folder)
        return view_of(folder, model, model.results, plan=_plan_of(folder))
    about = shown(str(folder), 150)
    if not os.path.lexists(folder / runs.RESULTS):
        raise RunError(f"{about} has nothing to report: the run is not finished. Continue it with: gedi resume {about}")
    results = runs.read_results(folder)
    if "diverged" not in results:
        raise RunError(f"{about} has nothing to report: it has neither a model nor a record of why there is none.")
    name, history = shown(folder.resolve().name, 80), runs.read_history(folder)
    return RunView(folder, name, None, results, history, plan=_plan_of(folder))


def _plan_of(folder: Path) -> Plan | None:
    with suppress(GediError):
        return Plan.read(folder)
    return None


def _own_sample(folder: Path, model: TrainedModel, plan: Plan | None) -> DataSample | None:
    """The sample kept with the run; otherwise one drawn from its data, if that is still there and unchanged."""
    kept = read_sample(folder, model.n_features)
    if kept is not None or plan is None:
        return kept
    try:
        data = load(**plan.reading)
        flat, images = data.x.reshape(len(data.x), -1), data.image_shape is not None
        rows = check_rows(flat, n_clusters=None, allow_single_row=True, images=images)
    except GediError:
        return None
    return sample_of(data) if runs.fingerprint(rows) == plan.rows_sha256 else None


# ---- report.json: a run's verdict and the numbers it rests on, for programs ----

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
        "measures": {
            item.name: getattr(run.measures, item.name) for item in fields(run.measures) if item.name not in NOT_NUMBERS
        },
        "gaps": None if run.measures.own is None else gaps(run.measures.own),
        "rivals": {name: gaps(rival) for name, rival in run.measures.rivals.items()},
        "candidates": run.measures.candidates,
    }


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
