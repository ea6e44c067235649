"""Make a table of customers as people have them, cluster it with one call, and look at what became of its columns.

    python docs/examples/customers.py customers.csv

With a path, the table is written there, for `gedi fit customers.csv --n-clusters 4 --out customers`. The segments are
known because the table is made up; they are not in the file. The preset `smoke` takes seconds and is for trying things
out; leave out `preset` and `training` for a real fit.
"""

import sys
from pathlib import Path

from gedi import GEDI
from gedi.data.customers import customers
from gedi.evaluation import clustering_scores


def main() -> None:
    frame, segments = customers(1_000, seed=0)
    if len(sys.argv) > 1:
        frame.to_csv(Path(sys.argv[1]), index=False)
    print(frame.head(3).to_string(index=False))

    model = GEDI(n_clusters=4, random_state=0, preset="smoke", training={"step2.iterations": 200}).fit(frame)
    for column in model.model_.table.columns:
        print(f"{column.name:12s} {' | '.join(filter(None, column.in_words))}")
    print(
        "NMI with the segments, which training never saw:", round(clustering_scores(segments, model.labels_)["nmi"], 2)
    )
    print(model.sample(3).to_string(index=False))


if __name__ == "__main__":
    main()
