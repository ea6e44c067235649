"""The terminal: lines, progress bars and Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Column

if TYPE_CHECKING:
    from gedi.training.journal import Progress


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


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """A progress bar on standard error; yields the callback that feeds it."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    # On a narrow terminal, the values give way to names and counts.
    fixed = {"no_wrap": True, "overflow": "ignore"}
    columns = [
        TextColumn("{task.description}", table_column=Column(min_width=9, **fixed)),
        BarColumn(bar_width=12),
        TextColumn("{task.completed:.0f}/{task.total:.0f}", table_column=Column(min_width=9, **fixed)),
        TimeRemainingColumn(table_column=Column(min_width=7, **fixed)),
        TextColumn("{task.fields[values]}", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
    ]
    shown = {"denoising_error": "denoising error", "objective": "objective", "negative_free": "L_NF"}
    shown |= {"clustering_augment": "L_DI(T)", "clustering_dam": "L_DI(p)"}
    with Bar(*columns, console=err, expand=True) as bar:
        tasks: dict[str, Any] = {}

        def report(progress: Progress) -> None:
            if progress.stage not in tasks:
                tasks[progress.stage] = bar.add_task(progress.stage, total=progress.total, values="")
            values = "  ".join(
                f"{label} {progress.values[k]:.3g}" for k, label in shown.items() if k in progress.values
            )
            # The total falls once a curve has settled.
            bar.update(tasks[progress.stage], completed=progress.iteration, total=progress.total, values=values)

        yield report
