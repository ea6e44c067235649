"""Cells of a table as people write them: gaps, numbers with units and separators, dates. pandas does the parsing."""

from __future__ import annotations

import re
import warnings
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

MISSING = {"", "na", "n/a", "nan", "null", "none"}  # cells without a number, in lower case
GAPS = MISSING | {"-", "--", "?", "#n/a", "<na>", "nat", "missing", "unknown"}  # ... or word
NEARLY_ALL = 0.95  # share of the cells that must be numbers, or dates; the others become gaps
MOST_DIGITS = 10  # after the decimal separator
GUESSES = 20  # cells to guess a date's format from
DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # in microseconds
BETWEEN = " '’\u00a0\u202f"  # characters that group digits, besides comma and point
CURRENCY = r"(?:[A-Z]{0,2}\$|[€£¥\u20a0-\u20cf])"
NUMBER = re.compile(
    rf"^(?P<before>{CURRENCY}|[A-Z]{{3}}\s)?\s*"
    rf"(?P<sign>[+-]?)\s*(?P<before2>{CURRENCY})?\s*(?P<digits>\d{{1,3}}([{BETWEEN}]\d{{3}})+([.,]\d+)?|\d[\d.,]*|[.,]\d+)"
    r"(?P<power>[eE][+-]?\d+)?"
    r"\s*(?P<after>[^\d\s.,+-][^\d]{0,11}[23]?)?$"
)
NEGATIVE = re.compile(r"^\(([^()]*)\)$|^([^-]*\d)\s*-$")  # (5) and 5-, as accountants write -5
MULTIPLES = {"k", "K", "M", "Mio", "Mrd", "mn", "bn", "Bn"}  # beside them, a number without a unit is another number
# Digits in groups or not at all, by the decimal separator: in '18,12' the comma is none that groups digits.
WRITTEN = {
    sign: re.compile(rf"^(\d*|[1-9]\d{{0,2}}({re.escape(other)}\d{{3}})+)({re.escape(sign)}\d*)?$")
    for sign, other in (".,", ",.")
}
# A date such as 3/14/24 or 14-Mar-24, whose format pandas does not guess.
SHORT_YEAR = re.compile(r"^\d{1,2}(?:([./])\d{1,2}\1|([- ])[A-Za-z]{3}\2)\d\d(?P<time> \d{1,2}:\d\d)?$")
GROUPED = {sign: re.compile(rf"^[1-9]\d{{0,2}}({re.escape(sign)}\d{{3}})+$") for sign in ",."}


def pandas() -> Any:
    """pandas, imported only when a table needs it: plain numbers do not, and the import takes a third of a second."""
    import pandas as pd

    return pd


class Cells:
    """The cells of a pandas column. Recognising and encoding it share one conversion to text, parsed once."""

    def __init__(self, column: Any) -> None:
        types, column = pandas().api.types, column.infer_objects()
        if types.is_timedelta64_dtype(column):
            column = column.dt.total_seconds() / 86_400
        self.column = column
        self.are_dates = types.is_datetime64_any_dtype(column)
        self.are_numbers = types.is_numeric_dtype(column) and not types.is_bool_dtype(column)

    @cached_property
    def text(self) -> Any:
        """Stripped text, with gaps as NA."""
        pd = pandas()
        text = self.column.astype("object").where(self.column.notna(), None)
        cells = pd.Series(pd.array([None if cell is None else str(cell).strip() for cell in text], dtype="string"))
        return cells.mask(cells.str.lower().isin(GAPS))

    @cached_property
    def _parts(self) -> Any:
        """Sign, digits, unit and so on of every number."""
        cells = self.text.str.replace("\u2212", "-").str.replace(NEGATIVE, r"-\1\2", regex=True)
        return cells.str.extract(NUMBER)

    def number_format(self) -> dict[str, Any] | None:
        """How the cells write numbers, as fields of a `Column`; None if they hold something else."""
        parts = self._parts[self.text.notna()]
        read = parts["digits"].notna()
        if read.mean() < NEARLY_ALL:
            return None
        parts = parts[read].fillna("")
        before = (parts["before"].str.strip() + parts["before2"]).str.strip()
        after = parts["after"].str.strip()
        units = (before + after)[lambda unit: unit != ""]
        unit = units.mode().iloc[0] if len(units) else ""
        if ((before != "") & (after != "")).any() or (units != unit).sum() > (1 - NEARLY_ALL) * len(units):
            return None
        body = parts["digits"].str.replace(f"[{BETWEEN}]", "", regex=True)
        decimal = _decimal_separator(body)
        if decimal is None or np.isfinite(self.numbers(str(unit), decimal)).sum() < NEARLY_ALL * len(parts):
            return None
        decimals = body.str.rpartition(decimal).pipe(lambda split: split[2].where(split[1] != "", "")).str.len()
        digits = None if decimals.max() > MOST_DIGITS or (parts["power"] != "").any() else int(decimals.max())
        return {"unit": str(unit), "unit_first": bool((before != "").any()), "decimal": decimal, "digits": digits}

    def numbers(self, unit: str = "", decimal: str = ".") -> np.ndarray:
        """NaN for gaps and for anything that is not a number in this unit."""
        if self.are_numbers:
            return self.column.to_numpy(dtype=np.float64, na_value=np.nan)
        filled = self._parts.fillna("")
        units = filled["before"].str.strip() + filled["before2"] + filled["after"].str.strip()
        body = filled["digits"].str.replace(f"[{BETWEEN}]", "", regex=True)
        is_written = body.str.match(WRITTEN[decimal])
        body = body.str.replace("." if decimal == "," else ",", "").str.replace(decimal, ".")
        values = np.array([number_in(cell) for cell in filled["sign"] + body + filled["power"]], dtype=np.float64)
        known = units.isin([unit] if unit in MULTIPLES else ["", unit]) | (values == 0)
        return np.where(self._parts["digits"].notna() & is_written & known, values, np.nan)

    def date_format(self) -> str | None:
        """The format of the dates (as for strftime); None if the cells hold something else."""
        pd, known = pandas(), self.text.dropna()
        guess = pd.tseries.api.guess_datetime_format
        few = known.drop_duplicates().head(GUESSES)
        # 3.4.2021 has the day first; 3/4/2021 has the month first unless another cell says otherwise.
        by_point = few.str.contains(r"^\d{1,2}\.\d{1,2}\.", regex=True).any()
        order = (True, False) if by_point else (False, True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about cells in the other order: the shares below decide
            formats = dict.fromkeys(
                _short_year(cell, first) or guess(cell, dayfirst=first) for first in order for cell in few
            )
        shares = {
            form: float(pd.to_datetime(known, format=form, errors="coerce", utc=True).notna().mean())
            for form in formats
            if form
        }
        best = max(shares, key=lambda form: shares[form], default=None)
        return best if best is not None and shares[best] >= NEARLY_ALL else None

    def days(self, form: str = "") -> np.ndarray:
        """Days since 1970; NaN for gaps and for anything that is not a date in this format."""
        given = {} if self.are_dates else {"format": form, "errors": "coerce"}
        dates = pandas().to_datetime(self.column if self.are_dates else self.text, utc=True, **given)
        at = dates.to_numpy(dtype="datetime64[us]")
        return np.where(np.isnat(at), np.nan, at.astype(np.int64) / DAY)


def number_in(cell: str) -> float | None:
    """The number in a cell, NaN if it is missing, None if the cell holds anything else."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return np.nan
    try:
        return None if "_" in cell else float(cell)  # float() also accepts 1_000
    except ValueError:
        return None


def _short_year(cell: str, day_first: bool) -> str | None:
    """The format of a date whose year has two digits, such as 3/14/24 or 14-Mar-24; None for anything else."""
    found = SHORT_YEAR.match(cell)
    if found is None:
        return None
    between = found[1] or found[2]
    day = ("%d", "%b") if found[2] else ("%d", "%m") if day_first else ("%m", "%d")
    return between.join([*day, "%y"]) + (" %H:%M" if found["time"] else "")


def _decimal_separator(body: Any) -> str | None:
    """The decimal separator of numbers in digits, points and commas; None if none makes sense of all of them."""
    points, commas = body.str.count(r"\."), body.str.count(",")
    both = body[(points > 0) & (commas > 0)]
    if len(both):
        last = (both.str.rindex(",") > both.str.rindex(".")).unique()
        decimal = "," if last[0] else "."
        if len(last) > 1 or (body.str.count(re.escape(decimal)) > 1).any():
            return None
        return decimal
    with_comma, with_point = body[commas > 0], body[points > 0]
    if len(with_comma) and with_comma.str.match(GROUPED[","]).all():
        return "." if (points <= 1).all() else None
    if len(with_comma):
        is_decimal = (commas <= 1).all() and (not len(with_point) or with_point.str.match(GROUPED["."]).all())
        return "," if is_decimal else None
    if (points > 1).any():
        return "," if with_point.str.match(GROUPED["."]).all() else None
    return "."


def date_in(form: str, day: float) -> str:
    """Days since 1970 as a date in this format, rounded to a second, or to a day if it has no time."""
    has_time = "%H" in form or "%I" in form
    day = min(max(day, -719_000.0), 2_900_000.0)  # the years that Python supports
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=round(day * 86_400) if has_time else round(day) * 86_400)
    return at.strftime(form)
