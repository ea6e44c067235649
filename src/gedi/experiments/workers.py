"""Run work in single-threaded processes that report progress and can be ended at any time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from typing import Any, TypeVar

import torch

from gedi.errors import GediError
from gedi.experiments import Say

Result = TypeVar("Result")
LOOK = 0.5  # seconds between checks for lines from workers
_say: ContextVar[Say] = ContextVar("say", default=lambda line: None)


def tell(line: str) -> None:
    """Send one line of progress from the working process to the one that shows it."""
    _say.get()(line)


def in_processes(work: Callable[[Any], Result], tasks: Sequence[Any], jobs: int, say: Say) -> Generator[Result]:
    """Yield the result of ``work(task)`` for each task as it finishes; ``say`` receives the lines from `tell`."""
    if jobs == 1 or len(tasks) <= 1:
        # In this process, but also on one thread: splitting sums over threads would change their last digits.
        for task in tasks:
            yield _work_here(work, task, say)
        return
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    lines = context.SimpleQueue()
    executor = ProcessPoolExecutor(min(jobs, len(tasks)), context, _start_worker, (lines,))
    try:
        left = {executor.submit(work, task) for task in tasks}
        while left:
            done, left = wait(left, LOOK, FIRST_COMPLETED)
            while not lines.empty():
                say(lines.get())
            for future in done:
                yield future.result()
    except BaseException as error:
        # Interrupted, or a task failed: do not wait for the others.
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
    # A killed parent cannot end its workers, so they watch it and exit by themselves.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_here(work: Callable[[Any], Result], task: Any, say: Say) -> Result:
    """Work in this process: one thread, and progress goes to ``say``."""
    threads, token = torch.get_num_threads(), _say.set(say)
    torch.set_num_threads(1)
    try:
        return work(task)
    finally:
        torch.set_num_threads(threads)
        _say.reset(token)
