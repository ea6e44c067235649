"""Speed of the parts a fit spends its time in, on this machine (`make bench`); --out writes the numbers as JSON."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from gedi.nets import GediNet, MLPEncoder, score
from gedi.objectives.clustering import sinkhorn
from gedi.runs import provenance
from gedi.sampling import Box, dam, sgld


def milliseconds(function: Callable[[], object], repeats: int) -> float:
    """Median time of one call, after warming up."""
    for _ in range(max(3, repeats // 10)):
        function()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1000 * sorted(times)[len(times) // 2]


def measure(repeats: int) -> dict[str, float]:
    """Milliseconds per call, for the toy net (2-100-100-8) and a batch of 400."""
    torch.manual_seed(0)
    net = GediNet(
        MLPEncoder(2, (100, 100), 8, frequency=3.0),
        representation=8,
        embedding=8,
        projector_hidden=16,
        n_clusters=2,
    )
    x = torch.randn(400, 2)
    box = Box.around(x, 0.5)
    generator = torch.Generator().manual_seed(0)
    walk = {"radius": 0.06, "steps": 10, "generator": generator, "max_drop": 3.0}
    chain = {"steps": 8, "noise": 0.2, "final_noise": 0.05, "box": box, "generator": generator}
    scores = torch.randn(1200, 10)
    return {
        "score, autograd": milliseconds(lambda: score(net.log_density, x), repeats),
        "score, closed form": milliseconds(lambda: net.score(x), repeats),
        "SGLD, 8 steps, autograd": milliseconds(lambda: sgld(partial(score, net.log_density), x, **chain), repeats),
        "SGLD, 8 steps, closed form": milliseconds(lambda: sgld(net.score, x, **chain), repeats),
        "DAM, 10 steps, autograd": milliseconds(lambda: dam(net.log_density, x, **walk), repeats),
        "DAM, 10 steps, closed form": milliseconds(
            lambda: dam(net.log_density, x, gradient=net.score, **walk), repeats
        ),
        "Sinkhorn, 1200 x 10, 3 iterations": milliseconds(
            lambda: sinkhorn(scores, epsilon=0.05, iterations=3, firmness=1.0), repeats
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    numbers = measure(args.repeats)
    table = Table("what", "ms per call", title="one thread, batch 400, MLP 2-100-100-8")
    for name, value in numbers.items():
        table.add_row(name, f"{value:.3f}")
    Console().print(table)
    if args.out:
        args.out.write_text(json.dumps({"milliseconds": numbers, "provenance": provenance()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
