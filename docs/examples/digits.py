"""Sort pictures of handwritten digits without labels.

    python docs/examples/digits.py

The labels are used once, at the end, for scores.
"""

import numpy as np
from sklearn.datasets import load_digits

from gedi import GEDI
from gedi.evaluation import clustering_scores


def main() -> tuple[np.ndarray, np.ndarray]:
    images, digits = load_digits().images, load_digits().target  # 1,797 of 8 x 8

    model = GEDI(n_clusters=10, random_state=0).fit(images)
    probabilities = model.predict_proba(images)

    scores = clustering_scores(digits, model.labels_)
    print("NMI with the digits:", round(scores["nmi"], 2))
    print("images in the right cluster:", f"{scores['accuracy']:.0%}")
    unsure = probabilities.max(axis=1) < 0.9
    print("images with less than 90% in any cluster:", int(unsure.sum()))
    return images, probabilities


if __name__ == "__main__":
    main()
