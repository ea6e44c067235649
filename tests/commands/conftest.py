"""Shared by the tests of the command line: a way to call it, and a folder with rows and a trained run."""

import numpy as np
import pytest

from gedi.cli import main

FLAGS = ["--preset", "smoke"]
for _setting in ("step1.iterations=3", "step2.iterations=3", "sampler.steps=1", "dam.steps=1", "start.nodes=5"):
    FLAGS.append(f"--training.{_setting}")

rng = np.random.default_rng(0)
X = np.vstack([rng.normal(-3, 0.4, (20, 2)), rng.normal(3, 0.4, (20, 2))])


def call(*words) -> int:
    """The exit code, whichever way it is given."""
    try:
        return main([str(word) for word in words])
    except SystemExit as stop:
        return int(stop.code or 0)


def write(path, rows=X, header="a,b"):
    np.savetxt(path, rows, delimiter=",", header=header, comments="")
    return path


def contents(folder) -> dict:
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.fixture(scope="session")
def gedi():
    """A function: runs `gedi WORDS...` and gives its exit code."""
    return call


@pytest.fixture(scope="session")
def tiny():
    """Flags of a fit of a few iterations."""
    return FLAGS


@pytest.fixture(scope="session")
def x():
    """Two clear groups of rows, 20 + 20."""
    return X


@pytest.fixture(scope="session")
def write_rows():
    """A function: writes rows as a table with a header."""
    return write


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder with rows, labelled rows and a trained run; tests only read it."""
    folder = tmp_path_factory.mktemp("home")
    write(folder / "rows.csv")
    write(folder / "labelled.csv", np.column_stack([X, np.repeat([0, 1], 20)]), "a,b,label")
    write(folder / "foreign.csv", X + 50)
    assert call("fit", folder / "labelled.csv", "--n-clusters", 2, "--out", folder / "run", *FLAGS) == 0
    return folder


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """A function: the command is refused in one sentence, and leaves its folder unchanged."""
    monkeypatch.chdir(tmp_path)

    def run(*words) -> str:
        before = contents(tmp_path)
        capsys.readouterr()
        code = call(*words)
        out, err = capsys.readouterr()
        assert code == 2, err
        assert out == ""
        assert err.startswith("gedi: ") and err.count("\n") == 1 and "Traceback" not in err
        assert contents(tmp_path) == before
        return err

    return run
