"""Recognises what each column of a table holds; the result is a recipe of plain data."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

from gedi.data.cell_values import Cells, pandas
from gedi.data.checks import TOO_LARGE, check_names
from gedi.data.table_recipe import NO_ANSWER, OTHER, Column, Surprises, TableRecipe
from gedi.errors import DataError

MOST_LEVELS = 20  # of a category; rarer ones are 'other'
RARE = 0.01  # share of the rows below which a level is 'other'
MOSTLY_OTHER = 0.5  # share of 'other' above which a category is useless
MANY_GAPS = 0.1  # share of gaps from which they become a level of the category
MANY_WORDS = 0.5  # share of different words above which they tell rows apart, but not groups
LONG_TEXT = 6  # words per cell, on average
FEWEST_IDS = 20  # rows that a named column must number to be an id; in a few rows, a feature is 1, 2, 3 by chance
ID_NAME = re.compile(
    r"^((?i:unnamed: ?\d+|index|row|rowid|uuid|guid|key|(.*[_\-. ])?(id(entifier)?|nr|no|number|code))|.*[a-z]I[Dd])$"
)
NO_NAME = re.compile(r"^column \d+$")  # the name that readers give to a column without one
TRUE_FALSE = [{"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"on", "off"}, {"ja", "nein"}, {"ja", "nee"}]
TRUE_FALSE += [{"oui", "non"}, {"si", "no"}, {"sí", "no"}]


def recognise(frame: Any, where: str) -> tuple[np.ndarray, TableRecipe]:
    """The rows [n, d] of a data frame, and what each of its columns holds; ``where`` names the frame in messages."""
    names = check_names(map(str, frame.columns), where)
    if not len(frame):
        raise DataError(f"{where} has no rows: give at least two.")
    columns, features, surprises = [], [], Surprises(where)  # there are no surprises: the recipe is this table's own
    for i, name in enumerate(names):
        cells = Cells(frame.iloc[:, i])
        column = column_of(cells, name)
        columns.append(column)
        if column.features:
            features.append(column.encode(cells, surprises))
    if not features and len(frame) == 1:
        raise DataError(f"{where} has one row, but clusters need at least two: give more rows.")
    if not features:
        what = "; ".join(f"{column.name!r}: {column.why}" for column in columns[:5])
        raise DataError(f"{where} has no columns to learn from ({what}): add a column of numbers or categories.")
    return np.hstack(features), TableRecipe(columns)


def column_of(cells: Cells, name: str) -> Column:
    """What the cells of one column hold."""
    types, column = pandas().api.types, cells.column
    if types.is_complex_dtype(column):
        raise DataError(f"Column {name!r} holds complex numbers: pass real and imaginary parts as separate columns.")
    if cells.are_dates:
        dates = cells.days()
        has_time = bool((dates[~np.isnan(dates)] % 1).any())
        return _numeric(name, dates, None, kind="date", format="%Y-%m-%d %H:%M:%S" if has_time else "%Y-%m-%d")
    if cells.are_numbers:
        digits = 0 if types.is_integer_dtype(column) else None
        return _numeric(name, cells.numbers(), None, kind="number", digits=digits)
    if cells.text.isna().all():
        return Column(name=name, kind="constant", why="empty", missing=1.0)
    if not isinstance(column.dtype, pandas().CategoricalDtype):
        if (form := cells.number_format()) is not None:
            values = cells.numbers(form["unit"], form["decimal"])
            return _numeric(name, values, cells.text, kind="number", **form)
        if (shape := cells.date_format()) is not None:
            return _numeric(name, cells.days(shape), cells.text, kind="date", format=shape)
    return _words(name, cells.text)


def _numeric(name: str, values: np.ndarray, text: Any, *, kind: Any, **more: Any) -> Column:
    """A column of numbers or dates, unless it is constant or only tells rows apart."""
    infinite = np.isinf(values)
    if infinite.any():
        raise DataError(f"Column {name!r} holds inf in row {int(infinite.argmax())}: correct or clear that cell.")
    found = values[~np.isnan(values)]
    missing = 1 - len(found) / len(values)
    if not len(found) or (found == found[0]).all():
        shown = "empty" if not len(found) else f"always {found[0]:g}"
        return Column(name=name, kind="constant", why=shown, missing=missing)
    if (largest := np.abs(found).max()) > TOO_LARGE:
        raise DataError(f"Column {name!r} holds {largest:.3g}, whose square overflows: divide it by a power of ten.")
    if kind == "number" and not more.get("unit"):
        if numbers_rows(name, values):
            return Column(name=name, kind="id", why="numbers the rows", missing=missing)
        if text is not None and len(np.unique(found)) == len(values) and text.str.fullmatch(r"0\d+").any():
            return Column(name=name, kind="id", why="a different code in every row", missing=missing)
    # The next number after the median: a gap can then be told from a real median.
    fill = float(np.nextafter(np.median(found), np.inf)) if missing else float(np.median(found))
    return Column(name=name, kind=kind, missing=missing, fill=fill, **more)


def numbers_rows(name: str, values: np.ndarray) -> bool:
    """Whether numbers only count the rows, or are unique in a column that is named like an id."""
    if not np.isfinite(values).all() or (values % 1).any():
        return False
    enough = len(values) >= FEWEST_IDS or bool(NO_NAME.match(name))
    counts = enough and bool((np.diff(values) == 1).all()) and values[0] in (0, 1)
    return counts or (bool(ID_NAME.match(name.strip())) and len(np.unique(values)) == len(values))


def _words(name: str, text: Any) -> Column:
    """A column of words: a category, an id, or text."""
    missing = float(text.isna().mean())
    known = text.dropna()
    counts = Counter(known.tolist())
    different, many = len(counts), len(counts) > max(MOST_LEVELS, MANY_WORDS * len(known))
    if different == len(known) and (bool(ID_NAME.match(name.strip())) or (many and not known.str.contains(" ").any())):
        return Column(name=name, kind="id", why="a different word in every row", missing=missing)
    if different > MOST_LEVELS and known.str.count(r"\s+").mean() >= LONG_TEXT - 1:
        return Column(name=name, kind="text", why="free text", missing=missing)
    if many:
        why = f"{different:,} different words in {len(known):,} rows"
        return Column(name=name, kind="text", why=why, missing=missing)
    if different == 1 and missing < MANY_GAPS:
        return Column(name=name, kind="constant", why=f"always {next(iter(counts))!r}", missing=missing)
    category = _category(name, counts, len(text), missing)
    if dict(zip(category.levels, category.shares, strict=True)).get(OTHER, 0.0) > MOSTLY_OTHER:
        return Column(name=name, kind="text", why=f"{different:,} different words, most of them rare", missing=missing)
    return category


def _category(name: str, counts: Counter[str], rows: int, missing: float) -> Column:
    """Frequent words become levels, rare ones 'other', and gaps, if there are many, a level of their own."""
    frequent = {word for word, count in counts.most_common(MOST_LEVELS) if count >= RARE * rows and word != OTHER}
    if len(frequent) < 2:
        frequent |= {word for word, _ in counts.most_common(2)}
    shares = {word: counts[word] / rows for word in sorted(frequent)}
    rest = sum(count for word, count in counts.items() if word not in frequent)
    if rest:
        shares[OTHER] = shares.get(OTHER, 0.0) + rest / rows
    if missing >= MANY_GAPS or len(shares) < 2:
        shares[NO_ANSWER] = missing
    else:
        shares = {word: share / (1 - missing) for word, share in shares.items()}
    kind = "boolean" if {word.lower() for word in shares} in TRUE_FALSE else "category"
    return Column(name=name, kind=kind, missing=missing, levels=tuple(shares), shares=tuple(shares.values()))
