"""Find unusual rows without labels: a few malignant samples among benign ones.

    python docs/examples/anomalies.py

Labels are used once, at the end, to see whether the rows that the model calls unusual are the malignant ones.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from gedi import GEDI


def mostly_benign(n_malignant: int = 20, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Measurements of all benign samples and a few malignant ones, in random order; and which are malignant."""
    rows, benign = load_breast_cancer(return_X_y=True)
    rng = np.random.default_rng(seed)
    malignant = rng.choice(np.flatnonzero(benign == 0), n_malignant, replace=False)
    kept = rng.permutation(np.concatenate([np.flatnonzero(benign == 1), malignant]))
    return rows[kept], benign[kept] == 0


def main() -> tuple[np.ndarray, np.ndarray]:
    rows, malignant = mostly_benign()  # 377 rows of 30 columns

    model = GEDI(n_clusters=2, random_state=0).fit(rows)
    log_density = model.score_samples(rows)  # low: unlike the other rows
    strangest = np.argsort(log_density)[: malignant.sum()]

    print("malignant rows:", int(malignant.sum()), "of", len(rows))
    print("malignant among the strangest", len(strangest), "rows:", int(malignant[strangest].sum()))
    print("AUROC of the log density:", round(roc_auc_score(malignant, -log_density), 2))
    forest = IsolationForest(random_state=0).fit(rows)
    print("AUROC of an isolation forest:", round(roc_auc_score(malignant, -forest.score_samples(rows)), 2))
    return log_density, malignant


if __name__ == "__main__":
    main()
