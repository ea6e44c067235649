"""Agreement of a clustering with known labels. The numbering of the clusters does not matter."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gedi.errors import DataError


def nmi(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Normalised mutual information over the whole set: 1 for the same partition.

    It is not corrected for chance: unrelated labels score above 0, especially with many clusters and few points.
    """
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(*_labels(y_true, y_pred)))


def accuracy(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Share of correct points under the best one-to-one matching of clusters to classes (Hungarian method).

    Clusters or classes left without a partner count as wrong.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics.cluster import contingency_matrix

    table = contingency_matrix(*_labels(y_true, y_pred))
    rows, columns = linear_sum_assignment(table, maximize=True)
    return float(table[rows, columns].sum() / table.sum())


def ari(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Rand index corrected for chance: about 0 for unrelated labels, 1 for the same partition."""
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(*_labels(y_true, y_pred)))


def ami(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Mutual information corrected for chance: about 0 for unrelated labels, 1 for the same partition."""
    from sklearn.metrics import adjusted_mutual_info_score

    return float(adjusted_mutual_info_score(*_labels(y_true, y_pred)))


def nmi_batch64(y_true: ArrayLike, y_pred: ArrayLike, *, batch_size: int = 64, seed: int = 0) -> float:
    """Mean NMI of batches of 64: only for comparison with the paper, which does not say how NMI was averaged.

    Never tune to it. In a batch hardly larger than the number of classes, even random labels agree: about 0.9
    for 100 classes, where `nmi` is near 0.1. The rows are shuffled first, so that sorted data does not fill a batch
    with one class. A last, shorter batch is left out.
    """
    true, pred = _labels(y_true, y_pred)
    order = np.random.default_rng(seed).permutation(len(true))
    batches = [order[i : i + batch_size] for i in range(0, len(order) - batch_size + 1, batch_size)] or [order]
    return float(np.mean([nmi(true[b], pred[b]) for b in batches]))


def clustering_scores(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """All of these scores by name."""
    return {
        "nmi": nmi(y_true, y_pred),
        "accuracy": accuracy(y_true, y_pred),
        "ari": ari(y_true, y_pred),
        "ami": ami(y_true, y_pred),
        "nmi_batch64": nmi_batch64(y_true, y_pred),
    }


def label_scores(model: Any, rows: np.ndarray, labels: np.ndarray | None) -> dict[str, float]:
    """How well a model's clusters of ``rows`` agree with their labels; empty without labels."""
    return {} if labels is None else clustering_scores(labels, model.predict(rows))


def _labels(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or true.shape != pred.shape or len(true) == 0:
        raise DataError(f"Expected one label and one cluster per point, got shapes {true.shape} and {pred.shape}.")
    return true, pred
