"""Images in a report: exemplars of every cluster, samples beside their nearest training images, thumbnails."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from gedi.report.charts import few
from gedi.report.measures import Answers
from gedi.report.plane import png_uri
from gedi.training.model import TrainedModel

EXEMPLARS = 8  # a cluster, of either kind
SAMPLES = 48
COMPARED, NEAREST = 10, 3
THUMBNAILS = 1_000
LARGEST_SIDE = 40  # pixels of a thumbnail
SHEET_BYTES = 1_500_000  # of all thumbnails of a map
GAP = 1  # transparent pixels between two images


@dataclass(frozen=True)
class Picture:
    """Images side by side in one file."""

    source: str
    alt: str
    columns: int


@dataclass(frozen=True)
class Sheet:
    """All thumbnails of a map in one file; the page shows the part that is hovered over."""

    source: str
    columns: int
    lines: int
    width: int
    height: int
    count: int


@dataclass(frozen=True)
class Exemplars:
    cluster: int
    rows: int
    typical: Picture
    unsure: Picture
    lowest: float  # probability of the least certain


class Painter:
    """Turns rows into pixels, all with the same scale: that of the data."""

    def __init__(self, rows: np.ndarray, image_shape: tuple[int, ...]) -> None:
        self.shape = image_shape
        self.low, self.high = float(rows.min()), float(rows.max())

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        """uint8 [n, H, W, 3]."""
        height, width, channels = self.shape
        scaled = (np.asarray(rows, dtype=np.float64) - self.low) / max(self.high - self.low, 1e-12)
        images = (255 * scaled.clip(0, 1)).round().astype(np.uint8).reshape(len(rows), height, width, channels)
        if channels >= 3:
            return images[..., :3]
        return images[..., :1].repeat(3, axis=-1)

    def grid(self, rows: np.ndarray, columns: int, alt: str) -> Picture:
        """Images in lines of ``columns``, with transparent gaps."""
        pixels = _smaller(self.pixels(rows), 4 * LARGEST_SIDE)
        return Picture(png_uri(_tiled(pixels, columns, GAP)), alt, columns)

    def sheet(self, rows: np.ndarray) -> Sheet:
        """Thumbnails of at most `SHEET_BYTES`."""
        pixels = _smaller(self.pixels(rows), LARGEST_SIDE)
        columns = max(1, int(np.ceil(np.sqrt(len(pixels)))))
        tiled = _tiled(pixels, columns, 0)[..., :3]
        grey = self.shape[2] < 3
        file = BytesIO()
        for quality in (0, 85, 60, 30):
            file = BytesIO()
            image = Image.fromarray(tiled).convert("L") if grey else Image.fromarray(tiled)
            image.save(file, "JPEG", quality=quality) if quality else image.save(file, "PNG", optimize=True)
            if file.tell() <= SHEET_BYTES:
                break
        kind = "jpeg" if quality else "png"
        source = f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"
        lines = tiled.shape[0] // pixels.shape[1]
        return Sheet(source, columns, lines, pixels.shape[2], pixels.shape[1], len(pixels))


def exemplars(painter: Painter, answers: Answers, *, by_density: bool) -> list[Exemplars]:
    """Of each cluster that has rows: the most typical (highest log p among its surer half), the least certain."""
    found = []
    for k in range(answers.probability.shape[1]):
        mine = np.flatnonzero(answers.cluster == k)
        if not len(mine):
            continue
        certain = answers.confidence[mine]
        surer = mine[certain >= np.median(certain)]
        score = answers.log_density[surer] if by_density else answers.confidence[surer]
        typical = surer[np.argsort(-score, kind="stable")[:EXEMPLARS]]
        unsure = mine[np.argsort(certain, kind="stable")[:EXEMPLARS]]
        found.append(
            Exemplars(
                k,
                len(mine),
                painter.grid(
                    answers.rows[typical], EXEMPLARS, f"the {len(typical)} most typical images of cluster {k}"
                ),
                painter.grid(answers.rows[unsure], EXEMPLARS, f"the {len(unsure)} least certain images of cluster {k}"),
                float(certain.min()),
            )
        )
    return found


def sample_pictures(model: TrainedModel, painter: Painter, rows: np.ndarray, samples: np.ndarray) -> dict[str, Any]:
    """Samples, the nearest training images to some of them, and how far these are."""
    own, drawn = model.scaler.transform(rows), model.scaler.transform(samples)
    near = NearestNeighbors(n_neighbors=min(NEAREST, len(own))).fit(own)
    distance, places = near.kneighbors(drawn)
    among_data = NearestNeighbors(n_neighbors=1).fit(own).kneighbors()[0][:, 0] if len(own) > 1 else np.ones(1)
    count = min(COMPARED, len(samples))
    lines = [samples[:count], *(rows[places[:count, j]] for j in range(places.shape[1]))]
    alt = f"{count} samples in the first line; below each, its {places.shape[1]} nearest training images"
    return {
        "grid": painter.grid(samples[:SAMPLES], 12, f"{min(SAMPLES, len(samples))} samples drawn from the model"),
        "nearest": painter.grid(np.concatenate(lines), count, alt),
        "distance": float(np.median(distance[:, 0])),
        "data_distance": float(np.median(among_data)),
    }


def thumbnails_shown(count: int) -> np.ndarray:
    """Rows that a map with thumbnails shows."""
    return few(count, THUMBNAILS)


def _smaller(images: np.ndarray, side: int) -> np.ndarray:
    """Images no larger than ``side``, by averaging."""
    height, width = images.shape[1:3]
    factor = max(height, width) / side
    if factor <= 1:
        return images
    size = (max(1, round(width / factor)), max(1, round(height / factor)))
    return np.stack([np.asarray(Image.fromarray(image).resize(size, Image.Resampling.BOX)) for image in images])


def _tiled(images: np.ndarray, columns: int, gap: int) -> np.ndarray:
    """Images [n, H, W, 3] in lines; RGBA, what is not an image is transparent."""
    count, height, width, _ = images.shape
    lines = -(-count // columns)
    made = np.zeros((lines * (height + gap), columns * (width + gap), 4), dtype=np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * (height + gap), i % columns * (width + gap)
        made[top : top + height, left : left + width, :3] = image
        made[top : top + height, left : left + width, 3] = 255
    return made
