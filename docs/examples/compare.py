"""Train two runs and compare them on one page.

    python docs/examples/compare.py                   # flags are passed on: --preset smoke takes seconds

Each call of `gedi(...)` is a command that you can type: `gedi report run-a run-b`.
"""

import contextlib
import sys
import tempfile

from gedi import GEDI
from gedi.cli import main as command_line
from gedi.data import load
from gedi.evaluation import ari


def gedi(*words: object) -> None:
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for this script's own lines
        code = command_line([str(word) for word in words])
    if code != 0:
        raise SystemExit("gedi " + " ".join(map(str, words)) + " failed")


def main(*flags: str) -> None:
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        gedi("fit", "moons", "--n-clusters", 2, "--out", "run-a", *flags)
        gedi("fit", "moons", "--n-clusters", 2, "--out", "run-b", "--method", "swav", *flags)
        gedi("report", "run-a", "run-b", "--out", "comparison.html")

        new = load("moons", n=500, seed=1).x
        a, b = (GEDI.load(run).predict(new) for run in ("run-a", "run-b"))
        print("ARI between their clusters of 500 new points:", round(ari(a, b), 2))


if __name__ == "__main__":
    main(*sys.argv[1:])
