"""A realistic table made from a seed: a shop's customers, in four segments that the table does not show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gedi.data.cell_values import pandas
from gedi.errors import DataError

MISSING_SHARE = 0.05  # share of the cells that are missing
CITIES = ("Antwerp", "Bruges", "Brussels", "Ghent", "Leuven", "Mons")
FOUND_BY = ("advert", "friend", "search", "shop")
FIRST = ("Ada", "Bo", "Chris", "Dana", "Eli", "Fay", "Gus", "Hana")
FIRST += ("Ivo", "Jo", "Kim", "Lou", "Max", "Nia", "Ole", "Pia")
LAST = ("Adams", "Baert", "Claes", "Dubois", "Engels", "Fabre", "Goossens", "Hermans", "Jacobs", "Lambert", "Maes")


@dataclass(frozen=True)
class Segment:
    """Means and spreads of the numbers, and the odds of the words, of one kind of customer."""

    share: float
    age: tuple[float, float]
    income: tuple[float, float]
    spend: tuple[float, float]  # per order; the spread is of its logarithm
    orders: float  # in a year
    since: tuple[float, float]  # years before 2025
    newsletter: float  # share that reads it
    cities: tuple[float, ...]
    channels: tuple[float, ...]


CUSTOMER_KINDS = (
    Segment(0.3, (24, 3.5), (21_000, 4_000), (14, 0.3), 14, (1.2, 0.6), 0.25, (2, 1, 3, 6, 8, 1), (6, 2, 3, 1)),
    Segment(0.3, (42, 6.0), (49_000, 8_000), (46, 0.3), 24, (4.0, 1.2), 0.85, (4, 3, 4, 3, 2, 1), (1, 4, 4, 2)),
    Segment(0.25, (67, 5.5), (33_000, 6_000), (31, 0.3), 4, (8.0, 1.5), 0.45, (3, 7, 1, 2, 1, 5), (1, 3, 1, 8)),
    Segment(0.15, (47, 7.0), (96_000, 15_000), (160, 0.35), 7, (3.5, 1.5), 0.6, (6, 1, 8, 1, 1, 1), (2, 6, 3, 2)),
)


def customers(n: int = 1_000, *, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A pandas data frame of text, as a file would hold it, and the segment of every row, for evaluation only.

    It has ids, names, cities, dates, numbers with units and thousands separators, a yes/no column and 5% empty cells.

    >>> frame, segments = customers(8)
    >>> list(frame.columns[:4]), frame["spend"].str.endswith("EUR").any()
    (['customer_id', 'name', 'city', 'signup'], np.True_)
    """
    pd = pandas()
    if n < len(CUSTOMER_KINDS):
        raise DataError(f"The table of customers needs at least {len(CUSTOMER_KINDS)} rows, got n={n}.")
    rng = np.random.default_rng(seed)
    y = rng.choice(len(CUSTOMER_KINDS), n, p=[segment.share for segment in CUSTOMER_KINDS])

    def normal(field: str) -> np.ndarray:
        mean, spread = np.array([getattr(segment, field) for segment in CUSTOMER_KINDS])[y].T
        return mean + spread * rng.standard_normal(n)

    def word(field: str, words: tuple[str, ...]) -> np.ndarray:
        odds = np.array([getattr(segment, field) for segment in CUSTOMER_KINDS], dtype=float)
        return np.array(words)[[rng.choice(len(words), p=odds[s] / odds[s].sum()) for s in y]]

    spend, spread = np.array([segment.spend for segment in CUSTOMER_KINDS])[y].T
    frame = pd.DataFrame(
        {
            "customer_id": [f"C{100_000 + i}" for i in rng.permutation(n)],
            "name": [f"{rng.choice(FIRST)} {rng.choice(LAST)}" for _ in range(n)],
            "city": word("cities", CITIES),
            "signup": [str(np.datetime64("2025-01-01") - int(365 * max(0.05, years))) for years in normal("since")],
            "age": [str(int(age)) for age in normal("age").clip(18, 95)],
            "income": [f"{round(income, -2):,.0f}" for income in normal("income").clip(8_000)],
            "spend": [f"{value:.2f} EUR" for value in spend * np.exp(spread * rng.standard_normal(n))],
            "orders": [str(count) for count in rng.poisson([CUSTOMER_KINDS[s].orders for s in y])],
            "newsletter": np.where(rng.random(n) < [CUSTOMER_KINDS[s].newsletter for s in y], "yes", "no"),
            "channel": word("channels", FOUND_BY),
        },
        dtype="object",
    )
    gaps = rng.random((n, len(frame.columns) - 2)) < MISSING_SHARE
    frame.iloc[:, 2:] = frame.iloc[:, 2:].mask(gaps, "")
    return frame, y
