"""RUN folders: what a run writes to disk, except its report and the sample of its data (`gedi.report`)."""

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
    existing,
    fingerprint,
    load,
    locked,
    provenance,
    read_history,
    read_results,
    save,
    write_results,
)
from gedi.runs.plan import Plan
