"""Other clusterings of the same rows, to be seen on the same map."""

from __future__ import annotations

import warnings

import numpy as np

K_MEANS, MIXTURE = "k-means", "Gaussian mixture"
MOST_DIRECTIONS = 30  # of wider rows, only the main directions are clustered
FULL = 10  # columns up to which a Gaussian has a full covariance


def rival_clusterings(scaled: np.ndarray, n_clusters: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """The clusters [n] of scaled rows by simple methods, by name; empty if there are fewer rows than clusters."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.mixture import GaussianMixture

    if not 1 < n_clusters <= len(np.unique(scaled, axis=0)):
        return {}
    rows = np.asarray(scaled, dtype=np.float64)
    if rows.shape[1] > MOST_DIRECTIONS:
        rows = PCA(min(MOST_DIRECTIONS, len(rows)), random_state=seed).fit_transform(rows)
    k_means = KMeans(n_clusters, n_init=5, random_state=seed)  # type: ignore[arg-type]
    shape = "full" if rows.shape[1] <= FULL else "diag"
    mixture = GaussianMixture(n_clusters, covariance_type=shape, reg_covar=1e-4, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mixture that has not converged is still a rival
        return {K_MEANS: k_means.fit_predict(rows), MIXTURE: mixture.fit_predict(rows)}
