"""Run folders to damage."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(begun, tmp_path):
    """A copy of a finished run that can also be resumed from a checkpoint."""
    return Path(shutil.copytree(begun, tmp_path / "run"))
