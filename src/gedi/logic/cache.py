"""Compiled circuits on disk, named by a hash of their constraint.

A file is written under a temporary name and then renamed, so parallel runs can share the folder and a reader sees a
whole file or none. A file that cannot be read, or does not match its own hash, counts as missing. Errors never stop a
fit: the constraint is then compiled again.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from safetensors.numpy import save

from gedi.errors import RunError
from gedi.files.tensors import open_tensors
from gedi.logic.circuit import Circuit

FORMAT = 1  # increase it when the layout of circuits changes
MOST_BYTES = 2**32  # of a file


def folder() -> Path:
    """Where circuits are kept: in $GEDI_CACHE, or in the user's cache folder."""
    return Path(os.environ.get("GEDI_CACHE") or pooch.os_cache("gedi")).expanduser() / "circuits"


def key(description: Any) -> str:
    """The name under which a constraint, described by plain lists, numbers and strings, is stored."""
    text = json.dumps([FORMAT, description], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load(name: str) -> Circuit | None:
    """The circuit stored under ``name``, or None."""
    with suppress(RunError), open_tensors(folder() / f"{name}.safetensors", MOST_BYTES) as file:
        arrays = {part: tensor.numpy() for part, tensor in file.read().items()}
        sizes = arrays.pop("sizes")
        circuit = Circuit(tuple(sizes.tolist()), tuple(arrays[f"layer{i}"] for i in range(len(arrays))))
        return circuit if file.metadata["digest"] == _digest(circuit) else None


def store(name: str, circuit: Circuit) -> None:
    """Store the circuit under ``name``, if the folder can be written to."""
    arrays = {f"layer{i}": np.ascontiguousarray(layer) for i, layer in enumerate(circuit.layers)}
    arrays["sizes"] = np.asarray(circuit.sizes, dtype=np.int64)
    contents = save(arrays, metadata={"digest": _digest(circuit)})
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder(), prefix=".") as part:
            path = Path(part) / "circuit"
            path.write_bytes(contents)
            os.replace(path, folder() / f"{name}.safetensors")


def _digest(circuit: Circuit) -> str:
    digest = hashlib.sha256(repr((circuit.sizes, [layer.shape for layer in circuit.layers])).encode())
    for layer in circuit.layers:
        digest.update(np.ascontiguousarray(layer).tobytes())
    return digest.hexdigest()
