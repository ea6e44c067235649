"""What enc(x) is good for: k-means, a linear classifier and neighbours on it. Labels come in here, after training."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from gedi.data import load
from gedi.evaluation import knn_accuracy, linear_probe, nmi
from gedi.experiments.cells import Cell, CellData, Measured
from gedi.training.model import TrainedModel
from gedi.training.start import tightest_kmeans


def of_representation(cell: Cell, model: TrainedModel | None, data: CellData) -> Measured:
    """How well a linear classifier, neighbours and k-means do on enc(x)."""
    train, test = represented(model, data)
    found = kmeans_labels(cell, train, test)
    return {"nmi_of_representation": nmi(data.y_test, found)} | probes(cell, train, test, data.y_test)


def represented(model: TrainedModel | None, data: CellData) -> tuple[np.ndarray, np.ndarray]:
    """enc(x) of training and test rows; without a model, the rows themselves."""
    train, test = (x.reshape(len(x), -1) for x in (data.x_train, data.x_test))
    return (train, test) if model is None else (model.represent(train), model.represent(test))


def kmeans_labels(cell: Cell, train: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Clusters of the test rows: the nearest of the centres that k-means finds among the training rows."""
    _, centres = tightest_kmeans(train, cell.n_clusters, cell.seed, n_init=10)
    return pairwise_distances_argmin(test, centres)


def probes(cell: Cell, train: np.ndarray, test: np.ndarray, y_test: np.ndarray) -> Measured:
    """Accuracy of a linear classifier and of 20 neighbours that know the training rows' labels."""
    y_train = load(cell.dataset, n=cell.rows, seed=cell.seed).y
    assert y_train is not None
    if cell.dataset == "digits":  # one split only: probes learn from every other image, and are asked about the rest
        train, test, y_train, y_test = train[::2], test[1::2], y_train[::2], y_test[1::2]
    # One unit for all features: the probe's learning rate is the paper's, for representations of about this size.
    unit = float(np.std(train)) or 1.0
    probe = linear_probe(train / unit, y_train, test / unit, y_test)
    return {"probe": probe, "knn": knn_accuracy(train, y_train, test, y_test)}
