"""What a run records while it trains: values, lines of history, warnings, progress, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from gedi.errors import warn_user
from gedi.progress import Progress
from gedi.settings import SAVE_EVERY, NotNegative, Rule
from gedi.training.guard import GuardWarning
from gedi.training.state import LINES, ONLY_NUMBERS


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
    save_every: float = SAVE_EVERY
    should_stop: Callable[[], bool] = lambda: False  # called after every iteration


COUNTS = Rule("hold the counts of stages", lambda stages: all(map(ONLY_NUMBERS.allows, stages.values())))


@dataclass(kw_only=True)
class JournalCounters:
    """A `Journal` in a checkpoint."""

    history: Annotated[list, LINES]
    values: Annotated[dict, ONLY_NUMBERS]
    stages: Annotated[dict, COUNTS]
    seconds: Annotated[dict, ONLY_NUMBERS]
    elapsed: NotNegative


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
