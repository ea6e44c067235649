"""RUN folders: everything that a run leaves on disk."""

from gedi.runs.checkpoint import Checkpoints
from gedi.runs.folder import (
    CONFIG,
    METRICS,
    MODEL,
    PLAN,
    RESULTS,
    MetricsLog,
    check_sizes,
    claim,
    claimed,
    fingerprint,
    load,
    locked,
    provenance,
    read_plan,
    save,
    write_plan,
    write_results,
)

__all__ = [
    "CONFIG",
    "METRICS",
    "MODEL",
    "PLAN",
    "RESULTS",
    "Checkpoints",
    "MetricsLog",
    "check_sizes",
    "claim",
    "claimed",
    "fingerprint",
    "load",
    "locked",
    "provenance",
    "read_plan",
    "save",
    "write_plan",
    "write_results",
]
