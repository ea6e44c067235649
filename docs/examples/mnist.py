"""Sort MNIST without labels, and draw new digits.

    gedi fetch mnist                  # once: downloads the images
    python docs/examples/mnist.py     # a few minutes

The labels are used once, at the end, for the scores of images that training never saw.
"""

import numpy as np

from gedi import GEDI
from gedi.data import load
from gedi.evaluation import clustering_scores


def main() -> np.ndarray:
    images, test = load("mnist").x, load("mnist", split="test")

    model = GEDI(n_clusters=10, random_state=0).fit(images)
    clusters = model.predict(test.x)
    drawn = model.sample(84)

    assert test.y is not None
    scores = clustering_scores(test.y, clusters)
    print("images in training, without labels:", f"{len(images):,}")
    print("NMI with the digits of the test images:", round(scores["nmi"], 2))
    print("test images in the right cluster:", f"{scores['accuracy']:.0%}")
    return drawn.reshape(-1, 28, 28)


if __name__ == "__main__":
    main()
