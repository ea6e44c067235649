"""Cluster the features of a pretrained network instead of raw pixels.

    python docs/examples/pretrained.py

A small classifier of the digits 0 to 4 stands in for a large backbone. Its features of the digits 5 to 9, which it has
never seen, are rows like any others: gedi and k-means cluster the same ones.
"""

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from torch import nn

from gedi import GEDI
from gedi.evaluation import nmi


def scenes(side: int = 14, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Handwritten digits, each at a random place of a noisy picture; and which digits they are."""
    data, rng = load_digits(), np.random.default_rng(seed)
    pictures = rng.uniform(0, 0.3, (len(data.images), side, side))
    for picture, digit in zip(pictures, data.images / 16, strict=True):
        top, left = rng.integers(0, side - 7, 2)
        part = picture[top : top + 8, left : left + 8]
        part[:] = np.maximum(part, digit)
    return torch.tensor(pictures[:, None], dtype=torch.float32), data.target


def backbone(pictures: torch.Tensor, classes: torch.Tensor) -> nn.Module:
    """A classifier of these pictures, without its last layer: 64 features."""
    torch.manual_seed(0)
    features = nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, 64, 3, padding=1), nn.GELU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 64, 3, padding=1), nn.GELU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()),
    )
    net = nn.Sequential(features, nn.Linear(64, int(classes.max()) + 1))
    optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
    for _ in range(10):
        for batch in torch.randperm(len(pictures)).split(64):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(pictures[batch]), classes[batch]).backward()
            optimiser.step()
    return features.eval()


def main() -> tuple[np.ndarray, np.ndarray]:
    pictures, digits = scenes()
    known = digits < 5
    features = backbone(pictures[known], torch.tensor(digits[known]))

    with torch.no_grad():
        rows = features(pictures[~known]).numpy()  # 896 rows of 64 columns
    clusters = GEDI(n_clusters=5, random_state=0).fit_predict(rows)

    print("NMI of gedi on the features:", round(nmi(digits[~known], clusters), 2))
    others = {"the features": rows, "the pixels": pictures[~known].flatten(1).numpy()}
    for name, values in others.items():
        by_k_means = KMeans(5, n_init=10, random_state=0).fit_predict(values)
        print(f"NMI of k-means on {name}:", round(nmi(digits[~known], by_k_means), 2))
    return pictures[~known, 0].numpy(), clusters


if __name__ == "__main__":
    main()
