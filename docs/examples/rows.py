"""Cluster the rows of a CSV file, score new rows, and save the model.

    python docs/examples/rows.py

The preset `smoke` takes seconds and is for trying things out; leave out `preset` and `training` for a real fit.
"""

import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from gedi import GEDI
from gedi.data import load
from gedi.evaluation import clustering_scores


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # A typical file: names in the first line, numbers below, and a column `label` used only for scores.
        iris = load_iris(as_frame=True)
        table = iris.frame.rename(columns={"target": "label"})
        path = Path(folder) / "iris.csv"
        table.to_csv(path, index=False)

        data = load(str(path))
        quick = {"preset": "smoke", "training": {"step2.iterations": 200}}
        model = GEDI(n_clusters=3, random_state=0, **quick).fit(data.x)
        print("rows in each cluster:", np.bincount(model.labels_, minlength=3).tolist())
        print(
            "NMI with the species, which training never saw:", round(clustering_scores(data.y, model.labels_)["nmi"], 2)
        )

        new = np.array([[5.0, 3.4, 1.5, 0.2], [50.0, 3.4, 1.5, 0.2]])  # a flower; a misplaced decimal point
        print("clusters of new rows:", model.predict(new).tolist())
        typical, odd = model.score_samples(new)
        print("log density of the flower is higher:", bool(typical > odd))

        model.save(Path(folder) / "run")
        again = GEDI.load(Path(folder) / "run")
        print("the same clusters after loading:", bool((again.predict(data.x) == model.labels_).all()))


if __name__ == "__main__":
    main()
