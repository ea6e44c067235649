"""Reading the command line: a parser that suggests what was meant, and the types of its arguments."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import yaml

from gedi.errors import ConfigError, did_you_mean
from gedi.settings import AUTO, Minutes, Natural, Outliers, Rule, Seconds, Seed, at_most, checked


class Formatter(argparse.HelpFormatter):
    """Help in two columns, the first wide enough for our commands and most flags."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action.choices, dict) and action.help is None:  # Python 3.11 forgets that commands are indented
            self._action_max_length += self._indent_increment


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one sentence and exit code 2."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, allow_abbrev=False, formatter_class=Formatter)
        self.commands: dict[str, Parser] = {}

    def error(self, message: str) -> NoReturn:
        end = "" if message.endswith(("?", ".")) else "."
        self.exit(2, f"gedi: {message}{end} See: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does, but a misspelt command or flag is reported first, and with a suggestion."""
        words: list[str] = list(args or ())
        if self.commands:
            at = next((i for i, word in enumerate(words) if not word.startswith("-")), len(words))
            words, command = words[:at], words[at : at + 1]
            if command and command[0] not in self.commands:
                self.error(f"there is no command {command[0]}{did_you_mean(command[0], self.commands)}")
        self._check_flags(words)
        return super().parse_known_args(args, namespace)

    def _check_flags(self, words: Iterable[str]) -> None:
        known = [flag for flag in self._option_string_actions if flag.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word == "--":  # only positional arguments follow
                return
            if name.startswith("--") and " " not in name and name not in known:
                self.error(f"{self.prog} has no flag {name}{did_you_mean(name, known, '.')}")


def training_flags(argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Take ``--training.a.b VALUE`` and ``--training.a.b=VALUE`` out: the other words, and {"a.b": value}.

    They are removed first, because argparse would read the value of an unknown flag as a positional argument.
    """
    rest: list[str] = []
    changes: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        if not word.startswith("--training."):
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        value = value if equals else next(words, None)
        if value is None:
            raise ConfigError(f"{name} needs a value.")
        try:
            changes[name.removeprefix("--training.")] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"{name} has a value that cannot be read: {value!r}.") from error
    return rest, changes


FREE_PORT = Rule("be 0 (any free port) or from 1024 to 65535", lambda port: port == 0 or 1024 <= port <= 65535)


def number(kind: Any) -> Callable[[str], Any]:
    """An argparse type: a number of the type of a setting, within its range."""

    def convert(text: str) -> Any:
        value: int | str = text
        with suppress(ValueError):
            value = int(text)
        try:
            return checked(kind, value, "")
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error).strip(" .")) from error

    return convert


seed, seconds, minutes, share = map(number, (Seed, Seconds, Minutes, Outliers))
natural = number(Annotated[Natural, at_most(10**6)])
port = number(Annotated[int, FREE_PORT])


def one_of(what: str, names: Iterable[str]) -> Callable[[str], str]:
    """An argparse type: one of some names, or an error that suggests the nearest."""
    known = list(names)

    def convert(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"there is no {what} {text!r}{did_you_mean(text, known)}")
        return text

    return convert


def path(text: str) -> str:
    """The name of a file or folder, which a run keeps in files of UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise argparse.ArgumentTypeError(f"the name {shown} is not valid UTF-8: rename it") from None
    return text


def clusters(text: str) -> int | str:
    """A number of clusters, or 'auto' to find it from the rows."""
    if text == AUTO:
        return AUTO
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number or {AUTO}, got {text!r}") from None


def column_names(text: str) -> list[str]:
    """Comma-separated column names; a name that contains a comma is quoted, as in the file."""
    return [name.strip() for line in csv.reader([text], skipinitialspace=True) for name in line if name.strip()]
