"""Shared by all tests: one thread a process, and data sets only where they are."""

import os
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Workers that each start a thread per core slow each other down, and sums depend on the split."""
    torch.set_num_threads(1)


@pytest.fixture
def named_dataset():
    """A function that gives back a data set's name if its file is there, and skips the test otherwise."""

    def require(name: str) -> str:
        folder = os.environ.get("GEDI_DATA")
        if not folder:
            pytest.skip("GEDI_DATA is not set")
        if not (Path(folder) / f"{name}.npz").is_file():
            pytest.skip(f"{name}.npz is not in GEDI_DATA")
        return name

    return require
