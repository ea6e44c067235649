"""GEDI, the scikit-learn face."""

# pyright: reportMissingTypeStubs=false
from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state  # pyright: ignore[reportUnknownVariableType]
from sklearn.utils.validation import (
    check_is_fitted,  # pyright: ignore[reportUnknownVariableType]
    validate_data,  # pyright: ignore[reportUnknownVariableType]
)

from gedi import hub, runs
from gedi.data import check_rows
from gedi.data.checks import image_shape_of
from gedi.errors import DataError
from gedi.logic import Constraint
from gedi.objectives.symbolic import Symbolic, constraint_change
from gedi.training.config import TrainingConfig
from gedi.training.fit import fit_rows
from gedi.training.journal import Hooks, Progress
from gedi.training.model import TrainedModel
from gedi.training.presets import configure

ASKED = {"preset": str, "method": str, "n_init": int, "training": dict, "random_state": int}  # as a run keeps them


class GEDI(ClusterMixin, TransformerMixin, BaseEstimator):
    """Cluster, embed, score and generate rows with one model trained without labels.

    Parameters
    ----------
    n_clusters : int
        How many clusters to find.
    preset : str or None
        Named settings ("toy", "rows", "digits", "images", "smoke", "paper", "paper-svhn", "paper-cifar10",
        "paper-cifar100", "paper-mnist"); None chooses by the data's shape.
    method : str
        "gedi", or another method trained by the same code: "gedi-1", "jem", "swav", "barlow", "vicreg", "w-mse",
        "simclr", "protocpc", "ebclr".
    constraint : Constraint, path, text or None
        What must hold between the clusters of rows that belong together (docs/logic.md). Every variable has
        ``n_clusters`` values; the rows of a group follow each other, unless ``fit`` is given ``groups``.
    n_init : int or None
        Starts tried on the same energy; the lowest objective is kept. None: the preset's.
    training : mapping or None
        Settings to change, nested or by dotted path: ``{"dam.steps": 5}``.
    random_state : int, RandomState or None
        An int gives identical results twice.
    verbose : int
        1 reports progress on standard error.

    Attributes
    ----------
    labels_ : cluster of every training row.
    n_iter_ : iterations of both steps.
    objective_ : smoothed label-free objective of the kept start.
    model_ : the trained model.

    Examples
    --------
    >>> from gedi import GEDI
    >>> from sklearn.datasets import make_blobs
    >>> x, _ = make_blobs(200, centers=3, random_state=0)
    >>> GEDI(n_clusters=3, preset="smoke", random_state=0).fit(x).predict(x[:2]).shape
    (2,)
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    model_: TrainedModel

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        preset: str | None = None,
        method: str = "gedi",
        constraint: Constraint | str | Path | None = None,
        n_init: int | None = None,
        training: Mapping[str, Any] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.preset = preset
        self.method = method
        self.constraint = constraint
        self.n_init = n_init
        self.training = training
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Train on rows [n, d], or images [n, H, W] or [n, H, W, C]; ``y`` is ignored.

        ``groups`` [g, k] are the places of the rows that the constraint's k variables stand for.
        """
        image_shape = _image_shape(X)
        given: Any = _flat(X) if image_shape else X
        validate_data(self, given, skip_check_array=True)
        # One cluster is a density without clusters; scikit-learn's conventions ask that it works.
        rows = check_rows(given, n_clusters=self.n_clusters, fewest_clusters=1, images=image_shape is not None)
        config = self.settings(rows.shape[1], image_shape)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        report = _report_to_stderr if self.verbose else None
        self.model_ = fit_rows(
            rows,
            n_clusters=self.n_clusters,
            config=config,
            seed=seed,
            image_shape=image_shape,
            groups=groups,
            hooks=Hooks(progress=report),
        )
        names: Any = getattr(self, "feature_names_in_", None)
        if names is not None:  # of a data frame: the command line reads files by them
            self.model_.results["columns"] = [str(name) for name in names]
        self.model_.results["asked"] = self._asked()
        self._set_learned(rows)
        return self

    def settings(self, n_features: int, image_shape: tuple[int, ...] | None = None) -> TrainingConfig:
        """The settings ``fit`` would train with on data of this shape."""
        constrained = {} if self.constraint is None else constraint_change(self.constraint)
        changes = [constrained, self.training or {}, {} if self.n_init is None else {"n_init": self.n_init}]
        return configure(self.preset, self.method, *changes, n_features=n_features, image_shape=image_shape)

    def predict(self, X: Any) -> np.ndarray:
        """Cluster of every row."""
        return self._model().predict(self._rows(X))

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(y|x), [n, n_clusters]."""
        return self._model().predict_proba(self._rows(X))

    def transform(self, X: Any) -> np.ndarray:
        """Embedding on the unit sphere, [n, h]."""
        return self._model().transform(self._rows(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Unnormalised log density, higher is more typical; methods without a density never trained it."""
        return self._model().score_samples(self._rows(X))

    def ood_score(self, X: Any) -> np.ndarray:
        """-||d log p / dx||, higher is more in-distribution; methods without a density never trained it."""
        return self._model().ood_score(self._rows(X))

    def sample(self, n_samples: int = 1, *, random_state: int = 0) -> np.ndarray:
        """New rows [n_samples, d] drawn from the model's density; of images, all pixels of one in a row.

        Methods without a density ("swav", "barlow", ...) never trained it: their samples tell nothing of the data.
        """
        return self._model().sample(n_samples, seed=random_state)

    def save(self, folder: str | Path) -> None:
        """Write a RUN folder; an existing one is not written over."""
        model = self._model()
        with runs.claimed(folder) as made:
            runs.save(model, made)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a RUN folder made by ``save`` or by ``gedi fit``."""
        return cls._around(runs.load(folder))

    def push_to_hub(
        self,
        repo_id: str,
        *,
        private: bool = False,
        token: str | None = None,
        commit_message: str | None = None,
    ) -> str:
        """Upload the model and a card made from its results to the Hugging Face hub; returns the commit's address.

        Needs ``pip install 'gedi[hub]'``. ``repo_id`` is "user/model" and is made if it is not there; without
        ``token`` the one of ``hf auth login`` is used.
        """
        return hub.push(self._model(), repo_id, private=private, token=token, message=commit_message)

    @classmethod
    def from_pretrained(
        cls, repo_id_or_folder: str | Path, *, revision: str | None = None, token: str | None = None
    ) -> Self:
        """Read a model from a RUN folder, or from a repository of the Hugging Face hub (``pip install 'gedi[hub]'``).

        Neither is trusted: only safetensors, JSON and YAML are read, as plain data of the expected shapes.
        """
        return cls._around(hub.pull(repo_id_or_folder, revision=revision, token=token))

    @classmethod
    def _around(cls, model: TrainedModel) -> Self:
        estimator = cls(n_clusters=model.n_clusters, **_given(model))
        estimator.model_ = model
        estimator.n_features_in_ = model.n_features
        if model.columns is not None:  # scikit-learn refuses a data frame whose columns stand in another order
            estimator.feature_names_in_ = np.array(model.columns, dtype=object)
        estimator._set_learned(None)
        return estimator

    def _asked(self) -> dict[str, Any]:
        """What was given, kept with the run so that a model read back can be cloned and trained again."""
        asked = {"preset": self.preset, "method": self.method, "constraint": self.constraint is not None}
        asked |= {"n_init": None if self.n_init is None else int(self.n_init)}
        asked |= {"training": None if self.training is None else dict(self.training)}
        state: Any = self.random_state
        if state is None or isinstance(state, int):
            asked["random_state"] = state
        return asked

    def _set_learned(self, rows: np.ndarray | None) -> None:
        config = self.model_.config
        attempt = config.embedding.iterations + config.step2.iterations if config.step2.iterations else 0
        self.n_iter_ = config.step1.iterations + attempt * config.n_init
        self.objective_ = self.model_.results.get("objective")
        if rows is not None:
            self.labels_ = self.model_.predict(rows)

    def _model(self) -> TrainedModel:
        check_is_fitted(self, "model_")
        return self.model_

    def _rows(self, X: Any) -> np.ndarray:
        self._model()
        shape, known = _image_shape(X), self.model_.image_shape
        if shape and known and shape != tuple(known):
            raise DataError(f"Expected images of shape {tuple(known)}, as in training, got {shape}.")
        given: Any = _flat(X) if shape else X
        rows = check_rows(given, n_clusters=None, allow_single_row=True, images=shape is not None)
        validate_data(self, given, reset=False, skip_check_array=True)
        return rows


def _given(model: TrainedModel) -> dict[str, Any]:
    """The parameters that a run was fitted with, as far as it tells; its results may come from a stranger."""
    given: dict[str, Any] = {"random_state": model.seed}
    if not isinstance(model.results.get("asked"), dict):
        return given
    asked: dict[str, Any] = model.results["asked"]
    given |= {name: asked[name] for name, kind in ASKED.items() if type(asked.get(name)) is kind}
    if asked.get("random_state", model.seed) is None:
        given["random_state"] = None
    symbolic = model.config.objective.get("symbolic")
    if asked.get("constraint") is True and isinstance(symbolic, Symbolic):
        given["constraint"] = symbolic.rule
    return given


def _image_shape(x: Any) -> tuple[int, int, int] | None:
    """(H, W, C) of an array of images; None for rows, and for what is no array."""
    return image_shape_of(getattr(x, "shape", ()), "X")


def _flat(x: Any) -> np.ndarray:
    return np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))


def _report_to_stderr(progress: Progress) -> None:
    values = "  ".join(f"{name} {value:.4g}" for name, value in progress.values.items())
    where = f"{progress.stage} {progress.iteration}/{progress.total}"
    sys.stderr.write(f"[{progress.seconds:6.1f} s] {where}  {values}\n")
