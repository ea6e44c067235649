"""The terminal: lines and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

out, err = Console(), Console(stderr=True)


def say(console: Console, line: str, *, markup: bool = False) -> None:
    """Print one line as it is: no wrapping, and [brackets] in a path are not markup."""
    console.print(line, markup=markup, highlight=False, soft_wrap=True)


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
