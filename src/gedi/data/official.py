"""Readers for the image sets in their authors' own files: idx, CIFAR's binary archives, SVHN's .mat.

Nothing is unpacked onto the disk and nothing is unpickled; labels are for evaluation only.
"""

from __future__ import annotations

import gzip
import math
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from gedi.errors import DataError

Arrays = tuple[np.ndarray, np.ndarray]  # uint8 images [n, H, W, C], int64 labels [n]

IDX_UINT8 = 0x08
MOST_BYTES = 1 << 31  # larger than any array of these sets: a header that says more is wrong
CIFAR_VALUES = 32 * 32 * 3
# MNIST and Fashion-MNIST publish different files under the same names; their first labels tell them apart.
FIRST_LABELS = {
    ("mnist", "train"): (5, 0, 4, 1, 9, 2, 1, 3, 1, 4),
    ("mnist", "test"): (7, 2, 1, 0, 4, 1, 4, 9, 5, 9),
    ("fashion-mnist", "train"): (9, 0, 0, 3, 0, 2, 7, 2, 5, 5),
    ("fashion-mnist", "test"): (9, 2, 1, 1, 6, 1, 4, 6, 5, 7),
}


@dataclass(frozen=True)
class Cifar:
    """The layout of one of the two CIFAR sets."""

    archive: str
    folder: str
    files: dict[str, tuple[str, ...]]  # by split
    label_bytes: int  # before the pixels of a record; the last one is the fine label


CIFAR = {
    "cifar10": Cifar(
        "cifar-10-binary.tar.gz",
        "cifar-10-batches-bin",
        {"train": tuple(f"data_batch_{i}.bin" for i in range(1, 6)), "test": ("test_batch.bin",)},
        1,
    ),
    "cifar100": Cifar(
        "cifar-100-binary.tar.gz", "cifar-100-binary", {"train": ("train.bin",), "test": ("test.bin",)}, 2
    ),
}


@dataclass(frozen=True)
class Found:
    """The official files of one split of one set."""

    where: Path  # what to show: the folder or the archive
    read: Callable[[], Arrays]
    count: Callable[[], int | None]  # rows, if they can be counted without reading all of it


def find_files(name: str, split: str, root: Path) -> Found | None:
    """The official files of a set in ``root``, in ``root/NAME`` or where torchvision puts them; None if not there."""
    if name in CIFAR:
        return _find_cifar(CIFAR[name], split, [root / name, root])
    if name == "svhn":
        return _find_svhn(split, [root / "svhn", root / "SVHN", root])
    other = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}[name]
    return _find_idx(name, split, [root / name, root / other / "raw", root])


@contextmanager
def _reading(path: Path, kind: str) -> Iterator[None]:
    """Any failure inside means that the file is damaged, unless it is a DataError already."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # gzip, zlib, tarfile and scipy each raise their own
        raise DataError(f"Cannot read {path} as {kind} file: it is damaged or truncated.") from error


# ---- idx: MNIST, Fashion-MNIST ----


def _find_idx(name: str, split: str, folders: list[Path]) -> Found | None:
    prefix = "train" if split == "train" else "t10k"
    for folder in folders:
        images = _with_or_without_gz(folder / f"{prefix}-images-idx3-ubyte")
        labels = _with_or_without_gz(folder / f"{prefix}-labels-idx1-ubyte")
        if images and labels and not _is_another_set(name, split, labels):
            return Found(folder, partial(_idx_pair, images, labels), partial(_count_idx, images))
    return None


def _with_or_without_gz(path: Path) -> Path | None:
    # Some tools write a dot where the official name has a dash.
    names = [path.name, path.name.replace("-idx", ".idx")]
    candidates = [path.with_name(n + end) for n in names for end in (".gz", "")]
    return next((p for p in candidates if p.is_file()), None)


def _is_another_set(name: str, split: str, labels: Path) -> bool:
    try:
        with _open(labels) as file:
            first = tuple(file.read(18)[8:])
    except (OSError, EOFError, zlib.error):
        return False  # reading the file will report the problem
    return any(first == known for (other, s), known in FIRST_LABELS.items() if s == split and other != name)


def _idx_pair(images: Path, labels: Path) -> Arrays:
    x, y = read_idx(images), read_idx(labels)
    if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
        raise DataError(f"{images} and {labels} do not belong together: they hold arrays {x.shape} and {y.shape}.")
    return x[..., None], y.astype(np.int64)


def _count_idx(path: Path) -> int:
    with _reading(path, "an idx"), _open(path) as file:
        return _idx_header(file, path)[0]


def read_idx(path: Path) -> np.ndarray:
    """The bytes of an idx file (plain or .gz) in their shape.

    Header: two zero bytes, the type (8: bytes), the number of axes, and the length of each axis as a big-endian int32.
    """
    with _reading(path, "an idx"), _open(path) as file:
        shape = _idx_header(file, path)
        size = math.prod(shape)
        content = file.read(size + 1)
    if len(content) != size:
        more = "more" if len(content) > size else f"only {len(content):,}"
        raise DataError(f"{path} is damaged: its header promises {size:,} bytes, but it holds {more}.")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()  # writable, as arrays from other readers are


def _idx_header(file: gzip.GzipFile, path: Path) -> tuple[int, ...]:
    magic = file.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] != IDX_UINT8 or not 1 <= magic[3] <= 4:
        raise DataError(f"{path} is not an idx file of bytes: it begins with {magic.hex(' ')}.")
    lengths = file.read(4 * magic[3])
    if len(lengths) < 4 * magic[3]:
        raise DataError(f"{path} is damaged: it ends within its header.")
    shape = tuple(int(v) for v in np.frombuffer(lengths, ">u4"))
    if math.prod(shape) > MOST_BYTES:
        raise DataError(f"{path} is damaged: its header promises an array of shape {shape}.")
    return shape


def _open(path: Path) -> gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


# ---- CIFAR-10, CIFAR-100 ----


def _find_cifar(layout: Cifar, split: str, folders: list[Path]) -> Found | None:
    wanted = layout.files[split]
    for folder in [f / layout.folder for f in folders] + folders[:1]:
        paths = [folder / name for name in wanted]
        if all(p.is_file() for p in paths):
            return Found(folder, partial(_read_cifar_files, paths, layout), partial(_count_cifar, paths, layout))
    for archive in (f / layout.archive for f in folders):
        if archive.is_file():
            return Found(archive, partial(_read_cifar_archive, archive, layout, wanted), lambda: None)
    return None


def _read_cifar_files(paths: list[Path], layout: Cifar) -> Arrays:
    return _cifar_records([(str(p), p.read_bytes()) for p in paths], layout.label_bytes)


def _count_cifar(paths: list[Path], layout: Cifar) -> int:
    return sum(p.stat().st_size for p in paths) // (layout.label_bytes + CIFAR_VALUES)


def _read_cifar_archive(archive: Path, layout: Cifar, wanted: tuple[str, ...]) -> Arrays:
    """Read the files within the archive: nothing is written to disk.

    An archive with links, devices, or paths that lead out of it is malicious, and is refused as a whole.
    """
    largest = 50_000 * (layout.label_bytes + CIFAR_VALUES)
    parts: dict[str, bytes] = {}
    with _reading(archive, "a .tar.gz"), tarfile.open(archive, "r:gz") as tar:
        for member in tar:
            path = PurePosixPath(member.name.replace("\\", "/"))
            if not (member.isreg() or member.isdir()):
                raise DataError(f"{archive} is refused: its entry {member.name!r} is a link or a device.")
            if path.is_absolute() or ".." in path.parts:
                raise DataError(f"{archive} is refused: its entry {member.name!r} points outside the archive.")
            if path.name not in wanted or not member.isreg():
                continue
            if member.size > largest:
                raise DataError(f"{archive} is refused: its entry {member.name!r} has {member.size:,} bytes.")
            file = tar.extractfile(member)
            assert file is not None  # it is a regular file
            parts[path.name] = file.read()
    missing = [name for name in wanted if name not in parts]
    if missing:
        raise DataError(f"{archive} holds no {', '.join(missing)}: it is not the binary version of the archive.")
    return _cifar_records([(f"{name} in {archive}", parts[name]) for name in wanted], layout.label_bytes)


def _cifar_records(parts: list[tuple[str, bytes]], label_bytes: int) -> Arrays:
    """Records of label bytes and 3x32x32 pixels, one channel after the other, as images [n, 32, 32, 3]."""
    tables = []
    for name, content in parts:
        if len(content) == 0 or len(content) % (label_bytes + CIFAR_VALUES):
            raise DataError(
                f"{name} is damaged: its {len(content):,} bytes are not a whole number of records "
                f"of {label_bytes + CIFAR_VALUES:,}."
            )
        tables.append(np.frombuffer(content, np.uint8).reshape(-1, label_bytes + CIFAR_VALUES))
    table = np.concatenate(tables)
    x = table[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x), table[:, label_bytes - 1].astype(np.int64)


# ---- SVHN ----


def _find_svhn(split: str, folders: list[Path]) -> Found | None:
    path = next((p for f in folders if (p := f / f"{split}_32x32.mat").is_file()), None)
    return None if path is None else Found(path, partial(_read_svhn, path), partial(_count_svhn, path))


def _read_svhn(path: Path) -> Arrays:
    """SVHN's cropped digits: X is [32, 32, 3, n], and the digit 0 has the label 10."""
    from scipy.io import loadmat

    with _reading(path, "an SVHN .mat"):
        content = loadmat(path, variable_names=["X", "y"])
        x, y = np.asarray(content["X"]), np.asarray(content["y"])
    n = x.shape[-1] if x.ndim == 4 else -1
    if x.shape != (32, 32, 3, n) or x.dtype != np.uint8 or y.size != n or y.dtype.kind not in "ui":
        raise DataError(f"{path} is not an SVHN file: it holds X {x.shape} of {x.dtype} and y {y.shape} of {y.dtype}.")
    return np.ascontiguousarray(x.transpose(3, 0, 1, 2)), y.reshape(-1).astype(np.int64) % 10


def _count_svhn(path: Path) -> int:
    from scipy.io import whosmat

    with _reading(path, "an SVHN .mat"):
        return {name: shape for name, shape, _ in whosmat(path)}["X"][-1]
