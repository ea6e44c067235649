"""Shared by all tests: one thread per process, data sets and a browser where there are any, and very small runs."""

import os
import shutil
import signal
import sys
import time
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch and scikit-learn read it: a fork has no pool of threads

import numpy as np
import pytest
import torch

from gedi import runs
from gedi.errors import GediError
from gedi.objectives.term import kinds
from gedi.runs import Checkpoints
from gedi.training.build import Prepared, prepare
from gedi.training.config import TrainingConfig, override
from gedi.training.engine import Engine
from gedi.training.fit import fit_prepared
from gedi.training.hardware import Hardware
from gedi.training.journal import Hooks
from gedi.training.presets import preset
from gedi.training.recovery import StoppedError

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
QUIET = ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"]

# A run small enough to test what Algorithm 2 does, not how well it does it.
TINY = {
    "step1.iterations": 4,
    "step2.iterations": 6,
    "step1.batch_size": 32,
    "step2.batch_size": 32,
    "sampler.buffer_size": 64,
    "start.nodes": 8,
}


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    """Workers that each start a thread per core slow each other down, and sums depend on the split."""
    torch.set_num_threads(1)


@pytest.fixture
def own_terms(monkeypatch):
    """Terms that a test defines are forgotten after it."""
    monkeypatch.setattr("gedi.objectives.term._KINDS", kinds())


@pytest.fixture
def named_dataset():
    """A function that gives back a data set's name if its file is there, and skips the test otherwise."""

    def require(name: str) -> str:
        folder = os.environ.get("GEDI_DATA")
        if not folder:
            pytest.skip("GEDI_DATA is not set")
        if not (Path(folder) / f"{name}.npz").is_file():
            pytest.skip(f"{name}.npz is not in GEDI_DATA")
        return name

    return require


@pytest.fixture(scope="session")
def needs_chromium():
    """The system's browser; playwright's own is not downloaded."""
    if CHROMIUM is None:
        pytest.skip("needs a chromium: apt-get install chromium")


@pytest.fixture(scope="session")
def browser_type_launch_args():
    """How pytest-playwright starts the one browser of all tests; it may take its time on a busy machine."""
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox", "--disable-gpu", *QUIET], "timeout": 120_000}


@pytest.fixture(scope="session")
def blobs():
    """Two clear groups of rows, 40 + 40."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(-2, 0.3, (40, 2)), rng.normal(2, 0.3, (40, 2))]).astype(np.float32)


@pytest.fixture(scope="session")
def tiny():
    """A function: settings of a run of a few iterations, with changes."""

    def make(**changes) -> TrainingConfig:
        return override(preset("smoke", n_features=2), TINY | {k.replace("__", "."): v for k, v in changes.items()})

    return make


def unscaled(rows, config: TrainingConfig) -> Prepared:
    """Two clusters of rows in the units they have."""
    return prepare(rows, override(config, {"scaling": "none"}), 2)


@pytest.fixture(scope="session")
def make_engine(blobs):
    """A function: the engine of a run on the blobs."""

    def make(config: TrainingConfig, *, seed: int = 0, world=None, hooks=None) -> Engine:
        return Engine(unscaled(blobs, config), seed=seed, world=world, hooks=hooks)

    return make


@pytest.fixture(scope="session")
def fitted(blobs, tiny):
    """A model trained for a few iterations."""
    return fit_prepared(prepare(blobs, tiny(), 2), seed=0)


@pytest.fixture(scope="session")
def begun(blobs, tiny, fitted, tmp_path_factory):
    """A finished run and one that was stopped in step 2, in one folder."""
    folder = tmp_path_factory.mktemp("begun")
    np.save(folder / "rows.npy", blobs)
    left = [7]

    def stop():
        left[0] -= 1
        return left[0] < 0

    config = tiny()
    with pytest.raises(StoppedError):
        fit_prepared(prepare(blobs, config, 2), seed=0, hooks=Hooks(checkpoints=Checkpoints(folder), should_stop=stop))
    runs.Plan(
        data=str(folder / "rows.npy"),
        label_column=None,
        drop=[],
        rows_sha256=runs.fingerprint(blobs.astype("float64")),
        groups_sha256=None,
        n_clusters=2,
        method="gedi",
        seed=0,
        hardware=Hardware(),
        tensorboard=False,
        training=config,
    ).write(folder)
    runs.save(fitted, folder)
    return folder


class Fork:
    """Work in a fork of this process, which prints to a file. A fork starts at once; a new Python takes seconds."""

    def __init__(self, work, log: Path) -> None:
        self.log = log
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # xdist has a thread, which does not matter here
            self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                sys.stdout = sys.stderr = log.open("w", buffering=1)
                code = work() or 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)

    def wait(self, timeout: float = 120) -> int:
        """The exit code; negative if a signal ended it."""
        until = time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"it has not ended after {timeout} s: {self.log.read_text()}")
            time.sleep(0.01)


@pytest.fixture(scope="session")
def fork():
    """A function: begins work in a fork of this process."""
    return Fork


@pytest.fixture(scope="session")
def refused():
    """A function: a block that must raise our own error, as one printable sentence, within seconds."""

    def too_long(*_):
        raise AssertionError("it waits for ever")

    @contextmanager
    def check(kind=GediError, **match):
        before = signal.signal(signal.SIGALRM, too_long)
        signal.alarm(20)
        try:
            with pytest.raises(kind, **match) as error:
                yield
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
        text = str(error.value)
        assert text.isprintable() and 10 < len(text) < 700 and text.endswith("."), text

    return check


@pytest.fixture(scope="session")
def restore(begun, blobs):
    """A function: `gedi resume` up to where training would go on."""
    ready = unscaled(blobs, runs.Plan.read(begun).training)

    def run(folder):
        runs.check_resumable(folder, ready.config, 2, 2)
        return Engine(ready, seed=0, hooks=Hooks(checkpoints=Checkpoints(folder)))

    run.state = run(begun).state  # to unpack into
    return run
