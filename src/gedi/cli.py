"""The command line: parser and entry point. Only this module and `commands` print."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Collection, Sequence
from typing import Any, get_args

from rich.markup import escape

from gedi import __version__
from gedi.commands.arguments import (
    Parser,
    clusters,
    column_names,
    minutes,
    natural,
    number,
    one_of,
    path,
    port,
    seconds,
    seed,
    share,
    training_flags,
)
from gedi.commands.catalogue import (
    SHELLS,
    run_completion,
    run_datasets,
    run_demo,
    run_fetch,
    run_methods,
    run_reproduce,
)
from gedi.commands.fit import run_fit, run_resume
from gedi.commands.predict import run_eval, run_predict, run_sample
from gedi.commands.report import run_explore, run_report
from gedi.commands.terminal import err, leave, say
from gedi.errors import ConfigError, GediError
from gedi.experiments import EXPERIMENTS, SCALES
from gedi.settings import AUTO, SAVE_EVERY, types_of
from gedi.training.hardware import Hardware
from gedi.training.methods import METHODS
from gedi.training.presets import PRESETS

# By name: importing the classes imports torch, and a mistyped command should not wait for that.
LOST = 4
EXIT_CODES = {"StoppedError": 130, "DivergedError": 3, "ProcessLostError": LOST}
DATA_HELP = "a name (see: gedi datasets), a .csv, .tsv, .xlsx, .parquet, .npy or .npz file, or a folder of images"
NEW_DATA_HELP = f"{DATA_HELP}, or a single image"
RUN = "folder of a trained run"
SKIP = "leave out image files that cannot be read, instead of stopping"
SEED_HELP = "whole number; the same seed gives the same result (default: 0)"
PRESET = "named settings (default: chosen from the data's shape)"
SAVE_HELP = "time between checkpoints (default: %(default)g)"
START = "start with: gedi demo, or: gedi fit rows.csv --out my-run"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of ``gedi``; returns the exit code."""
    warnings.showwarning = lambda text, *_, **__: say(err, f"[yellow]warning:[/] {escape(str(text))}", markup=True)
    try:
        rest, changes = training_flags(sys.argv[1:] if argv is None else argv)
        parser = build_parser()
        if not rest:
            parser.print_help()
            return 2
        args = parser.parse_args(rest)
        if changes and args.run is not run_fit:
            raise ConfigError(f"--training.{next(iter(changes))} can only be given to gedi fit.")
        args.changes = changes
        return args.run(args) or 0
    except GediError as error:
        say(err, f"gedi: {error}")
        code = EXIT_CODES.get(type(error).__name__, 2)
        return leave(code) if code == LOST else code  # gloo may abort at exit while it still waits for a dead process
    except KeyboardInterrupt:
        err.print("gedi: stopped.")
        return 130


def build_parser() -> Parser:
    """All commands and their flags."""
    about = "One model, trained without labels, that clusters, embeds, scores and generates."
    parser = Parser(prog="gedi", description=about, epilog=START)
    parser.add_argument("--version", action="version", version=f"gedi {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", parser_class=Parser)

    def command(name: str, run: Any, summary: str, example: str) -> Parser:
        made = commands.add_parser(name, help=summary, description=summary, epilog=f"example: {example}")
        made.set_defaults(run=run)
        parser.commands[name] = made
        return made

    demo = command("demo", run_demo, "compare GEDI with other methods on three data sets", "gedi demo")
    demo.add_argument("--out", default="gedi-demo", help="folder for pictures and numbers (default: gedi-demo)")
    demo.add_argument("--seed", type=seed, default=0, help=SEED_HELP)
    named(demo, "preset", PRESETS, PRESET)

    fit = command("fit", run_fit, "find the clusters in DATA and train a model of it", "gedi fit rows.csv --out my-run")
    data = fit.add_argument_group("data")
    data.add_argument("data", type=path, metavar="DATA", help=DATA_HELP)
    data.add_argument("--drop", type=column_names, default=[], metavar="COLUMN,COLUMN", help="columns to exclude")
    data.add_argument("--label-column", metavar="COLUMN", help="column of labels, used for evaluation only")
    data.add_argument("--raw", action="store_true", help="refuse tables that hold anything but numbers")
    data.add_argument("--skip-broken", action="store_true", help=SKIP)
    model = fit.add_argument_group("model")
    help = "number of clusters to find; auto chooses it from the data (default: auto)"
    model.add_argument("--n-clusters", type=clusters, default=AUTO, metavar="C", help=help)
    named(model, "method", METHODS, "what to train (default: gedi); see gedi methods", default="gedi")
    named(model, "preset", PRESETS, PRESET)
    help = (
        "leave this share of the rows, those with the lowest log density, outside all clusters (cluster -1; default: 0)"
    )
    model.add_argument("--outliers", type=share, default=0.0, metavar="SHARE", help=help)
    model.add_argument("--minutes", type=minutes, metavar="M", help="train for about M minutes (docs/runs.md)")
    model.add_argument("--constraint", metavar="FILE", help="rule that consecutive rows must satisfy (docs/logic.md)")
    model.add_argument("--seed", type=seed, default=0, help=SEED_HELP)
    run = fit.add_argument_group("run")
    run.add_argument("--out", type=path, required=True, metavar="RUN", help="new folder for the run")
    run.add_argument("--resume", action="store_true", help="resume RUN if it exists, or start it")
    run.add_argument("--save-every", type=seconds, default=SAVE_EVERY, metavar="SECONDS", help=SAVE_HELP)
    run.add_argument("--tensorboard", action="store_true", help="also write RUN/tensorboard (pip install tensorboard)")
    hardware_flags(fit, Hardware(device="auto"))
    expert = fit.add_argument_group("expert")
    expert.add_argument("--config", metavar="FILE.yaml", help="settings to change, as under 'training' in config.yaml")
    help = "change any one setting (docs/settings.md), for example --training.dam.steps 5"
    expert.add_argument("--training.x.y", dest="_", metavar="VALUE", help=help)

    resume = command("resume", run_resume, "resume a run exactly where it stopped", "gedi resume my-run")
    resume.add_argument("model", metavar="RUN", help="folder of a run that was stopped")
    resume.add_argument("--save-every", type=seconds, default=SAVE_EVERY, metavar="SECONDS", help=SAVE_HELP)
    hardware_flags(resume, None)

    example = "gedi predict run rows.csv --out p.csv"
    summary = "write each row's cluster, probability, log density, typicality and OOD score"
    predict = command("predict", run_predict, summary, example)
    predict.add_argument("model", metavar="RUN", help=RUN)
    predict.add_argument("data", metavar="DATA", help=NEW_DATA_HELP)
    predict.add_argument("--out", required=True, metavar="FILE", help=".csv, .parquet or .npz")
    predict.add_argument("--embed", action="store_true", help="add the embedding")
    predict.add_argument("--keep", action="store_true", help="add the columns of DATA")
    predict.add_argument("--label-column", metavar="COLUMN", help="column of labels, which is ignored")
    predict.add_argument("--skip-broken", action="store_true", help=SKIP)

    sample = command("sample", run_sample, "draw new rows from the model", "gedi sample run -n 64 --out samples.npz")
    sample.add_argument("model", metavar="RUN", help=RUN)
    sample.add_argument("-n", type=int, default=64, metavar="N", help="number of samples (default: 64)")
    sample.add_argument("--out", required=True, metavar="FILE", help=".npz, .csv, .parquet or .png")
    sample.add_argument("--seed", type=seed, default=0, help=SEED_HELP)
    sample.add_argument("--fresh", action="store_true", help="start new chains instead of continuing those of training")
    sample.add_argument("--steps", type=natural, default=100, metavar="N", help="steps of each chain (default: 100)")
    sample.add_argument(
        "--frames", type=natural, metavar="N", help="for images: a .png of every chain at N moments, one row per chain"
    )

    example = "gedi explore run --data rows.csv"
    explore = command("explore", run_explore, "open the report in a browser, with a page to drop new data on", example)
    explore.add_argument("model", metavar="RUN", help=RUN)
    explore.add_argument(
        "--data", metavar="DATA", help="rows to search for nearest examples (default: the sample kept with the run)"
    )
    explore.add_argument("--port", type=port, default=0, help="1024 to 65535, or 0 for any free port (default: 0)")
    explore.add_argument("--no-browser", dest="browser", action="store_false", help="only print the URL")

    evaluate = command("eval", run_eval, "print metrics as JSON", "gedi eval run moons --ood circles")
    evaluate.add_argument("model", metavar="RUN", help=RUN)
    evaluate.add_argument("data", metavar="DATA", help=DATA_HELP)
    evaluate.add_argument("--labels", metavar="COLUMN", help="column that holds the labels")
    evaluate.add_argument("--ood", metavar="DATA2", help="out-of-distribution data: adds AUROC")
    evaluate.add_argument("--skip-broken", action="store_true", help=SKIP)
    evaluate.add_argument("--seed", type=seed, default=0, help="seed of generated data sets (default: 0)")

    example = "gedi report my-run other-run"
    report = command("report", run_report, "write a page about one run, or a comparison of several", example)
    report.add_argument("models", metavar="RUN", nargs="+", help="folders of runs")
    report.add_argument("--out", metavar="FILE.html", help="default: RUN/report.html, or gedi-comparison.html")
    report.add_argument("--data", metavar="DATA", help="rows to show instead of the sample that the run keeps")
    report.add_argument("--label-column", metavar="COLUMN", help="column of --data with labels to compare with")
    report.add_argument("--ood", metavar="DATA2", help="out-of-distribution data to add to the histograms")

    example = "gedi reproduce table1"
    reproduce = command("reproduce", run_reproduce, "make a table or figure of our numbers and the paper's", example)
    reproduce.add_argument("name", metavar="NAME", help=", ".join(EXPERIMENTS))
    reproduce.add_argument("--scale", choices=SCALES, default="laptop", help="size of the runs (default: laptop)")
    reproduce.add_argument("--seeds", type=int, metavar="N", help="how many seeds (default: depends on the scale)")
    reproduce.add_argument("--out", metavar="DIR", help="default: results/SCALE")
    reproduce.add_argument("--data", metavar="FOLDER", help="files of a public benchmark (default: in $GEDI_DATA)")
    reproduce.add_argument(
        "--jobs", type=int, default=2, metavar="N", help="how many processes, one thread each (default: 2)"
    )

    command("methods", run_methods, "list the methods for --method, with the equations of their terms", "gedi methods")
    command("datasets", run_datasets, "list known data sets, and where each is expected", "gedi datasets")
    fetch = command("fetch", run_fetch, "download a named image set and verify it", "gedi fetch mnist")
    fetch.add_argument("name", metavar="NAME", help="mnist, fashion-mnist, svhn, cifar10 or cifar100")

    example = 'eval "$(gedi completion bash)"'
    completion = command("completion", run_completion, "print a script for Tab completion in your shell", example)
    completion.add_argument("shell", choices=SHELLS, help="the script's language")
    completion.set_defaults(parser=parser)
    return parser


def named(group: argparse._ActionsContainer, name: str, names: Collection[str], help: str, **options: Any) -> None:
    """A flag --NAME that takes one of some names; a misspelt one gets a suggestion."""
    help = f"{help}: {', '.join(names)}"
    kind = one_of(name, names)
    group.add_argument(f"--{name}", type=kind, choices=names, metavar=name.upper(), help=help, **options)


def hardware_flags(parser: Parser, defaults: Hardware | None) -> None:
    """Flags that say what to train on. Without ``defaults``, flags not given are None: the run's plan has them."""
    kinds, group = types_of(Hardware), parser.add_argument_group("hardware")

    def add(name: str, help: str, metavar: str | None = None) -> None:
        default = getattr(defaults, name, None)
        shown = "default: as before" if defaults is None else f"default: {default}"
        options: dict[str, Any] = {"type": number(kinds[name])} if metavar else {"choices": get_args(kinds[name])}
        group.add_argument(f"--{name}", default=default, metavar=metavar, help=f"{help} ({shown})", **options)

    add("device", "device to train on; auto is the fastest available")
    add("devices", "processes on this machine, one per device", "N")
    add("nodes", "number of machines; see docs/runs.md", "M")
    add("precision", "number format of the networks")
    add("timeout", "how long to wait for a process that does not respond", "SECONDS")
