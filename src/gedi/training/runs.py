"""RUN folders: config.yaml, model.safetensors, metrics.jsonl, results.json. No pickle anywhere."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as safetensors_bytes

from gedi.data import Scaler
from gedi.errors import RunError
from gedi.sampling import Box
from gedi.training.build import build_net
from gedi.training.checkpoint import Checkpoints, write_whole
from gedi.training.config import TrainingConfig, override, to_dict
from gedi.training.model import TrainedModel

CONFIG, MODEL, METRICS, RESULTS = "config.yaml", "model.safetensors", "metrics.jsonl", "results.json"
PLAN = "plan.yaml"


def provenance() -> dict[str, Any]:
    """When, where and with which versions a result was made."""
    libraries = ("gedi", "torch", "numpy", "scikit-learn", "scipy", "lightning-fabric")
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads",
        "command": command(),
    }


def command() -> str:
    """The command that is running, absolute paths cut to their names: where people keep files is their business."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv]
    return " ".join(["gedi" if words[0] == "cli.py" else words[0], *words[1:]])


def claim(folder: str | Path) -> Path:
    """Make a new RUN folder; one that already holds something is never written over."""
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
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
        if Checkpoints(folder).exists() or (folder / RESULTS).exists():
            raise
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        with suppress(OSError):  # somebody else's file beside ours keeps its folder
            for path in made:
                path.rmdir()
        raise


def write_plan(folder: Path, plan: dict[str, Any]) -> None:
    """What was asked for, written before training starts: a stopped run goes on from it."""
    replace_text(folder / PLAN, yaml.safe_dump(plan, sort_keys=False))


def read_plan(folder: str | Path) -> dict[str, Any]:
    """The plan of a run that was begun."""
    path = Path(folder) / PLAN
    if not path.is_file():
        raise RunError(f"{folder} is not a run that can be resumed: it has no {PLAN}.")
    try:
        plan = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise _unreadable(Path(folder), error) from error
    if not isinstance(plan, dict) or not {"data", "n_clusters", "seed", "training", "rows_sha256"} <= plan.keys():
        raise RunError(f"{path} is not a plan of a run.")
    return plan


def fingerprint(rows: np.ndarray) -> str:
    """Tells whether two arrays hold the same rows."""
    return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()


def save(model: TrainedModel, folder: Path, extra: dict[str, Any] | None = None) -> None:
    """Write a model and its numbers."""
    settings = {
        "n_clusters": model.n_clusters,
        "n_features": model.n_features,
        "seed": model.seed,
        "image_shape": list(model.image_shape) if model.image_shape else None,
        "scaler": model.scaler.state(),
        "training": to_dict(model.config),
    }
    tensors = {f"net.{name}": value.contiguous() for name, value in model.net.state_dict().items()}
    tensors |= {"sampler.chains": model.chains, "sampler.low": model.box.low, "sampler.high": model.box.high}
    replace_text(folder / CONFIG, yaml.safe_dump(settings, sort_keys=False))
    replace_text(folder / METRICS, "".join(json.dumps(finite(line)) + "\n" for line in model.history))
    write_results(folder, model.results | (extra or {}))
    # Last: a folder that has a model is whole.
    write_whole(folder / MODEL, safetensors_bytes(tensors))


def write_results(folder: Path, results: dict[str, Any]) -> None:
    """results.json, with provenance."""
    replace_text(folder / RESULTS, json.dumps(finite(results | {"provenance": provenance()}), indent=2) + "\n")


def load(folder: str | Path) -> TrainedModel:
    """Read a model back; anything unexpected is a RunError."""
    folder = Path(folder)
    for name in (CONFIG, MODEL):
        if not (folder / name).is_file():
            raise RunError(f"{folder} is not a run folder: it has no {name}.")
    try:
        settings = yaml.safe_load((folder / CONFIG).read_text(encoding="utf-8"))
        config = override(TrainingConfig(), settings["training"])
        n_features, n_clusters = int(settings["n_features"]), int(settings["n_clusters"])
        scaler = Scaler.from_state(settings["scaler"])
        tensors = load_file(folder / MODEL)
        box = Box(tensors["sampler.low"], tensors["sampler.high"])
        net = build_net(config.net, n_features, n_clusters, torch.Generator().manual_seed(0), box)
        net.load_state_dict({k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")})
        shape = settings["image_shape"]
        return TrainedModel(
            net=net.eval(),
            scaler=scaler,
            config=config,
            n_clusters=n_clusters,
            seed=int(settings["seed"]),
            chains=tensors["sampler.chains"],
            box=box,
            image_shape=tuple(shape) if shape else None,
            results=_read_results(folder),
            history=_read_history(folder),
        )
    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError, OSError) as error:
        raise _unreadable(folder, error) from error
    except (SafetensorError, yaml.YAMLError) as error:
        raise _unreadable(folder, error) from error


def _unreadable(folder: Path, error: Exception) -> RunError:
    reason = " ".join(str(error).split())[:300]  # yaml and torch explain over many lines
    return RunError(f"The run folder {folder} cannot be read: {type(error).__name__}: {reason}")


def _read_results(folder: Path) -> dict[str, Any]:
    path = folder / RESULTS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _read_history(folder: Path) -> list[dict[str, Any]]:
    path = folder / METRICS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def finite(value: Any) -> Any:
    """JSON has no NaN: what was not measured is null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_whole(path, text.encode())
