"""`gedi fit` and `gedi resume`: from what was asked for to a RUN folder."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gedi.commands.report import write_run_report
from gedi.commands.terminal import err, out, progress_bar, say, stop_on_signal
from gedi.errors import ConfigError, DataError, GediError

if TYPE_CHECKING:
    from gedi.data import Dataset
    from gedi.training.build import Prepared
    from gedi.training.config import TrainingConfig
    from gedi.training.world import World

HARDWARE = ("device", "devices", "nodes", "precision", "timeout")


def run_fit(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.data import load
    from gedi.objectives.symbolic import groups_line
    from gedi.runs.layout import check_sizes
    from gedi.training.build import prepare
    from gedi.training.config import to_dict
    from gedi.training.world import is_first_process

    hardware = {name: getattr(args, name) for name in HARDWARE}
    data = load(args.data, seed=args.seed, label_column=args.label_column, drop=args.drop)
    rows = _checked(data, args.n_clusters)
    config = _settings(args, rows.shape[1], data.image_shape)
    check_sizes(config, rows.shape[1], args.n_clusters, data.image_shape)
    plan = {
        "data": _to_find_again(args.data),
        "label_column": args.label_column,
        "drop": args.drop,
        "rows_sha256": runs.fingerprint(rows),
        "groups_sha256": None if data.groups is None else runs.fingerprint(data.groups),
        "n_clusters": args.n_clusters,
        "method": args.method,
        "seed": args.seed,
        "hardware": hardware,
        "tensorboard": args.tensorboard,
        "training": to_dict(config),
    }
    if args.resume and (Path(args.out) / runs.PLAN).is_file():
        begun = runs.read_plan(args.out)
        for name in ("data", "label_column", "drop", "n_clusters", "method", "seed", "training"):
            if begun.get(name) != plan[name]:
                raise ConfigError(
                    f"{args.out} was begun with another {name}: go on with gedi resume, or choose another --out."
                )
        _go_on(Path(args.out), args.save_every, hardware)
        return
    if not is_first_process():
        _train(Path(args.out), plan, data, rows, args.save_every)
        return
    use_few_threads(config)
    with runs.claimed(args.out) as folder:
        if line := groups_line(config.objective):
            say(err, line)
        ready = prepare(rows, config, args.n_clusters, image_shape=data.image_shape, groups=data.groups)
        say(err, "timing a few iterations of each stage, to say what all of them will cost")
        say(err, _cost_line(ready, hardware))
        runs.write_plan(folder, plan)
        _train(folder, plan, data, rows, args.save_every, ready)


def run_resume(args: argparse.Namespace) -> None:
    given = {name: getattr(args, name) for name in HARDWARE if getattr(args, name) is not None}
    _go_on(Path(args.model), args.save_every, given)


def _go_on(folder: Path, save_every: float, hardware: dict[str, Any]) -> None:
    from gedi import runs
    from gedi.data import load

    plan = runs.read_plan(folder)
    if (folder / runs.MODEL).is_file():
        say(out, f"{folder} is finished already")
        return
    plan["hardware"] = plan["hardware"] | hardware
    data = load(plan["data"], seed=plan["seed"], label_column=plan.get("label_column"), drop=plan["drop"])
    rows = _checked(data, plan["n_clusters"])
    groups = None if data.groups is None else runs.fingerprint(data.groups)
    if runs.fingerprint(rows) != plan["rows_sha256"] or groups != plan.get("groups_sha256"):
        raise DataError(f"{plan['data']} has changed since the run began: start a new run instead.")
    _train(folder, plan, data, rows, save_every)


def _train(
    folder: Path, plan: dict[str, Any], data: Dataset, rows: Any, save_every: float, ready: Prepared | None = None
) -> None:
    from gedi import runs
    from gedi.training.config import from_dict
    from gedi.training.world import Hardware, World

    config = from_dict(plan["training"])
    use_few_threads(config)
    hardware = Hardware(**plan["hardware"])
    processes = hardware.devices * hardware.nodes
    runs.check_sizes(folder, config, rows.shape[1], plan["n_clusters"], data.image_shape, processes=processes)
    world = World(hardware)
    world.launch()
    err.quiet = out.quiet = not world.is_main
    with runs.locked(folder) if world.is_main else nullcontext():
        _train_in(folder, plan, data, rows, save_every, world, ready)


def use_few_threads(config: TrainingConfig) -> None:
    """One thread for small nets, unless the user has said how many.

    They gain nothing from several, which wait for each other in every layer: three times as long where other work
    keeps a core from one of them.
    """
    import torch

    if config.net.encoder == "mlp" and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def _train_in(
    folder: Path,
    plan: dict[str, Any],
    data: Dataset,
    rows: Any,
    save_every: float,
    world: World,
    ready: Prepared | None,
) -> None:
    from gedi import runs
    from gedi.runs import Checkpoints, MetricsLog
    from gedi.training.build import prepare
    from gedi.training.config import from_dict
    from gedi.training.fit import fit_prepared
    from gedi.training.guard import DivergedError
    from gedi.training.journal import Hooks
    from gedi.training.recovery import StoppedError
    from gedi.training.world import ProcessLostError

    config = from_dict(plan["training"])
    checkpoints = Checkpoints(folder)
    about = {"data": data.name, "method": plan["method"], "hardware": plan["hardware"]}
    if data.feature_names and Path(plan["data"]).is_absolute():
        about["columns"] = data.feature_names  # new data is read by these names
    if data.unreadable:
        about["unreadable"] = data.unreadable
    try:
        with (
            stop_on_signal() as should_stop,
            progress_bar(err, config) as report,
            MetricsLog(folder, tensorboard=plan["tensorboard"] and world.is_main) as log,
        ):
            if ready is None:
                ready = prepare(rows, config, plan["n_clusters"], image_shape=data.image_shape, groups=data.groups)
            hooks = Hooks(report, log, checkpoints, save_every, should_stop)
            model = fit_prepared(ready, seed=plan["seed"], world=world, hooks=hooks)
    except (StoppedError, ProcessLostError) as error:
        raise type(error)(f"{error} Go on with: gedi resume {folder}") from error
    except DivergedError as error:
        if world.is_main:
            runs.write_results(folder, about | {"diverged": str(error), "guard": error.events})
            _report(folder, None)
        raise DivergedError(f"{error} All that was seen is in {folder / runs.RESULTS}.", error.events) from error
    if not world.is_main:
        return
    runs.save(model, folder, about | {"scores": label_scores(model, rows, data)})
    say(out, f"trained in {model.results['seconds']:.0f} s; the run is in {folder}")
    _report(folder, data)
    say(out, f"next: gedi predict {folder} {plan['data']} --out clusters.csv")


def _to_find_again(data: str) -> str:
    """What `load` took: a known name, whatever files there are of that name, or a path, from any folder."""
    from gedi.data import NAMES

    return data if data.lower() in NAMES else str(Path(data).expanduser().resolve())


def _checked(data: Dataset, n_clusters: int) -> Any:
    """Flat rows, of which images keep their type."""
    from gedi.data import check_rows

    flat, images = data.x.reshape(len(data.x), -1), data.image_shape is not None
    return check_rows(flat, n_clusters=n_clusters, images=images, names=data.feature_names)


def _report(folder: Path, data: Dataset | None) -> None:
    """The page to look at. What hinders it is said, and the run stays as it is."""
    try:
        say(out, f"look at it: {write_run_report(folder, data)}")
    except GediError as error:
        say(err, f"no report was written: {error} Try again with: gedi report {folder}")


def _settings(args: argparse.Namespace, n_features: int, image_shape: tuple[int, ...] | None) -> TrainingConfig:
    from gedi.objectives.symbolic import constraint_change
    from gedi.training.presets import configure

    constrained = constraint_change(Path(args.constraint)) if args.constraint else {}
    # Before the config, which may only give the constraint's weight, and after it: the flag's rule has the last word.
    changes = [constrained, _config_file(args.config), constrained, args.changes]
    return configure(args.preset, args.method, *changes, n_features=n_features, image_shape=image_shape)


def _config_file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"The config {path} cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise ConfigError(f"The config {path} must be a mapping of settings.")
    changes = content.get("training", content)
    if not isinstance(changes, dict):
        raise ConfigError(f"'training' in {path} must be a mapping of settings.")
    return changes


def _cost_line(ready: Prepared, hardware: dict[str, Any]) -> str:
    from gedi.training.cost import estimate, iterations_in_words
    from gedi.training.guard import DivergedError
    from gedi.training.world import Hardware, World

    # Several processes start later: their trial is that of one, on the CPU.
    world = World(Hardware(**hardware)) if hardware["devices"] * hardware["nodes"] == 1 else None
    try:
        cost = estimate(ready, world).in_words(ready.config)
    except DivergedError:  # the run itself will find out, and report it
        cost = f"{iterations_in_words(ready.config)}, a trial of a few of them diverged"
    n, d = ready.rows.shape
    shape = ready.image_shape
    what = f"{n:,} rows x {d}" if shape is None else f"{n:,} images of {'x'.join(map(str, shape))}"
    return f"{what}, {cost}"


def label_scores(model: Any, rows: Any, data: Dataset) -> dict[str, float]:
    """How the clusters agree with the labels, if there are any."""
    from gedi.evaluation import clustering_scores

    return {} if data.y is None else clustering_scores(data.y, model.predict(rows))
