"""One fit in its own process, with the gedi on the path: its time, peak memory and scores, as a line of JSON.

    python benchmarks/one_fit.py gedi moons
    python benchmarks/one_fit.py gmm mixture --rows 100000

Labels are only used after the fit.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np


def data(name: str, rows: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows or images, their labels, and the number of clusters."""
    from sklearn import datasets

    rng = np.random.default_rng(0)
    if name == "moons":
        x, y = datasets.make_moons(rows or 2000, noise=0.05, random_state=0)
    elif name == "circles":
        x, y = datasets.make_circles(rows or 2000, noise=0.05, factor=0.5, random_state=0)
    elif name == "digits":
        found = datasets.load_digits()
        x, y = found.images[: rows or None], found.target[: rows or None]
    elif name == "mnist":
        with np.load(Path(os.environ["GEDI_DATA"]) / "mnist.npz") as file:
            x, y = file["x_train"][: rows or None], file["y_train"][: rows or None]
        x = x.reshape(len(x), 28, 28)
    elif name == "curved":
        x, y = curved(rows or 10_000, 30, rng)
    else:
        x, y = mixture(rows or 10_000, 8, rng)
    return x, y, len(np.unique(y))


def mixture(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Eight Gaussians that touch."""
    centres = rng.normal(size=(8, d))
    centres *= 2.5 / np.linalg.norm(centres, axis=1).mean()
    y = rng.integers(0, 8, n)
    return (centres[y] + 0.45 * rng.normal(size=(n, d))).astype(np.float32), y


def curved(n: int, d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten bent two-dimensional sheets in d dimensions, with noise: their means say little about them."""
    y = rng.integers(0, 10, n)
    place = rng.uniform(-1, 1, (n, 2))
    bent = np.stack([place[:, 0], place[:, 1], place[:, 0] ** 2, place[:, 0] * place[:, 1], np.sin(3 * place[:, 1])], 1)
    turns, centres = rng.normal(size=(10, 5, d)) / np.sqrt(5), rng.normal(size=(10, d))
    x = np.empty((n, d))
    for k in range(10):
        x[y == k] = centres[k] + 1.5 * bent[y == k] @ turns[k]
    return (x + 0.15 * rng.normal(size=(n, d))).astype(np.float32), y


def fit(who: str, x: np.ndarray, clusters: int, preset: str | None, seed: int) -> np.ndarray:
    if who == "gedi":
        from gedi import GEDI

        return GEDI(n_clusters=clusters, preset=preset, random_state=seed).fit(x).labels_
    x = x.reshape(len(x), -1).astype(np.float32)
    if who == "spectral":
        from sklearn.cluster import SpectralClustering

        found = SpectralClustering(clusters, affinity="nearest_neighbors", n_neighbors=12, random_state=seed)
        return found.fit_predict(x)
    if who == "gmm":
        from sklearn.mixture import GaussianMixture

        return GaussianMixture(clusters, reg_covar=1e-4, random_state=seed).fit_predict(x)
    from sklearn.cluster import KMeans
    from umap import UMAP

    return KMeans(clusters, n_init=10, random_state=seed).fit_predict(
        UMAP(random_state=seed, n_jobs=1).fit_transform(x)
    )


def peak_memory() -> float:
    """Megabytes."""
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("who", choices=["gedi", "spectral", "gmm", "umap"])
    parser.add_argument("data", choices=["moons", "circles", "digits", "curved", "mnist", "mixture"])
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--preset")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    x, y, clusters = data(args.data, args.rows)
    if args.who == "gedi":  # the same libraries are loaded before every clock starts
        import torch

        import gedi.estimator  # noqa: F401

        if os.environ.get("OMP_NUM_THREADS") == "1":  # some versions of torch do not read it
            torch.set_num_threads(1)
    else:
        import sklearn.cluster
        import sklearn.mixture  # noqa: F401

        if args.who == "umap":
            import umap  # noqa: F401
    before = peak_memory()
    began, spent = time.perf_counter(), time.process_time()
    labels = fit(args.who, x, clusters, args.preset, args.seed)
    line: dict[str, Any] = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - spent}
    line |= {"peak_mb": peak_memory(), "above_data_mb": peak_memory() - before}
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    line |= {"nmi": normalized_mutual_info_score(y, labels), "ari": adjusted_rand_score(y, labels), "rows": len(x)}
    print(json.dumps(line))


if __name__ == "__main__":
    main()
