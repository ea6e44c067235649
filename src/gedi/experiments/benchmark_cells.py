"""Fits on the files of public benchmarks: where they lie, what they hold, and the rivals from scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gedi.data.sources import data_dir
from gedi.errors import DataError
from gedi.experiments import Request
from gedi.experiments.cells import Cell


@dataclass(frozen=True)
class BenchmarkCell(Cell):
    """One fit on a table of ``columns`` columns: GEDI, or a rival with its own settings."""

    rivals: ClassVar[Mapping[str, dict[str, Any]]] = {}

    def settings(self) -> dict[str, Any]:
        return dict(self.rivals[self.method]) if self.method in self.rivals else super().settings()

    def image_shape(self) -> None:
        return None


def benchmark_folder(request: Request, name: str, source: str) -> Path:
    """The folder given with --data, or the one called ``name`` in the data folder."""
    folder = request.data or data_dir() / name
    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}: get the files from {source} and give their folder with --data.")
    return folder
