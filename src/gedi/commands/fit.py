"""`gedi fit` and `gedi resume`: from a request to a RUN folder."""

from __future__ import annotations

import argparse
import shlex
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedi.commands.report import write_run_report
from gedi.commands.terminal import err, out, say, say_columns, stop_on_signal
from gedi.errors import ConfigError, DataError
from gedi.files.reading import read_yaml
from gedi.progress import progress_line
from gedi.settings import AUTO, make
from gedi.training.hardware import Hardware

if TYPE_CHECKING:
    from gedi.data import Dataset
    from gedi.runs import Plan
    from gedi.training.build import Prepared
    from gedi.training.config import TrainingConfig
    from gedi.training.world import World

# What a resumed run must keep, and what messages call it.
KEPT_BY_RESUME = {"data": "data set", "label_column": "--label-column", "drop": "--drop", "raw": "--raw"}
KEPT_BY_RESUME |= {"skip_broken": "--skip-broken", "n_clusters": "--n-clusters", "method": "--method", "seed": "--seed"}
KEPT_BY_RESUME |= {"outliers": "--outliers", "minutes": "--minutes", "training": "preset or other settings"}


@dataclass(frozen=True)
class Loaded:
    """A run's data, its checked rows, and what `find_number` and `prepare` would otherwise have to find again."""

    data: Dataset
    rows: Any
    known: dict[str, Any]  # table and, if known, words and scaler

    @cached_property
    def fingerprints(self) -> tuple[str, str | None]:
        """Checksums of the rows, and of the groups that came with them."""
        from gedi.runs import fingerprint

        return fingerprint(self.rows), None if self.data.groups is None else fingerprint(self.data.groups)


def run_fit(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.training.world import is_first_process

    folder = Path(args.out)
    begun = runs.Plan.read(folder) if args.resume and (folder / runs.PLAN).is_file() else None
    is_new = begun is None and is_first_process()
    with runs.claimed(folder) if is_new else nullcontext():  # before anything takes long
        _fit(args, folder, begun, is_new=is_new)


def _fit(args: argparse.Namespace, folder: Path, begun: Plan | None, *, is_new: bool) -> None:
    from gedi import runs
    from gedi.data import Scaler, load
    from gedi.data.table_rows import categories
    from gedi.objectives.symbolic import groups_line
    from gedi.runs.layout import check_sizes
    from gedi.training.config import check_outliers

    reading = {"label_column": args.label_column, "drop": args.drop, "raw": args.raw, "skip_broken": args.skip_broken}
    data = load(args.data, seed=args.seed, **reading)
    rows = _checked(data, 2 if args.n_clusters == AUTO else args.n_clusters)
    words = categories(rows, data.table, images=data.image_shape is not None)
    config = _settings(args, n_features=rows.shape[1], image_shape=data.image_shape, has_words=bool(words))
    check_outliers(args.outliers, config)
    if is_new:
        _say_how_read(data)
    scaler = Scaler().fit(rows, mode=config.scaling, together=words)
    loaded = Loaded(data, rows, {"words": words, "table": data.table, "scaler": scaler})
    n_clusters, number = _number(args, loaded, config, begun)
    rows_sha256, groups_sha256 = loaded.fingerprints
    plan = runs.Plan(
        data=_to_find_again(args.data),
        **reading,
        rows_sha256=rows_sha256,
        groups_sha256=groups_sha256,
        n_clusters=n_clusters,
        number=number,
        outliers=args.outliers,
        method=args.method,
        seed=args.seed,
        hardware=_hardware(args, Hardware()),
        tensorboard=args.tensorboard,
        minutes=args.minutes,
        preset=args.preset,
        is_changed=bool(args.constraint or args.config or args.changes),
        training=config,
    )
    if plan.minutes and plan.hardware.processes > 1:
        raise ConfigError(
            "--minutes does not work with several processes, whose cost cannot be estimated: leave it out."
        )
    if begun is not None:
        if changed := [words for name, words in KEPT_BY_RESUME.items() if getattr(begun, name) != getattr(plan, name)]:
            raise ConfigError(
                f"{folder} was started with a different {changed[0]}: use gedi resume {folder}, or another --out."
            )
        if not _is_finished(folder):
            _continue_run(folder, replace(begun, hardware=plan.hardware), loaded, args.save_every)
        return
    check_sizes(config, rows.shape[1], n_clusters, data.image_shape)
    if is_new:
        plan.write(folder)  # from here on the run can be resumed
        if line := groups_line(config.objective):
            say(err, line)
    _train(folder, plan, loaded, args.save_every, timed=is_new)


def _say_how_read(data: Dataset) -> None:
    """Say what became of the columns of a table, or of the images in a folder."""
    if data.table is not None:
        say_columns(data.table)
    if data.files is not None and data.image_shape is not None:
        height, width, _ = data.image_shape
        say(err, f"each image is center-cropped and resized to {height} x {width} pixels")


def _number(
    args: argparse.Namespace, loaded: Loaded, config: TrainingConfig, begun: Plan | None
) -> tuple[int, dict[str, Any]]:
    """How many clusters to find, and why: given by the user, kept from the run to resume, or found from the rows."""
    if args.n_clusters != AUTO:
        return args.n_clusters, {}
    if begun is not None:
        return begun.n_clusters, begun.number
    from gedi.training.number import DOING, find_number

    say(err, f"{DOING}, for up to a minute (--n-clusters C skips this)")
    with progress_line(err) as report:
        found = find_number(loaded.rows, config, args.seed, report=report, **loaded.known)
    say(err, found.in_words())
    return found.chosen, found.plain()


def run_resume(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.data import load

    folder = Path(args.model)
    plan = runs.Plan.read(folder)
    if not _is_finished(folder):
        plan = replace(plan, hardware=_hardware(args, plan.hardware))
        data = load(**plan.reading)
        loaded = Loaded(data, _checked(data, plan.n_clusters), {"table": data.table})
        _continue_run(folder, plan, loaded, args.save_every)


def _is_finished(folder: Path) -> bool:
    from gedi.runs import MODEL

    if finished := (folder / MODEL).is_file():
        say(out, f"{folder} is already finished")
    return finished


def _continue_run(folder: Path, plan: Plan, loaded: Loaded, save_every: float) -> None:
    """Resume a run if its data and its checkpoint match its plan."""
    from gedi import runs
    from gedi.training.world import is_first_process

    if loaded.fingerprints != (plan.rows_sha256, plan.groups_sha256):
        raise DataError(f"{plan.data} has changed since the run began: start a new run instead.")
    shape = (loaded.rows.shape[1], plan.n_clusters, loaded.data.image_shape)
    runs.check_resumable(folder, plan.settings, *shape, processes=plan.hardware.processes)
    with runs.locked(folder) if is_first_process() else nullcontext():
        # Timed if it was killed before its time budget was turned into iterations.
        _train(folder, plan, loaded, save_every, timed=bool(plan.minutes and plan.iterations is None))


def _train(folder: Path, plan: Plan, loaded: Loaded, save_every: float, *, timed: bool) -> None:
    """Prepare the rows and train, as every process of a run does; then the first one saves the model and its report.

    ``timed``: first, say what the run will cost.
    """
    from gedi import runs
    from gedi.evaluation import label_scores
    from gedi.report.rerun import from_here
    from gedi.training.build import prepare
    from gedi.training.fit import fit_prepared
    from gedi.training.guard import DivergedError
    from gedi.training.journal import Hooks
    from gedi.training.recovery import StoppedError
    from gedi.training.world import ProcessLostError, World

    data, rows = loaded.data, loaded.rows
    of_data = {"image_shape": data.image_shape, "groups": data.groups} | loaded.known
    ready = prepare(rows, plan.settings, plan.n_clusters, **of_data)
    world = World(plan.hardware)
    if timed:
        plan, ready = _timed(folder, plan, ready, world, given=len(rows))
    world.launch()
    err.quiet = out.quiet = not world.is_main
    about = {"data": data.name, "method": plan.method, "hardware": asdict(plan.hardware)}
    if data.feature_names and Path(plan.data).is_absolute():
        about["columns"] = data.feature_names  # new data is read by these names
    if plan.number:
        about["number"] = plan.number
    if data.unreadable:
        about["unreadable"] = data.unreadable
    try:
        with (
            stop_on_signal() as should_stop,
            progress_line(err) as report,
            runs.MetricsLog(folder, tensorboard=plan.tensorboard and world.is_main) as log,
        ):
            hooks = Hooks(report, log, runs.Checkpoints(folder), save_every, should_stop)
            model = fit_prepared(ready, seed=plan.seed, world=world, hooks=hooks)
    except (StoppedError, ProcessLostError) as error:
        raise type(error)(f"{error} Resume with: {shlex.join(['gedi', 'resume', str(folder)])}") from error
    except DivergedError as error:
        if world.is_main:
            runs.write_results(folder, about | {"diverged": str(error), "guard": error.events})
            write_run_report(folder)
        raise DivergedError(f"{error} All events are in {folder / runs.RESULTS}.", error.events) from error
    if world.is_main:
        if plan.outliers:
            model.set_outliers(rows, plan.outliers)
        results = runs.save(model, folder, about | {"scores": label_scores(model, rows, data.y)})
        say(out, f"trained in {model.results['seconds']:.0f} s; the run is in {folder}")
        write_run_report(folder, (model, results, data, plan))
        again = ["gedi", "predict", str(folder), from_here(plan.data), "--out", "clusters.csv"]
        again += ["--keep"] if data.table is not None else []
        again += ["--skip-broken"] if plan.skip_broken else []
        say(out, f"next: {shlex.join(again)}")


def _hardware(args: argparse.Namespace, before: Hardware) -> Hardware:
    """The hardware that the flags ask for; anything else stays as before."""
    given = {name: value for name in asdict(before) if (value := getattr(args, name)) is not None}
    return make(Hardware, asdict(before) | given, "--")


def _to_find_again(data: str) -> str:
    """The data set as `load` found it: a known name, which wins over a file of that name, or an absolute path."""
    from gedi.data import NAMES

    return data if data.lower() in NAMES else str(Path(data).expanduser().resolve())


def _checked(data: Dataset, n_clusters: int) -> Any:
    """Checked flat rows; images keep their type."""
    from gedi.data import check_rows

    flat, images = data.x.reshape(len(data.x), -1), data.image_shape is not None
    return check_rows(flat, n_clusters=n_clusters, images=images, names=data.feature_names)


def _settings(args: argparse.Namespace, **shape: Any) -> TrainingConfig:
    """The settings that the flags ask for, for data of this shape."""
    from gedi.objectives.symbolic import constraint_change
    from gedi.training.presets import configure

    constrained = constraint_change(Path(args.constraint)) if args.constraint else {}
    # Twice: the file may set the weight of a constraint that only the flag names, but the flag's rule wins.
    changes = [constrained, _config_file(args.config), constrained, args.changes]
    return configure(args.preset, args.method, *changes, **shape)


def _config_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    content = read_yaml(Path(path).resolve()) or {}
    changes = content.get("training", content) if isinstance(content, dict) else content
    if not isinstance(changes, dict):
        raise ConfigError(f"The config {path} must be a mapping of settings, as under 'training' in config.yaml.")
    return changes


def _timed(folder: Path, plan: Plan, ready: Prepared, world: World, *, given: int) -> tuple[Plan, Prepared]:
    """Say what training on ``given`` rows will cost; with a time budget, plan the iterations that fit in it."""
    from gedi.training.config import with_iterations
    from gedi.training.cost import estimate, iterations_in_words
    from gedi.training.guard import DivergedError
    from gedi.training.world import World

    say(err, "timing a few iterations, to say how long training will take")
    what = _size(ready, given)
    # Several processes connect later; until then the trial runs in this one, on the CPU.
    try:
        cost = estimate(ready, world if plan.hardware.processes == 1 else World(alone=True))
    except DivergedError as error:
        if plan.minutes:
            raise ConfigError(
                "The cost could not be estimated, as a short trial diverged: leave out --minutes."
            ) from error
        # If the run itself diverges, it will report that.
        say(err, f"{what}: {iterations_in_words(ready.config)}; the cost is unknown, as a short trial diverged")
        return plan, ready
    if plan.minutes:
        before = iterations_in_words(ready.config)
        iterations, cost = cost.within(plan.minutes, ready.config)
        ready = replace(ready, config=with_iterations(ready.config, iterations))
        plan = replace(plan, iterations=iterations)
        plan.write(folder)
        say(err, f"--minutes {plan.minutes:g}: {iterations_in_words(ready.config)} instead of {before}")
    say(err, f"{what}: {cost.in_words(ready.config)}")
    return plan, ready


def _size(ready: Prepared, given: int) -> str:
    shape, (n, d) = ready.image_shape, ready.rows.shape
    count = f"{n:,}" if n == given else f"a random {n:,} of {given:,}"
    columns = f"{d:,} feature{'' if d == 1 else 's'}"
    return f"{count} rows of {columns}" if shape is None else f"{count} images of {'x'.join(map(str, shape))}"
