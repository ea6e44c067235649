"""How a report looks: colours that colour-blind readers can tell apart, a symbol for every colour, short numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from gedi.data.augment import LUMINANCE

# Okabe and Ito's colours with a lighter black and a darker yellow, then twelve more, each as far as possible from those
# before it, for normal and for colour-blind eyes. All are visible on white and on black.
PALETTE = (
    *("#0A7ABF", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C", "#B5A300", "#9600F0", "#784B1E"),
    *("#A5D278", "#A50078", "#F01E4B", "#A569FF", "#F0B4B4", "#3C4BB4", "#5AE14B", "#5A874B", "#963C5A", "#9687F0"),
)
# Colours that look alike to some readers have different symbols.
SYMBOLS = {
    "circle": "M8 2a6 6 0 1 0 .01 0z",
    "square": "M3 3h10v10H3z",
    "diamond": "M8 1l6 7-6 7-6-7z",
    "triangle-up": "M8 2l6.5 11.5h-13z",
    "triangle-down": "M8 14L1.5 2.5h13z",
    "cross": "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z",
    "x": "M4.5 1.7L8 5.2l3.5-3.5 2.8 2.8L10.8 8l3.5 3.5-2.8 2.8L8 10.8l-3.5 3.5-2.8-2.8L5.2 8 1.7 4.5z",
}
MARKERS = "osD^vPX"  # the same symbols, as matplotlib calls them


def colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def symbol(i: int) -> str:
    return list(SYMBOLS)[i % len(SYMBOLS)]


def marker(i: int) -> str:
    return MARKERS[i % len(MARKERS)]


def rgb(i: int) -> tuple[int, int, int]:
    value = colour(i)
    return int(value[1:3], 16), int(value[3:5], 16), int(value[5:7], 16)


def ink_on(i: int) -> str:
    """Black or white, whichever is easier to read on a cluster's colour."""
    return "#101010" if np.dot(LUMINANCE, rgb(i)) > 110 else "#ffffff"


def swatch(i: int) -> Markup:
    """A cluster's symbol in its colour, as inline SVG."""
    path = SYMBOLS[symbol(i)]
    return Markup(
        f'<svg class="swatch" viewBox="0 0 16 16" aria-hidden="true"><path fill="{colour(i)}" d="{path}"/></svg>'
    )


def compact(values: Any) -> list[Any]:
    """Numbers rounded to a ten-thousandth of their range, finer than screens show, to keep pages small; NaN is null."""
    x = np.asarray(values, dtype=np.float64)
    known = x[np.isfinite(x)]
    span = float(np.ptp(known)) if known.size else 0.0
    decimals = 4 - math.floor(math.log10(span)) if span > 0 else 6
    rounded = np.round(x, int(np.clip(decimals, -300, 300)))
    return np.where(np.isfinite(rounded), rounded, np.array(None, dtype=object)).tolist()


def finite_number(value: Any) -> float | None:
    """A finite number from an untrusted file, or None."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known and math.isfinite(value) else None


def short(value: Any, digits: int = 3) -> str:
    """A number with few digits, easy to read."""
    value = finite_number(value)
    if value is None:
        return "–"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:.{digits}g}"


def side_by_side(first: float, second: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see how they differ.

    >>> side_by_side(60_123.4, 31_050.2), side_by_side(5.936, 5.006), side_by_side(2011, 1998)
    (('60,000', '31,000'), ('5.94', '5.01'), ('2,011', '1,998'))
    """
    gap, size = abs(first - second), max(abs(first), abs(second))
    if not math.isfinite(gap) or size >= 1e12 or 0 < size < 1e-4:
        return f"{first:.3g}", f"{second:.3g}"
    decimals = 1 - math.floor(math.log10(gap)) if gap > 0 else 2
    a, b = (f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}" for value in (first, second))
    return a, b


def score_in_words(value: Any) -> str:
    """A score between 0 and 1."""
    value = finite_number(value)
    return "–" if value is None else f"{value:.3f}"


def percent(share: Any) -> str:
    """A share in percent. Only exact 0 and 1 are shown as 0% and 100%."""
    share = finite_number(share)
    if share is None:
        return "–"
    if 0 < share < 0.0005:
        return "<\u00a00.1%"
    if 0.9995 <= share < 1:
        return ">\u00a099.9%"
    return f"{100 * share:.1f}%" if 0 < share < 0.1 or 0.99 <= share < 1 else f"{100 * share:.0f}%"


def literal(text: str) -> str:
    """Text that plotly shows unchanged: in labels, it interprets tags, entities and %{...}."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")
