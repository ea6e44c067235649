"""Shared by the tests of experiments: fits without training, and small images instead of the data sets."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from gedi import experiments
from gedi.evaluation import sgd_probe
from gedi.experiments import cell_fits, image_cells
from gedi.experiments.cells import BASELINES


def replace_fits(monkeypatch, labels):
    """Replace training: each cell's test rows are labelled by ``labels(cell, y_test)``. Baselines are quick ones.

    It returns the growing list of fitted cells.
    """
    fitted = []

    def fit(cell, data):
        fitted.append(cell)
        numbers = {"objective": 0.1, "gradient_evaluations": 1, "config": {}}
        return labels(cell, data.y_test), numbers, None

    monkeypatch.setattr(cell_fits, "_fit_gedi", fit)
    monkeypatch.setattr(cell_fits, "sgd_probe", partial(sgd_probe, epochs=1))
    monkeypatch.setitem(BASELINES, "kmeans", {"n_init": 1})
    return fitted


@pytest.fixture
def fake_fits(monkeypatch):
    """`replace_fits` for the time of a test."""
    return partial(replace_fits, monkeypatch)


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory):
    """Small images instead of the data sets: each set has its own brightness; the first pixel is the class."""
    folder = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, brightness in {"svhn": 40, "cifar10": 120, "cifar100": 200}.items():
        x = rng.integers(brightness - 30, brightness + 30, (600, 18, 18, 3), dtype=np.uint8)
        y = np.arange(600) % image_cells.CLASSES[name]
        x[:, 0, 0, 0] = y
        np.savez(folder / f"{name}.npz", x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    return folder


@pytest.fixture
def short_fits(monkeypatch):
    """Real fits, of three iterations a stage."""
    budget = experiments.budget
    monkeypatch.setattr(experiments, "budget", lambda *a, **k: replace(budget(*a, **k), iterations=3))


def use_images(monkeypatch, folder):
    """The small images, and no Inception weights."""
    monkeypatch.setenv("GEDI_DATA", str(folder))
    monkeypatch.delenv(image_cells.INCEPTION, raising=False)


@pytest.fixture
def images(image_folder, monkeypatch):
    """`use_images` for the time of a test."""
    use_images(monkeypatch, image_folder)
