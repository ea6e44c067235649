"""Give clusters a meaning with a rule that relates rows, without any labels.

    python docs/examples/constraint.py

Rows come in pairs, and the first is never larger than the second. This alone determines which cluster is the small one.
"""

import numpy as np

from gedi import GEDI


def pairs(n: int = 150, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows [2 n, 2] around three places, and the size that each place stands for; coordinates do not show the order."""
    rng = np.random.default_rng(seed)
    places = np.array([[2.0, -2.0], [-3.0, 0.0], [2.5, 3.0]])
    sizes = np.sort(rng.integers(0, 3, (n, 2)), axis=1).ravel()
    return places[sizes] + rng.normal(0, 0.3, (2 * n, 2)), sizes


def main() -> tuple[np.ndarray, np.ndarray]:
    rows, sizes = pairs()
    rule = "small, large : 3\nsmall <= large"
    model = GEDI(3, preset="smoke", constraint=rule, random_state=0, training={"step1.iterations": 200}).fit(rows)
    agree = float(np.mean(model.labels_ == sizes))
    print(f"rows whose cluster's number is their size: {agree:.0%}")
    ordered = model.labels_.reshape(-1, 2)
    print(f"pairs that keep the rule: {np.mean(ordered[:, 0] <= ordered[:, 1]):.0%}")
    return rows, model.labels_


if __name__ == "__main__":
    main()
