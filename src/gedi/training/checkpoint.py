"""Checkpoints: all of a run's state in one file, written whole or not at all, verified when read.

A checkpoint is a safetensors file (tensors, and the counters as JSON in its header). A small manifest names the last
two with their checksums: a file that was cut short or damaged is noticed, and the one before it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from gedi.errors import RunError
from gedi.training.state import Best, TrainState

MANIFEST = "checkpoint.json"
KEPT = 2
Tensors = dict[str, torch.Tensor]


class CheckpointError(RunError):
    """A checkpoint could not be written or read."""


class Checkpoints:
    """The checkpoints of one RUN folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[str] = []  # what was passed over as damaged by the last `load`

    def exists(self) -> bool:
        """Whether there is anything to resume from."""
        return (self.folder / MANIFEST).is_file()

    def save(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        """Write one more checkpoint; the last good one stays until this one is safe on disk."""
        entries = self._entries() if self.exists() else []
        number = 1 + (entries[0]["number"] if entries else 0)
        data = save(tensors, metadata={"counters": json.dumps(counters)})
        name = f"checkpoint-{number:06d}.safetensors"
        try:
            write_whole(self.folder / name, data)
            entries = [{"number": number, "file": name, "sha256": hashlib.sha256(data).hexdigest()}, *entries][:KEPT]
            write_whole(self.folder / MANIFEST, json.dumps(entries, indent=1).encode())
        except OSError as error:
            (self.folder / f".{name}").unlink(missing_ok=True)
            raise CheckpointError(
                f"The checkpoint could not be written to {self.folder} ({error.strerror}); the one before it is intact."
            ) from error
        kept = {entry["file"] for entry in entries}
        for old in self.folder.glob("checkpoint-*.safetensors"):
            if old.name not in kept:
                old.unlink(missing_ok=True)

    def load(self) -> tuple[Tensors, dict[str, Any]]:
        """The newest checkpoint that is whole; damaged ones are noted in ``skipped``."""
        self.skipped = []
        for entry in self._entries():
            path = self.folder / entry["file"]
            try:
                if hashlib.sha256(path.read_bytes()).hexdigest() != entry["sha256"]:
                    raise ValueError("its checksum does not match")
                with safe_open(path, framework="pt") as file:
                    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                    return tensors, json.loads(file.metadata()["counters"])
            except (OSError, ValueError, KeyError, SafetensorError) as error:
                self.skipped.append(f"{path.name}: {error}")
        raise CheckpointError(f"No checkpoint in {self.folder} is whole: {'; '.join(self.skipped)}.")

    def clear(self) -> None:
        """Remove all checkpoints: the run is finished, and its model is saved."""
        for path in [self.folder / MANIFEST, *self.folder.glob("checkpoint-*.safetensors")]:
            path.unlink(missing_ok=True)

    def _entries(self) -> list[dict[str, Any]]:
        try:
            entries = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
            known = [{"number": int(e["number"]), "file": str(e["file"]), "sha256": str(e["sha256"])} for e in entries]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.folder / MANIFEST} cannot be read: {error}") from error
        if any(Path(e["file"]).name != e["file"] for e in known):
            raise CheckpointError(f"{self.folder / MANIFEST} names files outside the run folder.")
        return known


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of either."""
    temporary = path.with_name(f".{path.name}")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


# -- a run's state as tensors and counters ----------------------------------------------------------------------------


def pack(state: TrainState) -> tuple[Tensors, dict[str, Any]]:
    """Everything in a `TrainState`, as named tensors and plain numbers."""
    tensors: Tensors = {"buffer": state.buffer.chains, "queue": state.queue, "rng": state.generator.get_state()}
    groups = {
        "net": state.net.state_dict(),
        "average": state.average.state_dict(),
        "after_step1": state.after_step1,
        "best": state.best.weights,
        "kept": state.kept.weights,
    }
    for group, values in groups.items():
        tensors |= {f"{group}/{name}": value for name, value in values.items()}
    for place, moments in state.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser/{place}/{name}": value for name, value in moments.items()}
    optional = {"marginals": state.marginals, "start_labels": state.start_labels}
    tensors |= {name: value for name, value in optional.items() if value is not None}
    counters = {
        "stage": state.stage,
        "iteration": state.iteration,
        "attempt": state.attempt,
        "objective": state.objective,
        "gradient_evaluations": state.gradient_evaluations,
        "best": [state.best.objective if state.best.weights else None, state.best.iteration],
        "kept": [state.kept.objective if state.kept.weights else None, state.kept.iteration],
    }
    # Contiguous copies: safetensors refuses tensors that share memory, as the net and its average may.
    return {name: value.detach().clone().contiguous() for name, value in tensors.items()}, counters


def unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
    """Put packed state back; the optimiser must already be the one of the packed stage."""

    def group(name: str) -> Tensors:
        return {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}

    state.net.load_state_dict(group("net"))
    state.average.load_state_dict(group("average"))
    state.after_step1 = group("after_step1")
    for name in ("best", "kept"):
        objective, iteration = counters[name]
        setattr(state, name, Best(math.inf if objective is None else objective, group(name), iteration))
    moments: dict[int, Tensors] = {}
    for key, value in group("optimiser").items():
        place, name = key.split("/")
        moments.setdefault(int(place), {})[name] = value
    settings = state.optimiser.state_dict()
    state.optimiser.load_state_dict({"state": moments, "param_groups": settings["param_groups"]})
    state.buffer.load_state_dict({"chains": tensors["buffer"]})
    state.queue = tensors["queue"]
    state.generator.set_state(tensors["rng"])
    state.marginals, state.start_labels = tensors.get("marginals"), tensors.get("start_labels")
    state.stage, state.iteration, state.attempt = counters["stage"], counters["iteration"], counters["attempt"]
    state.objective, state.gradient_evaluations = counters["objective"], counters["gradient_evaluations"]
