"""Read untrusted files: nothing in them is executed, and no size they claim is allocated unchecked.

Links, pipes, devices and folders are refused before anything is read, and so is a file above its size limit. JSON and
YAML are read as plain data (text, numbers, lists and mappings) of bounded size and depth. Every failure is a `RunError`
of one sentence.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, ClassVar

import yaml
from safetensors import SafetensorError

from gedi.errors import RunError
from gedi.settings import LARGEST_INTEGER

TEXT_BYTES = 2**25  # of one text file, or of the header of a tensor file
MOST_VALUES = 10**6  # scalars, lists and mappings in one text
DEEPEST = 20  # of nested lists and mappings
SCALAR = 10_000  # characters of one YAML scalar
# What reading, checking and building can raise on unforeseen input.
FAILURES = (LookupError, AttributeError, TypeError, ValueError, RuntimeError, ArithmeticError, OSError, MemoryError)
FAILURES += (SafetensorError, yaml.YAMLError)


def unreadable(path: Path, error: BaseException | str) -> RunError:
    """An error of one printable sentence; a library's own explanation may span many lines and hold anything."""
    foreign = isinstance(error, BaseException) and type(error) is not ValueError
    reason = f"{type(error).__name__}: {error}" if foreign else str(error)
    return RunError(f"{shown(str(path), 150)} cannot be read: {shown(reason, 250).rstrip('.')}.")


def shown(text: str, longest: int = 60) -> str:
    """Foreign text as part of a message: on one line, without control characters, cut to a length."""
    text = " ".join(text[: 4 * longest].split())
    text = text if len(text) <= longest else text[: longest - 3] + "..."
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@contextmanager
def opened(path: Path, limit: int) -> Iterator[tuple[BufferedReader, int]]:
    """An open regular file of at most ``limit`` bytes, and its size; any failure inside the block is a RunError."""
    # Without O_NONBLOCK, opening a pipe that has no writer would wait forever.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            raise ValueError("it is a link" if stat.S_ISLNK(kind) else "it is not a regular file")
        with open(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            if status.st_size > limit:
                raise ValueError(f"it has {status.st_size:,} bytes, but at most {limit:,} are allowed")
            yield file, status.st_size
    except RunError:
        raise
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    except FAILURES as error:
        raise unreadable(path, error) from error


def whole(file: BufferedReader, size: int) -> bytes:
    """The next ``size`` bytes."""
    # Never read to the end: some special files of an operating system report size 0 and never end.
    data = file.read(size)
    if len(data) != size:
        raise ValueError("it ends too early")
    return data


def nested(values: Any, *names: str) -> Any:
    """A nested value of an untrusted file, or None if there is no such value."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def mapping(values: Any, *names: str) -> dict[str, Any]:
    """A nested mapping of an untrusted file; empty if there is no such mapping."""
    return found if isinstance(found := nested(values, *names), dict) else {}


# -- JSON -------------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    with opened(path, TEXT_BYTES) as (file, size):
        return parse_json(whole(file, size).decode())


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The mappings in a file with one on each line."""
    with opened(path, TEXT_BYTES) as (file, size):
        text = whole(file, size).decode()
        check_json_size(text)
        lines = [parse_json(line) for line in text.splitlines()]
        if not all(isinstance(line, dict) for line in lines):
            raise ValueError("one of its lines is not a mapping")
        return lines


def parse_json(text: str) -> Any:
    """The content of a JSON text; numbers that are not finite, or need more than 64 bits, are refused."""
    check_json_size(text)
    value = json.loads(text, parse_constant=_finite, parse_float=_finite)
    _check_values(value)
    return value


def check_json_size(text: str) -> None:
    """Refuse a JSON text with too many values before it is parsed."""
    _check_count(sum(text.count(mark) for mark in ",[{"))


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("it contains a number that is not finite")
    return value


# -- YAML -------------------------------------------------------------------------------------------------------------

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: Path) -> Any:
    """The content of a YAML file of plain data: no tags, no references, one document."""
    with opened(path, TEXT_BYTES) as (file, size):
        text = whole(file, size).decode()
        _check_events(text)
        value = yaml.load(text, Loader=_PlainLoader)
        _check_values(value)
        return value


def _check_events(text: str) -> None:
    """Refuse tags, references and sizes above the limits before anything is built."""
    count = depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        count += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        _check_count(count)
        _check_depth(depth)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it contains a reference, such as *name")
        if getattr(event, "tag", None) is not None:
            raise ValueError(f"it asks for the type {shown(event.tag)!r}")
        if len(getattr(event, "value", "")) > SCALAR:
            raise ValueError(f"it contains a value of {len(event.value):,} characters")


class _PlainLoader(_Loader):
    """Builds text, numbers, lists and mappings; dates, merged mappings and YAML's other types are refused."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Do not merge mappings: the key ``<<`` is refused instead."""

    def refuse(self, node: yaml.ScalarNode) -> None:
        raise ValueError(f"it contains {shown(node.value)!r}, which is neither text nor a number")

    yaml_constructors: ClassVar = {
        f"tag:yaml.org,2002:{kind}": getattr(_Loader, f"construct_yaml_{kind}")
        for kind in ("null", "bool", "int", "float", "str", "seq", "map")
    } | {None: refuse}


# -- both -------------------------------------------------------------------------------------------------------------


def _check_count(count: int) -> None:
    if count > MOST_VALUES:
        raise ValueError(f"it contains more than {MOST_VALUES:,} values")


def _check_depth(depth: int) -> None:
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")


def _check_values(value: Any, depth: int = 0) -> None:
    """Refuse values that can be parsed but not used or written again."""
    _check_depth(depth)
    if isinstance(value, str):
        value.encode()  # fails on half a surrogate pair
    elif isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
        raise ValueError("it contains a whole number of more than 64 bits")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError(f"it has the key {shown(str(key))}, which is not a name")
            key.encode()
            _check_values(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_values(item, depth + 1)
