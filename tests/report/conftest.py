"""Runs of a few iterations, made by the command line and shared by all tests of reports, which only read them."""

import numpy as np
import pytest

from gedi.cli import main
from gedi.data import load

FEW = ["--preset", "smoke"]
for _setting in ("step1.iterations=10", "step2.iterations=10", "start.nodes=12"):
    FEW.append(f"--training.{_setting}")
HOSTILE = '<img src=x onerror="alert(1)">'


def fit(data, clusters, out, *words):
    assert main(["fit", str(data), "--n-clusters", str(clusters), "--out", str(out), *FEW, *words]) == 0
    return out


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def moons(home):
    """A few labelled points of the moons: more would only make the tests slower."""
    data = load("moons", n=300)
    np.savez(home / "moons.npz", x=data.x, y=data.y)
    return home / "moons.npz"


@pytest.fixture(scope="session")
def moons_run(home, moons):
    return fit(moons, 2, home / "moons-run")


@pytest.fixture(scope="session")
def other_moons_run(home, moons):
    return fit(moons, 2, home / "other-run", "--seed", "1", "--training.dam.steps", "2")


@pytest.fixture(scope="session")
def digits_run(home):
    data = load("digits", n=300)
    np.savez(home / "digits.npz", x=data.x.reshape(-1, 8, 8, 1), y=data.y)
    return fit(home / "digits.npz", 10, home / "digits-run", "--training.scaling", "global")


@pytest.fixture(scope="session")
def image_run(home):
    """Colour images of 16 x 16 pixels: mostly red or mostly blue."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 80, (120, 16, 16, 3), dtype=np.uint8)
    y = np.arange(120) % 2
    x[y == 0, ..., 0] += 150
    x[y == 1, ..., 2] += 150
    np.savez(home / "images.npz", x=x, y=y)
    return fit(home / "images.npz", 2, home / "image-run", "--training.scaling", "global")


@pytest.fixture(scope="session")
def wide_run(home):
    """Rows of twelve columns; the last one tells the groups apart, and one name tries to be a tag."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 12))
    x[:, 11] += 6 * (np.arange(150) % 2)
    names = [*(f"column {i}" for i in range(10)), HOSTILE.replace(",", ""), "telling"]
    rows = "\n".join(",".join(f"{value:.5f}" for value in row) for row in x)
    quoted = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    (home / "wide.csv").write_text(f"{quoted}\n{rows}\n")
    return fit(home / "wide.csv", 2, home / "wide-run", "--training.heads.starts", "[]")


@pytest.fixture(scope="session")
def runs_of_other_columns(home):
    """Two runs on one table, each with a different column dropped, and the table."""
    x = np.random.default_rng(0).normal([0, 0, 0, 9], 1, (90, 4))
    x[:, 1:3] += 6 * (np.arange(90) % 2)[:, None]
    np.savetxt(home / "rows.csv", x, delimiter=",", header="a,b,c,d", comments="")
    return [fit(home / "rows.csv", 2, home / f"no-{name}", "--drop", name) for name in "ad"], home / "rows.csv"


@pytest.fixture(scope="session")
def hostile():
    """Text that would run a script if it were not escaped."""
    return HOSTILE
