"""k nearest neighbours on frozen features: no training, hence no settings to tune."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional as F

from gedi.errors import DataError
from gedi.evaluation.linear_probe import checked_pairs


def knn_accuracy(
    train_x: ArrayLike, train_y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike, *, k: int = 20, block: int = 1024
) -> float:
    """Share of test rows whose label is the most frequent one among the k training rows of highest cosine.

    A tie goes to the label whose rows are nearer. Memory is that of ``block`` rows against the training set.
    """
    train, labels, test, truth = checked_pairs(train_x, train_y, test_x, test_y)
    if k < 1 or block < 1:
        raise DataError(f"k and the size of a block must be at least 1, got {k} and {block}.")
    k = min(k, len(train))
    classes, targets = np.unique(labels, return_inverse=True)
    y = torch.from_numpy(targets.reshape(-1))
    # float64: in float32 neighbours that are equal to the eye change places with the block's size.
    known = F.normalize(torch.from_numpy(train).double(), dim=1)
    right = 0
    for start in range(0, len(test), block):
        asked = F.normalize(torch.from_numpy(test[start : start + block]).double(), dim=1)
        cosine, near = (asked @ known.T).topk(k, dim=1)
        # One vote each; the nearness adds up to less than one vote, so it only decides ties.
        votes = torch.zeros(len(asked), len(classes), dtype=torch.float64)
        votes.scatter_add_(1, y[near], 1 + (cosine.clamp(-1, 1) + 1) / (2 * (k + 1)))
        right += int((classes[votes.argmax(1).numpy()] == truth[start : start + block]).sum())
    return right / len(test)
