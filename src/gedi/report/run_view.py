"""A RUN folder as a report sees it: the model, a sample of the data, what was written down; parts may be missing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gedi import runs
from gedi.data import Dataset, check_rows, load
from gedi.errors import DataError, GediError, RunError
from gedi.evaluation import clustering_scores
from gedi.files.reading import read_json, read_json_lines, shown
from gedi.report.data_sample import DataSample, read_sample, sample_of
from gedi.report.look import number
from gedi.report.measures import Answers, Measures, ask, draw, measure
from gedi.report.verdict import Judgement, judge
from gedi.training.model import TrainedModel

SCORES = ("nmi", "accuracy", "ari")  # with the labels


@dataclass(eq=False)
class RunView:
    """One run, and what is worked out from it once and shown in several places."""

    name: str
    model: TrainedModel | None
    sample: DataSample | None
    results: dict[str, Any]
    history: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)  # as in config.yaml, under 'training'
    foreign: Dataset | None = None  # given as data that should look foreign
    is_given: bool = False  # the sample is of data given by hand: what the run wrote of its own is not about it

    @cached_property
    def answers(self) -> Answers | None:
        if self.model is None or self.sample is None:
            return None
        return ask(self.model, np.asarray(self.sample.rows, dtype=np.float64))

    @cached_property
    def samples(self) -> np.ndarray | None:
        return None if self.model is None else draw(self.model)

    @cached_property
    def measures(self) -> Measures:
        return measure(self.model, self.answers, self.samples, self.results, self.history)

    @cached_property
    def judgements(self) -> list[Judgement]:
        return judge(self.measures)

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.sample is None else self.sample.labels

    @cached_property
    def written_scores(self) -> dict[str, float]:
        """Agreement with the labels of all rows, as the run wrote it down; nothing if other data is shown."""
        written = self.results.get("scores")
        if self.is_given or not isinstance(written, dict):
            return {}
        return {name: value for name in SCORES if (value := number(written.get(name))) is not None}

    @cached_property
    def label_scores(self) -> dict[str, float]:
        """Agreement with the labels of the data shown; nothing without labels or clusters."""
        if self.written_scores or self.labels is None or self.answers is None or not self.measures.has_clusters:
            return self.written_scores
        found = clustering_scores(self.labels, self.answers.cluster)
        return {name: found[name] for name in SCORES}

    @property
    def label_names(self) -> list[str] | None:
        """Of every row: what its label stands for."""
        if self.sample is None or self.sample.labels is None:
            return None
        return [self.sample.label(int(value)) for value in self.sample.labels]

    @property
    def kind(self) -> str:
        """'images', 'plane' or 'rows': which pictures there are to show."""
        if self.model is None or self.model.image_shape is not None:
            return "images" if self.model is not None else "none"
        return "plane" if self.model.n_features == 2 else "rows"


def read_run(folder: Path, *, data: Dataset | None = None, foreign: Dataset | None = None) -> RunView:
    """A RUN folder, finished or diverged; ``data`` stands in for the sample it holds."""
    from gedi.training.config import to_dict

    name = shown(folder.resolve().name, 80)
    if os.path.lexists(folder / runs.MODEL):
        model = runs.load(folder)
        sample = sample_of(data) if data is not None else _sample(folder, model)
        for given in (data, foreign):
            if given is not None:
                _check_width(given, model)
        settings, is_given = to_dict(model.config), data is not None
        return RunView(name, model, sample, model.results, model.history, settings, foreign, is_given)
    if not os.path.lexists(folder / runs.RESULTS):
        raise RunError(
            f"{shown(str(folder), 150)} has nothing to report: it is not a finished run. Go on with: gedi resume RUN"
        )
    results = read_json(folder / runs.RESULTS)
    history = read_json_lines(folder / runs.METRICS) if os.path.lexists(folder / runs.METRICS) else []
    if not isinstance(results, dict) or "diverged" not in results:
        raise RunError(
            f"{shown(str(folder), 150)} has nothing to report: it holds neither a model nor why there is none."
        )
    plan = runs.read_plan(folder) if os.path.lexists(folder / runs.PLAN) else {}
    return RunView(name, None, None, results, history, plan.get("training", {}))


def _sample(folder: Path, model: TrainedModel) -> DataSample | None:
    """The sample kept with the run; for a run without one, its data, if that is still where the plan says."""
    kept = read_sample(folder, model.n_features)
    if kept is not None or not os.path.lexists(folder / runs.PLAN):
        return kept
    try:
        plan = runs.read_plan(folder)
        data = load(plan["data"], seed=plan["seed"], label_column=plan.get("label_column"), drop=plan["drop"])
        rows = _checked_rows(data)
    except GediError:
        return None
    return sample_of(data) if runs.fingerprint(rows) == plan["rows_sha256"] else None


def _check_width(data: Dataset, model: TrainedModel) -> None:
    width = int(np.prod(data.x.shape[1:]))
    if width != model.n_features:
        raise DataError(f"{data.name} has {width} features, but the run was trained on {model.n_features}.")
    _checked_rows(data)


def _checked_rows(data: Dataset) -> np.ndarray:
    flat = data.x.reshape(len(data.x), -1)
    return check_rows(flat, n_clusters=None, allow_single_row=True, images=data.image_shape is not None)
