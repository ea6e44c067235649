"""The command line. Nothing else in the package prints."""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml
from rich.markup import escape
from rich.table import Table

from gedi import __version__
from gedi.commands.explore import run_explore
from gedi.commands.fit import run_fit, run_resume
from gedi.commands.predict import run_eval, run_predict, run_sample
from gedi.commands.report import run_report, write_demo_report
from gedi.commands.terminal import err, out, say, show_outcome
from gedi.errors import ConfigError, GediError
from gedi.experiments import EXPERIMENTS, find

if TYPE_CHECKING:
    pass

PRESET_NAMES = ("toy", "rows", "digits", "smoke", "paper")
PRESET_NAMES += ("images", "paper-svhn", "paper-cifar10", "paper-cifar100", "paper-mnist")
METHOD_NAMES = ("gedi", "gedi-1", "jem", "swav", "barlow", "vicreg", "w-mse", "simclr", "protocpc", "ebclr")
# By name: the classes live beside torch, which a wrong command should not have to wait for.
EXIT_CODES = {"StoppedError": 130, "DivergedError": 3, "ProcessLostError": 4}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and exit code 2."""

    def __init__(self, **options: Any) -> None:
        options["allow_abbrev"] = False
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"gedi: {message}. See: {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``gedi``; returns the exit code."""
    warnings.showwarning = lambda text, *_, **__: say(err, f"[yellow]warning:[/] {escape(str(text))}", markup=True)
    try:
        rest, changes = training_flags(sys.argv[1:] if argv is None else argv)
        args = build_parser().parse_args(rest)
        if changes and args.run is not run_fit:
            raise ConfigError(f"--training.{next(iter(changes))} can only be given to gedi fit.")
        args.changes = changes
        return args.run(args) or 0
    except GediError as error:
        say(err, f"gedi: {error}")
        return EXIT_CODES.get(type(error).__name__, 2)
    except KeyboardInterrupt:
        err.print("gedi: stopped.")
        return 130


def build_parser() -> Parser:
    """All commands and their flags."""
    parser = Parser(prog="gedi", description="One model, trained without labels: clusters, embeds, scores, generates.")
    parser.add_argument("--version", action="version", version=f"gedi {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, run: Any, summary: str, example: str) -> Parser:
        made = commands.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(run=run)
        return made

    demo = command("demo", run_demo, "headline result on moons and circles, with pictures", "gedi demo")
    demo.add_argument("--out", default="gedi-demo", help="folder for pictures and numbers (default: gedi-demo)")
    demo.add_argument("--seed", type=seed, default=0)
    demo.add_argument("--preset", choices=PRESET_NAMES, help=argparse.SUPPRESS)

    fit = command("fit", run_fit, "train on DATA", "gedi fit rows.csv --n-clusters 5 --out my-run")
    fit.add_argument(
        "data", metavar="DATA", help="a name (see: gedi datasets), a .npy/.npz/.csv/.parquet or a folder of images"
    )
    fit.add_argument("--n-clusters", type=int, required=True, metavar="C")
    fit.add_argument("--out", required=True, metavar="RUN", help="new folder for the run")
    fit.add_argument("--resume", action="store_true", help="go on with RUN if it was begun before")
    fit.add_argument(
        "--save-every", type=seconds, default=30.0, metavar="SECONDS", help="between checkpoints (default: 30)"
    )
    fit.add_argument("--preset", choices=PRESET_NAMES, help="named settings (default: by the data's shape)")
    fit.add_argument("--method", choices=METHOD_NAMES, default="gedi")
    fit.add_argument("--constraint", metavar="FILE", help="what must hold between rows that follow each other")
    fit.add_argument("--seed", type=seed, default=0)
    fit.add_argument("--label-column", help="column kept out of the features and used for evaluation only")
    fit.add_argument("--drop", type=names, default=[], metavar="COLUMN,COLUMN", help="columns that are left out")
    fit.add_argument("--config", metavar="FILE.yaml", help="settings to change, as under 'training' in config.yaml")
    hardware_flags(fit, defaults=True)
    fit.add_argument("--tensorboard", action="store_true", help="also write RUN/tensorboard (pip install tensorboard)")
    fit.add_argument("--training.x.y", dest="_", metavar="VALUE", help="change any one setting: --training.dam.steps 5")

    resume = command("resume", run_resume, "go on after a stop, as if it had not happened", "gedi resume my-run")
    resume.add_argument("model", metavar="RUN")
    hardware_flags(resume, defaults=False)
    resume.add_argument("--save-every", type=seconds, default=30.0, metavar="SECONDS", help=argparse.SUPPRESS)

    predict = command(
        "predict", run_predict, "cluster, probability, log density, OOD score", "gedi predict run rows.csv --out p.csv"
    )
    predict.add_argument("model", metavar="RUN")
    predict.add_argument("data", metavar="DATA")
    predict.add_argument("--out", required=True, metavar="FILE", help=".csv, .parquet or .npz")
    predict.add_argument("--embed", action="store_true", help="add the embedding")
    predict.add_argument("--label-column")

    sample = command("sample", run_sample, "draw new rows from the model", "gedi sample run -n 64 --out samples.npz")
    sample.add_argument("model", metavar="RUN")
    sample.add_argument("-n", type=int, default=64)
    sample.add_argument("--out", required=True, metavar="FILE", help=".npz, .csv, .parquet or .png")
    sample.add_argument("--seed", type=seed, default=0)

    explore = command(
        "explore", run_explore, "the report, and a place to drop new data on", "gedi explore run --data rows.csv"
    )
    explore.add_argument("model", metavar="RUN")
    explore.add_argument("--data", metavar="DATA", help="where the nearest examples come from (default: the run)")
    explore.add_argument("--port", type=port, default=0, help="default: a free one")
    explore.add_argument("--no-browser", dest="browser", action="store_false", help="only print the address")

    evaluate = command("eval", run_eval, "metrics as JSON", "gedi eval run moons --ood circles")
    evaluate.add_argument("model", metavar="RUN")
    evaluate.add_argument("data", metavar="DATA")
    evaluate.add_argument("--labels", metavar="COLUMN", help="column that holds the labels")
    evaluate.add_argument("--ood", metavar="DATA2", help="data that should look foreign: adds AUROC")
    evaluate.add_argument("--seed", type=seed, default=0, help="seed of generated data sets")

    report = command(
        "report", run_report, "one page to look at; of several runs, a comparison", "gedi report my-run other-run"
    )
    report.add_argument("models", metavar="RUN", nargs="+")
    report.add_argument("--out", metavar="FILE.html", help="default: RUN/report.html, or gedi-comparison.html")
    report.add_argument("--data", metavar="DATA", help="rows to show instead of the sample that the run keeps")
    report.add_argument("--label-column", help="of --data: labels to compare with; training never saw them")
    report.add_argument("--ood", metavar="DATA2", help="data that should look foreign: adds it to the histograms")

    reproduce = command(
        "reproduce", run_reproduce, "a table or figure, our numbers beside the paper's", "gedi reproduce table1"
    )
    reproduce.add_argument("name", metavar="NAME", help=", ".join(EXPERIMENTS))
    reproduce.add_argument("--scale", choices=("smoke", "laptop", "paper"), default="laptop")
    reproduce.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: by scale)")
    reproduce.add_argument("--out", metavar="DIR", help="default: results/SCALE")
    reproduce.add_argument("--jobs", type=int, default=2, help="processes, one thread each (default: 2)")

    command("methods", run_methods, "what --method can be, with the equations of its terms", "gedi methods")
    command("datasets", run_datasets, "what is known, where it is looked for, what is present", "gedi datasets")
    fetch = command("fetch", run_fetch, "download a named image set and verify it", "gedi fetch mnist")
    fetch.add_argument("name", metavar="NAME", help="mnist, fashion-mnist, svhn, cifar10 or cifar100")
    return parser


def hardware_flags(parser: Parser, *, defaults: bool) -> None:
    """Where to train; a resumed run takes what is not given from its plan."""

    def add(flag: str, default: Any, **options: Any) -> None:
        parser.add_argument(flag, default=default if defaults else None, **options)

    add("--device", "auto", choices=("auto", "cpu", "cuda", "mps"), help="default: the fastest there is")
    add("--devices", 1, type=int, metavar="N", help="processes on this machine, one a device (default: 1)")
    add("--nodes", 1, type=int, metavar="M", help="machines (default: 1); see docs/runs.md")
    add("--precision", "32", choices=("32", "bf16-mixed"), help="of the networks (default: 32)")
    add("--timeout", 600.0, type=seconds, metavar="SECONDS", help="wait for a silent process (default: 600)")


def training_flags(argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Take ``--training.a.b VALUE`` and ``--training.a.b=VALUE`` out: the other words, and {"a.b": value}.

    Taken out first: argparse would read the value of a flag it does not know as a positional argument.
    """
    rest: list[str] = []
    changes: dict[str, Any] = {}
    words = list(argv)
    while words:
        word = words.pop(0)
        if not word.startswith("--training."):
            rest.append(word)
            continue
        name, given, value = word.partition("=")
        if not given:
            if not words:
                raise ConfigError(f"{name} needs a value.")
            value = words.pop(0)
        try:
            changes[name.removeprefix("--training.")] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"{name} has a value that cannot be read: {value!r}.") from error
    return rest, changes


def seconds(text: str) -> float:
    """A time above zero; 0 is allowed, as 'at once'."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e7:
        raise argparse.ArgumentTypeError(f"a number of seconds from 0 to 10,000,000 is needed, got {text!r}")
    return value


def names(text: str) -> list[str]:
    """Names of columns, with commas between them; a name that has one itself is quoted, as in the file."""
    return [name.strip() for line in csv.reader([text], skipinitialspace=True) for name in line if name.strip()]


def port(text: str) -> int:
    """A port that needs no privileges; 0 takes a free one."""
    if not text.isdecimal() or not (int(text) == 0 or 1024 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is 0 (any that is free) or from 1024 to 65535, got {text!r}")
    return int(text)


def seed(text: str) -> int:
    """A seed that every library underneath accepts."""
    if not text.isdecimal() or int(text) > 2**31:
        raise argparse.ArgumentTypeError(f"a seed is a whole number from 0 to {2**31}, got {text!r}")
    return int(text)


# -- commands ---------------------------------------------------------------------------------------------------------


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

    table = Table("name", "kind", "present", "rows", "looked for in")
    for info in known_datasets():
        rows = "" if info.rows is None else f"{info.rows:,}"
        table.add_row(info.name, info.kind, "yes" if info.present else "no", rows, info.where)
    out.print(table)


def run_fetch(args: argparse.Namespace) -> None:
    from gedi.data.downloads import DOWNLOADS, fetch

    if args.name.lower() in DOWNLOADS:
        say(err, f"about {DOWNLOADS[args.name.lower()].megabytes} MB to download, unless it is there already")
    say(out, f"{args.name} is in {fetch(args.name)}, every file verified")


def run_reproduce(args: argparse.Namespace) -> None:
    experiment = find(args.name)
    folder = Path(args.out or f"results/{args.scale}")
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    outcome = experiment.run(
        scale=args.scale,
        seeds=args.seeds,
        out=folder,
        jobs=args.jobs,
        say=lambda line: err.print(line, highlight=False),
    )
    show_outcome(out, outcome)
    err.print(f"{time.monotonic() - began:.0f} s", highlight=False)


def run_demo(args: argparse.Namespace) -> None:
    from gedi.experiments import demo

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    outcome = demo.run(folder, seed=args.seed, preset=args.preset, say=lambda line: err.print(line, highlight=False))
    trained = demo.trained(folder, seed=args.seed, preset=args.preset)
    outcome.files += write_demo_report(outcome, folder, trained)
    show_outcome(out, outcome)
    out.print("next: gedi fit YOUR.csv --n-clusters C --out my-run", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
