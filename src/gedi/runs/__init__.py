"""RUN folders: everything that a run writes to disk."""

from gedi.runs.checkpoint import Checkpoints
from gedi.runs.folder import (
    CONFIG,
    METRICS,
    MODEL,
    PLAN,
    RESULTS,
    MetricsLog,
    check_resumable,
    claimed,
    fingerprint,
    load,
    locked,
    provenance,
    save,
    write_results,
)
from gedi.runs.plan import Plan
