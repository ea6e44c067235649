"""`gedi predict` and `gedi fit` on files larger than the memory they may use."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import gedi as package

PROGRAM = """
    import json, sys
    from pathlib import Path
    from gedi.cli import main
    def peak():  # megabytes; getrusage would count the parent's memory too
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    run, small, large, out, suffix = sys.argv[1:]
    assert main(["predict", run, small, "--out", f"{out}/small{suffix}"]) == 0
    before = peak()
    assert main(["predict", run, large, "--out", f"{out}/large{suffix}"]) == 0
    sys.stderr.write(json.dumps(peak() - before))
"""
ROWS = 100_000  # read, answered and written at once they take 30 MB and more; in blocks, less than 12


def many_rows(kind: str, folder: Path, n: int) -> Path:
    path = folder / f"rows-{n}.{kind}"
    rows = np.tile(np.random.default_rng(0).normal(size=(1000, 2)), (n // 1000, 1))
    if kind == "csv":
        np.savetxt(path, rows, delimiter=",", fmt="%.17g")
    elif kind == "npy":
        np.save(path, rows)
    else:
        np.savez(path, x=rows)
    return path


SLOW = pytest.mark.slow


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("csv", ".csv"),
        pytest.param("npy", ".npz", marks=SLOW),
        pytest.param("npz", ".csv", marks=SLOW),
        pytest.param("csv", ".parquet", marks=SLOW),
    ],
)
def test_peak_memory_does_not_grow_with_the_file(home, tmp_path, kind, suffix):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    small, large = (many_rows(kind, tmp_path, n) for n in (10_000, ROWS))
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    words = [str(word) for word in (home / "run", small, large, tmp_path, suffix)]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *words],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    grown = json.loads(done.stderr)
    assert f"{ROWS:,} rows" in done.stdout
    assert grown < 12, grown


FIT = """
    import json, sys
    from pathlib import Path
    from gedi import GEDI
    from gedi.cli import main
    from gedi.data import load, neighbours, pictures, streaming
    from gedi.nets import MLPEncoder, mixture
    from gedi.training import build
    def peak():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    # As if memory were small: what is held at once whatever the file's size is, is less than these files.
    small = [(streaming, "MAP_ABOVE", 1 << 20), (MLPEncoder, "rows_at_once", 256), (neighbours, "MOST_PRODUCTS", 0)]
    small += [(neighbours, "PCA_ROWS", 500), (mixture, "MOST_ROWS", 500), (pictures, "AMONG", 500)]
    for owner, name, value in [*small, (build, "SPACING_ROWS", 500)]:
        assert hasattr(owner, name), name
        setattr(owner, name, value)
    few = {f"{stage}.iterations": 2 for stage in ("step1", "step2")}
    few |= {"sampler.steps": 1, "dam.steps": 1, "start.repeats": 1, "net.frequency": 1.0}
    how, *files = sys.argv[1:]
    def fit(path, run):
        if how == "command":
            words = [f"--training.{name}={value}" for name, value in few.items()]
            assert main(["fit", path, "--n-clusters", "2", "--out", f"{path}.{run}", "--preset", "smoke", *words]) == 0
        else:
            few["augment.neighbours"] = 0  # all distances between rows take long
            GEDI(2, preset="smoke", training=few, random_state=0).fit(load(path).x)
        return peak()
    peaks = [fit(path, run) for run, path in enumerate(files)]
    sys.stderr.write("\\n" + json.dumps(peaks))
"""
SIDE, FEW, MANY = 32, 2_000, 18_000  # images: 6 MB and 55 MB in bytes, 221 MB in floats


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", ["estimator", pytest.param("command", marks=SLOW)])
def test_training_takes_no_more_memory_for_more_images(tmp_path, how):
    few, many = (str(tmp_path / f"{n}.npy") for n in (FEW, MANY))
    images = np.random.default_rng(0).integers(0, 256, (1000, SIDE, SIDE, 3), dtype=np.uint8)
    for file, n in ((few, FEW), (many, MANY)):
        np.save(file, np.tile(images, (n // 1000, 1, 1, 1)))
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FIT), how, few, few, many],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    _, small, large = json.loads(done.stderr.splitlines()[-1])  # the first fit also loads what all fits need
    assert large - small < 48, (small, large)  # a few numbers a row, and no copy of the file
