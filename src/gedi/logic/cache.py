"""Compiled circuits on disk, by the hash of what they were compiled from.

A file is written beside its place and renamed into it, so a reader sees a whole file or none; a file that cannot be
read, or whose contents do not have the hash it says, counts as absent. Nothing here stops a fit: without a cache one
compiles again.
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

FORMAT = 1  # raise it when circuits are laid out differently


def folder() -> Path:
    """$GEDI_CACHE, or the user's cache."""
    return Path(os.environ.get("GEDI_CACHE") or pooch.os_cache("gedi")).expanduser() / "circuits"


def key(description: Any) -> str:
    """The name of what is described (plain lists, numbers, strings)."""
    text = json.dumps([FORMAT, description], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def load(name: str) -> Circuit | None:
    """The circuit stored under ``name``, or None."""
    path = folder() / f"{name}.safetensors"
    try:
        with safe_open(path, framework="np") as file:
            header = file.metadata() or {}
            arrays = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118 - not a dict
        sizes = arrays.pop("sizes")
        layers = tuple(arrays[f"layer{i}"] for i in range(len(arrays)))
    except (OSError, SafetensorError, KeyError, ValueError):
        return None
    circuit = Circuit(tuple(sizes.tolist()), layers)
    return circuit if header.get("digest") == _digest(circuit) else None


def store(name: str, circuit: Circuit) -> None:
    """Keep the circuit under ``name``; a folder that cannot be written to is no reason to stop."""
    arrays = {f"layer{i}": np.ascontiguousarray(layer) for i, layer in enumerate(circuit.layers)}
    arrays["sizes"] = np.asarray(circuit.sizes, dtype=np.int64)
    contents = save(arrays, metadata={"digest": _digest(circuit)})
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder(), prefix=name[:16], suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(contents)
            os.replace(part, folder() / f"{name}.safetensors")
        except BaseException:
            os.unlink(part)
            raise


def _digest(circuit: Circuit) -> str:
    digest = hashlib.sha256(repr((circuit.sizes, [layer.shape for layer in circuit.layers])).encode())
    for layer in circuit.layers:
        digest.update(np.ascontiguousarray(layer).tobytes())
    return digest.hexdigest()
