"""`gedi methods`, `datasets`, `fetch`, `demo` and `reproduce`: what comes with gedi; and `completion`."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from gedi.commands.report import write_demo_report
from gedi.commands.terminal import err, out, say
from gedi.errors import ConfigError

if TYPE_CHECKING:
    from gedi.experiments import Outcome


def run_methods(args: argparse.Namespace) -> None:
    from gedi.training.methods import METHODS, with_method
    from gedi.training.presets import preset

    table = Table("method", "what it trains", "terms")
    for name, method in METHODS.items():
        objective = with_method(preset("toy", n_features=2), name).objective
        terms = ", ".join(f"{family}: {term.kind} ({term.equation})" for family, term in objective.items())
        table.add_row(name, method.summary, terms)
    out.print(table)


def run_datasets(args: argparse.Namespace) -> None:
    from gedi.data import known_datasets

    table = Table("name", "kind", "present", "rows", "location")
    for info in known_datasets():
        rows = "" if info.rows is None else f"{info.rows:,}"
        table.add_row(info.name, info.kind, "yes" if info.present else "no", rows, info.where)
    out.print(table)


def run_fetch(args: argparse.Namespace) -> None:
    from gedi.data.downloads import DOWNLOADS, fetch

    if args.name.lower() in DOWNLOADS:
        say(err, f"about {DOWNLOADS[args.name.lower()].megabytes} MB to download, unless already present")
    say(out, f"{args.name} is in {fetch(args.name)}, every file verified")


def run_reproduce(args: argparse.Namespace) -> None:
    from gedi.experiments import find

    experiment = find(args.name)
    folder = Path(args.out or f"results/{args.scale}")
    began = time.monotonic()
    outcome = experiment.run(
        scale=args.scale,
        seeds=args.seeds,
        out=folder,
        jobs=args.jobs,
        say=partial(say, err),
        data=Path(args.data) if args.data else None,
    )
    _show(outcome)
    say(err, f"{time.monotonic() - began:.0f} s")


def run_demo(args: argparse.Namespace) -> None:
    from gedi.experiments import demo

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    outcome = demo.run(folder, seed=args.seed, preset=args.preset, say=partial(say, err))
    trained = demo.trained(folder, seed=args.seed, preset=args.preset)
    outcome.files += write_demo_report(outcome, folder, trained)
    _show(outcome)
    say(out, "next: gedi fit YOUR.csv --out my-run")


def _show(outcome: Outcome) -> None:
    """An experiment's table, notes and files."""
    table = Table(*outcome.columns, title=outcome.title)
    for row in outcome.rows:
        table.add_row(*row)
    out.print(table)
    for note in outcome.notes:
        out.print(f"- {note}", highlight=False, markup=False)
    for path in outcome.files:
        say(out, f"wrote {path}")


SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
FILE_METAVARS = {"DATA", "DATA2", "FILE", "FILE.yaml", "FILE.html"}  # of arguments that name a file or a folder
FOLDERS = {"RUN", "DIR"}


def run_completion(args: argparse.Namespace) -> None:
    try:
        import shtab
    except ImportError as error:
        raise ConfigError("gedi completion needs shtab: pip install 'gedi-ssl[completion]'.") from error
    for command in args.parser.commands.values():
        for action in command._actions:
            if action.metavar in FILE_METAVARS | FOLDERS:
                action.complete = shtab.FILE if action.metavar in FILE_METAVARS else shtab.DIRECTORY
    sys.stdout.write(shtab.complete(args.parser, shell=args.shell))
