"""Speed on one thread of this machine, compared with others and with an earlier revision (`make bench AGAINST=REV`).

    python benchmarks/run.py                                 # everything: hours
    python benchmarks/run.py --only loops,imports            # some parts
    python benchmarks/run.py --against v0.1.0 --only fits    # against an earlier revision
    python benchmarks/run.py --quick                         # a minute: only checks that it runs

Things that are compared take turns, and we compare medians. Run it on an idle machine: `wall / CPU` is near 1 there.
Without --quick the numbers are written to results/laptop/bench.json, where docs/speed.md finds them.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import fits
import loops
import torch
from machine import RESULTS, arguments, checkout, origin, show, write

from gedi.experiments import plots

PARTS = {
    "loops": "Inner loops",
    "fits": "Whole fits",
    "growth": "Growth with the number of rows, 8 features",
    "devices": "Two processes on images",
    "imports": "Imports and answers",
}


def measure(args: argparse.Namespace, against: Path | None) -> dict[str, Any]:
    skipped: loops.Skipped = []
    calls = 3 if args.quick else 100
    repeats = args.repeats or (1 if args.quick else 3)
    whole = {"against": against, "quick": args.quick, "limit": args.limit}
    ways = {
        "loops": lambda: loops.measure(calls, skipped),
        "fits": lambda: fits.measure(repeats, skipped, **whole),
        "growth": lambda: fits.growth(repeats, skipped, **whole),
        "devices": lambda: fits.devices(repeats, skipped, quick=args.quick),
        "imports": lambda: fits.imports(repeats) + fits.answers(repeats, 1_000 if args.quick else 100_000),
    }
    numbers = {part: ways[part]() for part in args.only}
    made = origin(2 if args.quick else 10)
    made |= {"against": args.against, "repeats": repeats, "quick": args.quick}
    return {**numbers, "skipped": [{"what was not measured": reason} for reason in skipped], "provenance": made}


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Time and memory against the number of rows."""
    figure, axes = plots.figure(1, 2, width=4.5, height=3.4)
    for axis, column in zip(axes[0], ("seconds", "peak memory, MB"), strict=True):
        for who in dict.fromkeys(line["who"] for line in lines):
            own = [line for line in lines if line["who"] == who]
            axis.plot([line["rows"] for line in own], [line[column] for line in own], "o-", label=who)
        axis.set(xlabel="rows of 8 features", ylabel=column, xscale="log", yscale="log")
        plots.quiet(axis)
    axes[0, 0].legend(frameon=False)
    plots.save(figure, path)


def parts(text: str) -> list[str]:
    found = text.split(",")
    if unknown := sorted(set(found) - set(PARTS)):
        raise argparse.ArgumentTypeError(f"there is no part {unknown[0]!r}; there are: {', '.join(PARTS)}")
    return found


def main(words: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--only", type=parts, default=list(PARTS), metavar="PARTS", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--against", metavar="REV", help="an earlier revision of gedi to compare with")
    parser.add_argument("--repeats", type=int, help="fits of each kind (default: 3)")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which a fit is abandoned")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, only to check that everything runs")
    parser.add_argument("--out", type=Path, help="folder to write to (default: results/laptop; nowhere with --quick)")
    args = parser.parse_args(words)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the paper's settings rightly cause some
    with tempfile.TemporaryDirectory() as folder:
        numbers = measure(args, checkout(args.against, Path(folder)) if args.against else None)
    for part, lines in numbers.items():
        if isinstance(lines, list) and lines:
            show(PARTS.get(part, part), lines)
    print(numbers["provenance"]["machine"])
    out = args.out or (None if args.quick else RESULTS)
    if out is not None:
        write(numbers, out / "bench.json")
        if numbers.get("growth"):
            draw(numbers["growth"], out / "bench-growth.png")


if __name__ == "__main__":
    main()
