"""Work in other processes: results, progress and errors."""

import os

import pytest
import torch

from gedi.experiments.workers import in_processes, tell


def double(x):
    tell(f"task {x} on {torch.get_num_threads()}")
    return 2 * x, os.getpid()


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_task_runs_once_on_one_thread_and_its_progress_is_shown(jobs):
    lines = []
    found = list(in_processes(double, range(3), jobs, lines.append))
    tell("too late")
    assert sorted(x for x, _ in found) == [0, 2, 4]
    assert sorted(lines) == [f"task {i} on 1" for i in range(3)]
    assert (os.getpid() in {pid for _, pid in found}) == (jobs == 1)


def fail(x):
    raise ValueError(f"task {x}")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_task_raises_is_raised(jobs):
    with pytest.raises(ValueError, match="task"):
        list(in_processes(fail, range(2), jobs, print))
