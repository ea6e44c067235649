"""Cheap rivals on the same rows: a run's clusters should be at least as well set apart as theirs."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from gedi.data.neighbours import main_directions
from gedi.report.gaps import FEWEST_INSIDE, Gaps, Words, find_gaps, neighbour_links, spread_steps
from gedi.training.start import tightest_kmeans

K_MEANS, MIXTURE = "k-means", "Gaussian mixture"
SILHOUETTE_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class MeasuredClusters:
    """Clusters of the rows shown, and label-free numbers about them."""

    labels: np.ndarray  # [n]
    gaps: Gaps
    silhouette: float | None  # -1 to 1; high for round clusters that are far apart
    agreement: float = 1.0  # adjusted Rand index with the run's own clusters

    @property
    def crowding(self) -> float | None:
        return self.gaps.crowding


def compare_rivals(
    scaled: np.ndarray, labels: np.ndarray, n_clusters: int, *, images: bool, words: Words = ()
) -> tuple[MeasuredClusters | None, dict[str, MeasuredClusters]]:
    """The run's own clusters and those of each rival, measured alike on scaled rows [n, d]; none for few rows.

    ``words`` are the features of every category.
    """
    if len(scaled) < 2 * FEWEST_INSIDE or n_clusters < 2:
        return None, {}
    from sklearn.metrics import adjusted_rand_score

    x = scaled if images else spread_steps(scaled, words)
    x = x if words else main_directions(x.astype(np.float32)).astype(np.float64)
    links = neighbour_links(x, words)

    def measured(found: np.ndarray) -> MeasuredClusters:
        agreement = float(adjusted_rand_score(labels, found))
        return MeasuredClusters(found, find_gaps(x, found, links, words), _silhouette(x, found), agreement)

    return measured(labels), {name: measured(found) for name, found in _rivals(x, n_clusters).items()}


def _rivals(x: np.ndarray, n_clusters: int) -> dict[str, np.ndarray]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    count = min(n_clusters, len(np.unique(x, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {
            K_MEANS: tightest_kmeans(x, count, 0, n_init=5)[0],
            MIXTURE: GaussianMixture(count, reg_covar=1e-3, n_init=2, random_state=0).fit_predict(x),
        }


def _silhouette(x: np.ndarray, labels: np.ndarray) -> float | None:
    from sklearn.metrics import silhouette_score

    some = np.random.default_rng(0).permutation(len(x))[:SILHOUETTE_ROWS]
    if not 2 <= len(np.unique(labels[some])) < len(some):
        return None
    score = float(silhouette_score(x[some], labels[some]))
    return score if math.isfinite(score) else None
