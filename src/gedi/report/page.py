"""One self-contained HTML page: templates, style and scripts in one file, without any network request."""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gedi import __version__
from gedi.errors import DataError, RunError
from gedi.files.writing import write_whole
from gedi.report.charts import Chart
from gedi.report.look import PALETTE, SYMBOLS, colour, ink_on, percent, score_in_words, short, swatch

GENERATOR = f'<meta name="generator" content="gedi {__version__}">'
MARK = b'<meta name="generator" content="gedi '  # how we recognise our own pages


def render(template: str, *, title: str, charts: dict[str, Chart] | None = None, **context: Any) -> str:
    """The page as text. Everything from files is escaped, and the page's policy allows no scripts but ours."""
    scripts = [_text("vendor/plotly-basic.min.js")] if charts else []
    scripts.append(_text("templates/page.js"))
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    look = {"colours": PALETTE, "inks": [ink_on(i) for i in range(len(PALETTE))], "symbols": list(SYMBOLS)}
    return page.render(
        {"sheet": None} | context,
        title=title,
        charts=charts or {},
        look=look,
        scripts=[Markup(script) for script in scripts],
        style=Markup(_text("templates/style.css")),
        policy=policy,
        generator=Markup(GENERATOR),
        version=__version__,
    )


def write_page(html: str, path: Path) -> Path:
    """Write a page whole or not at all; a file that is not one of our pages is never overwritten."""
    if path.is_dir():
        raise DataError(f"{path} is a folder: give a file name for the page.")
    if os.path.lexists(path) and not _is_ours(path):
        raise DataError(f"{path} already exists and is not a report: use another name, or remove it.")
    try:
        write_whole(path, html.encode("utf-8", "backslashreplace"))  # file names need not be valid text
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror}.") from error
    return path


def _is_ours(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return MARK in file.read(4096)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("gedi.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {"short": short, "percent": percent, "score": score_in_words}
    environment.globals |= {"swatch": swatch, "colour": colour}
    return environment


@cache
def _text(name: str) -> str:
    return resources.files("gedi.report").joinpath(*name.split("/")).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
