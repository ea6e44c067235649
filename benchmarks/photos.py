"""What does a default fit learn from photographs? All our measures of images.

    python benchmarks/photos.py cifar10 --minutes 20
    python benchmarks/photos.py cifar100 --training.step2.iterations 14000   # the same on any machine
    python benchmarks/photos.py cifar10 --run RUN                            # measure a fit that was made before

Flags that are not its own are those of `gedi fit`. CIFAR-100 gets 20 clusters, judged by its 20 superclasses. Labels
are used only after the fit. Adds a line to results/laptop/photos.json and draws samples beside it.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from machine import RESULTS, arguments, origin, write

from gedi import data as gedi_data
from gedi import runs
from gedi.cli import main as main_of_gedi
from gedi.data import Dataset
from gedi.evaluation import clustering_scores, knn_accuracy, linear_probe
from gedi.experiments.cell_fits import kmeans_labels
from gedi.experiments.cells import Cell, CellData
from gedi.experiments.image_cells import IMAGES_SHOWN, TITLES, drawn, of_foreign, of_samples, recogniser_of
from gedi.experiments.plots import image_panels, save
from gedi.training.model import TrainedModel
from gedi.training.moves import walk

CLUSTERS = {"svhn": 10, "cifar10": 10, "cifar100": 20}
SCORES = ("NMI", "AMI", "accuracy", "probe", "kNN", "k-means NMI", "k-means AMI")
NOTES = [
    "Scores on the test set. The probe is a linear classifier on enc(x), and kNN uses 20 neighbours by cosine; both "
    "learn from the labels of the training images after the fit. k-means is run on the pixels.",
    "CIFAR-100: 20 clusters, compared with its 20 superclasses.",
    "AUROC by typicality: test images against those of the other data sets.",
    "keeps its class: the share of test images that a small net, trained with labels, calls the same at the end of a "
    "DAM walk; in brackets, after a step of the same length in a random direction.",
    "All settings are the defaults except the number of iterations in step 2, which the name of a fit gives.",
    "On one core, while other work was running; 'minutes' is wall time.",
]
WALKED = 500  # test images
# The superclass of each of CIFAR-100's classes, in the alphabetical order of their names.
# fmt: off
SUPERCLASSES = np.array([
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
])
# fmt: on


def fit(data: str, seed: int, run: Path, *flags: str) -> TrainedModel:
    """A fit by the command line, in this process, which may have terms of its own; the flags say for how long."""
    if main_of_gedi(["fit", data, "--n-clusters", str(CLUSTERS[data]), "--seed", str(seed), "--out", str(run), *flags]):
        raise SystemExit(f"The fit of {data} failed.")
    return runs.load(run)


def splits(data: str) -> tuple[Dataset, Dataset]:
    return gedi_data.load(data), gedi_data.load(data, split="test")


def classes(data: str, part: Dataset) -> np.ndarray:
    """The labels that clusters and probes are compared with."""
    assert part.y is not None
    return SUPERCLASSES[part.y] if data == "cifar100" else part.y


def measured(
    data: str, model: TrainedModel, seed: int, picture: Path | None = None, *, fresh: np.ndarray | None = None
) -> dict[str, Any]:
    """Clusters, representation, density and samples of a fit, and k-means of the pixels beside it.

    ``fresh`` are images to judge in place of the model's own samples from new chains.
    """
    train, test = splits(data)
    y, y_test = classes(data, train), classes(data, test)
    x, x_test = (part.x.reshape(len(part.x), -1) for part in (train, test))
    cell = Cell(data, CLUSTERS[data], seed=seed)
    h, h_test = model.represent(x), model.represent(x_test)
    assert test.image_shape is not None and train.image_shape is not None
    images = CellData(train.x.reshape(-1, *train.image_shape), test.x.reshape(-1, *test.image_shape), y_test)
    samples = drawn(cell, model, images) | ({} if fresh is None else {"fresh": fresh})
    if picture is not None:
        save(
            image_panels({"samples": samples["fresh"][:IMAGES_SHOWN], "test images": images.x_test[:IMAGES_SHOWN]}),
            picture,
        )
    return {
        "data": data,
        "images": len(x),
        "seed": seed,
        "iterations": {name: stage["iterations"] for name, stage in model.results["stages"].items()},
        "seconds": model.results["seconds"],
        "share of views": model.results["cost"]["data"] / model.results["seconds"],
        **clustering_scores(y_test, model.predict(x_test)),
        "probe": linear_probe(h, y, h_test, y_test),
        "knn": knn_accuracy(h, y, h_test, y_test),
        "k-means of enc": clustering_scores(y_test, kmeans_labels(cell, h, h_test)),
        "k-means of pixels": clustering_scores(y_test, kmeans_labels(cell, x / 255, x_test / 255)),
        **of_foreign(cell, model, images),
        **of_samples(cell, samples, images),
        **of_walks(cell, model, images),
    }


def of_walks(cell: Cell, model: TrainedModel, images: CellData) -> dict[str, float]:
    """How many test images keep their class, by a small net that knows the labels, along a walk and in noise."""
    net, shown = recogniser_of(cell.dataset, cell.rows, cell.seed), images.x_test[:WALKED]
    generator = torch.Generator().manual_seed(cell.seed)
    start = torch.from_numpy(model.scaled(shown.reshape(len(shown), -1)))
    steps = walk(model.net.eval(), start, model.config.dam, generator)[0] - start
    lengths = steps.norm(dim=1, keepdim=True)
    noise = torch.nn.functional.normalize(torch.randn(start.shape, generator=generator)) * lengths

    def classes_at(x: torch.Tensor) -> np.ndarray:
        return net.predict(
            np.rint(np.clip(model.scaler.inverse(x.numpy()), 0, 255)).astype(np.uint8).reshape(shown.shape)
        )

    before = classes_at(start)
    kept = {name: float((classes_at(start + by) == before).mean()) for name, by in (("walk", steps), ("noise", noise))}
    return {f"keeps_class_{name}": share for name, share in kept.items()} | {
        "walk_length": float((lengths / start.shape[1] ** 0.5).mean())
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("data", choices=CLUSTERS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", type=Path, help="a finished fit with this seed")
    args, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.run is None:
            model = fit(args.data, args.seed, Path(folder) / "run", *flags)
        else:
            model = runs.load(args.run)
    images = len(splits(args.data)[0].x)
    line = measured(args.data, model, args.seed, RESULTS / f"photos-{args.data}-{images}-s{args.seed}.png")
    line |= {"flags": flags, "provenance": origin(10)}
    path = RESULTS / "photos.json"
    fits = json.loads(path.read_text(encoding="utf-8"))["fits"] if path.is_file() else {}
    iterations = line["iterations"]["step2"]
    fits[f"{TITLES[args.data]}, {images:,} images, {iterations:,} iterations, seed {args.seed}"] = line
    write(as_table(fits), path)
    print(json.dumps({key: value for key, value in line.items() if key != "provenance"}, indent=1))


def as_table(fits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The file: a row per fit, and all its numbers."""
    rows = []
    for name, line in sorted(fits.items()):
        pixels = line["k-means of pixels"]
        others = [
            f"{TITLES[other]} {line[f'ood_typicality_{other}']:.2f}" for other in CLUSTERS if other != line["data"]
        ]
        scores = [line["nmi"], line["ami"], line["accuracy"], line["probe"], line["knn"], pixels["nmi"], pixels["ami"]]
        kept = "{keeps_class_walk:.2f} ({keeps_class_noise:.2f})".format(**line) if "keeps_class_walk" in line else "–"
        rows.append(
            [name, f"{line['seconds'] / 60:.0f}", *(f"{score:.2f}" for score in scores), ", ".join(others), kept]
        )
    newest = max((line["provenance"] for line in fits.values()), key=lambda made: made["date"])
    return {
        "name": "photos",
        "title": "Fits of photographs, by the iterations of step 2",
        "scale": "laptop",
        "seeds": sorted({line["seed"] for line in fits.values()}),
        "table": {"columns": ["fit", "minutes", *SCORES, "AUROC by typicality", "keeps its class"], "rows": rows},
        "notes": NOTES,
        "fits": fits,
        "provenance": newest,
    }


if __name__ == "__main__":
    main()
