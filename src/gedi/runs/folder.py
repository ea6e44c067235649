"""RUN folders: config.yaml, model.safetensors, metrics.jsonl, results.json. No pickle anywhere.

A folder is not trusted: all of it is read by `gedi.files`, and compared with the `layout` of its settings.
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
from typing import Any, Self

import numpy as np
import torch
import yaml
from safetensors.torch import save as safetensors_bytes

from gedi import __version__
from gedi.data.streaming import row_blocks
from gedi.errors import ConfigError, RunError
from gedi.files.reading import FAILURES, TEXT_BYTES, read_json, read_json_lines, read_yaml, shown, unreadable
from gedi.files.tensors import Spec, check_layout, open_tensors
from gedi.files.writing import finite, replace_text, write_whole
from gedi.runs import layout
from gedi.runs.checkpoint import Checkpoints
from gedi.sampling import Box
from gedi.training.build import build_net
from gedi.training.config import TrainingConfig, to_dict
from gedi.training.model import TrainedModel

CONFIG, MODEL, METRICS, RESULTS = "config.yaml", "model.safetensors", "metrics.jsonl", "results.json"
PLAN, LOCK = "plan.yaml", ".lock"


def provenance() -> dict[str, Any]:
    """When, where and with which versions a result was made."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "versions": {"gedi": __version__} | _libraries(),
        "revision": revision(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, {torch.get_num_threads()} torch threads",
        "command": command(),
    }


@functools.cache
def _libraries() -> dict[str, str]:
    """The versions of the libraries that results depend on."""
    return {name: version(name) for name in ("torch", "numpy", "scikit-learn", "scipy", "lightning-fabric")}


@functools.cache
def revision() -> str | None:
    """The git revision of this code, with '-dirty' if files have changed since; None outside a checkout."""
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
    """The command line, with absolute paths cut to their last part: where files are kept is private."""
    words = [Path(word).name if Path(word).is_absolute() else word for word in sys.argv]
    return " ".join(["gedi" if words[0] in ("cli.py", "__main__.py") else words[0], *words[1:]])


def existing(folder: str | Path) -> Path:
    """The folder, which must be there."""
    if not Path(folder).is_dir():
        raise RunError(f"There is no folder {shown(str(folder), 150)}: check the path.")
    return Path(folder)


def _check_new(folder: Path) -> None:
    """Refuse a folder that holds anything."""
    # A run killed at its start may leave these, and nothing worth keeping.
    left_over = {f".{PLAN}", LOCK}
    if folder.exists() and (not folder.is_dir() or any(path.name not in left_over for path in folder.iterdir())):
        if (folder / PLAN).exists() and not (folder / MODEL).exists() and not (folder / RESULTS).exists():
            raise RunError(
                f"{folder} holds an unfinished run: resume it with gedi resume {folder}, or use another folder."
            )
        raise RunError(f"{folder} already exists and will not be overwritten: use another folder, or remove it.")


@contextmanager
def claimed(folder: str | Path) -> Iterator[Path]:
    """Create a RUN folder and lock it during the work; if the work fails, remove what is unfinished.

    A folder that is not empty is never overwritten. A run that can be resumed, or that says why it diverged, is kept.
    """
    folder = Path(folder)
    _check_new(folder)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"The run folder {folder} could not be created: {error.strerror}.") from error
    with locked(folder):
        try:
            yield folder
        except BaseException:
            if not folder.is_dir() or Checkpoints(folder).exists() or (folder / RESULTS).exists():
                raise
            for path in folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            with suppress(OSError):  # folders with other files in them stay
                for path in made:
                    path.rmdir()
            raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from training in this folder; the lock ends with the process, even if it is killed."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunError(f"The lock {folder / LOCK} could not be created: {error.strerror}.") from error
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


def check_resumable(
    folder: Path,
    config: TrainingConfig,
    n_features: int,
    n_clusters: int,
    image_shape: tuple[int, ...] | None = None,
    *,
    processes: int = 1,
) -> None:
    """Refuse settings that are too large, or do not fit the run's own checkpoints, before anything is built."""
    net = layout.check_sizes(config, n_features, n_clusters, image_shape)
    checkpoints = Checkpoints(folder)
    if checkpoints.exists():
        wanted = layout.layout_of(net.state_dict(), "net/")
        chains = math.ceil(config.sampler.buffer_size / processes) * processes
        wanted["buffer"] = Spec(torch.float32, (chains, n_features))
        try:
            check_layout({k: v for k, v in checkpoints.layout().items() if k in wanted}, wanted)
        except ValueError as error:
            raise RunError(f"The plan and the checkpoint in {shown(str(folder), 150)} disagree: {error}.") from error


def fingerprint(rows: np.ndarray) -> str:
    """A checksum of rows: equal for equal values of any type."""
    digest = hashlib.sha256()
    for _, part in row_blocks(rows):
        digest.update(np.ascontiguousarray(part, dtype=np.float64).data)
    return digest.hexdigest()


def save(model: TrainedModel, folder: Path, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """Write a model, its settings, history and results; returns what results.json says."""
    settings = layout.ModelSettings(
        n_clusters=int(model.n_clusters),
        n_features=model.n_features,
        seed=model.seed,
        image_shape=model.image_shape,
        scaler=model.scaler.state(),
        table=None if model.table is None else model.table.state(),
        words=None if model.words is None else [list(places) for places in model.words],
        training=model.config,
    )
    values = asdict(settings) | {"training": to_dict(model.config)}
    tensors = {f"net.{name}": value.contiguous() for name, value in model.net.state_dict().items()}
    tensors |= {"sampler.chains": model.chains, "sampler.low": model.box.low, "sampler.high": model.box.high}
    if model.typical is not None:
        tensors[layout.TYPICAL_TENSOR] = model.typical
    if model.typical_parts is not None:
        tensors[layout.PARTS_TENSOR] = model.typical_parts
    try:
        replace_text(folder / CONFIG, yaml.safe_dump(values, sort_keys=False))
        replace_text(folder / METRICS, _json_lines(model.history))
        results = write_results(folder, model.results | (extra or {}))
        # Last, because a folder with a model counts as complete.
        write_whole(folder / MODEL, safetensors_bytes(tensors))
    except OSError as error:
        raise RunError(f"The run could not be written to {folder}: {error.strerror}.") from error
    return results


def write_results(folder: Path, results: dict[str, Any]) -> dict[str, Any]:
    """Write results.json with provenance, and return it; results loaded from a run keep the provenance they have."""
    content = results if "provenance" in results else results | {"provenance": provenance()}
    replace_text(folder / RESULTS, json.dumps(finite(content), indent=2) + "\n")
    return content


def load(folder: str | Path) -> TrainedModel:
    """Read a model; anything unexpected is a RunError."""
    folder = existing(folder)
    for name in (CONFIG, MODEL):
        if not os.path.lexists(folder / name):
            place = shown(str(folder), 150)
            if os.path.lexists(folder / PLAN):
                raise RunError(f"{place} holds an unfinished run: continue it with gedi resume {place}.")
            raise RunError(f"{place} is not a run folder: it has no {name}.")
    values, results, history = read_yaml(folder / CONFIG), read_results(folder), read_history(folder)
    try:
        settings = layout.typed(layout.ModelSettings, values)
        n_features, config = settings.n_features, settings.training
        shape = (config, n_features, settings.n_clusters)
        if settings.image_shape is not None and math.prod(settings.image_shape) != n_features:
            raise ValueError(f"image_shape {settings.image_shape} does not have {n_features} features")
        scaler = layout.scaler_of(settings.scaler, n_features)
        table = layout.table_of(settings.table, n_features)
        layout.check_words(settings.words or [], n_features)
        net = layout.shape_of_net(*shape, settings.image_shape)
    except FAILURES as error:
        raise unreadable(folder / CONFIG, error) from error
    # Limit the file to the size that its settings imply: the library maps it before its header can be checked.
    wanted = layout.model_layout(net, n_features, table)
    most = TEXT_BYTES + sum(spec.nbytes(config.sampler.buffer_size) for spec in wanted.values())
    with open_tensors(folder / MODEL, min(most, layout.MODEL_BYTES)) as file:
        if layout.PARTS_TENSOR not in file.layout:
            del wanted[layout.PARTS_TENSOR]
        check_layout(file.layout, wanted)
        tensors = file.read()
        layout.check_values(tensors, net.clusters.n_heads)
        low, high, chains = (tensors.pop(f"sampler.{name}") for name in ("low", "high", "chains"))
        typical = tensors.pop(layout.TYPICAL_TENSOR, None)
        if typical is not None and not len(typical):
            raise ValueError("it has no rows to fill gaps from")
        typical_parts = tensors.pop(layout.PARTS_TENSOR, None)
        if typical_parts is not None and not bool((typical_parts[1] > 0).all()):
            raise ValueError("the standard deviations of the terms of log p are not positive")
        if not len(chains) or not bool((low <= high).all()):
            raise ValueError("its sampler has no chains, or a box with low > high")
        box = Box(low, high)
        net = build_net(*shape, torch.Generator().manual_seed(0), box, settings.image_shape)
        net.load_state_dict({name.removeprefix("net."): value for name, value in tensors.items()})
        return TrainedModel(
            net=net,
            scaler=scaler,
            config=config,
            n_clusters=settings.n_clusters,
            seed=settings.seed,
            chains=chains,
            box=box,
            image_shape=settings.image_shape,
            table=table,
            words=settings.words,
            typical=typical,
            typical_parts=typical_parts,
            results=results,
            history=history,
        )


def read_results(folder: Path) -> dict[str, Any]:
    """What results.json says; empty if there is none."""
    path = folder / RESULTS
    results = read_json(path) if os.path.lexists(path) else {}
    if not isinstance(results, dict):
        raise unreadable(path, "it is not a mapping")
    return results


# -- metrics.jsonl ----------------------------------------------------------------------------------------------------


class MetricsLog:
    """Writes a run's history while it trains, line by line; with ``tensorboard``, also as TensorBoard scalars."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path = folder / METRICS
        self._board: Any = _board(folder / "tensorboard") if tensorboard else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.close()

    def restart(self, lines: list[dict[str, Any]]) -> None:
        """Start again with the lines up to the checkpoint; a resumed run writes the later ones anew."""
        replace_text(self.path, _json_lines(lines))

    def write(self, line: dict[str, Any]) -> None:
        """Append a line, and close the file so that it is not lost in a buffer."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_json_lines([line]))
        except OSError as error:
            raise RunError(f"{self.path} could not be written: {error.strerror}.") from error
        if self._board is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{line['stage']}/{name}", value, line["iteration"])
            self._board.flush()


def _json_lines(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(finite(line)) + "\n" for line in lines)


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl; none if there is no such file."""
    path = folder / METRICS
    return read_json_lines(path) if os.path.lexists(path) else []


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("--tensorboard needs TensorBoard: pip install 'gedi-ssl[tensorboard]'.") from error
    return SummaryWriter(str(folder))
