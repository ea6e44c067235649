"""The terminal: lines, the table of columns, and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from gedi.data import TableRecipe

out, err = Console(), Console(stderr=True)


def say(console: Console, line: str, *, markup: bool = False) -> None:
    """Print one line as it is: no wrapping, and [brackets] in a path are not markup."""
    console.print(line, markup=markup, highlight=False, soft_wrap=True)


def leave(code: int) -> NoReturn:
    """End the process at once: in Python's normal shutdown, a thread of torch may abort it. Nothing is left to save."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Make Ctrl-C and SIGTERM stop training at the end of an iteration; yields a function that says whether to stop."""
    asked = threading.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, lambda *_: asked.set()) for number in signals]
    except ValueError:  # not in the main thread: the caller has other ways to stop
        yield asked.is_set
        return
    try:
        yield asked.is_set
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


COLUMNS_LISTED = 40  # columns to list


def say_columns(recipe: TableRecipe) -> None:
    """Say how each column was read; nothing if all of them are plain numbers without gaps."""
    if all(column.is_plain and not column.missing for column in recipe.columns):
        return
    table = Table("column", "read as", "", box=None, pad_edge=False, header_style="bold")
    for column in recipe.columns[:COLUMNS_LISTED]:
        what, more = column.in_words
        table.add_row(Text(column.name), Text(what), Text(more))
    if (rest := len(recipe.columns) - COLUMNS_LISTED) > 0:
        table.add_row(Text(f"and {rest} more"))
    err.print(table, soft_wrap=True)
