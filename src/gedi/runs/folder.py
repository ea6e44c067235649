"""RUN folders: config.yaml, model.safetensors, metrics.jsonl, results.json. No pickle anywhere.

A folder may come from anybody: all of it is read by `untrusted` and compared with what is `expected`.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors.torch import save as safetensors_bytes

from gedi.data import NAMES
from gedi.data.streaming import row_blocks
from gedi.errors import RunError
from gedi.files.reading import FAILURES, TEXT_BYTES, read_json, read_json_lines, read_yaml, shown, unreadable
from gedi.files.tensors import check_layout, open_tensors
from gedi.files.writing import finite, replace_text, write_whole
from gedi.runs import expected
from gedi.runs.checkpoint import Checkpoints
from gedi.sampling import Box
from gedi.training.config import TrainingConfig, to_dict
from gedi.training.model import TrainedModel

CONFIG, MODEL, METRICS, RESULTS = "config.yaml", "model.safetensors", "metrics.jsonl", "results.json"
PLAN, LOCK = "plan.yaml", ".lock"


def provenance() -> dict[str, Any]:
    """When, where and with which versions a result was made."""
    libraries = ("gedi", "torch", "numpy", "scikit-learn", "scipy", "lightning-fabric")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "revision": revision(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads",
        "command": command(),
    }


@functools.cache
def revision() -> str | None:
    """The git revision of this code, '-dirty' if files were changed since; None if it is not a checkout."""
    git = ["git", "-C", str(Path(__file__).parents[1])]
    try:
        tracked = subprocess.run([*git, "ls-files", "--error-unmatch", __file__], capture_output=True, timeout=10)
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=10)
        changed = subprocess.run([*git, "status", "--porcelain", "--", "."], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if tracked.returncode or head.returncode:
        return None
    return head.stdout.strip() + ("-dirty" if changed.stdout else "")


def command() -> str:
    """The command that is running, absolute paths cut to their names: where people keep files is their business."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv]
    return " ".join(["gedi" if words[0] == "cli.py" else words[0], *words[1:]])


def claim(folder: str | Path) -> Path:
    """Make a new RUN folder; one that already holds something is never written over."""
    folder = Path(folder)
    # A plan half written is what is left of a run that was killed as it began: nothing of it is worth keeping.
    left_over = {f".{PLAN}", LOCK}
    if folder.exists() and (not folder.is_dir() or any(path.name not in left_over for path in folder.iterdir())):
        raise RunError(f"{folder} exists already and is not overwritten: choose another --out or remove it.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"The run folder {folder} cannot be made: {error.strerror}.") from error
    return folder


@contextmanager
def claimed(folder: str | Path) -> Iterator[Path]:
    """A new RUN folder to work on; if the work fails, nothing half-made is left behind.

    A run that was stopped and can be resumed, or that tells why it diverged, is not half-made: it stays.
    """
    folder = Path(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    claim(folder)
    try:
        yield folder
    except BaseException:
        if not folder.is_dir() or Checkpoints(folder).exists() or (folder / RESULTS).exists():
            raise
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with suppress(OSError):  # somebody else's file beside ours keeps its folder
            for path in made:
                path.rmdir()
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else may train in this folder meanwhile; the lock ends with the process, however it ends."""
    try:
        import fcntl
    except ImportError:  # not on this system
        yield
        return
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise RunError(f"Another process is training in {folder}: wait for it, or stop it.") from error
    try:
        yield
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(handle)


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    """What was asked for, written before training starts: a stopped run goes on from it."""
    replace_text(folder / PLAN, yaml.safe_dump(plan, sort_keys=False))


def read_plan(folder: str | Path) -> dict[str, Any]:
    """The plan of a run that was begun."""
    path = Path(folder) / PLAN
    if not os.path.lexists(path):
        raise RunError(f"{shown(str(folder), 150)} is not a run that can be resumed: it has no {PLAN}.")
    plan = read_yaml(path)
    try:
        if not isinstance(plan, dict) or not {"data", "method", "training", "rows_sha256"} <= plan.keys():
            raise RunError(f"{shown(str(path), 150)} is not a plan of a run.")
        expected.check_data_path(plan["data"], NAMES)
        expected.whole_number(plan, "n_clusters", least=1)
        expected.whole_number(plan, "seed", least=0, most=2**31)
        for name in ("method", "rows_sha256", "groups_sha256", "label_column"):
            if not isinstance(plan.get(name, ""), str | None):
                raise ValueError(f"{name!r} is not text")
        dropped = plan.setdefault("drop", [])
        if not isinstance(dropped, list) or not all(isinstance(name, str) for name in dropped):
            raise ValueError("'drop' is not a list of names")
        expected.training_settings(plan["training"])
        plan["hardware"] = asdict(expected.hardware_of(plan.get("hardware", {})))
        if not isinstance(plan.setdefault("tensorboard", False), bool):
            raise ValueError("'tensorboard' is neither true nor false")
    except FAILURES as error:
        raise unreadable(path, error) from error
    return plan


def check_sizes(
    folder: Path,
    config: TrainingConfig,
    n_features: int,
    n_clusters: int,
    image_shape: tuple[int, ...] | None = None,
    *,
    processes: int = 1,
) -> None:
    """Refuse settings that are too large, or larger than the run's own checkpoints, before anything is built."""
    expected.check_sizes(config, n_features, n_clusters, image_shape)
    checkpoints = Checkpoints(folder)
    if checkpoints.exists():
        net = expected.shape_of_net(config, n_features, n_clusters, image_shape)
        wanted = expected.layout_of(net.state_dict(), "net/")
        chains = math.ceil(config.sampler.buffer_size / processes) * processes
        wanted["buffer"] = expected.Spec(torch.float32, (chains, n_features))
        try:
            check_layout({k: v for k, v in checkpoints.layout().items() if k in wanted}, wanted)
        except ValueError as error:
            raise RunError(f"The plan and the checkpoint in {shown(str(folder), 150)} disagree: {error}.") from error


def fingerprint(rows: np.ndarray) -> str:
    """Tells whether two arrays hold the same rows, whatever type they are kept in."""
    digest = hashlib.sha256()
    for _, part in row_blocks(rows):
        digest.update(np.ascontiguousarray(part, dtype=np.float64).data)
    return digest.hexdigest()


def save(model: TrainedModel, folder: Path, extra: dict[str, Any] | None = None) -> None:
    """Write a model and its numbers."""
    settings = {
        "n_clusters": int(model.n_clusters),
        "n_features": model.n_features,
        "seed": model.seed,
        "image_shape": list(model.image_shape) if model.image_shape else None,
        "scaler": model.scaler.state(),
        "training": to_dict(model.config),
    }
    tensors = {f"net.{name}": value.contiguous() for name, value in model.net.state_dict().items()}
    tensors |= {"sampler.chains": model.chains, "sampler.low": model.box.low, "sampler.high": model.box.high}
    try:
        replace_text(folder / CONFIG, yaml.safe_dump(settings, sort_keys=False))
        replace_text(folder / METRICS, "".join(json.dumps(finite(line)) + "\n" for line in model.history))
        write_results(folder, model.results | (extra or {}))
        # Last: a folder that has a model is whole.
        write_whole(folder / MODEL, safetensors_bytes(tensors))
    except OSError as error:
        raise RunError(f"The run could not be written to {folder}: {error.strerror}.") from error


def write_results(folder: Path, results: dict[str, Any]) -> None:
    """results.json, with provenance: of the training, if they were read from a run."""
    content = results if "provenance" in results else results | {"provenance": provenance()}
    replace_text(folder / RESULTS, json.dumps(finite(content), indent=2) + "\n")


def load(folder: str | Path) -> TrainedModel:
    """Read a model back; anything unexpected is a RunError."""
    folder = Path(folder)
    for name in (CONFIG, MODEL):
        if not os.path.lexists(folder / name):
            raise RunError(f"{shown(str(folder), 150)} is not a run folder: it has no {name}.")
    settings, results, history = read_yaml(folder / CONFIG), _read_results(folder), _read_history(folder)
    try:
        n_features = expected.whole_number(settings, "n_features", least=1)
        n_clusters = expected.whole_number(settings, "n_clusters", least=1)
        seed = expected.whole_number(settings, "seed")
        image_shape = expected.image_shape_of(settings["image_shape"], n_features)
        scaler = expected.scaler_of(settings["scaler"], n_features)
        config = expected.training_settings(settings["training"])
        layout = expected.model_layout(expected.shape_of_net(config, n_features, n_clusters, image_shape), n_features)
    except FAILURES as error:
        raise unreadable(folder / CONFIG, error) from error
    most = sum(spec.nbytes(config.sampler.buffer_size) for spec in layout.values())
    with open_tensors(folder / MODEL, min(TEXT_BYTES + most, expected.MODEL_BYTES)) as file:
        check_layout(file.layout, layout)
        tensors = file.read()
        expected.check_variances(tensors)
        low, high, chains = (tensors.pop(f"sampler.{name}") for name in ("low", "high", "chains"))
        if not len(chains) or not bool((low <= high).all()):
            raise ValueError("its sampler has no chains, or a box turned inside out")
        net = expected.net_of(config, n_features, n_clusters, image_shape)
        net.load_state_dict({name.removeprefix("net."): value for name, value in tensors.items()})
        return TrainedModel(
            net=net.eval(),
            scaler=scaler,
            config=config,
            n_clusters=n_clusters,
            seed=seed,
            chains=chains,
            box=Box(low, high),
            image_shape=image_shape,
            results=results,
            history=history,
        )


def _read_results(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    results = read_json(path) if os.path.lexists(path) else {}
    if not isinstance(results, dict):
        raise unreadable(path, "it is not a mapping")
    return results


def _read_history(folder: Path) -> list[dict[str, Any]]:
    path = folder / METRICS
    return read_json_lines(path) if os.path.lexists(path) else []
