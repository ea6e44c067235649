"""What a model says about rows, as columns, and its samples as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gedi.errors import DataError
from gedi.training.model import TrainedModel


def prediction_columns(
    model: TrainedModel, rows: np.ndarray, *, embed: bool = False, density: bool = True
) -> dict[str, np.ndarray]:
    """One column a thing the model says about a row; not by its ``density`` if it never trained one."""
    probability = model.predict_proba(rows)
    columns = {"cluster": probability.argmax(1), "probability": probability.max(1)}
    if density:
        columns |= {"log_density": model.score_samples(rows), "ood_score": model.ood_score(rows)}
    if embed:
        columns |= {f"embedding_{i}": column for i, column in enumerate(model.transform(rows).T)}
    return columns


def image_names(files: list[str] | None) -> dict[str, np.ndarray]:
    """Names of the images' files, to stand first; nothing for data that are not a folder of images."""
    if files is None:
        return {}
    return {"image": np.array([name.encode("utf-8", "backslashreplace").decode() for name in files])}


def draw_samples(model: TrainedModel, samples: np.ndarray, path: Path) -> None:
    """Samples as a picture: a grid for images, points for rows of two features."""
    if model.image_shape is None and samples.shape[1] != 2:
        raise DataError(f"Rows of {samples.shape[1]} features have no picture: write samples to a .npz instead.")
    from matplotlib.figure import Figure

    if model.image_shape is not None:
        image_grid(_between_black_and_white(model, samples), model.image_shape).savefig(path, dpi=120)
        return
    figure = Figure(figsize=(6, 6), layout="constrained")
    axes = figure.subplots()
    axes.scatter(samples[:, 0], samples[:, 1], s=8, c=model.predict(samples), cmap="tab10", vmax=9)
    axes.set_aspect("equal")
    figure.savefig(path, dpi=120)


def _between_black_and_white(model: TrainedModel, samples: np.ndarray) -> np.ndarray:
    """Samples with black 0 and white 1, if the model knows what they are; else the darkest and the brightest drawn."""
    low, high = float(samples.min()), float(samples.max())
    if model.config.scaling == "pixels":
        ends = np.repeat([[-1.0], [1.0]], model.n_features, axis=1)
        low, high = (float(row[0]) for row in model.scaler.inverse(ends))
    return np.clip((samples - low) / max(high - low, 1e-9), 0.0, 1.0)


def image_grid(images: np.ndarray, image_shape: tuple[int, ...]) -> Any:
    """Images stored as rows, side by side in a square."""
    height, width, channels = image_shape
    side = int(np.ceil(np.sqrt(len(images))))
    from matplotlib.figure import Figure

    made = Figure(figsize=(6, 6), layout="constrained")
    for place, row in zip(made.subplots(side, side, squeeze=False).ravel(), images, strict=False):
        image = row.reshape(height, width, channels)
        place.imshow(image.squeeze(-1) if channels == 1 else image, cmap="gray")
    for place in made.axes:
        place.set_axis_off()
    return made
