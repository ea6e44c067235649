"""What the columns of a table hold, and how they become features and are shown again: plain data, saved with a run."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np

from gedi.data.cell_values import MOST_DIGITS, Cells, date_in, number_in
from gedi.data.checks import TOO_LARGE, few, no_such_column
from gedi.errors import DataError, warn_user
from gedi.settings import Share, make

Kind = Literal["number", "date", "category", "boolean", "id", "text", "constant"]
NUMERIC, WORDS = ("number", "date"), ("category", "boolean")  # kinds that become features
OTHER, NO_ANSWER = "other", "missing"  # levels for rare words, and for many gaps
DATE_FORMAT = re.compile(r"^(?=.*%)([^%]|%[A-Za-z%]){1,60}$")  # no widths: %999999999d would fill memory


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column of the training table: what it holds, and what a cell of it becomes."""

    name: str
    kind: Kind
    why: str = ""  # reason for leaving it out, in words
    missing: Share = 0.0  # share of the training cells that were gaps, or could not be read
    fill: float | None = None  # of a number or a date: about the median; stands for gaps, see `TableRecipe.gaps`
    unit: str = ""  # of a number: 'EUR'
    unit_first: bool = False
    decimal: Literal[".", ","] = "."
    digits: int | None = None  # of a number: at most, after the decimal separator
    format: str = ""  # of a date, as for strftime
    levels: tuple[str, ...] = ()  # of a category: its values
    shares: tuple[float, ...] = ()  # of a category: how often each level occurs

    def __post_init__(self) -> None:
        if self.kind in NUMERIC and (self.fill is None or not math.isfinite(self.fill)):
            raise ValueError(f"the column {self.name!r} has no number to fill gaps with")
        if self.digits is not None and not 0 <= self.digits <= MOST_DIGITS:
            raise ValueError(f"the column {self.name!r} has an impossible number of digits")
        if self.kind == "date" and not DATE_FORMAT.match(self.format):
            raise ValueError(f"the column {self.name!r} has no date format")
        if self.kind in WORDS:
            known = len(self.levels) == len(self.shares) == len(set(self.levels)) >= 2
            if not known or not all(0 <= share <= 1 for share in self.shares):
                raise ValueError(f"the category {self.name!r} needs at least two levels, with their shares")

    @property
    def features(self) -> list[str]:
        """Names of the features it becomes: none, one, or one for each level of a category of more than two."""
        if self.kind in NUMERIC:
            return [self.name]
        if self.kind not in WORDS:
            return []
        return [f"{self.name}={level}" for level in (self.levels if len(self.levels) > 2 else self.levels[1:])]

    @property
    def is_plain(self) -> bool:
        """Whether its cells are numbers that need no interpretation."""
        return self.kind == "number" and not self.unit and self.decimal == "."

    @property
    def in_words(self) -> tuple[str, str]:
        """What it was read as, and details, for people."""
        gaps = f"{self.missing:.1%} missing" if self.missing else ""
        if self.kind in NUMERIC:
            what = f"number in {self.unit}" if self.unit else self.kind
            gaps = gaps and f"{gaps}, filled from similar rows"
            comma = "decimal comma" if self.decimal == "," else ""
            return what, "; ".join(filter(None, (self.format, comma, gaps)))
        if self.kind in WORDS:
            words = f"{len(self.levels)} values: {few(self.levels)}"
            return self.kind, "; ".join(filter(None, (words, gaps if NO_ANSWER not in self.levels else "")))
        return "id" if self.kind == "id" else "left out", self.why

    def shown(self, value: float) -> str | float | int:
        """A number or a date as the file writes it."""
        if self.kind == "date":
            return date_in(self.format, value)
        if self.digits is not None:
            value = round(value, self.digits)
        if self.is_plain:
            return int(value) if self.digits == 0 else value
        text = f"{value:.{MOST_DIGITS}g}" if self.digits is None else f"{value:.{self.digits}f}"
        text = text.replace(".", self.decimal)
        return f"{self.unit} {text}".strip() if self.unit_first else f"{text} {self.unit}".strip()

    def encode(self, cells: Cells, surprises: Surprises) -> np.ndarray:
        """Features [n, f] of the cells."""
        if self.kind in WORDS:
            return self._encode_words(cells, surprises)
        read = cells.days(self.format) if self.kind == "date" else self._numbers(cells)
        gaps = np.isnan(read)
        surprises.note_numbers(self, cells.column[gaps], len(read))
        return np.where(gaps, self.fill or 0.0, read)[:, None]

    def _numbers(self, cells: Cells) -> np.ndarray:
        if self.is_plain and not cells.are_numbers:  # much faster than what may be needed below
            numbers = [number_in(str(cell)) for cell in cells.column]
            if None not in numbers:
                return np.array(numbers, dtype=np.float64)
        return cells.numbers(self.unit, self.decimal)

    def _encode_words(self, cells: Cells, surprises: Surprises) -> np.ndarray:
        words = cells.text.to_numpy(object, na_value=None).tolist()
        place = {level: i for i, level in enumerate(self.levels)}
        gap, other = place.get(NO_ANSWER, -1), place.get(OTHER, -1)
        codes = np.array([gap if word is None else place.get(word, other) for word in words], dtype=np.int64)
        surprises.note_words(self, words, place)
        # A gap or a new word favours no level: its features are the shares, which become zero in scaled units.
        table = np.vstack([np.eye(len(self.levels)), self.shares])
        return table[codes] if len(self.levels) > 2 else table[codes][:, 1:]

    def decode(self, features: np.ndarray) -> list[Any]:
        """Features [n, f] as cells: the nearest level of a category, a number in its unit, a date."""
        if self.kind not in WORDS:
            return [self.shown(float(value)) for value in features[:, 0]]
        best = features.argmax(1) if len(self.levels) > 2 else (features[:, 0] > 0.5).astype(int)
        return [self.levels[int(i)] for i in best]

    def state(self) -> dict[str, Any]:
        """Plain values, without defaults."""
        values = {item.name: (getattr(self, item.name), item.default) for item in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, (value, default) in values.items()
            if default is MISSING or value != default
        }


@dataclass(frozen=True)
class TableRecipe:
    """All columns of the training table, in order; turns tables with the same columns into rows of features."""

    columns: list[Column] = field(default_factory=list)

    @cached_property
    def used(self) -> list[Column]:
        """The columns that become features."""
        return [column for column in self.columns if column.features]

    @property
    def features(self) -> list[str]:
        """Names of all features, in order."""
        return [name for column in self.used for name in column.features]

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The places of each used column's features in a row."""
        places: dict[str, list[int]] = {}
        start = 0
        for column in self.used:
            places[column.name] = list(range(start, start + len(column.features)))
            start += len(column.features)
        return places

    @property
    def ids(self) -> list[str]:
        """Names of the columns that tell rows apart."""
        return [column.name for column in self.columns if column.kind == "id"]

    @property
    def is_plain(self) -> bool:
        """Whether every feature is a plain number: rows are then the table's own numbers."""
        return all(column.is_plain for column in self.used)

    def encode(self, frame: Any, surprises: Surprises) -> np.ndarray:
        """The features [n, d] of a data frame; columns that training did not have are ignored."""
        names = [str(name) for name in frame.columns]
        for column in self.used:
            if column.name not in names:
                raise no_such_column(surprises.where, column.name, names, of_training=True)
        return np.hstack(
            [column.encode(Cells(frame.iloc[:, names.index(column.name)]), surprises) for column in self.used]
        )

    def decode(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Rows of features, such as samples, as the table would show them: one mapping per row."""
        rows = np.asarray(rows, dtype=np.float64)
        cells = {column.name: column.decode(rows[:, self.groups[column.name]]) for column in self.used}
        return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]

    @property
    def words(self) -> list[list[int]]:
        """The places of the features of every column of words."""
        return [self.groups[column.name] for column in self.used if column.kind in WORDS]

    def nearest_words(self, rows: np.ndarray) -> np.ndarray:
        """Rows of features, such as samples, with every category at its nearest level."""
        found = np.array(rows, dtype=np.float64)
        for places in self.words:
            some = found[:, places]
            found[:, places] = np.eye(len(places))[some.argmax(1)] if len(places) > 1 else some > 0.5
        return found

    @property
    def has_gaps(self) -> bool:
        """Whether columns of numbers or dates had gaps in training."""
        return any(column.missing for column in self.used if column.kind in NUMERIC)

    def gaps(self, rows: np.ndarray) -> np.ndarray:
        """Which features of encoded rows stand for gaps in columns of numbers or dates, [n, d]."""
        found = np.zeros(rows.shape, dtype=bool)
        for column in self.used:
            if column.kind in NUMERIC and column.missing:
                places = self.groups[column.name]
                found[:, places] = rows[:, places] == column.fill
        return found

    def state(self) -> list[dict[str, Any]]:
        """Plain lists and mappings, ready for JSON or YAML."""
        return [column.state() for column in self.columns]

    @classmethod
    def from_state(cls, state: Sequence[Mapping[str, Any]]) -> Self:
        """The recipe that `state()` describes, checked: the file it comes from is not trusted."""
        columns = [make(Column, values, f"table.{i}.") for i, values in enumerate(state)]
        if len({column.name for column in columns}) < len(columns):
            raise ValueError("the table has two columns with the same name")
        return cls(columns)


def plain_recipe(names: Sequence[str], rows: np.ndarray) -> TableRecipe:
    """The recipe of columns that are plain numbers."""
    medians = np.median(rows.clip(-TOO_LARGE, TOO_LARGE), axis=0)  # infinite numbers are refused later
    return TableRecipe(
        [Column(name=str(name), kind="number", fill=float(fill)) for name, fill in zip(names, medians, strict=True)]
    )


# -- unexpected cells --------------------------------------------------------------------------------------------------


TOLD = 3  # columns, and new words of each


class Surprises:
    """What training did not have, by column, in the table called ``where``."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.gaps: Counter[str] = Counter()
        self.words: dict[str, Counter[str]] = {}

    def note_numbers(self, column: Column, gaps: Any, rows: int) -> None:
        """Note gaps in a column that had none, and cells with other text; if most cells hold text, that is an error."""
        unread = Cells(gaps).text.dropna().tolist()
        if len(unread) > 1 and 2 * len(unread) > rows:
            what = f"numbers in {column.unit}" if column.unit else "numbers"
            if column.kind == "date":
                what = f"dates such as {column.shown(column.fill or 0.0)}"
            raise DataError(
                f"Column {column.name!r} of {self.where} must hold {what}, as in training, but it holds "
                f"{unread[0]!r}: correct that column."
            )
        if unread:
            self.words.setdefault(column.name, Counter()).update(unread)
        if not column.missing and (new := len(gaps) - len(unread)):
            self.gaps[column.name] += new

    def note_words(self, column: Column, words: Sequence[str | None], known: Container[str]) -> None:
        """Note words that are not levels of a category, and gaps in a category that had none."""
        new = Counter(word for word in words if word is not None and word not in known)
        if new and OTHER not in column.levels:
            self.words.setdefault(column.name, Counter()).update(new)
        if not column.missing and (gaps := sum(word is None for word in words)):
            self.gaps[column.name] += gaps

    def warn(self) -> None:
        """One warning about all of them, if there are any."""
        said = [f"gaps in {name!r} ({count})" for name, count in self.gaps.most_common(TOLD)]
        said += [
            f"cells of {name!r} such as {few(repr(w) for w, _ in words.most_common(TOLD))} ({sum(words.values())})"
            for name, words in list(self.words.items())[:TOLD]
        ]
        if said:
            warn_user(
                f"{self.where} has values that training did not have: {'; '.join(said)}. They count as missing: "
                "numbers and dates are filled from similar rows, and categories become their average."
            )
