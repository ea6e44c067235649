"""Addition triplets (Sec. 5.3 and Appendix K): three images of digits, the third of which shows the others' sum."""

from __future__ import annotations

import numpy as np

from gedi.errors import DataError

RULE = "a, b, c : 10\na + b == c\n"
# All pairs with 0 <= a + b <= 9.
PAIRS = np.array([(a, b) for a in range(10) for b in range(10 - a)])


def triplets(y: np.ndarray, n: int, *, seed: int) -> np.ndarray:
    """Places of the images of n triplets, [n, 3]: pairs drawn uniformly, images without replacement.

    ``y`` are the digits the images show: only their maker knows them, training does not.

    >>> y = np.repeat(np.arange(10), 50)
    >>> shown = y[triplets(y, 20, seed=0)]
    >>> bool((shown[:, 0] + shown[:, 1] == shown[:, 2]).all())
    True
    """
    if n < 1:
        raise DataError(f"The number of triplets must be at least 1, got {n}.")
    random = np.random.default_rng(seed)
    drawn = PAIRS[random.integers(len(PAIRS), size=n)]
    digits = np.column_stack([drawn, drawn.sum(1)]).ravel()
    places = np.empty(3 * n, dtype=np.int64)
    for digit in range(10):
        wanted, there = np.flatnonzero(digits == digit), np.flatnonzero(y == digit)
        if len(wanted) > len(there):
            raise DataError(
                f"{n} triplets show the digit {digit} {len(wanted)} times, but there are {len(there)} images of it: "
                "ask for fewer triplets."
            )
        places[wanted] = random.permutation(there)[: len(wanted)]
    return places.reshape(n, 3)
