"""Predictions and samples as files: csv, parquet, npz, png."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from gedi.errors import DataError
from gedi.training.model import TrainedModel


def prediction_columns(model: TrainedModel, rows: np.ndarray, *, embed: bool = False) -> dict[str, np.ndarray]:
    """One column a thing the model says about a row."""
    probability = model.predict_proba(rows)
    columns = {
        "cluster": probability.argmax(1),
        "probability": probability.max(1),
        "log_density": model.score_samples(rows),
        "ood_score": model.ood_score(rows),
    }
    if embed:
        columns |= {f"embedding_{i}": column for i, column in enumerate(model.transform(rows).T)}
    return columns


def image_names(files: list[str] | None) -> dict[str, np.ndarray]:
    """Names of the images' files, to stand first; nothing for data that are not a folder of images."""
    if files is None:
        return {}
    return {"image": np.array([name.encode("utf-8", "backslashreplace").decode() for name in files])}


def write_table(columns: dict[str, np.ndarray], path: Path) -> None:
    """Write columns to .csv, .parquet or .npz; an existing file is not written over."""
    _refuse(path, (".csv", ".parquet", ".npz"))
    if path.suffix == ".npz":
        np.savez_compressed(path, **columns)  # type: ignore[arg-type]
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    else:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise DataError("Writing .parquet needs pyarrow: pip install 'gedi[parquet]'.") from error
        pq.write_table(pa.table(columns), path)


def write_samples(model: TrainedModel, samples: np.ndarray, path: Path) -> None:
    """Samples as .npz, or drawn as .png: a grid for images, points for rows of two features."""
    _refuse(path, (".npz", ".png"))
    if path.suffix == ".npz":
        np.savez_compressed(path, x=samples)
    elif model.image_shape is None and samples.shape[1] != 2:
        raise DataError(f"Rows of {samples.shape[1]} features have no picture: write samples to a .npz instead.")
    else:
        _draw(model, samples, path)


def _draw(model: TrainedModel, samples: np.ndarray, path: Path) -> None:
    from matplotlib.figure import Figure

    from gedi.experiments.plots import image_grid

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


def _refuse(path: Path, suffixes: tuple[str, ...]) -> None:
    if path.suffix not in suffixes:
        raise DataError(f"{path} must end in {', '.join(suffixes)}.")
    if path.exists():
        raise DataError(f"{path} exists already and is not overwritten: choose another --out or remove it.")
    if not path.parent.is_dir():
        raise DataError(f"The folder {path.parent} does not exist.")
