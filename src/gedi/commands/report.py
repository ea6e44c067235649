"""`gedi report` and `gedi explore`, and the pages that `gedi fit` and `gedi demo` end with."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedi.commands.predict import load_checked
from gedi.commands.terminal import err, leave, out, say
from gedi.errors import ConfigError, GediError

if TYPE_CHECKING:
    import numpy as np

    from gedi.data import Dataset
    from gedi.experiments import Outcome
    from gedi.report.run_view import RunView
    from gedi.runs import Plan
    from gedi.training.model import TrainedModel

PAGE, SUMMARY, COMPARISON_PAGE = "report.html", "report.json", "gedi-comparison.html"


def run_report(args: argparse.Namespace) -> None:
    from gedi.report.comparison import MOST_RUNS, comparison_page
    from gedi.report.page import write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run, write_summary

    folders = [Path(folder) for folder in args.models]
    if len(folders) > MOST_RUNS:
        raise ConfigError(f"At most {MOST_RUNS} runs fit on one page, got {len(folders)}.")
    if len(folders) > 1 and args.ood:
        raise ConfigError("--ood is only shown in the report of a single run: give one RUN.")
    runs = [read_run(folder) for folder in folders]
    for run in runs:
        if run.model is not None:  # a run that diverged has no model to show data to
            if args.data:
                run.given, _ = load_checked(run.model, args.data, label_column=args.label_column, skip_broken=True)
            if args.ood:
                run.foreign, _ = load_checked(run.model, args.ood, skip_broken=True)
    html = run_page(runs[0]) if len(runs) == 1 else comparison_page(runs)
    path = folders[0] / PAGE if len(runs) == 1 else Path(COMPARISON_PAGE)
    say(out, f"wrote {write_page(html, Path(args.out) if args.out else path)}")
    if len(runs) == 1 and not args.out:
        say(out, f"wrote {write_summary(runs[0], folders[0] / SUMMARY)}")


def run_explore(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.explore import ExploreServer, Site, find_examples

    model = runs.load(args.model)
    examples = find_examples(model, Path(args.model), args.data)
    with ExploreServer(Site(Path(args.model), examples), port=args.port) as server:
        say(out, server.url)
        say(err, "open this URL in a browser on this machine; only someone with the URL can connect; Ctrl-C stops it")
        if args.browser:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say(err, "gedi explore has stopped")
    leave(0)


def write_run_report(folder: Path, ended: tuple[TrainedModel, dict[str, Any], Dataset, Plan] | None = None) -> None:
    """Write the page of a run that has just ended, its verdict, and a sample of its data for later pages.

    ``ended``: its model, results, data and plan; None if it diverged. A failure is only reported: the run itself is
    complete.
    """
    from gedi.report.data_sample import sample_of, write_sample
    from gedi.report.page import write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run, view_of, write_summary

    try:
        if ended is None:
            run = read_run(folder)
        else:
            model, results, data, plan = ended
            write_sample(sample := sample_of(data), folder)
            run = view_of(folder, model, results, sample, plan)
        page = write_page(run_page(run), folder / PAGE)
        write_summary(run, folder / SUMMARY)
        say_clusters(run)
        say(out, f"report: {page}")
    except GediError as error:
        say(err, f"no report was written: {error} Try again with: gedi report {folder}")


def say_clusters(run: RunView) -> None:
    """Say how the clusters are graded and why, how large each is, and what sets it apart; nothing if there are none."""
    from gedi.report.look import percent
    from gedi.report.run_page import LISTED

    if not (lines := run.cluster_lines):
        return
    grade = run.judgements[0]
    say(out, f"clusters, judged without labels: {grade.level}. {grade.why}")
    for line in lines[:LISTED]:
        apart = "; ".join(f"{one.column} {one.text}" for one in line["apart"])
        size = f"{percent(line['share'])} of the {run.things}"
        say(out, f"  cluster {line['cluster']}, {size}{': ' if apart else ''}{apart}")
    if len(lines) > LISTED:
        say(out, f"  and {len(lines) - LISTED} more, in the report")


def write_demo_report(outcome: Outcome, folder: Path, trained: dict[str, tuple[Path, np.ndarray]]) -> list[Path]:
    """The demo's page, and next to it one for each of its GEDI runs."""
    from PIL import Image

    from gedi.data import Dataset
    from gedi.report.images import data_uri
    from gedi.report.page import render, write_page
    from gedi.report.run_page import run_page
    from gedi.report.run_view import read_run

    pages = []
    for name, (run_folder, x) in trained.items():
        run = read_run(run_folder)
        run.name, run.given = f"GEDI on {name}", Dataset(name, x)
        pages.append(write_page(run_page(run), folder / f"{name}.html"))
    pictures = [(path.stem, data_uri(Image.open(path))) for path in outcome.files]
    html = render("demo.html.j2", title="gedi demo", outcome=outcome, pages=pages, pictures=pictures)
    return [write_page(html, folder / PAGE), *pages]
