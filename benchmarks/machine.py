"""This machine, and times on it that can be compared: alternating, medians, one thread."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from gedi.runs import provenance

PEERS = ("torchebm", "umap-learn")


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
    made = provenance()
    peak = sgemm_peak(repeats)
    made["versions"] |= {name: found for name in PEERS if (found := version_of(name))}
    made["machine"] = f"{cpu_model()}, {os.cpu_count()} cores, 1 thread used, {peak:.0f} GFlop/s of sgemm"
    made["sgemm_gflops"] = peak
    return made


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux, or a machine without names
        return platform.processor() or platform.machine()


def version_of(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
