"""What sets each cluster apart from the other rows, in the data's own units and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gedi.data import TableRecipe
from gedi.data.cell_values import date_in
from gedi.data.table_recipe import WORDS, Column
from gedi.files.reading import shown
from gedi.report.data_sample import NAME_LENGTH, DataSample
from gedi.report.look import percent, short, side_by_side

MONTHS, DAYS = 60.0, 2.0  # averages of dates further apart than this are shown as a month, or as a day
DISTINCTIVE = 0.5  # standard deviations; smaller differences are not mentioned
TOP = 4  # differences named for each cluster
TABLE_COLUMNS = 24  # in the table of all columns
MOST_WORDS = 50  # distinct words compared in a column; rarer ones are ignored


@dataclass(frozen=True, eq=False)
class ShownColumn:
    """One column as the user knows it: numbers (NaN if missing), or words."""

    name: str
    values: np.ndarray  # float64 [n], or str [n]
    recipe: Column | None = None  # how numbers are written, if they have a unit or are dates

    @property
    def is_words(self) -> bool:
        return self.values.dtype.kind == "U"

    @property
    def is_yes_or_no(self) -> bool:
        return not self.is_words and bool(np.isin(self.values[~np.isnan(self.values)], (0.0, 1.0)).all())

    def value(self, row: int) -> str:
        """The value in one row, as text."""
        if self.is_words:
            return str(self.values[row])
        value = float(self.values[row])
        return short(value, 4) if self.recipe is None else str(self.recipe.shown(value))

    def pair(self, first: float, second: float) -> tuple[str, str]:
        """Two numbers or dates to show side by side, with their unit."""
        if self.recipe is None:
            return side_by_side(first, second)
        if self.recipe.kind == "date":
            # The average of dates that lie months apart is not known to the day.
            form = "%b %Y" if abs(first - second) > MONTHS else "%Y-%m-%d" if abs(first - second) > DAYS else ""
            a, b = (date_in(form or self.recipe.format, day) for day in (first, second))
            return a, b
        unit = self.recipe.unit
        a, b = (
            (f"{unit} {text}" if self.recipe.unit_first else f"{text} {unit}").strip()
            for text in side_by_side(first, second)
        )
        return a, b


@dataclass(frozen=True)
class Difference:
    """How a cluster differs from all other rows in one column."""

    column: str
    strength: float  # in standard deviations of the column; negative if the cluster has less
    own: str  # "60,000", "Antwerp 61%"
    others: str  # "31,000", "9%"

    @property
    def text(self) -> str:
        return f"{self.own} (others {self.others})"


def columns_of(sample: DataSample, table: TableRecipe | None = None) -> list[ShownColumn]:
    """The columns of a sample, in order; ``table`` knows which features are words, dates, or have units."""
    rows = np.asarray(sample.rows, dtype=np.float64)
    if table is None:
        return [ShownColumn(sample.feature(i), values) for i, values in enumerate(rows.T)]
    return [_known(column, rows[:, table.groups[column.name]]) for column in table.used]


def _known(column: Column, features: np.ndarray) -> ShownColumn:
    name = shown(column.name, NAME_LENGTH)
    if column.kind in WORDS:
        return ShownColumn(name, np.array([shown(str(word), NAME_LENGTH) for word in column.decode(features)]))
    return ShownColumn(name, features[:, 0], None if column.is_plain else column)


def differences(columns: Sequence[ShownColumn], cluster: np.ndarray, n_clusters: int) -> list[list[Difference]]:
    """For each cluster, its difference from all other rows in every column, in the order of the columns.

    Empty for a cluster that has no rows, or all of them.
    """
    found = []
    for k in range(n_clusters):
        mine = cluster == k
        compared = mine.any() and not mine.all()
        found.append([_difference(column, mine) for column in columns] if compared else [])
    return found


def strongest(differences: Sequence[Difference]) -> list[Difference]:
    """The differences worth mentioning, strongest first."""
    told = [one for one in differences if abs(one.strength) >= DISTINCTIVE]
    return sorted(told, key=lambda one: -abs(one.strength))[:TOP]


def telling(found: Sequence[Sequence[Difference]], most: int) -> list[int]:
    """Indices of the columns in which some cluster differs most, strongest first."""
    strength = np.array([[abs(one.strength) for one in line] for line in found if line])
    return [] if not strength.size else np.argsort(-strength.max(0), kind="stable")[:most].tolist()


def _difference(column: ShownColumn, mine: np.ndarray) -> Difference:
    if column.is_words:
        return _difference_in_words(column, mine)
    values, known = column.values, ~np.isnan(column.values)
    own, others = values[mine & known], values[~mine & known]
    if not len(own) or not len(others):
        return Difference(column.name, 0.0, "–", "–")
    here, there, spread = float(own.mean()), float(others.mean()), float(values[known].std())
    strength = (here - there) / spread if spread > 0 else 0.0
    if column.is_yes_or_no:
        return Difference(column.name, strength, percent(here), percent(there))
    return Difference(column.name, strength, *column.pair(here, there))


def _difference_in_words(column: ShownColumn, mine: np.ndarray) -> Difference:
    """The most over-represented word, in standard deviations of the column that is 1 where it occurs."""
    words, numbers, counts = np.unique(column.values, return_inverse=True, return_counts=True)
    common = np.argsort(-counts, kind="stable")[:MOST_WORDS]
    here = np.bincount(numbers[mine], minlength=len(words))[common] / mine.sum()
    there = np.bincount(numbers[~mine], minlength=len(words))[common] / (~mine).sum()
    share = counts[common] / len(mine)
    spread = np.sqrt(share * (1 - share))
    strength = np.divide(here - there, spread, out=np.zeros_like(spread), where=spread > 0)
    i = int(strength.argmax())
    own = f"{words[common[i]]} {percent(here[i])}"
    return Difference(column.name, float(strength[i]), own, percent(there[i]))
