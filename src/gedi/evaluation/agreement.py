"""Agreement with known labels: of a clustering, whatever its numbering, and of what can be read off frozen features."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional as F

from gedi.errors import DataError

MOST_ITERATIONS = 5_000  # of logistic regression: far more than it needs


# ---- clusters ----


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
    true, pred = (np.unique(labels, return_inverse=True)[1] for labels in _labels(y_true, y_pred))
    order = np.random.default_rng(seed).permutation(len(true))
    size = min(batch_size, len(order))
    order = order[: len(order) // size * size]
    both = true * (pred.max() + 1) + pred
    # All batches at once: hundreds of calls of scikit-learn would take longer than many a fit.
    of_true, of_pred, joint = (_entropies(labels[order].reshape(-1, size)) for labels in (true, pred, both))
    shared, mean = np.maximum(of_true + of_pred - joint, 0), (of_true + of_pred) / 2
    return float(np.where(mean > 0, shared / np.where(mean > 0, mean, 1), 1).mean())  # 1: one class and one cluster


def _entropies(batches: np.ndarray) -> np.ndarray:
    """The entropy of the labels in each batch [batches, size], in nats."""
    n, size = batches.shape
    _, counts = np.unique(batches + (batches.max() + 1) * np.arange(n)[:, None], return_counts=True)
    last = np.flatnonzero(np.cumsum(counts) % size == 0)  # a batch's labels follow one another
    share = counts / size
    return np.add.reduceat(-share * np.log(share), np.append(0, last[:-1] + 1))


def clustering_scores(y_true: ArrayLike, y_pred: ArrayLike) -> dict[str, float]:
    """All of these scores by name."""
    return {score.__name__: score(y_true, y_pred) for score in (nmi, accuracy, ari, ami, nmi_batch64)}


def label_scores(model: Any, rows: np.ndarray, labels: np.ndarray | None) -> dict[str, float]:
    """How well a model's clusters of ``rows`` agree with their labels; empty without labels."""
    return {} if labels is None else clustering_scores(labels, model.predict(rows))


def _labels(y_true: ArrayLike, y_pred: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    true, pred = np.asarray(y_true), np.asarray(y_pred)
    if true.ndim != 1 or true.shape != pred.shape or len(true) == 0:
        raise DataError(f"Expected one label and one cluster per point, got shapes {true.shape} and {pred.shape}.")
    return true, pred


# ---- features: linear probes, ours and the paper's, and nearest neighbours ----


def linear_probe(train_x: ArrayLike, train_y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike) -> float:
    """Test accuracy of logistic regression on standardised features [n, d], trained to convergence.

    Features are standardised by the training rows, so their offsets and units do not matter. Classes that occur only in
    the test set count as wrong.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    train, labels, test, truth = _checked_pairs(train_x, train_y, test_x, test_y)
    if len(np.unique(labels)) == 1:  # nothing to learn
        return float(np.mean(truth == labels[0]))
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=MOST_ITERATIONS))
    return float(probe.fit(train.astype(np.float64), labels).score(test.astype(np.float64), truth))


def sgd_probe(
    train_x: ArrayLike,
    train_y: ArrayLike,
    test_x: ArrayLike,
    test_y: ArrayLike,
    *,
    epochs: int = 100,
    lr: float = 1e-3,
    batch_size: int = 100,
    seed: int = 0,
) -> float:
    """The paper's probe (Appendix J): test accuracy of softmax regression on features [n, d], trained by SGD.

    Its learning rate and epochs are fixed, so it may stop long before convergence, unlike `linear_probe`. The features
    are neither scaled nor centred. Classes that occur only in the test set count as wrong.
    """
    train, labels, test, truth = _checked_pairs(train_x, train_y, test_x, test_y)
    classes, targets = np.unique(labels, return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(train), torch.from_numpy(targets.reshape(-1))
    # The initial weights of nn.Linear, but drawn from our generator.
    bound = 1 / np.sqrt(train.shape[1])
    weight = (2 * torch.rand(len(classes), train.shape[1], generator=generator) - 1) * bound
    bias = (2 * torch.rand(len(classes), generator=generator) - 1) * bound
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimiser = torch.optim.SGD(parameters, lr=lr, momentum=0.9)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).split(batch_size):
            optimiser.zero_grad()
            F.cross_entropy(F.linear(x[rows], weight, bias), y[rows]).backward()
            optimiser.step()
    with torch.no_grad():
        predicted = F.linear(torch.from_numpy(test), weight, bias).argmax(1).numpy()
    return float(np.mean(classes[predicted] == truth))


def knn_accuracy(train_x: ArrayLike, train_y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike, *, k: int = 20) -> float:
    """Share of test rows whose label is the most frequent one among the k training rows of highest cosine similarity.

    Nothing is trained or tuned. A tie goes to the label whose rows are nearer.
    """
    from sklearn.neighbors import KNeighborsClassifier

    train, labels, test, truth = _checked_pairs(train_x, train_y, test_x, test_y)
    if k < 1:
        raise DataError(f"k must be at least 1, got {k}.")
    k = min(k, len(train))

    def votes(distance: np.ndarray) -> np.ndarray:
        """One vote each, plus a fraction that only decides ties: all fractions together are less than one vote."""
        return 1 + (2 - distance) / (2 * (k + 1))

    # In float32, the order of almost equally near neighbours would depend on the block size.
    neighbours = KNeighborsClassifier(k, metric="cosine", algorithm="brute", weights=votes)  # pyright: ignore[reportArgumentType]
    return float(neighbours.fit(train.astype(np.float64), labels).score(test.astype(np.float64), truth))


def _checked_pairs(
    train_x: ArrayLike, train_y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features as float32 [n, d] and one label per row; a DataError says what does not fit."""
    arrays = []
    for name, x, y in (("training", train_x, train_y), ("test", test_x, test_y)):
        features, labels = np.asarray(x, dtype=np.float32), np.asarray(y)
        if features.ndim != 2 or labels.shape != features.shape[:1] or len(labels) == 0:
            raise DataError(
                f"The {name} set needs features [n, d] and one label per row, "
                f"got shapes {features.shape} and {labels.shape}."
            )
        if not np.isfinite(features).all():
            raise DataError(f"The {name} features contain NaN or inf.")
        arrays += [features, labels]
    if arrays[0].shape[1] != arrays[2].shape[1]:
        raise DataError(f"Training and test features differ in width: {arrays[0].shape[1]} and {arrays[2].shape[1]}.")
    return arrays[0], arrays[1], arrays[2], arrays[3]
