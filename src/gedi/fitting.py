"""`gedi fit` and `gedi resume`: from what was asked for to a RUN folder."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from gedi.errors import ConfigError, DataError, GediError
from gedi.report.terminal import err, out, progress_bar, say, stop_on_signal
from gedi.reporting import write_run_report

if TYPE_CHECKING:
    from gedi.data import Dataset
    from gedi.training.config import TrainingConfig
    from gedi.training.world import World

HARDWARE = ("device", "devices", "nodes", "precision", "timeout")


def run_fit(args: argparse.Namespace) -> None:
    from gedi.data import check_rows, load
    from gedi.training import runs
    from gedi.training.config import to_dict
    from gedi.training.expected import check_sizes
    from gedi.training.world import is_first_process

    hardware = {name: getattr(args, name) for name in HARDWARE}
    data = load(args.data, seed=args.seed, label_column=args.label_column)
    rows = check_rows(data.x.reshape(len(data.x), -1), n_clusters=args.n_clusters)
    config = _settings(args, rows.shape[1], data.image_shape)
    check_sizes(config, rows.shape[1], args.n_clusters)
    path = Path(args.data)
    plan = {
        "data": str(path.resolve()) if path.exists() else args.data,
        "label_column": args.label_column,
        "rows_sha256": runs.fingerprint(rows),
        "n_clusters": args.n_clusters,
        "method": args.method,
        "seed": args.seed,
        "hardware": hardware,
        "tensorboard": args.tensorboard,
        "training": to_dict(config),
    }
    if args.resume and (Path(args.out) / runs.PLAN).is_file():
        begun = runs.read_plan(args.out)
        for name in ("data", "label_column", "n_clusters", "method", "seed", "training"):
            if begun.get(name) != plan[name]:
                raise ConfigError(
                    f"{args.out} was begun with another {name}: go on with gedi resume, or choose another --out."
                )
        _go_on(Path(args.out), args.save_every, hardware)
        return
    if not is_first_process():
        _train(Path(args.out), plan, data, rows, args.save_every)
        return
    with runs.claimed(args.out) as folder:
        say(err, _cost_line(rows, config, args.n_clusters, data.image_shape))
        runs.write_plan(folder, plan)
        _train(folder, plan, data, rows, args.save_every)


def run_resume(args: argparse.Namespace) -> None:
    given = {name: getattr(args, name) for name in HARDWARE if getattr(args, name) is not None}
    _go_on(Path(args.model), args.save_every, given)


def _go_on(folder: Path, save_every: float, hardware: dict[str, Any]) -> None:
    from gedi.data import check_rows, load
    from gedi.training import runs

    plan = runs.read_plan(folder)
    if (folder / runs.MODEL).is_file():
        say(out, f"{folder} is finished already")
        return
    plan["hardware"] = plan["hardware"] | hardware
    data = load(plan["data"], seed=plan["seed"], label_column=plan.get("label_column"))
    rows = check_rows(data.x.reshape(len(data.x), -1), n_clusters=plan["n_clusters"])
    if runs.fingerprint(rows) != plan["rows_sha256"]:
        raise DataError(f"{plan['data']} has changed since the run began: start a new run instead.")
    _train(folder, plan, data, rows, save_every)


def _train(folder: Path, plan: dict[str, Any], data: Dataset, rows: Any, save_every: float) -> None:
    from gedi.training import runs
    from gedi.training.config import from_dict
    from gedi.training.world import Hardware, World

    config = from_dict(plan["training"])
    hardware = Hardware(**plan["hardware"])
    processes = hardware.devices * hardware.nodes
    runs.check_sizes(folder, config, rows.shape[1], plan["n_clusters"], processes=processes)
    world = World(hardware)
    world.launch()
    err.quiet = out.quiet = not world.is_main
    with runs.locked(folder) if world.is_main else nullcontext():
        _train_in(folder, plan, data, rows, save_every, world)


def _train_in(folder: Path, plan: dict[str, Any], data: Dataset, rows: Any, save_every: float, world: World) -> None:
    from gedi.training import runs
    from gedi.training.checkpoint import Checkpoints
    from gedi.training.config import from_dict
    from gedi.training.guard import DivergedError
    from gedi.training.metrics import MetricsLog
    from gedi.training.model import fit_rows
    from gedi.training.stages import StoppedError
    from gedi.training.world import ProcessLostError

    config = from_dict(plan["training"])
    checkpoints = Checkpoints(folder)
    about = {"data": data.name, "method": plan["method"], "hardware": plan["hardware"]}
    try:
        with (
            stop_on_signal() as should_stop,
            progress_bar(err, config) as report,
            MetricsLog(folder, tensorboard=plan["tensorboard"] and world.is_main) as log,
        ):
            model = fit_rows(
                rows,
                n_clusters=plan["n_clusters"],
                config=config,
                seed=plan["seed"],
                image_shape=data.image_shape,
                world=world,
                on_progress=report,
                log=log,
                checkpoints=checkpoints,
                save_every=save_every,
                should_stop=should_stop,
            )
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


def _report(folder: Path, data: Dataset | None) -> None:
    """The page to look at. What hinders it is said, and the run stays as it is."""
    try:
        say(out, f"look at it: {write_run_report(folder, data)}")
    except GediError as error:
        say(err, f"no report was written: {error} Try again with: gedi report {folder}")


def _settings(args: argparse.Namespace, n_features: int, image_shape: tuple[int, ...] | None) -> TrainingConfig:
    from gedi.training.presets import configure

    changes = [_config_file(args.config), args.changes]
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


def _cost_line(rows: Any, config: TrainingConfig, n_clusters: int, image_shape: tuple[int, ...] | None) -> str:
    from gedi.training.cost import estimate_seconds
    from gedi.training.guard import DivergedError

    stages = [config.step1.iterations, config.embedding.iterations, config.step2.iterations]
    try:
        cost = f"about {estimate_seconds(rows, config, n_clusters, image_shape):.0f} s"
    except DivergedError:  # the run itself will find out, and report it
        cost = "a trial of a few of them diverged"
    return f"{len(rows):,} rows x {rows.shape[1]}, {' + '.join(str(n) for n in stages if n)} iterations, {cost}"


def label_scores(model: Any, rows: Any, data: Dataset) -> dict[str, float]:
    """How the clusters agree with the labels, if there are any."""
    from gedi.evaluation import clustering_scores

    return {} if data.y is None else clustering_scores(data.y, model.predict(rows))
