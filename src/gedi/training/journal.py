"""What a run records while it trains: values, lines of history, warnings, progress, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from gedi.errors import warn_user
from gedi.training.guard import GuardWarning

if TYPE_CHECKING:
    from rich.console import Console


class Log(Protocol):
    """Receives the lines of history as they are made."""

    def restart(self, lines: list[dict[str, Any]]) -> None: ...
    def write(self, line: dict[str, Any]) -> None: ...


class CheckpointStore(Protocol):
    """Stores packed states, and returns the newest one if it belongs to this run."""

    skipped: list[str]

    def exists(self) -> bool: ...
    def save(self, tensors: dict[str, Any], counters: dict[str, Any]) -> None: ...
    def load(self, **of: Any) -> tuple[dict[str, Any], dict[str, Any]]: ...


@dataclass(frozen=True)
class Hooks:
    """What a caller can plug into a run."""

    progress: Callable[[Progress], None] | None = None  # called after every iteration
    log: Log | None = None
    checkpoints: CheckpointStore | None = None  # where the run saves its state, and resumes from
    save_every: float = 30.0  # seconds between checkpoints
    should_stop: Callable[[], bool] = lambda: False  # called after every iteration


class Journal:
    """Keeps a run's history; only the main process reports it."""

    def __init__(self, hooks: Hooks, *, is_main: bool) -> None:
        self.on_progress, self.log = (hooks.progress, hooks.log) if is_main else (None, None)
        self.is_main = is_main
        self.values: dict[str, float] = {}  # the latest value of everything measured in this stage
        self.history: list[dict[str, Any]] = []
        self.stages: dict[str, dict[str, int]] = {}  # for every finished stage, its iterations and their limit
        self.seconds: dict[str, float] = {name: 0.0 for name in ("data", "sgld", "dam", "loss", "optimiser")}
        self._began = time.monotonic()

    def pack(self) -> dict[str, Any]:
        """The whole journal, as part of a checkpoint."""
        return {
            "history": self.history,
            "values": self.values,
            "stages": self.stages,
            "seconds": self.seconds,
            "elapsed": self.elapsed(),
        }

    def unpack(self, counters: dict[str, Any]) -> None:
        """Restore the journal of a checkpoint."""
        self.history, self.seconds = counters["history"], self.seconds | counters["seconds"]
        self.values.update(counters["values"])
        self.stages.update(counters["stages"])
        self._began -= counters["elapsed"]

    def elapsed(self) -> float:
        """Seconds of training, including those before a stop."""
        return time.monotonic() - self._began

    def open(self) -> None:
        """Start the log with the history so far."""
        if self.log is not None:
            self.log.restart(self.history)

    def record(self, line: dict[str, Any]) -> None:
        self.history.append(line)
        if self.log is not None:
            self.log.write(line)

    def tell(self, text: str) -> None:
        if self.is_main:
            warn_user(text, GuardWarning)

    def progress(self, doing: str, iteration: int = 0, total: int = 0) -> None:
        if self.on_progress is not None:
            self.on_progress(Progress(doing, iteration, total))

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] += time.monotonic() - began

    @contextmanager
    def timed_as_loss(self) -> Iterator[None]:
        """The time of an iteration without the parts that are timed separately: forward and backward passes."""
        began, apart = time.monotonic(), sum(self.seconds.values())
        yield
        self.seconds["loss"] += time.monotonic() - began - (sum(self.seconds.values()) - apart)


# -- progress, in words ------------------------------------------------------------------------------------------------


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
