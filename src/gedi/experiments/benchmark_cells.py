"""Fits on public benchmarks: where their files are, the rivals' settings, and columns of scores and ranks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.stats import rankdata

from gedi.data.sources import data_dir
from gedi.errors import DataError
from gedi.experiments import Request
from gedi.experiments.cells import Cell
from gedi.experiments.tabulate import Entry, Results, Text, number

RANK = "mean rank"  # the last row


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
        raise DataError(f"There is no folder {folder}: get the files from {source} and pass their folder with --data.")
    return folder


def score_or_rank(place: tuple[str, str], places: Sequence[tuple[str, str]], mean_row: str) -> Text:
    """A method's score on the row's table; in the last rows, its mean over all tables, and its mean rank.

    A place is the name of a method and of its score; ranks are among all ``places``.
    """
    method, name = place

    def text(results: Results, row: Entry) -> str:
        if row[0] not in (mean_row, RANK):
            return number(name, method)(results, row)
        tables = dict.fromkeys(table for table, _ in results.cells)
        scores = np.array([[results.groups[table, m][n]["mean"] for m, n in places] for table in tables])
        mine, ranks = places.index(place), rankdata(-scores.round(6), axis=1)
        return f"{statistics.fmean(scores[:, mine]):.3f}" if row[0] == mean_row else f"{ranks[:, mine].mean():.2f}"

    return text
