"""Unexpected cells in new data: collected while a table is read, and reported in one warning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gedi.data.checks import few
from gedi.errors import DataError, warn_user

if TYPE_CHECKING:
    from gedi.data.table_recipe import Column

TOLD = 3  # columns, and new words of each


class Surprises:
    """What training did not have, by column, in the table called ``where``."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.gaps: Counter[str] = Counter()
        self.words: dict[str, Counter[str]] = {}

    def note_numbers(self, column: Column, gaps: np.ndarray, written: Any) -> None:
        """Gaps in a column that had none, and text that is not a number or date; mostly such text is an error."""
        unread = [] if written is None else written[gaps].dropna().tolist()
        if len(unread) > 1 and 2 * len(unread) > len(gaps):
            what = f"numbers in {column.unit}" if column.unit else "numbers"
            if column.kind == "date":
                what = f"dates such as {column.shown(column.fill or 0.0)}"
            raise DataError(
                f"Column {column.name!r} of {self.where} must hold {what}, as in training, but it holds "
                f"{unread[0]!r}: correct that column."
            )
        if unread:
            self.words.setdefault(column.name, Counter()).update(unread)
        if not column.missing and (new := int(gaps.sum()) - len(unread)):
            self.gaps[column.name] += new

    def note_words(self, column: Column, words: Sequence[str | None], known: Container[str]) -> None:
        """Words that are not levels of a category, and gaps in one that had none."""
        new = Counter(word for word in words if word is not None and word not in known)
        if new and "other" not in column.levels:
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
