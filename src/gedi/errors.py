"""Errors that the user can fix; the command line shows each as one sentence."""


class GediError(Exception):
    """Base class of all errors that gedi raises on purpose."""


class DataError(GediError, ValueError):
    """The data given cannot be used as it is."""


class ConfigError(GediError, ValueError):
    """A setting is unknown, or its value is not allowed."""


class RunError(GediError):
    """A run folder is missing or incomplete, or would be overwritten."""


class CheckpointError(RunError):
    """A checkpoint could not be written or read."""


class LogicError(GediError, ValueError):
    """A constraint is malformed or cannot hold, or its log-probabilities do not fit it."""
