"""Train one run on two machines, and compare it with a run on one.

    python docs/examples/two_machines.py              # flags are passed on to gedi fit: --preset smoke takes seconds

Both machines are this one: each of the two `torchrun` commands is what you would type on one of them.
"""

import json
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from gedi import GEDI
from gedi.data import load
from gedi.evaluation import ari

FIT = ("-m", "gedi", "fit", "moons", "--n-clusters", "2", "--device", "cpu")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(place: Path, *words: object) -> subprocess.Popen[bytes]:
    """A command whose progress is shown; standard output is for this script's own lines."""
    return subprocess.Popen([sys.executable, *map(str, words)], cwd=place, stdout=subprocess.DEVNULL)


def finish(*machines: subprocess.Popen[bytes]) -> None:
    if any([machine.wait() for machine in machines]):
        raise SystemExit("a machine failed")


def objective(run: Path) -> list[float]:
    """The objective of the best clusters so far, every 50 iterations of step 2."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [line["objective"] for line in lines if "objective" in line]


def main(*flags: str) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        place, meet = Path(folder), f"127.0.0.1:{free_port()}"
        torchrun = ("-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 1)
        torchrun += ("--rdzv-backend", "c10d", "--rdzv-endpoint", meet, "--local-addr", "127.0.0.1")
        together = (*torchrun, *FIT, "--out", "two", "--devices", 1, "--nodes", 2, *flags)
        finish(start(place, *together), start(place, *together))
        finish(start(place, *FIT, "--out", "one", *flags))

        new = load("moons", n=500, seed=1).x
        one, two = (GEDI.load(place / run).predict(new) for run in ("one", "two"))
        print("ARI between the clusters of one machine and of two:", round(ari(one, two), 2))
        return {"one machine": objective(place / "one"), "two machines": objective(place / "two")}


if __name__ == "__main__":
    main(*sys.argv[1:])
