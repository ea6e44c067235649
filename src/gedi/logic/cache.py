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
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from gedi.logic.circuit import Circuit

FORMAT = 1  # increase it when the layout of circuits changes


def folder() -> Path:
    """Where circuits are kept: in $GEDI_CACHE, or in the user's cache folder."""
    return Path(os.environ.get("GEDI_CACHE") or pooch.os_cache("gedi")).expanduser() / "circuits"


def key(description: Any) -> str:
    """The name under which a constraint, described by plain lists, numbers and strings, is stored."""
    text = json.dumps([FORMAT, description], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load(name: str) -> Circuit | None:
    """The circuit stored under ``name``, or None."""
    path = folder() / f"{name}.safetensors"
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            arrays = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118 - it is not a dict
        sizes = arrays.pop("sizes")
        layers = tuple(arrays[f"layer{i}"] for i in range(len(arrays)))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    circuit = Circuit(tuple(sizes.tolist()), layers)
    return circuit if header.get("digest") == _digest(circuit) else None


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
