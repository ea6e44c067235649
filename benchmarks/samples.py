"""Do samples look like data? Those of a default fit and of an earlier revision, judged by a net that knows the labels.

    python benchmarks/samples.py 631a9ee                   # MNIST
    python benchmarks/samples.py 631a9ee --data svhn

Both revisions fit the training images without labels, each in its own process, and draw the same number of samples. A
small net of ours, trained with the labels, then compares them with the test images; training images and noise show the
range.
Writes results/laptop/samples-DATA.json and .png.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from machine import RESULTS, ROOT, arguments, checkout, environment, origin, write

COUNT = 1000
DRAW = """
import sys, warnings, numpy as np, torch
from gedi import GEDI
warnings.simplefilter("ignore")
torch.set_num_threads(1)
x = np.load(sys.argv[1])["x_train"]
model = GEDI(n_clusters=10, random_state=0).fit(x)
drawn = model.sample({count})
drawn = np.asarray(drawn[0] if isinstance(drawn, tuple) else drawn).reshape(-1, *x.shape[1:])
np.save(sys.argv[2], np.rint(np.clip(drawn, 0, 255)).astype(np.uint8))
"""


def draw(source: Path, data: Path, out: Path) -> np.ndarray:
    """Samples of the gedi in ``source`` after a default fit, [n, H, W] or [n, H, W, C], as bytes."""
    command = [sys.executable, "-c", DRAW.format(count=COUNT), str(data), str(out)]
    subprocess.run(command, env=environment(source), check=True)
    return np.load(out)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("against")
    parser.add_argument("--data", default="mnist", choices=["mnist", "svhn"])
    args = parser.parse_args()
    from PIL import Image

    from gedi.evaluation import sample_scores, train_recogniser
    from gedi.report.images import tiled

    path = Path(os.environ["GEDI_DATA"]) / f"{args.data}.npz"
    with np.load(path) as file:
        train, labels, test = file["x_train"], file["y_train"], file["x_test"]
    train, test = (x.reshape(*x.shape[:3], -1) for x in (train, test))
    rng = np.random.default_rng(0)
    samples = {
        "training images": train[rng.choice(len(train), COUNT, replace=False)],
        "noise": rng.integers(0, 256, (COUNT, *train.shape[1:]), dtype=np.uint8),
    }
    with tempfile.TemporaryDirectory() as files, tempfile.TemporaryDirectory() as folder:
        for name, source in ((args.against, checkout(args.against, Path(files))), ("gedi", ROOT)):
            samples[name] = draw(source, path, Path(folder) / "x.npy").reshape(COUNT, *train.shape[1:])
    net = train_recogniser(train, labels, epochs=3)
    scores = {name: sample_scores(net, images, test) for name, images in samples.items()}
    floor = scores["training images"]["small_net_frechet"]
    above = {name: score["small_net_frechet"] - floor for name, score in scores.items()}
    numbers = {
        "data": args.data,
        "samples": COUNT,
        "accuracy of the small net on test images": float((net.predict(test) == np.load(path)["y_test"]).mean()),
        "scores": scores,
        "times closer to the floor": above[args.against] / above["gedi"],
        "provenance": origin(10) | {"against": args.against, "seed": 0},
    }
    write(numbers, RESULTS / f"samples-{args.data}.json")
    Image.fromarray(tiled(samples["gedi"][:100], 10, gap=0).squeeze()).save(RESULTS / f"samples-{args.data}.png")
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
