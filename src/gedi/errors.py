"""Errors and warnings about problems the user can fix; the command line shows each as one sentence."""

import difflib
import sys
import warnings
from collections.abc import Iterable

INSIDE = ("gedi", "sklearn", "torch", "contextlib")  # packages between a user's line and a warning about it


class GediError(Exception):
    """Base class of all errors that gedi raises on purpose."""


class DataError(GediError, ValueError):
    """The data cannot be used as it is."""


class ConfigError(GediError, ValueError):
    """A setting is unknown, or its value is not allowed."""


class RunError(GediError):
    """A run folder is missing or incomplete, or would be overwritten."""


class CheckpointError(RunError):
    """A checkpoint could not be written or read."""


class LogicError(GediError, ValueError):
    """A constraint is malformed or cannot hold, or its log-probabilities do not fit it."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if one is near."""
    return next(iter(difflib.get_close_matches(str(name)[:150], list(known), n=1)), None)


def did_you_mean(name: object, known: Iterable[str], otherwise: str | None = None) -> str:
    """The end of a message about an unknown name: the nearest one, or else ``otherwise`` (None: all names)."""
    known = list(known)
    if near := nearest(name, known):
        return f": did you mean {near!r}?"
    return f": choose from {', '.join(known)}." if otherwise is None else otherwise


def warn_user(text: str, kind: type[UserWarning] = UserWarning) -> None:
    """Warn about a line of the user's own code: the nearest caller outside this package and its libraries' wrappers."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level + 1)
