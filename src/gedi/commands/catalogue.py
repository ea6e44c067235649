"""`gedi methods`, `gedi datasets` and `gedi fetch`: what there is to choose from."""

from __future__ import annotations

import argparse

from rich.table import Table

from gedi.commands.terminal import err, out, say


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
