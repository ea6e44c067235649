"""Images in a report: exemplars of every cluster, samples beside their nearest training images, thumbnails."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image
from sklearn.neighbors import NearestNeighbors

from gedi.report.charts import few
from gedi.report.measures import Answers
from gedi.training.model import TrainedModel

EXEMPLARS = 8  # a cluster, of either kind
MOST_CLUSTERS = 100  # that have exemplars on the page
SAMPLES = 48
COMPARED, NEAREST = 10, 3
THUMBNAILS = 1_000
SIDES = (160, 120, 80, 56, 40, 28, 20, 14, 8)  # pixels of an image, from which the first that fits is taken
LARGEST_SIDE = 40  # pixels of a thumbnail
# A page has 8 MB, of which plotly takes 4.8. A byte here is 4/3 on the page.
SHEET_BYTES = 1_000_000  # of all thumbnails of a map
EXEMPLAR_BYTES = 600_000  # of all clusters together
SAMPLE_BYTES, NEAREST_BYTES = 200_000, 100_000
PIXELS_A_BYTE = 4  # more than photographs allow: larger images are not tried, which would take long
QUALITIES = (None, 80, 50)  # lossless first, then WebP's, from best to worst
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

    def grid(self, rows: np.ndarray, columns: int, alt: str, most: int) -> Picture:
        """Images in lines of ``columns``, with transparent gaps, in at most ``most`` bytes."""
        source, _ = _within(most, self.pixels(rows), columns, GAP, SIDES)
        return Picture(source, alt, columns)

    def sheet(self, rows: np.ndarray) -> Sheet:
        """Thumbnails of at most `SHEET_BYTES`."""
        pixels = self.pixels(rows)
        columns = max(1, int(np.ceil(np.sqrt(len(pixels)))))
        sides = [side for side in SIDES if side <= LARGEST_SIDE]
        source, (height, width) = _within(SHEET_BYTES, pixels, columns, 0, sides)
        return Sheet(source, columns, -(-len(pixels) // columns), width, height, len(pixels))


def exemplars(painter: Painter, answers: Answers, *, by_density: bool) -> list[Exemplars]:
    """Of the largest clusters: the most typical (highest log p among its surer half), the least certain."""
    sizes = np.bincount(answers.cluster, minlength=answers.probability.shape[1])
    largest = np.argsort(-sizes, kind="stable")[: min(MOST_CLUSTERS, np.count_nonzero(sizes))]
    most = EXEMPLAR_BYTES // (2 * len(largest))
    found = []
    for k in np.sort(largest).tolist():
        mine = np.flatnonzero(answers.cluster == k)
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
                    answers.rows[typical], EXEMPLARS, f"the {len(typical)} most typical images of cluster {k}", most
                ),
                painter.grid(
                    answers.rows[unsure], EXEMPLARS, f"the {len(unsure)} least certain images of cluster {k}", most
                ),
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
    drawn_alt = f"{min(SAMPLES, len(samples))} samples drawn from the model"
    return {
        "grid": painter.grid(samples[:SAMPLES], 12, drawn_alt, SAMPLE_BYTES),
        "nearest": painter.grid(np.concatenate(lines), count, alt, NEAREST_BYTES),
        "distance": float(np.median(distance[:, 0])),
        "data_distance": float(np.median(among_data)),
    }


def thumbnails_shown(count: int) -> np.ndarray:
    """Rows that a map with thumbnails shows."""
    return few(count, THUMBNAILS)


def _within(most: int, images: np.ndarray, columns: int, gap: int, sides: Sequence[int]) -> tuple[str, tuple[int, int]]:
    """Images in one file of at most ``most`` bytes, and the height and width of each.

    Quality goes before size: a photograph is still itself in WebP, and less so in fewer pixels.
    """
    different = sorted({min(side, max(images.shape[1:3])) for side in sides}, reverse=True)
    kind, content, shape = "", b"", (0, 0)
    for side in different:
        if len(images) * side**2 > PIXELS_A_BYTE * most and side != different[-1]:
            continue
        smaller = _smaller(images, side)
        image, shape = Image.fromarray(_tiled(smaller, columns, gap)), (smaller.shape[1], smaller.shape[2])
        for quality in QUALITIES:
            kind, content = _encoded(image, quality)
            if len(content) <= most:
                return _uri(kind, content), shape
    return _uri(kind, content), shape


def _encoded(image: Image.Image, quality: int | None) -> tuple[str, bytes]:
    file = BytesIO()
    if quality is None:
        image.save(file, "PNG", optimize=True)
        return "png", file.getvalue()
    image.save(file, "WEBP", quality=quality)
    return "webp", file.getvalue()


def _uri(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


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
