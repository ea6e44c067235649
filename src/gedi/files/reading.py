"""Readers for files that anybody may have made: nothing in them is run, and nothing large is reserved on their word.

Links, pipes, devices and folders are refused, and so is a file longer than its limit, before anything is read. JSON and
YAML are read as plain data: text, numbers, lists and mappings, of bounded size and depth. Whatever is wrong, `RunError`
says it in one sentence.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import yaml

from gedi.errors import RunError

TEXT_BYTES = 2**25  # of one text file, or of the header of a tensor file
VALUES = 10**6  # numbers, words, lists and mappings in one text
DEPTH = 20  # of nested lists and mappings
SCALAR = 10_000  # characters of one YAML scalar
LONGEST_INTEGER = 2**63  # what every library underneath can count to
# What reading, checking and building can raise on input nobody foresaw.
FAILURES = (LookupError, AttributeError, TypeError, ValueError, RuntimeError, ArithmeticError, OSError, MemoryError)


def unreadable(path: Path, error: BaseException | str) -> RunError:
    """One printable sentence: other people's explanations run over many lines, and may hold anything."""
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
    """A regular file of at most ``limit`` bytes, open, and its length; what goes wrong inside is a RunError."""
    # Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever.
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
                raise ValueError(f"it has {status.st_size:,} bytes, where at most {limit:,} are expected")
            yield file, status.st_size
    except RunError:
        raise
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    except (*FAILURES, yaml.YAMLError) as error:
        raise unreadable(path, error) from error


# -- text -------------------------------------------------------------------------------------------------------------


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    with opened(path, TEXT_BYTES) as (file, size):
        return parse_json(whole(file, size).decode("utf-8"))


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The mappings of a file that holds one a line."""
    with opened(path, TEXT_BYTES) as (file, size):
        text = whole(file, size).decode("utf-8")
        _check_count(text)
        lines = [parse_json(line) for line in text.splitlines()]
        if not all(isinstance(line, dict) for line in lines):
            raise ValueError("a line of it is not a mapping")
        return lines


def read_yaml(path: Path) -> Any:
    """The content of a YAML file of plain data: no tags, no references, no second document."""
    with opened(path, TEXT_BYTES) as (file, size):
        return _PlainYaml(whole(file, size).decode("utf-8")).content()


def parse_json(text: str) -> Any:
    """The content of a JSON text; numbers that are not finite or not countable are refused."""
    _check_count(text)
    value = json.loads(text, parse_constant=_finite, parse_float=_finite, parse_int=_countable)
    _check_nested(value)
    return value


def whole(file: BufferedReader, size: int) -> bytes:
    """The next ``size`` bytes."""
    # No more than was announced: the special files of an operating system say 0, and never end.
    data = file.read(size)
    if len(data) != size:
        raise ValueError("it ends too early")
    return data


def _check_count(text: str) -> None:
    if sum(text.count(mark) for mark in ",[{") > VALUES:
        raise ValueError(f"it holds more than {VALUES:,} values")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("it holds a number that is not finite")
    return value


def _countable(text: str) -> int:
    if len(text) > 20 or abs(int(text)) >= LONGEST_INTEGER:
        raise ValueError("it holds a whole number of more than 64 bits")
    return int(text)


def _check_nested(value: Any, depth: int = DEPTH) -> None:
    if not depth:
        raise ValueError(f"it is nested more than {DEPTH} deep")
    if isinstance(value, str):
        value.encode()  # half a surrogate pair could be read, but never written again
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode()
            _check_nested(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            _check_nested(item, depth - 1)


class _PlainYaml:
    """Builds plain data from YAML's events, one after the other: a text that grows when read is stopped on its way."""

    def __init__(self, text: str) -> None:
        self.events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.left = VALUES
        self.resolve = yaml.resolver.Resolver().resolve
        make = yaml.constructor.SafeConstructor()
        self.kinds: dict[str, Callable[[yaml.ScalarNode], Any]] = {
            "tag:yaml.org,2002:null": make.construct_yaml_null,
            "tag:yaml.org,2002:bool": make.construct_yaml_bool,
            "tag:yaml.org,2002:int": make.construct_yaml_int,
            "tag:yaml.org,2002:float": make.construct_yaml_float,
            "tag:yaml.org,2002:str": make.construct_yaml_str,
        }

    def content(self) -> Any:
        value = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                if self.left < VALUES:
                    raise ValueError("it holds more than one document")
                value = self._value(event, DEPTH)
        return value

    def _value(self, event: Any, depth: int) -> Any:
        self.left -= 1
        if not depth or self.left < 0:
            raise ValueError(f"it holds more than {VALUES:,} values" if depth else f"it is nested over {DEPTH} deep")
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it refers to itself")
        if event.tag is not None:
            raise ValueError(f"it asks for the type {shown(event.tag)!r}")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        if isinstance(event, yaml.SequenceStartEvent):
            return [self._value(item, depth - 1) for item in self._until(yaml.SequenceEndEvent)]
        return dict(self._pair(key, depth) for key in self._until(yaml.MappingEndEvent))

    def _until(self, end: type) -> Iterator[Any]:
        while not isinstance(event := next(self.events), end):
            yield event

    def _pair(self, key: Any, depth: int) -> tuple[str, Any]:
        name = self._value(key, depth - 1)
        if not isinstance(name, str):
            raise ValueError(f"it has the key {shown(str(name))}, which is not a name")
        return name, self._value(next(self.events), depth - 1)

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        if len(event.value) > SCALAR:
            raise ValueError(f"it holds a word of {len(event.value):,} letters")
        event.value.encode()
        tag = self.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag not in self.kinds:
            raise ValueError(f"it holds {shown(event.value)!r}, which is neither a word nor a number")
        value = self.kinds[tag](yaml.ScalarNode(tag, event.value))
        if isinstance(value, int) and abs(value) >= LONGEST_INTEGER:
            raise ValueError("it holds a whole number of more than 64 bits")
        return value
