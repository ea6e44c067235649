"""`gedi methods`, `gedi datasets`, `gedi fetch`: what there is to choose from; `gedi completion`, for the shell."""

from __future__ import annotations

import argparse
import sys

from rich.table import Table

from gedi.commands.terminal import err, out, say
from gedi.errors import ConfigError


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
