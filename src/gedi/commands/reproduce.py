"""`gedi demo` and `gedi reproduce`: experiments, with their tables on the terminal."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from gedi.commands.report import write_demo_report
from gedi.commands.terminal import err, out, say

if TYPE_CHECKING:
    from gedi.experiments import Outcome


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
