"""How much memory does a folder of many photographs take? A default fit of PNG files, in its own process.

    python benchmarks/photo_folder.py                    # 20,000 files, 3 minutes
    python benchmarks/photo_folder.py --images 5000

The files are made from the images of CIFAR-10 and CIFAR-100. Writes results/laptop/photo-folder.json.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import RESULTS, arguments, origin, write
from PIL import Image

from gedi import data as gedi_data


def write_photographs(count: int, folder: Path) -> None:
    """``count`` different images, one file each."""
    names = [(name, split) for name in ("cifar10", "cifar100") for split in ("train", "test")]
    images = np.concatenate([gedi_data.load(name, split=split).x for name, split in names])
    if len(images) < count:
        raise SystemExit(f"CIFAR-10 and CIFAR-100 have only {len(images):,} images here: use --images {len(images)}.")
    for i, image in enumerate(images[:count]):
        Image.fromarray(image).save(folder / f"{i:06}.png")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=3.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        photographs = Path(folder) / "photographs"
        photographs.mkdir()
        write_photographs(args.images, photographs)
        command = ["fit", str(photographs), "--n-clusters", "10", "--minutes", str(args.minutes)]
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "gedi", *command, "--out", str(Path(folder) / "run")], check=True)
        seconds = time.monotonic() - began
    # The largest of all finished child processes, which is the fit.
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    found = {"images": args.images, "minutes": args.minutes, "seconds": seconds, "peak_bytes": peak}
    found["provenance"] = origin(10)
    write(found, RESULTS / "photo-folder.json")
    print(f"{args.images:,} images: {peak / 1e9:.2f} GB at most, {seconds:.0f} s, report included")


if __name__ == "__main__":
    main()
