"""Errors and warnings about problems the user can fix; the command line shows each as one sentence."""

import sys
import warnings

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


def warn_user(text: str, kind: type[UserWarning] = UserWarning) -> None:
    """Warn about a line of the user's own code: the nearest caller outside this package and its libraries' wrappers."""
    level, frame = 1, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in INSIDE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level + 1)
