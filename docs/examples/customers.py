"""Cluster a table as it comes: ids, names, words, dates, numbers with units, and gaps.

    python docs/examples/customers.py

The table is made up from four segments that no column names, so the clusters can be compared with them at the end.
"""

import pandas as pd

from gedi import GEDI
from gedi.data.customers import customers
from gedi.evaluation import nmi


def main() -> pd.DataFrame:
    frame, segments = customers(1_000, seed=0)

    model = GEDI(n_clusters=4, random_state=0).fit(frame)
    for column in model.model_.table.columns:
        print(f"{column.name}:", ", ".join(filter(None, column.in_words)))
    print("NMI with the segments, which training never saw:", round(nmi(segments, model.labels_), 2))

    print(model.sample(3).to_string(index=False))  # new customers, as the table would write them
    return frame.assign(cluster=model.labels_)


if __name__ == "__main__":
    main()
