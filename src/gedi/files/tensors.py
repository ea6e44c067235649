"""Safetensors files that anybody may have made, read in two steps: first the header, then, if it fits, the tensors.

The header is checked against the file's own length and can be compared with the layout that is expected, so that no
memory is reserved on a stranger's word.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import torch

from gedi.files.reading import DEPTH, TEXT_BYTES, opened, parse_json, shown, whole

DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}


class Spec(NamedTuple):
    """Type and shape of a tensor; None stands for any length."""

    dtype: torch.dtype
    shape: tuple[int | None, ...]


Layout = Mapping[str, Spec]


class TensorFile:
    """An open safetensors file: its layout is known and consistent before any tensor is read."""

    def __init__(self, file: BufferedReader, size: int) -> None:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, TEXT_BYTES):
            raise ValueError("it is not a safetensors file, or is cut short")
        header = parse_json(whole(file, length).decode("utf-8"))
        if not isinstance(header, dict):
            raise ValueError("its header is not a mapping")
        self.metadata = header.pop("__metadata__", {})
        if not isinstance(self.metadata, dict) or not all(isinstance(v, str) for v in self.metadata.values()):
            raise ValueError("the metadata of its header are not texts")
        self._file, self._data = file, 8 + length
        self.layout: dict[str, Spec] = {}
        self._places: dict[str, int] = {}
        ends = []
        for name, entry in header.items():
            self.layout[name], begin, end = _entry(name, entry)
            self._places[name] = begin
            ends.append((begin, end))
        reached = 0
        for begin, end in sorted(ends):
            if begin != reached:
                raise ValueError("its tensors overlap or leave gaps")
            reached = end
        if reached != size - self._data:
            raise ValueError(f"its tensors take {reached:,} bytes, but it holds {size - self._data:,}")

    def sha256(self) -> str:
        """Checksum of the whole file."""
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()

    def read(self) -> dict[str, torch.Tensor]:
        """All tensors; a value that is not finite is refused."""
        tensors = {}
        for name, (dtype, shape) in self.layout.items():
            tensor = torch.empty([n or 0 for n in shape], dtype=dtype)
            if tensor.numel():
                self._file.seek(self._data + self._places[name])
                raw: Any = tensor.reshape(-1).view(torch.uint8).numpy()
                if self._file.readinto(raw) != len(raw):
                    raise ValueError("it ends too early")
            if dtype.is_floating_point and not bool(tensor.isfinite().all()):
                raise ValueError(f"the tensor {shown(name)!r} holds values that are not finite")
            tensors[name] = tensor
        return tensors


def _entry(name: str, entry: Any) -> tuple[Spec, int, int]:
    """Type, shape, begin and end of one tensor; its bytes are as many as its shape takes."""
    keys = {"dtype", "shape", "data_offsets"}
    if not isinstance(entry, dict) or entry.keys() != keys or not isinstance(entry["dtype"], str):
        raise ValueError(f"its header does not describe the tensor {shown(name)!r}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not all(isinstance(v, list) and all(type(n) is int and n >= 0 for n in v) for v in (shape, offsets)):
        raise ValueError(f"the tensor {shown(name)!r} has an impossible shape or place")
    if entry["dtype"] not in DTYPES or len(offsets) != 2 or len(shape) > DEPTH:
        raise ValueError(f"the tensor {shown(name)!r} is of a kind that is not known")
    dtype = DTYPES[entry["dtype"]]
    if math.prod(shape) * dtype.itemsize != offsets[1] - offsets[0]:
        raise ValueError(f"the tensor {shown(name)!r} has a shape that does not fit its bytes")
    return Spec(dtype, tuple(shape)), offsets[0], offsets[1]


@contextmanager
def open_tensors(path: Path, limit: int) -> Iterator[TensorFile]:
    """A safetensors file whose header has been checked; what goes wrong inside is a RunError that names the file."""
    with opened(path, limit) as (file, size):
        yield TensorFile(file, size)


def check_layout(found: Layout, expected: Layout) -> None:
    """The very tensors expected, of their types and shapes, and no others."""
    for name, (dtype, shape) in expected.items():
        if name not in found:
            raise ValueError(f"it lacks the tensor {shown(name)!r}")
        real = found[name]
        fits = len(real.shape) == len(shape) and all(b in (None, a) for a, b in zip(real.shape, shape, strict=True))
        if real.dtype != dtype or not fits:
            raise ValueError(
                f"the tensor {shown(name)!r} is {real.dtype} {list(real.shape)[:8]}, "
                f"where the settings ask for {dtype} {['any' if n is None else n for n in shape]}"
            )
    if unknown := found.keys() - expected.keys():
        raise ValueError(f"it holds a tensor {shown(min(unknown))!r} that is not known")
