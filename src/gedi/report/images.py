"""Images in a report: exemplars of every cluster, samples with their nearest training images, thumbnails."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from gedi.data.pictures import bytes_of_values
from gedi.errors import DataError
from gedi.report.look import colour
from gedi.report.measures import Answers, walk_paths
from gedi.training.model import TrainedModel

EXEMPLARS = 8  # per cluster, of either kind
MOST_CLUSTERS = 100  # with exemplars on the page
SAMPLES_SHOWN = 48
COMPARED, NEAREST_IMAGES = 10, 3  # samples, and training images shown with each
STRIPS = 6  # walks
THUMBNAILS = 1_000
SIDES = (160, 120, 80, 56, 40, 28, 20, 14, 8)  # in pixels; the largest that fits is used
LARGEST_SIDE = 40  # pixels of a thumbnail
FILE_SIDE = 720  # pixels of a file of samples; more if the images are larger
# A page may take 5 MB, of which plotly takes 1.2. These limits count base64, which needs 4 bytes for 3.
SHEET_BYTES = 1_333_000  # of all thumbnails of a map
EXEMPLAR_BYTES = 800_000  # of all clusters together
SAMPLE_BYTES, NEAREST_BYTES = 267_000, 133_000
PIXELS_PER_BYTE = 3  # photographs need more bytes: larger images are not even tried, to save time
QUALITIES = (None, 80, 50)  # lossless first, then WebP from best to worst
GAP = 1  # transparent pixels between two images


@dataclass(frozen=True)
class Picture:
    """Images side by side in one file."""

    source: str
    alt: str


class Painter:
    """Turns rows into pixels, all on the same scale from black to white."""

    def __init__(self, image_shape: tuple[int, ...], black: float, white: float) -> None:
        self.shape, self.black, self.white = image_shape, black, white

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """uint8 [n, H, W, 3]."""
        images = bytes_of_values(rows, self.shape, self.black, self.white)
        return images[..., :3] if images.shape[3] >= 3 else images[..., :1].repeat(3, axis=3)

    def grid(self, rows: np.ndarray, columns: int, alt: str, most: int) -> Picture:
        """Images in lines of ``columns``, with transparent gaps, in at most ``most`` bytes."""
        source, _ = _within(most, self.pixels(rows), columns, GAP, SIDES)
        return Picture(source, alt)

    def sheet(self, rows: np.ndarray) -> dict[str, Any]:
        """All thumbnails of a map in one file of at most `SHEET_BYTES`; the page shows one of them at a time."""
        pixels = self.pixels(rows)
        columns = max(1, int(np.ceil(np.sqrt(len(pixels)))))
        sides = [side for side in SIDES if side <= LARGEST_SIDE]
        source, (height, width) = _within(SHEET_BYTES, pixels, columns, 0, sides)
        lines = -(-len(pixels) // columns)
        return {"source": source, "columns": columns, "lines": lines, "width": width, "height": height}


def exemplars(painter: Painter, answers: Answers) -> list[dict[str, Any]]:
    """The most typical and the least certain images of the largest clusters, and the lowest probability in each."""
    largest = np.argsort(-answers.sizes, kind="stable")[: min(MOST_CLUSTERS, np.count_nonzero(answers.sizes))]
    most = EXEMPLAR_BYTES // (2 * len(largest))
    found = []
    for k in np.sort(largest).tolist():
        mine = np.flatnonzero(answers.cluster == k)
        certain = answers.confidence[mine]
        typical = answers.typical(k, EXEMPLARS)
        unsure = mine[np.argsort(certain, kind="stable")[:EXEMPLARS]]
        of_typical, of_unsure = (
            painter.grid(answers.rows[rows], EXEMPLARS, f"the {len(rows)} {kind} images of cluster {k}", most)
            for kind, rows in (("most typical", typical), ("least certain", unsure))
        )
        pictures = {"typical": of_typical, "unsure": of_unsure}
        found.append({"cluster": k, "rows": len(mine), "lowest": float(certain.min())} | pictures)
    return found


def sample_pictures(painter: Painter, answers: Answers, samples: np.ndarray) -> dict[str, Any]:
    """Samples, the training images nearest to some of them, and the distances to these."""
    from sklearn.neighbors import NearestNeighbors

    own = answers.scaled
    near = NearestNeighbors(n_neighbors=min(NEAREST_IMAGES, len(own))).fit(own)
    distance, places = near.kneighbors(answers.model.scaler.transform(samples))
    among_data = near.kneighbors(n_neighbors=1)[0] if len(own) > 1 else np.ones(1)
    count = min(COMPARED, len(samples))
    lines = [samples[:count], *(answers.rows[places[:count, j]] for j in range(places.shape[1]))]
    alt = f"{count} samples in the first line; below each, its {places.shape[1]} nearest training images"
    drawn_alt = f"{min(SAMPLES_SHOWN, len(samples))} samples drawn from the model"
    return {
        "grid": painter.grid(samples[:SAMPLES_SHOWN], 12, drawn_alt, SAMPLE_BYTES),
        "nearest": painter.grid(np.concatenate(lines), count, alt, NEAREST_BYTES),
        "distance": float(np.median(distance[:, 0])),
        "data_distance": float(np.median(among_data)),
    }


def walk_strips(model: TrainedModel, painter: Painter, rows: np.ndarray) -> Picture:
    """DAM walks from some of the images, one per line, from the image itself on the left to the end on the right."""
    paths = walk_paths(model, rows, n=min(STRIPS, len(rows)))
    lines, columns = paths.shape[:2]
    alt = f"{lines} images, one per line, and where they are after each of the {columns - 1} steps of a walk"
    return painter.grid(paths.reshape(lines * columns, -1), columns, alt, SAMPLE_BYTES)


def write_samples(model: TrainedModel, samples: np.ndarray, path: Path, columns: int | None = None) -> None:
    """Samples as a PNG: a grid of images, square unless ``columns`` is given, or points for rows of two features."""
    if model.image_shape is not None:
        # Only pixel scaling knows black and white; otherwise use the darkest and brightest values drawn.
        known = model.config.scaling == "pixels"
        black, white = model.black_and_white if known else (float(samples.min()), float(samples.max()))
        columns = columns or int(np.ceil(np.sqrt(len(samples))))
        grid = _joined(Painter(model.image_shape, black, white).pixels(samples), columns, GAP)
        times = max(1, FILE_SIDE // max(grid.size))
        grid.resize((times * grid.width, times * grid.height), Image.Resampling.NEAREST).save(path, "PNG")
        return
    if samples.shape[1] != 2:
        raise DataError(f"Samples of {samples.shape[1]} features cannot be drawn: write them to .npz or .csv instead.")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.scatter(samples[:, 0], samples[:, 1], s=8, c=[colour(k) for k in model.predict(samples)])
    axes.set_aspect("equal")
    figure.savefig(path, dpi=120, format="png")


def data_uri(image: Image.Image, quality: int | None = None) -> str:
    """An image for a page: PNG, or WebP of a given quality."""
    file, kind = BytesIO(), "png" if quality is None else "webp"
    image.save(file, kind, **({"optimize": True} if quality is None else {"quality": quality}))
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def _within(most: int, images: np.ndarray, columns: int, gap: int, sides: Sequence[int]) -> tuple[str, tuple[int, int]]:
    """Images in one file of at most ``most`` bytes, and the height and width of each.

    Quality is lowered before size: a photograph survives WebP better than fewer pixels.
    """
    different = sorted({min(side, max(images.shape[1:3])) for side in sides}, reverse=True)
    source, shape = "", (0, 0)
    for side in different:
        if len(images) * side**2 > PIXELS_PER_BYTE * most and side != different[-1]:
            continue
        smaller = _smaller(images, side)
        image, shape = _joined(smaller, columns, gap), (smaller.shape[1], smaller.shape[2])
        for quality in QUALITIES:
            source = data_uri(image, quality)
            if len(source) <= most:
                return source, shape
    return source, shape


def _smaller(images: np.ndarray, side: int) -> np.ndarray:
    """Images no larger than ``side``, by averaging."""
    height, width = images.shape[1:3]
    factor = max(height, width) / side
    if factor <= 1:
        return images
    size = (max(1, round(width / factor)), max(1, round(height / factor)))
    return np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX)) for image in images])


def _joined(images: np.ndarray, columns: int, gap: int) -> Image.Image:
    """RGB images [n, H, W, 3] in one RGBA image; everything between them is transparent."""
    opaque = np.full((*images.shape[:3], 1), 255, dtype=np.uint8)
    return Image.fromarray(tiled(np.concatenate([images, opaque], axis=3), columns, gap=gap, fill=0))


def tiled(images: np.ndarray, columns: int, *, gap: int = 1, fill: int = 255) -> np.ndarray:
    """Images [n, H, W, C] as one, in lines of ``columns``; gaps and unused places have the value ``fill``."""
    count, height, width, channels = images.shape
    lines, height, width = -(-count // columns), height + gap, width + gap
    grid = np.full((lines * columns, height, width, channels), fill, dtype=images.dtype)
    grid[:count, : height - gap, : width - gap] = images
    grid = grid.reshape(lines, columns, height, width, channels).swapaxes(1, 2)
    return grid.reshape(lines * height, columns * width, channels)
