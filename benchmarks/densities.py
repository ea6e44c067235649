"""Which way to train a density of photographs draws and scores best in the same time? The default recipe with each.

    python benchmarks/densities.py                   # SVHN, 2 minutes each
    python benchmarks/densities.py --data cifar10 --minutes 10

Samples from fresh noise are judged by a small net that knows the labels (its distance is not FID), the density by how
well it tells foreign images, and what it costs the rest by clusters and neighbours. `SeveralLevels` is not part of
gedi: it lost this comparison. Writes results/laptop/densities.json.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from machine import RESULTS, arguments, origin, write
from photos import CLUSTERS, fit, measured

from gedi.experiments.image_cells import FRESH
from gedi.objectives.generative import Denoising, denoising_error
from gedi.objectives.term import Loss
from gedi.objectives.views import Views
from gedi.sampling import sgld
from gedi.settings import Natural
from gedi.training.model import TrainedModel

GENERATIVE = "--training.objective.generative."
DENSITIES = {
    "denoising on a mixture (default)": [],
    "denoising alone": [GENERATIVE + "base", "0"],
    "denoising alone, several levels": [GENERATIVE + "kind", "several-levels"],
    "contrastive divergence": [GENERATIVE + "kind", "energy", GENERATIVE + "weight", "0.1"],  # chains begin at data
}
HIGHEST = 1.0  # noise: the data's pixels are in -1 .. 1
LEVELS, STEPS, NOISE = 10, 10, 0.3  # of annealed sampling; the noise of a step, in units of the level's
SAMPLES = ("small_net_frechet_fresh", "small_net_frechet_real", "small_net_frechet_noise", "recognised_fresh")


@dataclass
class SeveralLevels(Denoising):
    """Denoising at all levels up to `HIGHEST` by one energy E, which is divided by the level (NCSNv2, Song 2020)."""

    kind: str = "several-levels"
    base: Natural = 0

    def losses(self, views: Views) -> dict[str, Loss]:
        x = self.some_rows(views)
        lowest = views.data_noise
        sigma = lowest * (HIGHEST / lowest) ** torch.rand((len(x), 1), generator=views.noise)
        density = views.net.density

        def score(rows: torch.Tensor) -> torch.Tensor:
            return density.live_score(rows, views.apply) * (lowest / sigma)

        return {"denoising": Loss(denoising_error(score, x, sigma, views.noise), self.weight)}


def annealed(model: TrainedModel, seed: int) -> np.ndarray:
    """Images from chains that start in uniform noise and pass through all levels, the highest first."""
    net, lowest, generator = model.net.eval(), model.config.sampler.data_noise, torch.Generator().manual_seed(seed)
    assert lowest is not None
    x = model.box.uniform(FRESH, generator)
    for sigma in np.geomspace(HIGHEST, lowest, LEVELS):
        x = sgld(
            lambda rows, scale=lowest / sigma: net.score(rows) * scale,
            x,
            steps=STEPS,
            noise=NOISE * sigma,
            box=model.box,
            generator=generator,
        )
    assert model.image_shape is not None
    return np.rint(np.clip(model.rows_of(x), 0, 255)).astype(np.uint8).reshape(-1, *model.image_shape)


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
            fresh = annealed(model, 0) if name.endswith("several levels") else None
            found = measured(args.data, model, 0, fresh=fresh)
        foreign = {key: value for key, value in found.items() if key.startswith("ood_")}
        kept = ("seconds", "iterations", "ami", "knn", *SAMPLES)
        rows[name] = {"flags": flags} | {key: found[key] for key in kept} | foreign
        print(json.dumps({name: rows[name]}, indent=1), flush=True)
    numbers = {"data": args.data, "minutes": args.minutes, "densities": rows, "provenance": origin(10) | {"seed": 0}}
    write(numbers, RESULTS / "densities.json")


if __name__ == "__main__":
    main()
