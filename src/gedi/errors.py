"""What can go wrong that the user can put right; the command line shows these as one sentence."""


class GediError(Exception):
    """Anything gedi reports to its user on purpose."""


class DataError(GediError, ValueError):
    """The data given cannot be used as it is."""


class ConfigError(GediError, ValueError):
    """A setting is unknown, or has a value it cannot have."""


class RunError(GediError):
    """A run folder is missing, incomplete or in the way."""


class CheckpointError(RunError):
    """A checkpoint could not be written or read."""


class LogicError(GediError, ValueError):
    """A constraint is ill formed or cannot hold, or its log-probabilities do not fit it."""
