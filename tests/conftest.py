"""Shared by all tests: one thread a process, and data sets and a browser only where they are."""

import os
import shutil
from pathlib import Path

import pytest
import torch

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]


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


@pytest.fixture(scope="session")
def needs_chromium():
    """The system's browser; playwright's own is not downloaded."""
    if CHROMIUM is None:
        pytest.skip("needs a chromium: apt-get install chromium")


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """How pytest-playwright starts the one browser of all tests; it may take its time on a busy machine."""
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox", "--disable-gpu", *QUIET], "timeout": 120_000}
