"""GEDI as a scikit-learn estimator."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import numbers
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state  # pyright: ignore[reportUnknownVariableType]
from sklearn.utils.validation import (
    check_is_fitted,  # pyright: ignore[reportUnknownVariableType]
    validate_data,  # pyright: ignore[reportUnknownVariableType]
)

from gedi.data.cell_values import pandas
from gedi.data.checks import check_names, check_rows
from gedi.data.mixed import as_rows, encoded, is_frame, needs_recipe, read_frame
from gedi.data.scaling import Scaler
from gedi.data.table_rows import categories
from gedi.errors import ConfigError, DataError
from gedi.progress import progress_line
from gedi.settings import AUTO
from gedi.training.methods import METHODS
from gedi.training.presets import PRESETS, configure

# Modules that need torch are imported where they are used: importing torch takes seconds.
if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gedi.logic import Constraint
    from gedi.report.data_sample import DataSample
    from gedi.training.config import TrainingConfig
    from gedi.training.model import TrainedModel

# Parameters saved in a run, and their types.
KEPT = {"preset": str, "method": str, "n_init": int, "outliers": float, "training": dict, "random_state": int}


class GEDI(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, BaseEstimator):
    """Cluster, embed, score and generate rows with one model trained without labels.

    Rows are arrays of numbers or pandas data frames. In a data frame, columns may have gaps, words, dates, and numbers
    with units; ``model_.table`` says how each column was read. There is no ``partial_fit``: the scaling, the graph of
    neighbours and the competition between cluster heads use all rows, so new rows mean a new fit.

    Parameters
    ----------
    n_clusters : int, "auto" or None
        How many clusters to find. "auto" (the default) or None: found from the rows before training, which takes up
        to a minute (docs/settings.md). With a constraint, give a number.
    preset : str or None
        Named settings: ``gedi.training.presets.PRESETS``. None: chosen from the data's shape.
    method : str
        What to train: ``gedi.training.methods.METHODS``. The command ``gedi methods`` explains them.
    constraint : Constraint, path, text or None
        A rule that the clusters of rows in a group must satisfy (docs/logic.md). Every variable has ``n_clusters``
        values; the rows of a group are consecutive, unless ``fit`` is given ``groups``.
    n_init : int or None
        How many cluster heads train side by side from random weights. The best one, chosen without labels, competes
        with quick clusterings of the rows, and training continues with the winner. None: as in the preset.
    outliers : float
        The share of the training rows, those with the lowest density, to leave outside all clusters. They get the
        label -1, and so do new rows with a density as low.
    training : mapping or None
        Settings to change, nested or by dotted path: ``{"dam.steps": 5}`` (docs/settings.md).
    random_state : int, RandomState or None
        The same int gives the same results.
    verbose : int
        1 reports progress on standard error, in words.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        Cluster of every training row; not kept by ``save``.
    n_iter_ : int
        Iterations of both steps.
    objective_ : float or None
        Smoothed objective of the chosen cluster head; lower is better. It uses no labels.
    model_ : TrainedModel
        The trained model: its settings (``config``), history, results and network.
    n_clusters_ : int
        How many clusters there are.
    n_features_in_ : int
        Columns of the training rows; for images, all their pixels.
    feature_names_in_ : ndarray of str
        Names of the columns, if the rows came as a data frame.

    Examples
    --------
    >>> from gedi import GEDI
    >>> from sklearn.datasets import make_blobs
    >>> x, _ = make_blobs(200, centers=3, random_state=0)
    >>> GEDI(n_clusters=3, preset="smoke", random_state=0).fit(x).predict(x[:2]).shape
    (2,)
    """

    labels_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray
    model_: TrainedModel
    _sample: DataSample | None = None  # some of the training rows, for `report` and `plot`

    def __init__(
        self,
        n_clusters: int | str | None = AUTO,
        *,
        preset: str | None = None,
        method: str = "gedi",
        constraint: Constraint | str | Path | None = None,
        n_init: int | None = None,
        outliers: float = 0.0,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.method = method
        self.constraint = constraint
        self.n_init = n_init
        self.outliers = outliers
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Train on rows [n, d], a data frame, or images [n, H, W] or [n, H, W, C]; ``y`` is ignored.

        ``groups`` [g, k]: for each group, the indices of the rows that the constraint's k variables stand for.
        """
        from gedi.training.build import prepare
        from gedi.training.fit import fit_prepared
        from gedi.training.journal import Hooks
        from gedi.training.number import find_number

        given, image_shape = as_rows(X)
        if is_frame(given):
            check_names(map(str, given.columns), "X")
        validate_data(self, given, skip_check_array=True)
        given, table = read_frame(given, "X") if is_frame(given) else (given, None)
        is_auto = self.n_clusters is None or (isinstance(self.n_clusters, str) and self.n_clusters == AUTO)
        asked = cast("Any", self.n_clusters)
        # One cluster is a density without clusters; scikit-learn's checks expect it to work.
        rows = check_rows(given, n_clusters=1 if is_auto else asked, fewest_clusters=1, images=image_shape is not None)
        words = categories(rows, table, images=image_shape is not None)
        config = self.settings(rows.shape[1], image_shape, has_words=bool(words))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        known: dict[str, Any] = {"words": words, "table": table}
        known["scaler"] = Scaler().fit(rows, mode=config.scaling, together=words)
        with progress_line() if self.verbose else nullcontext() as report:
            number = find_number(rows, config, seed, report=report, **known) if is_auto else None
            n_clusters: int = asked if number is None else number.chosen
            if number is not None and report is not None:
                report.say(number.in_words())
            ready = prepare(rows, config, n_clusters, image_shape=image_shape, groups=groups, **known)
            self.model_ = fit_prepared(ready, seed=seed, hooks=Hooks(progress=report))
        if number is not None:
            self.model_.results["number"] = number.plain()
        if self.outliers:
            self.model_.set_outliers(rows, float(self.outliers))
        self.model_.results["asked"] = self._asked()
        self._set_learned(rows)
        return self

    def settings(
        self, n_features: int, image_shape: tuple[int, ...] | None = None, *, has_words: bool = False
    ) -> TrainingConfig:
        """The settings ``fit`` would train with on data of this shape; ``has_words``: some features are categories."""
        from gedi.objectives.symbolic import constraint_change
        from gedi.training.config import check_outliers

        if self.n_init is not None and (not isinstance(self.n_init, numbers.Integral) or self.n_init < 1):
            raise ConfigError(f"n_init must be a positive whole number, got {self.n_init!r}.")
        constrained = {} if self.constraint is None else constraint_change(self.constraint)
        changes = [constrained, self.training or {}, {} if self.n_init is None else {"heads.random": int(self.n_init)}]
        shape: dict[str, Any] = {"n_features": n_features, "image_shape": image_shape, "has_words": has_words}
        config = configure(self.preset, self.method, *changes, **shape)
        check_outliers(self.outliers, config)
        return config

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of every row; -1 for outliers, if ``outliers`` asks for them."""
        return self._model().assign(self._rows(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y|x), [n, n_clusters]."""
        return self._model().predict_proba(self._rows(X))

    def transform(self, X: Any) -> np.ndarray:
        """Embedding, [n, h]: enc(x), or with prototypes (``net.head`` projector) a point of the unit sphere."""
        return self._model().transform(self._rows(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Unnormalised log density; higher is more likely. Untrained in methods without a density.

        To tell foreign rows from your own, use ``typicality`` for images, and ``score_samples`` or
        ``gedi.evaluation.outlier_scores`` for tables. ``ood_score``, the paper's criterion, is only for comparison.
        """
        return self._model().score_samples(self._rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of ``score_samples``, as in scikit-learn's density estimators; ``y`` is ignored."""
        return float(self.score_samples(X).mean())

    def typicality(self, X: Any) -> np.ndarray:
        """How near the terms of log p (the energy and the mixture under it) are to those of the training rows.

        Higher is more typical; 0 is the most. Each term counts by its distance from its median over the training rows,
        in standard deviations. It is the score for foreign images: these may have a higher log p than your own.
        Raises a RunError for methods without a density and for runs saved before gedi 0.2.0.
        """
        return self._model().typicality(self._rows(X))

    def ood_score(self, X: Any) -> np.ndarray:
        """-||d log p / dx||, the paper's criterion; higher is more in-distribution. Untrained without a density."""
        return self._model().ood_score(self._rows(X))

    def sample(self, n_samples: int = 1, *, random_state: Any = 0) -> Any:
        """New rows [n_samples, d] drawn from the model's density; an image is a row of all its pixels.

        The same ``random_state`` gives the same rows, None other rows every time. After a fit on a data frame that is
        not all plain numbers, a data frame with the same columns and units.
        Methods without a density ("swav", "barlow", ...) never train it: their samples say nothing about the data.
        """
        model = self._model()
        is_seed = isinstance(random_state, numbers.Integral)
        seed = random_state if is_seed else check_random_state(random_state).randint(2**31 - 1)
        rows = model.sample(n_samples, seed=int(seed))
        if model.table is None or model.table.is_plain:
            return rows
        return pandas().DataFrame(model.table.decode(rows))

    def report(self, path: str | Path | None = None, data: Any = None) -> Path:
        """Write the report, one HTML page, and return its path.

        Without ``path``, the page is a temporary file, and opens in a browser if there is a display. ``data`` are rows
        to show instead of the training rows.
        """
        from gedi.report.show import write_model_report

        return write_model_report(self._model(), self._rows_to_show(data), path)

    def plot(self, X: Any = None, ax: Axes | None = None) -> Axes:
        """Draw rows by cluster (by default, the training rows) and return matplotlib's axes.

        Two columns are drawn as they are, over the contours of the density; wider rows, on a map of the embedding.
        """
        from gedi.report.show import draw

        return draw(self._model(), self._rows_to_show(X), ax)

    if not TYPE_CHECKING:  # otherwise type checkers would believe that every attribute exists

        def __getattr__(self, name: str) -> Any:
            if name == "labels_" and "model_" in vars(self):
                raise AttributeError("This model was loaded, and save does not keep labels_: use predict(X) instead.")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _rows_to_show(self, X: Any) -> DataSample | None:
        return self._sample if X is None else _sample_of(self._model(), self._rows(X), "given rows")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram and, once fitted, facts about the model."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # pyright: ignore[reportUnknownMemberType]
        if "text/html" in shown and hasattr(self, "model_"):
            from gedi.report.show import facts

            shown["text/html"] += facts(self.model_, getattr(self, "labels_", None))
        return shown

    def _repr_html_inner(self) -> str:
        return self._repr_mimebundle_()["text/html"]

    def save(self, folder: str | Path) -> None:
        """Write a RUN folder; an existing one is never overwritten."""
        from gedi import runs

        model = self._model()
        with runs.claimed(folder) as made:
            runs.save(model, made)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a RUN folder made by ``save`` or by ``gedi fit``."""
        from gedi import runs
        from gedi.report.data_sample import read_sample

        estimator = cls._around(runs.load(folder))
        estimator._sample = read_sample(Path(folder), estimator.model_.n_features)
        return estimator

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        token: str | None = None,
        commit_message: str | None = None,
    ) -> str:
        """Upload the model, with a card made from its results, to the Hugging Face hub; returns the commit's URL.

        Needs ``pip install 'gedi-ssl[hub]'``. ``repo_id`` is "user/model", and is created if it does not exist. Without
        ``token``, the one from ``hf auth login`` is used.
        """
        from gedi import hub

        return hub.push(self._model(), repo_id, private=private, token=token, message=commit_message)

    @classmethod
    def from_pretrained(
        cls, repo_id_or_folder: str | Path, *, revision: str | None = None, token: str | None = None
    ) -> Self:
        """Read a model from a RUN folder, or from a repository of the Hugging Face hub.

        The hub needs ``pip install 'gedi-ssl[hub]'``. Neither is trusted: only safetensors, JSON and YAML are read, as
        plain data of the expected shapes.
        """
        from gedi import hub

        return cls._around(hub.pull(repo_id_or_folder, revision=revision, token=token))

    @classmethod
    def _around(cls, model: TrainedModel) -> Self:
        estimator = cls(n_clusters=model.n_clusters, **_given(model))
        estimator.model_ = model
        names = model.columns if model.table is None else [column.name for column in model.table.columns]
        estimator.n_features_in_ = model.n_features if names is None else len(names)
        if names is not None:  # scikit-learn then refuses a data frame with its columns in another order
            estimator.feature_names_in_ = np.array(names, dtype=object)
        estimator._set_learned(None)
        return estimator

    def _asked(self) -> dict[str, Any]:
        """The parameters, kept with the run so that a loaded model can be cloned and trained again."""
        asked = {
            "preset": self.preset,
            "method": self.method,
            "constraint": self.constraint is not None,
            "n_init": None if self.n_init is None else int(self.n_init),
            "outliers": float(self.outliers),
            "training": None if self.training is None else dict(self.training),
        }
        state: Any = self.random_state
        return asked | ({"random_state": state} if state is None or isinstance(state, int) else {})

    def _set_learned(self, rows: np.ndarray | None) -> None:
        self.n_clusters_ = self.model_.n_clusters
        self.n_iter_ = self.model_.iterations
        self._n_features_out = self.model_.n_embedding
        self.objective_ = self.model_.results.get("objective")
        self._sample = None
        if rows is not None:
            self.labels_ = self.model_.assign(rows)
            self._sample = _sample_of(self.model_, rows, "training rows")

    def _model(self) -> TrainedModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _rows(self, X: Any) -> np.ndarray:
        (given, shape), known = as_rows(X), self.model_.image_shape
        if shape and known and shape != tuple(known):
            raise DataError(f"Expected images of shape {tuple(known)}, as in training, got {shape}.")
        table = self.model_.table
        if table is not None and needs_recipe(given, table):
            return check_rows(encoded(given, table), n_clusters=None, allow_single_row=True)
        rows = check_rows(given, n_clusters=None, allow_single_row=True, images=shape is not None)
        validate_data(self, given, reset=False, skip_check_array=True)
        return rows


# `help(GEDI)` lists the names themselves.
GEDI.__doc__ = (
    (GEDI.__doc__ or "")
    .replace("``gedi.training.presets.PRESETS``", ", ".join(map(repr, PRESETS)))
    .replace("``gedi.training.methods.METHODS``", ", ".join(map(repr, METHODS)))
)


def _given(model: TrainedModel) -> dict[str, Any]:
    """The parameters that a run was fitted with, as far as it kept them; its results are not trusted."""
    from gedi.files.reading import mapping

    given: dict[str, Any] = {"random_state": model.seed}
    asked = mapping(model.results, "asked")
    given |= {name: asked[name] for name, kind in KEPT.items() if type(asked.get(name)) is kind}
    if asked.get("random_state", model.seed) is None:
        given["random_state"] = None
    rule = getattr(model.config.objective.get("symbolic"), "rule", None)
    if asked.get("constraint") is True and rule is not None:
        given["constraint"] = rule
    return given


def _sample_of(model: TrainedModel, rows: np.ndarray, name: str) -> DataSample:
    from gedi.data import Dataset
    from gedi.report.data_sample import sample_of

    return sample_of(Dataset(name, rows, None, model.columns))
