"""Linear probe (Appendix J): how well a linear classifier on frozen features tells the classes apart."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.nn import functional as F

from gedi.errors import DataError


def linear_probe(
    train_x: ArrayLike,
    train_y: ArrayLike,
    test_x: ArrayLike,
    test_y: ArrayLike,
    *,
    epochs: int = 100,
    lr: float = 1e-3,
    momentum: float = 0.9,
    batch_size: int = 100,
    seed: int = 0,
    device: str | torch.device = "cpu",
) -> float:
    """Test accuracy of softmax regression, trained on features [n, d] by SGD with the paper's settings.

    The features are taken as they are: neither scaled nor centred. Classes that only the test set has count as wrong.
    """
    train, labels, test, truth = checked_pairs(train_x, train_y, test_x, test_y)
    classes, targets = np.unique(labels, return_inverse=True)
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.from_numpy(train).to(device), torch.from_numpy(targets.reshape(-1)).to(device)
    # As nn.Linear starts, but from our generator.
    bound = 1 / np.sqrt(train.shape[1])
    weight = ((2 * torch.rand(len(classes), train.shape[1], generator=generator) - 1) * bound).to(device)
    bias = ((2 * torch.rand(len(classes), generator=generator) - 1) * bound).to(device)
    parameters = [weight.requires_grad_(), bias.requires_grad_()]
    optimiser = torch.optim.SGD(parameters, lr=lr, momentum=momentum)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=generator).to(device).split(batch_size):
            optimiser.zero_grad()
            F.cross_entropy(F.linear(x[rows], weight, bias), y[rows]).backward()
            optimiser.step()
    with torch.no_grad():
        predicted = F.linear(torch.from_numpy(test).to(device), weight, bias).argmax(1).cpu().numpy()
    return float(np.mean(classes[predicted] == truth))


def checked_pairs(
    train_x: ArrayLike, train_y: ArrayLike, test_x: ArrayLike, test_y: ArrayLike
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features as float32 [n, d] and one label a row, or a DataError that says what does not fit."""
    arrays = []
    for name, x, y in (("training", train_x, train_y), ("test", test_x, test_y)):
        features, labels = np.asarray(x, dtype=np.float32), np.asarray(y)
        if features.ndim != 2 or labels.shape != features.shape[:1] or len(labels) == 0:
            raise DataError(
                f"The {name} set needs features [n, d] and one label a row, "
                f"got shapes {features.shape} and {labels.shape}."
            )
        if not np.isfinite(features).all():
            raise DataError(f"The {name} features hold NaN or inf.")
        arrays += [features, labels]
    if arrays[0].shape[1] != arrays[2].shape[1]:
        raise DataError(f"Training and test features differ in width: {arrays[0].shape[1]} and {arrays[2].shape[1]}.")
    return arrays[0], arrays[1], arrays[2], arrays[3]
