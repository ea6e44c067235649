"""What the benchmarks share: this machine, times on it that can be compared, other revisions, tables and files."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import torch

# gedi is imported inside functions: same_weights.py uses this file with earlier revisions of gedi on the path.
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "laptop"
PEERS = ("torchebm", "umap-learn")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser whose --help shows a script's docstring as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


# ---- times ----


def alternating(functions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of a call of each function; they take turns, so that other work disturbs all equally."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + 2):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            if turn >= 2:  # the first calls warm up
                times[name].append(time.perf_counter() - began)
    return {name: 1000 * statistics.median(found) for name, found in times.items()}


def sgemm_peak(repeats: int, size: int = 1024) -> float:
    """The fastest float32 matrix product, in GFlop/s on one thread."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = min(alternating({"product": lambda: a @ b}, 1)["product"] for _ in range(repeats))
    return 2 * size**3 / best / 1e6


def origin(repeats: int) -> dict[str, Any]:
    """When, on what machine and with which versions the numbers were measured."""
    from gedi.runs import provenance

    made, peak = provenance(), sgemm_peak(repeats)
    made["versions"] |= {found.name: found.version for found in distributions() if found.name in PEERS}
    made["machine"] = f"{cpu_model()}, {os.cpu_count()} cores, 1 thread used, {peak:.0f} GFlop/s of sgemm"
    made["sgemm_gflops"] = peak
    return made


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux, or a machine without names
        return platform.processor() or platform.machine()


# ---- other revisions ----


def checkout(revision: str, folder: Path) -> Path:
    """The files of a revision, in ``folder``."""
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", revision], stdout=subprocess.PIPE, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def environment(source: Path, *, one_thread: bool = True) -> dict[str, str]:
    """The variables of a process that imports the gedi of a checkout."""
    # The existing path stays, after the checkout's code: peers may be installed there.
    path = os.pathsep.join([str(source / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | (dict.fromkeys(THREADS, "1") if one_thread else {}) | {"PYTHONPATH": path}


# ---- what is shown and kept ----


def show(title: str, lines: Sequence[Mapping[str, Any]]) -> None:
    """Print a table, one row per line."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*lines[0], title=title)
    for line in lines:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in line.values()))
    Console().print(table)


def write(numbers: Mapping[str, Any], path: Path) -> None:
    """Write numbers as JSON; the folder is made if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(numbers, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
