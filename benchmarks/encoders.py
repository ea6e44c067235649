"""Which encoder learns most from photographs in the same time? The default recipe with each, for the same minutes.

    python benchmarks/encoders.py                    # CIFAR-10, 3 minutes each
    python benchmarks/encoders.py --minutes 10

A fit's representation is judged by the labels of the 20 nearest training images (kNN). Writes
results/laptop/encoders.json.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from machine import RESULTS, arguments, origin, write
from photos import classes, fit, splits

from gedi.evaluation import knn_accuracy

ENCODERS = (("convnet", 128), ("resnet8", 32), ("resnet8", 64), ("resnet8", 128))  # and their features


def trained(data: str, encoder: str, features: int, minutes: float, run: Path) -> dict[str, Any]:
    """Fit for about this many minutes, and measure."""
    flags = ["--training.net.encoder", encoder, "--training.net.representation", str(features)]
    model = fit(data, 0, run, "--minutes", str(minutes), *flags)
    train, test = splits(data)
    h, h_test = (model.represent(part.x.reshape(len(part.x), -1)) for part in (train, test))
    seconds = model.results["seconds"]
    images = sum(
        stage["iterations"] * getattr(model.config, name).batch_size for name, stage in model.results["stages"].items()
    )
    return {
        "seconds": seconds,
        "images a second": images / seconds,
        "knn": knn_accuracy(h, classes(data, train), h_test, classes(data, test)),
        "parameters": sum(p.numel() for p in model.net.encoder.parameters()),
    }


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--minutes", type=float, default=3.0)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        rows = {
            f"{encoder}, {features} features": trained(
                args.data, encoder, features, args.minutes, Path(folder) / f"{encoder}-{features}"
            )
            for encoder, features in ENCODERS
        }
    numbers = {"data": args.data, "minutes": args.minutes, "encoders": rows, "provenance": origin(10) | {"seed": 0}}
    write(numbers, RESULTS / "encoders.json")
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
