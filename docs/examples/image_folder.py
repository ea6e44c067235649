"""Cluster a folder of images with gedi's commands: fit and predict.

    python docs/examples/image_folder.py              # flags are passed on to gedi fit: --preset smoke takes seconds

Each call of `gedi(...)` is a command that you can type: `gedi fit photos --n-clusters 4 --out run`.
"""

import contextlib
import csv
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from gedi.cli import main as command_line
from gedi.evaluation import nmi

# Takes seconds on one core; the defaults train far longer. Colours matter here, so views do not change them.
FLAGS = ("--preset", "smoke", "--training.step2.iterations", "150")
FLAGS += ("--training.augment.jitter", "0", "--training.augment.gray", "0")


def gedi(*words: object) -> None:
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for this script's own lines
        code = command_line([str(word) for word in words])
    if code != 0:
        raise SystemExit("gedi " + " ".join(map(str, words)) + " failed")


def cut_photos(folder: Path, n: int = 80) -> None:
    """Fill a folder with details of different sizes, from a photograph of a temple and one of a flower in turn."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    photographs = {"temple": load_sample_image("china.jpg"), "flower": load_sample_image("flower.jpg")}
    for i in range(n):
        name, photograph = list(photographs.items())[i % 2]
        side = rng.integers(80, 160)
        top, left = (rng.integers(0, length - side) for length in photograph.shape[:2])
        Image.fromarray(photograph[top : top + side, left : left + side]).save(folder / f"{i:02}-{name}.png")


def main(*flags: str) -> list[tuple[np.ndarray, str]]:
    with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
        cut_photos(Path("photos"))
        gedi("fit", "photos", "--n-clusters", 4, "--out", "run", *(flags or FLAGS))
        gedi("predict", "run", "photos", "--out", "clusters.csv")

        with open("clusters.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        clusters = [line["cluster"] for line in lines]
        print("columns:", ", ".join(lines[0]))
        print("pictures in each cluster:", sorted(Counter(clusters).values()))
        flowers = [line["image"].endswith("flower.png") for line in lines]
        print("NMI with the photograph, which training never saw:", round(nmi(flowers, clusters), 2))
        print("report:", *(path.name for path in Path("run").glob("*.html")))
        images = (Image.open(Path("photos", line["image"])).resize((64, 64)) for line in lines)
        return [(np.asarray(image), cluster) for image, cluster in zip(images, clusters, strict=True)]


if __name__ == "__main__":
    main(*sys.argv[1:])
