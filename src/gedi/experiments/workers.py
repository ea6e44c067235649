"""Work in processes of one thread each, which can be ended at any time and say what they are about."""

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
from gedi.experiments.outcome import Say

Result = TypeVar("Result")
LOOK = 0.5  # seconds between looks at what workers have said
_say: ContextVar[Say] = ContextVar("say", default=lambda line: None)


def tell(line: str) -> None:
    """One line of progress of the work under way, from whichever process does it to the one that shows it."""
    _say.get()(line)


def in_processes(
    work: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], jobs: int, say: Say
) -> Generator[Result]:
    """Yield what ``work`` makes of each task's arguments as it finishes; ``say`` gets the lines that it tells."""
    if jobs == 1 or len(tasks) <= 1:
        # No process of its own, but the same single thread: sums, and so numbers, depend on how they are split.
        for task in tasks:
            with _one_thread(), _telling(say):
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
        # Interrupted, or one failed: nobody waits for those under way.
        executor.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        if isinstance(error, BrokenProcessPool):
            raise GediError(
                "A worker process was killed, perhaps for lack of memory: finished fits are kept, "
                "run again with fewer jobs."
            ) from error
        raise
    executor.shutdown()


def _start_worker(lines: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C, and ends its workers
    torch.set_num_threads(1)
    _say.set(lines.put)
    # A parent that was killed cannot end them: they watch it, rather than train on for nobody.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _telling(say: Say) -> Iterator[None]:
    token = _say.set(say)
    try:
        yield
    finally:
        _say.reset(token)
