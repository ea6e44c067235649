"""Checkpoints: all of a run's state in one file, written whole or not at all, verified when read.

A checkpoint is a safetensors file (tensors, and the counters as JSON in its header). A small manifest names the last
two with their checksums: a file that was cut short or damaged is noticed, and the one before it is used. Checksums
guard against accidents only: whoever made the folder could write them too, so nothing that is read is trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors.torch import save

from gedi.errors import CheckpointError, RunError
from gedi.files.reading import FAILURES, parse_json, read_json, shown
from gedi.files.tensors import Layout, open_tensors
from gedi.files.writing import finite, write_whole
from gedi.runs.expected import CHECKPOINT_BYTES, ExpectedCheckpoint, whole_number
from gedi.training.state import Tensors

MANIFEST = "checkpoint.json"
KEPT = 2


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

    def load(self, **of: Any) -> tuple[Tensors, dict[str, Any]]:
        """The newest checkpoint that is whole; those passed over are noted in ``skipped``.

        ``of``: the run it must be of, as `ExpectedCheckpoint` describes it.
        """
        expected = ExpectedCheckpoint(**of) if of else None
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
