"""Cluster a folder of images with gedi's commands: fit and predict.

    python docs/examples/image_folder.py

Each call of `gedi(...)` is a command that you can type: `gedi fit photos --n-clusters 2 --out run`.
"""

import csv
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from PIL import Image

from gedi.cli import main as command_line


def gedi(*words: object) -> None:
    if command_line([str(word) for word in words]) != 0:
        raise SystemExit("gedi " + " ".join(map(str, words)) + " failed")


def draw_photos(folder: Path, n: int = 60) -> None:
    """Draw images of different sizes in one folder, without labels: sunsets and lawns, more or less."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        height, width = rng.integers(40, 90, 2)
        pixels = rng.integers(0, 60, (height, width, 3), dtype=np.uint8)
        pixels[: height // 2, :, 0] += np.uint8(150 if i % 2 else 0)
        pixels[height // 2 :, :, 1] += np.uint8(0 if i % 2 else 150)
        Image.fromarray(pixels).save(folder / f"{'sunset' if i % 2 else 'lawn'}-{i:02}.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        photos, run, answers = (Path(place) / name for name in ("photos", "run", "clusters.csv"))
        draw_photos(photos)
        gedi("fit", photos, "--n-clusters", 2, "--out", run, "--preset", "smoke", "--seed", 0)
        gedi("predict", run, photos, "--out", answers)
        with answers.open(newline="") as file:
            lines = list(csv.DictReader(file))
        print("columns:", ", ".join(lines[0]))
        print("pictures in each cluster:", sorted(Counter(line["cluster"] for line in lines).values()))
        print("report of", (run / "report.html").stat().st_size // 1024, "kB:", (run / "report.html").name)


if __name__ == "__main__":
    main()
