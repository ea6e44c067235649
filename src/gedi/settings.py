"""Settings are dataclasses: a field's type says what it takes, its `Rule` what range, its comment what it means.

`read` turns plain data (from YAML, JSON or Python) into such a type, and refuses everything else in one sentence that
names the setting, what was given and what is expected. Nothing is guessed: 1 is not true, and text is not a number,
except a decimal that YAML 1.1 reads as text, such as 1e-3.
"""

from __future__ import annotations

import math
import re
import reprlib
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gedi.errors import ConfigError, nearest

T = TypeVar("T")
AUTO = "auto"  # the number of clusters is chosen from the data
MOST_ENTRIES = 64  # of a list
LARGEST_INTEGER = 2**63  # smaller integers are safe in every library underneath
BELOW = {int: LARGEST_INTEGER, float: math.inf}  # what numbers must stay below
DECIMAL = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
# What messages call a type, and which values are accepted for it.
TYPES: dict[Any, tuple[str, type]] = {
    int: ("a whole number", Integral),
    float: ("a number", Real),
    bool: ("true or false", bool),
    str: ("text", str),
    list: ("a list", list),
    dict: ("a group of settings", dict),
}


@dataclass(frozen=True)
class Rule:
    """What a value must be besides its type, in words that follow 'must'. NaN must fail the comparison."""

    words: str
    allows: Callable[[Any], bool]


def at_most(limit: int) -> Rule:
    return Rule(f"be at most {limit:,}", lambda value: value <= limit)


Count = Annotated[int, Rule("be positive", lambda value: value > 0)]
Natural = Annotated[int, Rule("not be negative", lambda value: value >= 0)]
Positive = Annotated[float, Rule("be positive", lambda value: value > 0)]
NotNegative = Annotated[float, Rule("not be negative", lambda value: value >= 0)]
Layers = Annotated[
    tuple[int, ...], Rule("list at least one layer size", lambda sizes: len(sizes) > 0 and min(sizes) > 0)
]
Share = Annotated[float, Rule("lie between 0 and 1", lambda value: 0 <= value <= 1)]
# Of a run, from the command line, Python and plan.yaml. Seeds are those that every library accepts.
Seed = Annotated[Natural, at_most(2**31)]
Minutes = Annotated[Positive, at_most(10**6)]
Seconds = Annotated[NotNegative, at_most(10**7)]
SAVE_EVERY = 30.0  # seconds between checkpoints
Outliers = Annotated[float, Rule("be at least 0 and below 1", lambda share: 0 <= share < 1)]


@cache
def types_of(cls: type) -> dict[str, Any]:
    """The type of every field of a dataclass, with its rules."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in fields(cls)}


def make(cls: type[T], values: Mapping[str, Any], prefix: str) -> T:
    """A dataclass from plain values by name; other fields get their defaults. ``prefix`` is for messages."""
    known = types_of(cls)
    for name in values:
        if name not in known:
            raise unknown("setting", name, known, prefix)
    made = cls(**{name: read(known[name], value, prefix + name) for name, value in values.items()})
    check_ranges(made, prefix)
    return made


def read(kind: Any, value: Any, where: str) -> Any:
    """``value`` as a setting of type ``kind``."""
    plain, may_be_none, _ = _parts(kind)
    if value is None and may_be_none:
        return None
    if is_dataclass(plain) and isinstance(value, Mapping):
        return make(plain, value, f"{where}.")  # type: ignore[arg-type]
    try:
        return _converted(plain, value)
    except (TypeError, OverflowError) as error:
        expected = f"{_in_words(plain)}{' or null' if may_be_none else ''}"
        raise ConfigError(f"{where} must be {expected}, got {reprlib.repr(value)}.") from error


def checked(kind: Any, value: Any, where: str) -> Any:
    """``value`` as a setting of type ``kind``, within its range."""
    value = read(kind, value, where)
    _check_range(kind, value, where)
    return value


def check_ranges(settings: Any, prefix: str) -> None:
    """Refuse values that break a rule of their field."""
    for name, kind in types_of(type(settings)).items():
        value = getattr(settings, name)
        _check_range(kind, value, prefix + name)
        if is_dataclass(value):
            check_ranges(value, f"{prefix}{name}.")


def _check_range(kind: Any, value: Any, where: str) -> None:
    """Refuse a value that breaks a rule of its type; None is a value still to be chosen."""
    for rule in _parts(kind)[2]:
        if value is not None and not rule.allows(value):
            raise ConfigError(f"{where} must {rule.words}, got {value}.")


def unknown(what: str, name: str, known: Iterable[str], prefix: str = "") -> ConfigError:
    """The error for a name that does not exist, with the one that was probably meant."""
    near = nearest(name, known)
    hint = "" if near is None else f"; the nearest is {prefix}{near}"
    return ConfigError(f"There is no {what} {prefix}{name[:150]}{hint}.")


def _parts(kind: Any) -> tuple[Any, bool, tuple[Rule, ...]]:
    """A field's plain type, whether None is allowed too, and its rules."""
    may_be_none = get_origin(kind) in (Union, types.UnionType)
    if may_be_none:
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Annotated:
        return get_args(kind)[0], may_be_none, kind.__metadata__
    return kind, may_be_none, ()


def _converted(kind: Any, value: Any) -> Any:
    """``value`` as ``kind``; a TypeError if it is something else."""
    inner = get_args(kind)
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        each = inner[:1] * len(value) if inner[-1] is ... else inner
        if len(value) == len(each) <= MOST_ENTRIES:
            return tuple(map(_converted, each, value))
    elif get_origin(kind) is Literal:
        if isinstance(value, str) and value in inner:
            return value
    elif kind is float and isinstance(value, str) and DECIMAL.fullmatch(value):  # YAML 1.1 reads 1e-3 as text
        return _converted(float, float(value))
    elif kind in TYPES:
        fits = isinstance(value, TYPES[kind][1]) and isinstance(value, bool) == (kind is bool)
        if fits and (kind not in BELOW or abs(kind(value)) < BELOW[kind]):  # NaN is not
            return kind(value)
    elif kind is Any or isinstance(value, kind):
        return value
    raise TypeError


def _in_words(kind: Any) -> str:
    """What a type takes."""
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return " or ".join(filter(None, (", ".join(inner[:-1]), inner[-1])))
    if get_origin(kind) is tuple:
        count = f"at most {MOST_ENTRIES}" if inner[-1] is ... else len(inner)
        if get_origin(inner[0]) is Literal:
            return f"a list of {count} of these: {', '.join(get_args(inner[0]))}"
        return f"a list of {count} {_in_words(inner[0]).removeprefix('a ')}s"
    kind = dict if is_dataclass(kind) else kind
    return TYPES[kind][0] if kind in TYPES else str(kind)
