"""Checkpoints: all of a run's state in one file, written whole or not at all, and verified when read.

A checkpoint is a safetensors file: the tensors, with the counters as JSON in its header. A small manifest lists the
last two and their checksums, so that a truncated or damaged file is detected and the previous one is used. Checksums
only guard against accidents: whoever made the folder could have written them too, so nothing in it is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from safetensors.torch import save

from gedi.errors import CheckpointError, ConfigError, RunError
from gedi.files.reading import FAILURES, parse_json, read_json, shown
from gedi.files.tensors import Layout, Spec, TensorFile, check_layout, open_tensors
from gedi.files.writing import finite, write_whole
from gedi.runs.layout import CHECKPOINT_BYTES, F32, check_values, layout_of
from gedi.settings import Natural, Rule, make, types_of
from gedi.training.recovery import RunCounters
from gedi.training.state import Tensors, TrainState

MANIFEST = "checkpoint.json"
OWN_FILE = Rule("name a checkpoint", lambda name: bool(re.fullmatch(r"checkpoint-[0-9]{6,10}\.safetensors", name)))
CHECKPOINTS_KEPT = 2
T = TypeVar("T")


@dataclass
class ManifestLine:
    """A line of checkpoint.json."""

    number: Natural
    file: Annotated[str, OWN_FILE]
    sha256: str


class Checkpoints:
    """The checkpoints of one RUN folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.skipped: list[str] = []  # why the last `load` passed over newer checkpoints, one sentence each
        self.damaged: set[str] = set()  # the names of those files

    def exists(self) -> bool:
        """Whether there is anything to resume from."""
        return os.path.lexists(self.folder / MANIFEST)

    def save(self, tensors: Tensors, counters: dict[str, Any]) -> None:
        """Write a checkpoint; the last good one is kept until this one is on disk."""
        # Drop damaged entries: otherwise they could push out the good one that the run resumed from.
        entries = [entry for entry in self._entries() if entry.file not in self.damaged] if self.exists() else []
        number = 1 + (entries[0].number if entries else 0)
        data = save(tensors, metadata={"counters": json.dumps(finite(counters))})
        name = f"checkpoint-{number:06d}.safetensors"
        try:
            write_whole(self.folder / name, data)
            entries = [ManifestLine(number, name, hashlib.sha256(data).hexdigest()), *entries][:CHECKPOINTS_KEPT]
            write_whole(self.folder / MANIFEST, json.dumps([asdict(entry) for entry in entries], indent=1).encode())
        except OSError as error:
            if not self.folder.is_dir():
                raise CheckpointError(f"{self.folder} was removed during training.") from error
            (self.folder / f".{name}").unlink(missing_ok=True)
            raise CheckpointError(
                f"The checkpoint could not be written to {self.folder} ({error.strerror}); the previous one is intact."
            ) from error
        kept = {entry.file for entry in entries}
        for old in self.folder.glob("checkpoint-*.safetensors"):
            if old.name not in kept:
                with suppress(OSError):  # for example, a folder of that name
                    old.unlink()

    def load(self, **of: Any) -> tuple[Tensors, dict[str, Any]]:
        """Tensors and counters of the newest intact checkpoint.

        ``of`` are the fields of `ExpectedCheckpoint`, which describe the run that it must belong to.
        """
        expected = ExpectedCheckpoint(**of) if of else None

        def read(file: TensorFile, sha256: str) -> tuple[Tensors, dict[str, Any]]:
            counters = parse_json(file.metadata["counters"])
            if expected is not None:
                counters = expected.checked_counters(counters)
                expected.check_layout(file.layout, counters)
            if file.sha256() != sha256:
                raise ValueError("its checksum does not match")
            tensors = file.read()
            if expected is not None:
                expected.check_values(tensors)
            return tensors, counters

        return self._newest(read)

    def layout(self) -> Layout:
        """Types and shapes in the newest checkpoint with a valid header; no tensor is read."""
        return self._newest(lambda file, sha256: file.layout)

    def _newest(self, read: Callable[[TensorFile, str], T]) -> T:
        """What ``read`` returns for the newest checkpoint that it accepts; ``skipped`` says why it refused others."""
        self.skipped = []
        for entry in self._entries():
            try:
                with open_tensors(self.folder / entry.file, CHECKPOINT_BYTES) as file:
                    return read(file, entry.sha256)
            except RunError as error:
                self.skipped.append(str(error))
                self.damaged.add(entry.file)
        why = shown(" ".join(self.skipped), 300).rstrip(".")
        raise CheckpointError(f"No checkpoint in {shown(str(self.folder), 150)} is intact: {why}.")

    def _entries(self) -> list[ManifestLine]:
        path = self.folder / MANIFEST
        try:
            return [make(ManifestLine, line, "") for line in read_json(path)[:CHECKPOINTS_KEPT]]
        except RunError as error:
            raise CheckpointError(str(error)) from error
        except FAILURES as error:
            raise CheckpointError(f"{shown(str(path), 150)} is not a list of this run's checkpoints.") from error


@dataclass(frozen=True)
class ExpectedCheckpoint:
    """What a checkpoint of a run may contain: the run's own tensors, and counters within their ranges."""

    state: TrainState
    rows: int  # in the data
    processes: int = 1  # training together

    def checked_counters(self, counters: Any) -> dict[str, Any]:
        """The counters of the run, within their ranges."""
        if not isinstance(counters, dict):
            raise ValueError("its counters are not a mapping")
        written = {name: counters[name] for name in types_of(RunCounters)}  # all are: none gets its default
        try:
            found = make(RunCounters, written, "counters.")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        if found.processes != self.processes:
            raise ValueError(
                f"it was written by {found.processes} processes, but this run has {self.processes}: "
                "use the same --devices and --nodes as before"
            )
        return asdict(found)

    def check_layout(self, found: Layout, counters: Mapping[str, Any]) -> None:
        """Check the tensors of the state, of the state to roll back to, and of each process's own noise."""
        expected = self._state_layout(found, counters, "")
        if counters["guard"]["good"] is not None:
            expected |= self._state_layout(found, counters["guard"]["good"], "good/")
        if self.state.noise is not self.state.generator:
            noise = self.state.noise.get_state()
            expected["noise"] = Spec(noise.dtype, (len(noise) * self.processes,))
        check_layout(found, expected)

    def _state_layout(self, found: Layout, counters: Mapping[str, Any], prefix: str) -> dict[str, Spec]:
        """The tensors of one packed state; each weight has all of its optimiser tensors or none."""
        state, weights = self.state, self.state.net.state_dict()
        chains, heads = state.buffer.chains, state.net.clusters
        expected = {"buffer": Spec(chains.dtype, (len(chains) * self.processes, *chains.shape[1:]))}
        expected |= layout_of({"rng": state.generator.get_state()})
        expected |= layout_of(weights, "net/") | layout_of(weights, "average/")
        compared = heads.n_heads if counters["competing"] else 1
        optional = {"objective": Spec(F32, (compared,)), "marginals": Spec(F32, (heads.n_clusters,))}
        optional |= {"labels": Spec(torch.int64, (self.rows,)), "starts": Spec(torch.int64, (None, self.rows))}
        optional |= {"neighbours": Spec(torch.int64, (self.rows, None)), "pairs": Spec(torch.int64, (None, None))}
        there = {name.removeprefix(prefix) for name in found if name.startswith(prefix)}
        optional |= {name: Spec(F32, (compared,)) for name in there if name.startswith("judged/")}
        expected |= {name: spec for name, spec in optional.items() if name in there}
        for place, parameter in enumerate(state.net.parameters()):
            group = f"optimiser/{place}/"
            if any(name.startswith(prefix + group) for name in found):
                moment = Spec(parameter.dtype, tuple(parameter.shape))
                moments = {"step": Spec(F32, ()), "exp_avg": moment, "exp_avg_sq": moment}
                expected |= {group + name: spec for name, spec in moments.items()}
        return {prefix + name: spec for name, spec in expected.items()}

    def check_values(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Check values that later arithmetic relies on."""
        heads = self.state.net.clusters
        check_values(tensors, heads.n_heads)
        for name, value in tensors.items():
            kind, most = name.rpartition("/")[2], heads.n_clusters
            if kind in ("labels", "starts") and not bool(((value >= 0) & (value < most)).all()):
                raise ValueError(f"its {kind} are not clusters")
            if kind in ("neighbours", "pairs") and not bool(((value >= 0) & (value < self.rows)).all()):
                raise ValueError(f"its {kind} are not rows")
            if kind == "marginals" and not bool((value > 0).all()):
                raise ValueError("its marginals are not positive")
