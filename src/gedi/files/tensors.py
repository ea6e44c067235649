"""Read untrusted safetensors files in two steps: first the header, then, if it fits, the tensors.

The library checks the header against the file's own length, and we compare it with the layout we expect. Only then is
memory allocated.
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
from safetensors import safe_open

from gedi.files.reading import TEXT_BYTES, check_json_size, opened, shown, whole

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

    def nbytes(self, any_length: int = 0) -> int:
        """What the tensor takes in a file."""
        return self.dtype.itemsize * math.prod(any_length if n is None else n for n in self.shape)


Layout = Mapping[str, Spec]


class TensorFile:
    """An open safetensors file; its layout is known and consistent before any tensor is read."""

    def __init__(self, path: Path, file: BufferedReader, size: int) -> None:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, TEXT_BYTES):
            raise ValueError("it is not a safetensors file, or it is cut short")
        check_json_size(whole(file, length).decode())
        self._file, self._data = file, 8 + length
        # The library opens a path and maps the file. We give it our descriptor's path, where the system has one, so
        # that it sees the file that was checked; we use it for the header alone, and read the tensors ourselves: a file
        # that is cut short while it is mapped would end the process.
        descriptor = Path(f"/dev/fd/{file.fileno()}")
        with safe_open(descriptor if descriptor.exists() else path, framework="numpy") as header:
            self.metadata: dict[str, str] = header.metadata() or {}
            self.layout = {name: _spec(name, header.get_slice(name)) for name in header.offset_keys()}
        if sum(spec.nbytes() for spec in self.layout.values()) != size - self._data:
            raise ValueError("it changed while it was being read")

    def sha256(self) -> str:
        """Checksum of the whole file."""
        self._file.seek(0)
        return hashlib.file_digest(self._file, "sha256").hexdigest()

    def read(self) -> dict[str, torch.Tensor]:
        """All tensors, as copies in memory; values that are not finite are refused."""
        tensors = {}
        self._file.seek(self._data)
        for name, (dtype, shape) in self.layout.items():  # in the file's order, which has no gaps
            tensor = torch.empty([n or 0 for n in shape], dtype=dtype)
            raw: Any = tensor.view(-1).view(torch.uint8).numpy()
            if self._file.readinto(raw) != len(raw):
                raise ValueError("it ends too early")
            if dtype.is_floating_point and not bool(tensor.isfinite().all()):
                raise ValueError(f"the tensor {shown(name)!r} contains values that are not finite")
            tensors[name] = tensor
        return tensors


def _spec(name: str, tensor: Any) -> Spec:
    if tensor.get_dtype() not in DTYPES:
        raise ValueError(f"the tensor {shown(name)!r} has the unknown type {shown(tensor.get_dtype())!r}")
    return Spec(DTYPES[tensor.get_dtype()], tuple(tensor.get_shape()))


@contextmanager
def open_tensors(path: Path, limit: int) -> Iterator[TensorFile]:
    """A safetensors file with a checked header; any failure inside the block is a RunError that names the file."""
    with opened(path, limit) as (file, size):
        yield TensorFile(path, file, size)


def check_layout(found: Layout, expected: Layout) -> None:
    """Require exactly the tensors expected, with their types and shapes."""
    for name, (dtype, shape) in expected.items():
        if name not in found:
            raise ValueError(f"it lacks the tensor {shown(name)!r}")
        real = found[name]
        fits = len(real.shape) == len(shape) and all(b in (None, a) for a, b in zip(real.shape, shape, strict=True))
        if real.dtype != dtype or not fits:
            raise ValueError(
                f"the tensor {shown(name)!r} is {real.dtype} {list(real.shape)[:8]}, "
                f"but the settings require {dtype} {['any' if n is None else n for n in shape]}"
            )
    if unknown := found.keys() - expected.keys():
        raise ValueError(f"it contains an unknown tensor {shown(min(unknown))!r}")
