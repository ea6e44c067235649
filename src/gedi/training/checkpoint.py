"""Checkpoints: all of a run's state in one file, written whole or not at all, verified when read.

A checkpoint is a safetensors file (tensors, and the counters as JSON in its header). A small manifest names the last
two with their checksums: a file that was cut short or damaged is noticed, and the one before it is used. Checksums
guard against accidents only: whoever made the folder could write them too, so nothing that is read is trusted.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from gedi.errors import RunError
from gedi.training.expected import CHECKPOINT_BYTES, ExpectedCheckpoint, whole_number
from gedi.training.state import Best, TrainState
from gedi.training.tensorfile import Layout, open_tensors
from gedi.training.untrusted import FAILURES, finite, parse_json, read_json, shown

MANIFEST = "checkpoint.json"
KEPT = 2
Tensors = dict[str, torch.Tensor]


class CheckpointError(RunError):
    """A checkpoint could not be written or read."""


class Checkpoints:
    """The checkpoints of one RUN folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[str] = []  # what was passed over as damaged by the last `load`, in words
        self.damaged: set[str] = set()  # and the files' names

    def exists(self) -> bool:
        """Whether there is anything to resume from."""
        return os.path.lexists(self.folder / MANIFEST)

    def save(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        """Write one more checkpoint; the last good one stays until this one is safe on disk."""
        # A damaged one is no fallback: it must not push out the whole one that the run went on from.
        entries = [entry for entry in self._entries() if entry["file"] not in self.damaged] if self.exists() else []
        number = 1 + (entries[0]["number"] if entries else 0)
        data = save(tensors, metadata={"counters": json.dumps(finite(counters))})
        name = f"checkpoint-{number:06d}.safetensors"
        try:
            write_whole(self.folder / name, data)
            entries = [{"number": number, "file": name, "sha256": hashlib.sha256(data).hexdigest()}, *entries][:KEPT]
            write_whole(self.folder / MANIFEST, json.dumps(entries, indent=1).encode())
        except OSError as error:
            if not self.folder.is_dir():
                raise CheckpointError(f"{self.folder} was removed while the run trained in it.") from error
            (self.folder / f".{name}").unlink(missing_ok=True)
            raise CheckpointError(
                f"The checkpoint could not be written to {self.folder} ({error.strerror}); the one before it is intact."
            ) from error
        kept = {entry["file"] for entry in entries}
        for old in self.folder.glob("checkpoint-*.safetensors"):
            if old.name not in kept:
                _remove(old)

    def load(self, expected: ExpectedCheckpoint | None = None) -> tuple[Tensors, dict[str, Any]]:
        """The newest checkpoint that is whole and as ``expected``; those passed over are noted in ``skipped``."""
        self.skipped = []
        for entry in self._entries():
            try:
                return self._read(entry, expected)
            except RunError as error:
                self.skipped.append(str(error))
                self.damaged.add(entry["file"])
        raise self._none_whole(self.skipped)

    def layout(self) -> Layout:
        """Types and shapes in the newest checkpoint that has a header; no tensor is read."""
        reasons = []
        for entry in self._entries():
            try:
                with open_tensors(self.folder / entry["file"], CHECKPOINT_BYTES) as file:
                    return file.layout
            except RunError as error:
                reasons.append(str(error))
        raise self._none_whole(reasons)

    def _none_whole(self, reasons: list[str]) -> CheckpointError:
        why = shown(" ".join(reasons), 300).rstrip(".")
        return CheckpointError(f"No checkpoint in {shown(str(self.folder), 150)} is whole: {why}.")

    def _read(self, entry: dict[str, Any], expected: ExpectedCheckpoint | None) -> tuple[Tensors, dict[str, Any]]:
        with open_tensors(self.folder / entry["file"], CHECKPOINT_BYTES) as file:
            counters = parse_json(file.metadata["counters"])
            if expected is not None:
                expected.check_counters(counters)
                expected.check_layout(file.layout, counters)
            if file.sha256() != entry["sha256"]:
                raise ValueError("its checksum does not match")
            tensors = file.read()
            if expected is not None:
                expected.check_values(tensors)
            return tensors, counters

    def _entries(self) -> list[dict[str, Any]]:
        path = self.folder / MANIFEST
        try:
            entries = read_json(path)
            known = [
                {"number": whole_number(e, "number", 0, 10**9), "file": str(e["file"]), "sha256": str(e["sha256"])}
                for e in entries[:KEPT]
            ]
        except RunError as error:
            raise CheckpointError(str(error)) from error
        except FAILURES as error:
            raise CheckpointError(f"{shown(str(path), 150)} cannot be read: it is no list of checkpoints.") from error
        if not all(re.fullmatch(r"checkpoint-[0-9]{6,10}\.safetensors", e["file"]) for e in known):
            raise CheckpointError(f"{shown(str(path), 150)} names files of another kind or outside the run folder.")
        return known


def _remove(path: Path) -> None:
    """Remove a file of ours; something else under its name is no reason to fail."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of either."""
    temporary = path.with_name(f".{path.name}")
    # Made anew: what lies there may be a link to a file elsewhere, which must not be written to.
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
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
    try:
        _unpack(state, tensors, counters)
    except FAILURES as error:
        raise CheckpointError(f"The checkpoint is not of this run: {shown(str(error), 250).rstrip('.')}.") from error


def _unpack(state: TrainState, tensors: Tensors, counters: dict[str, Any]) -> None:
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
        # Copies, here and below: the optimiser would go on writing into the packed state, to which a run may return.
        moments.setdefault(int(place), {})[name] = value.clone()
    settings = state.optimiser.state_dict()
    state.optimiser.load_state_dict({"state": moments, "param_groups": settings["param_groups"]})
    device = state.buffer.chains.device
    state.buffer.load_state_dict({"chains": tensors["buffer"].to(device)})
    state.queue = tensors["queue"].to(device, copy=True)
    state.generator.set_state(tensors["rng"])
    for name in ("marginals", "start_labels"):
        setattr(state, name, tensors[name].to(device, copy=True) if name in tensors else None)
    state.stage, state.iteration, state.attempt = counters["stage"], counters["iteration"], counters["attempt"]
    state.objective, state.gradient_evaluations = counters["objective"], counters["gradient_evaluations"]
