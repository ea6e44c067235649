"""Whole fits, each in its own process: ours, an earlier revision of ours, and other libraries.

All run on one thread; where our default uses more, it is measured as well.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from loops import Skipped
from machine import ROOT, alternating, environment

DATA = ("moons", "circles", "digits", "curved", "mnist")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SPECTRAL_ROWS = 20_000  # its k-nearest-neighbour graph is cheap, but beyond this its eigenvectors take minutes
GMM_FEATURES = 100  # full covariances of more features take hours
EARLIER_ROWS = 100_000  # in growth; earlier revisions may take hours for more
OWN_THREADS = "gedi, as many threads as it chooses"
Run = tuple[Path, str]  # the checkout whose gedi is on the path, and who fits


def measure(repeats: int, skipped: Skipped, *, against: Path | None, quick: bool, limit: float) -> list[dict[str, Any]]:
    """Every data set: our time and scores, and those of the others on the same rows."""
    lines = []
    for name in ("moons",) if quick else DATA:
        if name == "mnist" and not (Path(os.environ.get("GEDI_DATA", "")) / "mnist.npz").is_file():
            skipped.append("fits of MNIST: there is no mnist.npz in $GEDI_DATA")
            continue
        who = _entrants(name, skipped, against)
        options = ["--rows", "200", "--preset", "smoke"] if quick else []
        found = _alternating(who, [name, *options], repeats, skipped, limit)
        lines += [{"data": name, **line} for line in _with_ratios(found)]
    return lines


def growth(repeats: int, skipped: Skipped, *, against: Path | None, quick: bool, limit: float) -> list[dict[str, Any]]:
    """Time and peak memory for more and more rows of 8 features."""
    lines = []
    for rows in (500, 1000) if quick else SIZES:
        who: dict[str, Run] = {"gedi": (ROOT, "gedi"), "GaussianMixture": (ROOT, "gmm")}
        if rows <= SPECTRAL_ROWS:
            who["SpectralClustering"] = (ROOT, "spectral")
        if against is not None and rows <= EARLIER_ROWS:
            who["gedi, earlier"] = (against, "gedi")
        options = ["mixture", "--rows", str(rows), *(["--preset", "smoke"] if quick else [])]
        found = _alternating(who, options, 1 if rows > 100_000 else repeats, skipped, limit)
        lines += [{"rows": rows, **line} for line in _with_ratios(found)]
    if against is not None and not quick:
        skipped.append(f"growth of the earlier revision beyond {EARLIER_ROWS:,} rows: it may take hours")
    return lines


def devices(repeats: int, skipped: Skipped, *, quick: bool) -> list[dict[str, Any]]:
    """Iterations of step 2 on images: one process, two that share each batch, and two fits that share nothing.

    Each process has one thread. The two fits show the most that this machine can gain: its cores share cache and
    memory, and may be two threads of one core. Times are the difference between a long fit and a short one, so that
    what both do besides iterating (imports, the estimate, the report) cancels out.
    """
    if not (Path(os.environ.get("GEDI_DATA", "")) / "cifar10.npz").is_file():
        skipped.append("two devices: there is no cifar10.npz in $GEDI_DATA")
        return []
    few, many = (1, 3) if quick else (20, 120)
    who = {"one process": (1, 1), "two processes of one fit": (2, 1), "two fits at once": (1, 2)}
    found: dict[str, list[float]] = {name: [] for name in who}
    for _ in range(repeats):
        for name, (processes, fits) in who.items():
            extra = _seconds_of_images(processes, fits, many) - _seconds_of_images(processes, fits, few)
            found[name].append(extra / (many - few) / fits)
    each = {name: statistics.median(times) for name, times in found.items()}
    return [
        {"who": name, "seconds per iteration": seconds, "times one process": each["one process"] / seconds}
        for name, seconds in each.items()
    ]


def _seconds_of_images(processes: int, fits: int, iterations: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gedi", "fit", "cifar10", "--n-clusters", "10", "--devices", str(processes)]
        command += ["--training.step1.iterations", "0", "--training.step2.iterations", str(iterations)]
        options = {"env": environment(ROOT), "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        began = time.perf_counter()
        started = [subprocess.Popen([*command, "--out", f"{folder}/{i}"], **options) for i in range(fits)]
        if any(process.wait() for process in started):
            raise RuntimeError(f"A fit of images on {processes} processes failed: {' '.join(command)}")
        return time.perf_counter() - began


def imports(repeats: int) -> list[dict[str, Any]]:
    """Seconds of an import in a fresh process, minus those that Python takes to start."""
    codes = {"python": "pass", "import torch": "import torch", "from gedi import GEDI": "from gedi import GEDI"}
    codes["import sklearn.cluster"] = "import sklearn.cluster"

    def started(code: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, "-c", code], env=environment(ROOT), check=True)

    found = alternating({name: started(code) for name, code in codes.items()}, repeats)
    empty = found.pop("python")
    return [{"what": name, "value": (taken - empty) / 1000, "unit": "s"} for name, taken in found.items()]


def answers(repeats: int, rows: int) -> list[dict[str, Any]]:
    """Reading the settings of a run, and predicting."""
    import numpy as np
    from sklearn.datasets import make_moons

    from gedi import GEDI
    from gedi.training.presets import configure

    model = GEDI(n_clusters=2, preset="smoke", random_state=0).fit(make_moons(500, random_state=0)[0])
    x = np.random.default_rng(0).normal(size=(rows, 2))
    settings = functools.partial(configure, None, "gedi", {"step1.iterations": 10}, n_features=2)
    found = alternating({"settings": settings, "predict": lambda: model.predict(x)}, repeats)
    return [
        {"what": "reading and checking all settings", "value": found["settings"], "unit": "ms"},
        {"what": "predict, 2 features, preset smoke", "value": 1000 * rows / found["predict"], "unit": "rows/s"},
    ]


def _entrants(name: str, skipped: Skipped, against: Path | None) -> dict[str, Run]:
    found: dict[str, Run] = {"gedi": (ROOT, "gedi")}
    if against is not None:
        found["gedi, earlier"] = (against, "gedi")
    if name == "mnist":
        found[OWN_THREADS] = (ROOT, "gedi")
        skipped.append(f"SpectralClustering on MNIST: more than {SPECTRAL_ROWS:,} rows")
        skipped.append(f"GaussianMixture on MNIST: more than {GMM_FEATURES} features")
        if find_spec("umap"):
            found["UMAP + k-means"] = (ROOT, "umap")
        else:
            skipped.append("UMAP + k-means on MNIST: umap-learn is not installed (pip install 'gedi-ssl[peers]')")
        return found
    return found | {"SpectralClustering": (ROOT, "spectral"), "GaussianMixture": (ROOT, "gmm")}


def _alternating(
    who: dict[str, Run], options: list[str], repeats: int, skipped: Skipped, limit: float
) -> dict[str, dict[str, float]]:
    """The median line of every entrant; they take turns."""
    lines: dict[str, list[dict[str, float]]] = {name: [] for name in who}
    for _ in range(repeats):
        for name, (source, kind) in who.items():
            if name not in lines:
                continue
            try:
                lines[name].append(_fit(source, [kind, *options], limit, one_thread=name != OWN_THREADS))
            except (subprocess.SubprocessError, ValueError, IndexError) as error:
                del lines[name]
                reason = f"more than {limit:g} s" if isinstance(error, subprocess.TimeoutExpired) else _last_line(error)
                skipped.append(f"{name} on {' '.join(options)}: {reason}")
    return {
        name: {key: statistics.median(line[key] for line in found) for key in found[0]} for name, found in lines.items()
    }


def _fit(source: Path, words: list[str], limit: float, *, one_thread: bool) -> dict[str, float]:
    command = [sys.executable, str(ROOT / "benchmarks" / "one_fit.py"), *words]
    env = environment(source, one_thread=one_thread)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=limit, cwd=source)
    return json.loads(done.stdout.splitlines()[-1])


def _last_line(error: Exception) -> str:
    text = getattr(error, "stderr", None) or str(error)
    return text.strip().splitlines()[-1][:200]


def _with_ratios(found: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    ours = found.get("gedi", {}).get("seconds")
    return [
        {
            "who": name,
            "their time / ours": line["seconds"] / ours if ours else None,
            "seconds": line["seconds"],
            "NMI": line["nmi"],
            "ARI": line["ari"],
            "peak memory, MB": line["peak_mb"],
            "above data, MB": line["above_data_mb"],
            "wall / CPU": line["seconds"] / max(line["cpu_seconds"], 1e-9),
        }
        for name, line in found.items()
    ]
