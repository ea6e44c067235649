"""`gedi report`, and the pages that `gedi fit` and `gedi demo` end with."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from gedi.commands.terminal import out, say
from gedi.errors import ConfigError, RunError

if TYPE_CHECKING:
    import numpy as np

    from gedi.data import Dataset
    from gedi.experiments.outcome import Outcome

PAGE, COMPARISON = "report.html", "gedi-comparison.html"


def run_report(args: argparse.Namespace) -> None:
    from gedi.report.comparison import MOST, comparison_page
    from gedi.report.page import write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run

    folders = [Path(folder) for folder in args.models]
    if len(folders) > MOST:
        raise ConfigError(f"At most {MOST} runs fit on one page, got {len(folders)}.")
    for folder in folders:
        if not folder.is_dir():
            raise RunError(f"There is no folder {folder}: check the path.")
    if len(folders) == 1:
        data = _load(args.data, args.label_column, folders[0])
        html = run_page(read_run(folders[0], data=data, foreign=_load(args.ood, None, folders[0])))
        path = folders[0] / PAGE
    elif args.ood:
        raise ConfigError("--ood is shown in the report of one run: give one RUN.")
    else:
        read = [read_run(folder, data=_load(args.data, args.label_column, folder)) for folder in folders]
        html = comparison_page(read)
        path = Path(COMPARISON)
    say(out, f"wrote {write_page(html, Path(args.out) if args.out else path)}")


def write_run_report(folder: Path, data: Dataset | None) -> Path:
    """The page of a run that has just ended, and the sample of its data that later pages are made from."""
    from gedi.report.data_sample import sample_of, write_sample
    from gedi.report.page import write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run

    if data is not None:
        write_sample(sample_of(data), folder)
    return write_page(run_page(read_run(folder)), folder / PAGE)


def write_demo_report(outcome: Outcome, folder: Path, trained: dict[str, tuple[Path, np.ndarray]]) -> list[Path]:
    """The demo's page, and one beside it for each of its GEDI runs."""
    from gedi.data import Dataset
    from gedi.report.page import Section, render, write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run

    pages = []
    for name, (run_folder, x) in trained.items():
        run = read_run(run_folder, data=Dataset(name, x))
        run.name = f"GEDI on {name}"
        pages.append(write_page(run_page(run), folder / f"{name}.html"))
    section = Section(outcome.title, outcome.columns, outcome.rows, outcome.notes, list(outcome.files))
    section.links = [(f"the report of {path.stem}", path.name) for path in pages]
    html = render("demo.html.j2", title="gedi demo", sections=[section])
    return [write_page(html, folder / PAGE), *pages]


def _load(name: str | None, label_column: str | None, folder: Path) -> Dataset | None:
    """Data to show, read as the run's model is used to; a run that diverged has no model to show it to."""
    from gedi import runs
    from gedi.data import load

    if name is None or not (folder / runs.MODEL).is_file():
        return None
    return load(name, label_column=label_column, **runs.load(folder).reading)
