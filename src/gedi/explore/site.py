"""The pages and answers of `gedi explore`. The path of a request is never used as the path of a file."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gedi.data import checked_blocks, load
from gedi.data.cell_values import number_in as cell_number
from gedi.data.pictures import thumbnail
from gedi.errors import DataError, GediError, RunError
from gedi.explore.uploads import BODY_BYTES, Upload, rows_of
from gedi.files.reading import opened, shown, whole
from gedi.files.writing import finite
from gedi.report.data_sample import read_sample, sample_of
from gedi.report.look import PALETTE
from gedi.report.measures import Answers, spread_evenly
from gedi.training.model import TrainedModel

REPORT = "report.html"
REPORT_BYTES = 2**26
FIRST_EXAMPLES = 12  # examples on the page before anything is dropped
PANEL = {
    "": ("index.html", "text/html"),
    "panel.css": ("panel.css", "text/css"),
    "panel.js": ("panel.js", "text/javascript"),
}
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# A report is a single file, which is not trusted. It can draw, but not reach anything, not even this server:
# a sandboxed page has no origin.
REPORT_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; worker-src blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


class Reply(NamedTuple):
    """The answer to one request."""

    status: int
    kind: str
    body: bytes
    policy: str = PAGE_POLICY


class Site:
    """One run, and the examples to compare new rows with."""

    def __init__(self, folder: Path, examples: Examples) -> None:
        self.folder, self.examples, self.model = folder, examples, examples.model

    def get(self, path: str) -> Reply:
        """A page, a part of it, or a picture."""
        if path in PANEL:
            name, kind = PANEL[path]
            return Reply(200, f"{kind}; charset=utf-8", _panel(name))
        if path == "about.json":
            return as_json(200, self._about())
        if path == "example.json":
            return as_json(200, self._example())
        if path == REPORT:
            return self._report()
        picture = re.fullmatch(r"example/([0-9]{1,6})\.png", path)
        if picture and self.model.image_shape is not None and int(picture[1]) < len(self.examples.rows):
            return Reply(200, "image/png", self.examples.picture(self.examples.rows[int(picture[1])]))
        return problem(404, "Not found.")

    def post(self, path: str, body: bytes, name: str) -> Reply:
        """What the model says about the rows in a file."""
        if path != "answer":
            return problem(404, "Not found.")
        name = shown(name) or "the file"
        try:
            return as_json(200, answer(self.examples, rows_of(body, name, self.model), name))
        except GediError as error:
            return problem(422, str(error))
        except (ValueError, MemoryError, RuntimeError, ArithmeticError, LookupError) as error:
            return problem(422, f"{name} cannot be read as data: {shown(f'{type(error).__name__}: {error}', 200)}")

    def _about(self) -> dict[str, Any]:
        model, examples = self.model, self.examples
        return {
            "run": shown(self.folder.resolve().name),
            "data": shown(str(model.results.get("data", "")), 100),
            "clusters": model.n_clusters,
            "density": model.has_density,
            "features": model.n_features,
            "width": None if model.image_shape else len(model.table.used) if model.table else model.n_features,
            "columns": [shown(name, 60) for name in columns_shown(model)],
            "image": list(model.image_shape) if model.image_shape else None,
            "colours": PALETTE,
            "examples": {
                "kind": shown(examples.kind, 100),
                "names": list(examples.names),
                "clusters": examples.cluster.tolist(),
                "values": [] if model.image_shape else values_shown(model, examples.rows),
            },
            "limits": {"bytes": BODY_BYTES},
        }

    def _example(self) -> dict[str, Any]:
        """Some of the examples, answered as if they were new."""
        places = spread_evenly(len(self.examples.rows), FIRST_EXAMPLES).tolist()
        some = Upload(self.examples.rows[places], [self.examples.names[i] for i in places])
        return answer(self.examples, some, shown(self.examples.kind, 100))

    def _report(self) -> Reply:
        kind = "text/html; charset=utf-8"
        path = self.folder / REPORT
        if not os.path.lexists(path):
            return Reply(200, kind, _panel("no-report.html"), REPORT_POLICY)
        try:
            with opened(path, REPORT_BYTES) as (file, size):
                return Reply(200, kind, whole(file, size), REPORT_POLICY)
        except RunError as error:
            return problem(422, str(error))


def _panel(name: str) -> bytes:
    return files("gedi.explore").joinpath("panel", name).read_bytes()


def as_json(status: int, content: dict[str, Any]) -> Reply:
    """JSON, with null for numbers that are not finite."""
    return Reply(status, "application/json", json.dumps(finite(content)).encode())


def problem(status: int, sentence: str) -> Reply:
    """What is wrong, in one sentence."""
    return as_json(status, {"error": sentence})


# ---- examples, and the model's answers about new rows ----

EXAMPLE_ROWS = 2_000  # examples: enough to compare with, and quick to search
PICTURES = 500  # rows of images sent with a picture each
NEAREST_EXAMPLES = 5
VALUES_OF_ROW = 8  # shown for a wide row


@dataclass(frozen=True, eq=False)
class Examples(Answers):
    """Rows in the user's units and the model's answers about them: training data if available, otherwise samples."""

    kind: str  # in words, for the page
    names: list[str]  # of the rows: their numbers and ids

    def nearest(self, said: Answers) -> tuple[np.ndarray, np.ndarray]:
        """For each row, the distances to the nearest examples and which ones they are, [n, NEAREST] each."""
        from sklearn.neighbors import NearestNeighbors

        search = NearestNeighbors(n_neighbors=min(NEAREST_EXAMPLES, len(self.rows))).fit(_places(self))
        return search.kneighbors(_places(said))

    def picture(self, row: np.ndarray) -> bytes:
        """A row of pixels as a small PNG."""
        assert self.model.image_shape is not None
        return thumbnail(row, self.model.image_shape, *self.model.black_and_white)


def _places(said: Answers) -> np.ndarray:
    """The rows in the embedding, or in the scaled data space if no embedding was trained."""
    return said.embedding if said.model.has_clusters else said.scaled.astype(np.float64)


def find_examples(model: TrainedModel, folder: Path, data: str | None = None) -> Examples:
    """Some rows of ``data``; without it, the rows kept with the run or, failing that, the model's own samples."""
    if data is not None:
        loaded = load(data, skip_broken=True, **model.reading)
        if not len(loaded.x):
            raise DataError(f"{data} is empty: there is nothing to compare with.")
        kept = sample_of(loaded)
    elif (kept := read_sample(folder, model.n_features)) is None:
        if not model.has_density:
            raise DataError(
                f"{folder} has neither stored rows nor a density to sample from, so there is nothing to compare with: "
                "pass rows with --data DATA."
            )
        rows = model.rows_of(model.chains[:EXAMPLE_ROWS])
        return Examples(model, rows, "samples of the model", [f"sample {i}" for i in range(len(rows))])
    things = "rows" if model.image_shape is None else "images"
    (rows,) = checked_blocks([kept.rows], n_features=model.n_features, name=kept.name)
    return Examples(model, rows, f"{things} of {kept.name}", [kept.row_name(i) for i in range(len(rows))])


def columns_shown(model: TrainedModel) -> list[str]:
    """Names of the values shown for a row; none for images."""
    if model.image_shape is not None:
        return []
    if model.table is not None:
        return [column.name for column in model.table.used[:VALUES_OF_ROW]]
    return (model.columns or [f"feature {i}" for i in range(model.n_features)])[:VALUES_OF_ROW]


def values_shown(
    model: TrainedModel, rows: np.ndarray, cells: Mapping[str, Sequence[Any]] | None = None
) -> list[list[Any]]:
    """The values of rows in these columns: from the file if ``cells`` has them, otherwise decoded from features."""
    if model.image_shape is not None:
        return [[]] * len(rows)
    if model.table is None or (model.table.is_plain and not cells):
        return rows[:, :VALUES_OF_ROW].tolist()
    names = columns_shown(model)
    if cells and all(name in cells for name in names):
        return [list(row) for row in zip(*(map(_cell, cells[name]) for name in names), strict=True)]
    return [[row[name] for name in names] for row in model.table.decode(rows)]


def _cell(value: Any) -> Any:
    """A cell of a table for JSON: a number if it is written as one, or text; None for a gap."""
    if value is None or not isinstance(value, str):
        return value
    known = cell_number(value)
    return value.strip() if known is None else None if np.isnan(known) else known


def answer(examples: Examples, upload: Upload, name: str) -> dict[str, Any]:
    """Cluster, probability and nearest examples of every row, and how familiar it is if there is a density."""
    model, rows = examples.model, upload.rows
    said = Answers(model, rows)
    familiarity = _familiarity(examples, said) if model.has_density else [{}] * len(rows)
    cluster = model.leave_out(said.cluster, said.log_density) if model.has_density else said.cluster
    distances, places = examples.nearest(said)
    values = values_shown(model, rows, upload.cells)
    return {
        "name": name,
        "more": upload.more,
        "rows": [
            {
                "row": upload.names[i],
                "values": values[i],
                "picture": None if model.image_shape is None or i >= PICTURES else _inline(examples.picture(row)),
                "cluster": int(cluster[i]),
                "probability": float(said.confidence[i]),
                "nearest": [[int(j), float(far)] for j, far in zip(places[i], distances[i], strict=True)],
            }
            | familiarity[i]
            for i, row in enumerate(rows)
        ],
    }


def _familiarity(examples: Examples, said: Answers) -> list[dict[str, float | str]]:
    """How typical each row is, in numbers and in a word."""
    # Share of the examples that are less typical than the row by log p. The slope of log p is no guide: outliers of
    # tables often lie where log p is flat.
    below = np.searchsorted(np.sort(examples.log_density), said.log_density, side="right") / len(examples.rows)
    words = np.select([below < 0.01, below < 0.05], ["foreign", "unusual"], "typical")
    each = zip(said.log_density, said.ood_score, below, words, strict=True)
    return [
        {"log_density": float(height), "ood_score": float(slope), "below": float(share), "familiarity": str(word)}
        for height, slope, share, word in each
    ]


def _inline(picture: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(picture).decode()
