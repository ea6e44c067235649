"""The pages and answers of `gedi explore`. The path of a request is never used as the path of a file."""

from __future__ import annotations

import json
import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from gedi.errors import GediError, RunError
from gedi.explore.answers import Examples, answer, columns_shown, values_shown
from gedi.explore.uploads import BODY_BYTES, Upload, rows_of
from gedi.files.reading import opened, shown, whole
from gedi.files.writing import finite
from gedi.report.look import PALETTE
from gedi.report.measures import spread_evenly

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
