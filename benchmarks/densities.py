"""Which way to train a density of photographs draws and scores best in the same time? The default recipe with each.

    python benchmarks/densities.py                   # SVHN, 2 minutes each
    python benchmarks/densities.py --data cifar10 --minutes 10

Samples from fresh noise are judged by a small net that knows the labels (its distance is not FID), the density by how
well it tells foreign images, and what it costs the rest by clusters and neighbours. Writes
results/laptop/densities.json.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from machine import RESULTS, arguments, origin, write
from photos import CLUSTERS, fit, measured

GENERATIVE = "--training.objective.generative."
DENSITIES = {
    "denoising on a mixture (default)": [],
    "denoising alone": [GENERATIVE + "base", "0"],
    "contrastive divergence": [GENERATIVE + "kind", "energy", GENERATIVE + "weight", "0.1"],  # chains begin at data
}
SAMPLES = ("small_net_frechet_fresh", "small_net_frechet_real", "small_net_frechet_noise", "recognised_fresh")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", default="svhn", choices=CLUSTERS)
    parser.add_argument("--minutes", type=float, default=2.0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    rows = {}
    for name, flags in DENSITIES.items():
        with tempfile.TemporaryDirectory() as folder:
            model = fit(args.data, 0, Path(folder) / "run", "--minutes", str(args.minutes), *flags)
            found = measured(args.data, model, 0)
        foreign = {key: value for key, value in found.items() if key.startswith("ood_")}
        kept = ("seconds", "iterations", "ami", "knn", *SAMPLES)
        rows[name] = {"flags": flags} | {key: found[key] for key in kept} | foreign
        print(json.dumps({name: rows[name]}, indent=1), flush=True)
    numbers = {"data": args.data, "minutes": args.minutes, "densities": rows, "provenance": origin(10) | {"seed": 0}}
    write(numbers, RESULTS / "densities.json")


if __name__ == "__main__":
    main()
