"""Work in processes of one thread each, which report progress and can be ended at any time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

from gedi.errors import GediError
from gedi.experiments import Say

Result = TypeVar("Result")
LOOK = 0.5  # seconds between checks for lines from workers
_say: ContextVar[Say] = ContextVar("say", default=lambda line: None)


def tell(line: str) -> None:
    """Report one line of progress, from whichever process does the work to the one that shows it."""
    _say.get()(line)


def in_processes(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], jobs: int, say: Say
) -> Generator[Result]:
    """Yield the result of ``work`` for each task's arguments as it finishes; ``say`` gets the lines it tells."""
    if jobs == 1 or len(tasks) <= 1:
        # No other process, but one thread as well: how sums are split over threads changes their last digits.
        for task in tasks:
            with _as_worker(say):
                found = work(*task)
            yield found
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    lines = context.SimpleQueue()
    executor = ProcessPoolExecutor(min(jobs, len(tasks)), context, _start_worker, (lines,))
    try:
        left = {executor.submit(work, *task) for task in tasks}
        while left:
            done, left = wait(left, LOOK, FIRST_COMPLETED)
            while not lines.empty():
                say(lines.get())
            for future in done:
                yield future.result()
    except BaseException as error:
        # Interrupted, or one failed: do not wait for the others.
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise GediError(
                "A worker process was killed, perhaps for lack of memory. Finished fits are kept: run again with fewer "
                "jobs."
            ) from error
        raise
    executor.shutdown()


def _start_worker(lines: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends its workers
    torch.set_num_threads(1)
    _say.set(lines.put)
    # A parent that is killed cannot end its workers, so they watch it and end themselves.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _as_worker(say: Say) -> Iterator[None]:
    """One thread, and progress goes to ``say``, for work in this process."""
    threads, token = torch.get_num_threads(), _say.set(say)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _say.reset(token)
