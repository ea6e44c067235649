"""Progress in words: one line that is rewritten on a terminal, and a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

REDRAWN = 0.25  # seconds between updates of the line on a terminal
FIRST_LINE, LONGEST_WAIT = 5.0, 60.0  # elsewhere: seconds before the first line, doubled after every line up to this


class Progress(NamedTuple):
    """How far a run has come."""

    doing: str  # "fitting the density"
    iteration: int = 0
    total: int = 0  # 0: not known


def duration(seconds: float) -> str:
    """'90 s', '4 min', '11 h'."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 36_000 else f"{seconds / 3600:,.0f} h"


@contextmanager
def progress_line(console: Console | None = None) -> Iterator[ProgressLine]:
    """Yield the callback that shows a run's progress on ``console`` (default: standard error)."""
    from rich.console import Console

    line = ProgressLine(console or Console(stderr=True, force_jupyter=False))
    try:
        yield line
    finally:
        line.close()


class ProgressLine:
    """Shows the `Progress` it is called with, unless the last one was shown too recently."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self.console, self.clock = console, clock
        self._live: Any = None
        self._doing = ""
        self._began, self._first = 0.0, 0  # when this part of the run was first seen, and at which iteration
        self._wait = REDRAWN if console.is_terminal else FIRST_LINE
        self._shown = -REDRAWN if console.is_terminal else clock()

    def __call__(self, progress: Progress) -> None:
        now = self.clock()
        if progress.doing != self._doing:
            self._doing, self._began, self._first = progress.doing, now, progress.iteration
        if 0 < progress.total == progress.iteration:
            taken = duration(now - self._began)
            self.say(f"{progress.doing}: done, {progress.iteration:,} iterations in {taken}")
        elif now - self._shown >= self._wait:
            self._shown = now
            self._show(self._in_words(progress, now))

    def _in_words(self, progress: Progress, now: float) -> str:
        """'fitting the density, 40%, 25 s left'."""
        if not progress.total:
            return progress.doing
        text = f"{progress.doing}, {100 * progress.iteration // progress.total}%"
        seen = progress.iteration - self._first
        if not seen:
            return text
        left = (now - self._began) / seen * (progress.total - progress.iteration)
        return f"{text}, {duration(max(1.0, left))} left"

    def _show(self, text: str) -> None:
        if not self.console.is_terminal:
            self._wait = min(LONGEST_WAIT, 2 * self._wait)
            self._print(text)
            return
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False, transient=True)
            self._live.start()
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def _print(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self.close()
        self._print(text)

    def close(self) -> None:
        """Remove the line that is rewritten."""
        if self._live is not None:
            self._live.stop()
            self._live = None
