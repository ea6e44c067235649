"""What the columns of a table stand for: which are features, which one holds labels, and how cells become numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gedi.data.checks import did_you_mean, few
from gedi.errors import DataError


@dataclass(frozen=True)
class Wanted:
    """The columns that the caller asks for, by name."""

    label: str | None = None  # None: 'label', or 'y' if it holds classes; "": no labels, every column is a feature
    features: Sequence[str] | None = None  # these, in this order, whatever else the table holds
    dropped: Sequence[str] | None = ()  # None: the caller cannot drop columns, so no message may suggest it
    raw: bool = False  # every feature must be a plain number

    @property
    def names(self) -> list[str]:
        """All columns that must exist."""
        return [*([self.label] if self.label else []), *(self.features or []), *(self.dropped or [])]


class Chosen(NamedTuple):
    """The places of columns in a table."""

    features: list[int]
    label: int | None  # None: there are no labels

    @property
    def places(self) -> list[int]:
        """All of them, the label last."""
        return self.features if self.label is None else [*self.features, self.label]


def choose(
    names: list[str], wanted: Wanted, path: Path, categorical: Callable[[int], bool], *, left_out: Sequence[int] = ()
) -> Chosen:
    """Which columns are features or labels; those in ``left_out`` are neither."""
    for name in wanted.names:
        if name not in names:
            raise no_such_column(path, name, names, of_training=wanted.dropped is None and name != wanted.label)
    if wanted.features is None:
        gone = {*left_out, *(i for i, name in enumerate(names) if name in (wanted.dropped or ()))}
        label = _find_label(names, wanted.label, gone, categorical)
        kept = [i for i in range(len(names)) if i != label and i not in gone]
    else:
        kept = [names.index(name) for name in wanted.features]
        label = _find_label(names, wanted.label, set(kept), categorical)
    if not kept:
        raise DataError(f"{path} has no columns left besides labels and dropped columns: keep at least one.")
    return Chosen(kept, label)


def _find_label(names: list[str], wanted: str | None, gone: set[int], categorical: Callable[[int], bool]) -> int | None:
    """The column that the caller names, or 'label', or 'y' if it holds classes and there is no 'x' beside it."""
    if wanted:
        return names.index(wanted)
    if wanted is None:
        left = [name for i, name in enumerate(names) if i not in gone]
        if "label" in left:
            return names.index("label")
        if "y" in left and "x" not in names and categorical(names.index("y")):
            return names.index("y")
    return None


def encode_labels(y: np.ndarray, path: Path) -> tuple[np.ndarray, list[str] | None]:
    """Labels in int64: whole numbers as they are, anything else numbered in sorted order, with the list of classes."""
    if y.dtype.kind in "bui":
        return y.astype(np.int64), None
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise missing_labels(path, int((~np.isfinite(y)).sum()))
        if (y == np.round(y)).all():
            return y.astype(np.int64), None
    classes, numbers = np.unique(y, return_inverse=True)
    return numbers.astype(np.int64), [str(name) for name in classes]


def check_names(names: Iterable[str], where: Path | str) -> list[str]:
    """The names of a table's columns; refuses names that occur twice."""
    listed = list(names)
    if twice := sorted(name for name, count in Counter(listed).items() if count > 1):
        raise DataError(f"{where} has several columns named {few(map(repr, twice))}: rename them.")
    return listed


def missing_labels(path: Path, count: int) -> DataError:
    return DataError(
        f"The label column of {path} has {count} missing values: "
        "fill them in, or leave the column out (labels are only needed for evaluation)."
    )


def no_such_column(where: Path | str, name: str, names: list[str], *, of_training: bool) -> DataError:
    hint = did_you_mean(name, names, otherwise=f"its columns are {few(map(repr, names))}.")
    return DataError(f"{where} has no column {name!r}{', which training had' if of_training else ''}: {hint}")


def not_numeric(path: Path, held: Mapping[str, str], wanted: Wanted, *, has_header: bool) -> DataError:
    """``held`` says what each column holds instead of numbers, by name."""
    first, what = next(iter(held.items()))
    if not has_header:
        return DataError(
            f"In {path}, {first} is not numeric (it holds {what}): remove it or encode it as numbers, or add a header "
            "line and leave the column out by name."
        )
    if wanted.dropped is None:
        which = f"column {first!r} is" if len(held) == 1 else f"the columns {few(map(repr, held))} are"
        fix = "it must hold numbers, as in training"
        if wanted.features is None:
            fix = "remove columns that training did not have, or name a column 'label' if it holds the labels"
        return DataError(f"In {path}, {which} not numeric ({first!r} holds {what}): {fix}.")
    if len(held) == 1:
        return DataError(
            f"In {path}, column {first!r} is not numeric (it holds {what}): leave it out with --drop {_flag([first])}, "
            f"name it with --label-column {_flag([first])} if it holds the labels, or encode it as numbers."
        )
    return DataError(
        f"In {path}, the columns {few(map(repr, held))} are not numeric ({first!r} holds {what}): leave them out "
        f"with --drop {_flag(list(held))}, name the column of labels with --label-column, or encode them as numbers."
    )


def _flag(names: list[str]) -> str:
    """The names as one argument of a command line."""
    text = ",".join(f'"{name}"' if "," in name or '"' in name else name for name in names)
    return text if text.replace(",", "").replace("_", "").isalnum() else f"'{text}'"
