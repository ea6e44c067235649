"""The numbers of one fit beyond its clusters."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from gedi.data import Scaler, load
from gedi.experiments import cell_fits, image_cells
from gedi.experiments import toy_figures as figures
from gedi.experiments.cell_fits import of_representation, some
from gedi.experiments.cells import Cell, CellData, cell_data
from gedi.experiments.image_cells import ImageCell, measure_images, of_foreign, of_image_fit, of_samples
from gedi.report.images import tiled
from gedi.training.guard import DivergedError
from gedi.training.presets import preset

SVHN = ImageCell("svhn", 10, preset="smoke", rows=300)


class Oracle:
    """Stands in for a model of images: enc(x) is the class; log p falls with the distance from their brightness."""

    has_clusters = has_density = True
    typical_parts = torch.tensor([[0.0], [1.0]])
    config = preset("smoke", n_features=2)

    def __init__(self, x):
        self.brightness, self.n_features = x.mean(), x[0].size
        self.scaler = Scaler().fit(np.array([[0], [255]], dtype=np.uint8).repeat(self.n_features, 1), mode="pixels")
        self.chains = torch.zeros(12, self.n_features)

    def represent(self, x):
        return np.eye(256, dtype=np.float32)[x[:, 0].astype(int)][:, :100]

    def score_samples(self, x):
        return -np.abs(x.mean(1) - self.brightness)

    def typicality(self, x):
        return self.score_samples(x)

    def rows_of(self, chains):
        return self.scaler.inverse(chains.numpy())

    def ood_score(self, x):
        return -self.score_samples(x)

    def sample(self, n, *, seed, steps, fresh):
        assert fresh and steps > 0
        return np.random.default_rng(seed).uniform(-20, 280, (n, self.n_features))


@pytest.fixture
def oracle(images):
    return Oracle(load("svhn").x)


def test_everything_is_measured(oracle, tmp_path):
    picture = tmp_path / "new" / "samples.png"
    numbers = of_image_fit(SVHN, oracle, cell_data(SVHN), picture=picture)
    assert numbers["probe"] > 0.95 and numbers["knn"] > 0.95
    assert numbers["nmi_of_representation"] == pytest.approx(1.0)
    assert "nmi" not in numbers  # it has clusters of its own
    assert numbers["ood_log_density_cifar10"] == numbers["ood_log_density_cifar100"] == 1.0
    assert numbers["ood_gradient_cifar10"] == 0.0
    assert "ood_gradient_svhn" not in numbers and "fid_buffer" not in numbers
    assert imread(picture).shape[1] > 500
    json.dumps(numbers)


def test_a_method_without_clusters_gets_those_of_k_means_on_its_representation(oracle, tmp_path, monkeypatch):
    def fit(cell, data):
        return np.zeros_like(data.y_test), {"config": {}}, oracle

    oracle.has_clusters = False
    monkeypatch.setattr(cell_fits, "_fit_gedi", fit)
    monkeypatch.setattr(cell_fits, "_keep", lambda model, folder: None)
    measured = measure_images(ImageCell("svhn", 10, method="jem", preset="smoke", rows=300), out=tmp_path)
    assert measured["nmi"] == measured["accuracy"] == pytest.approx(1.0)
    assert len(measured["labels"]) == 300 and len(set(measured["labels"])) == 10


def test_without_a_model_the_pixels_are_probed(monkeypatch):
    monkeypatch.setattr(image_cells, "of_representation", lambda cell, model, data: {"probe": model})
    assert of_image_fit(SVHN, None, CellData(*[np.zeros((1, 1))] * 3), picture=Path("no")) == {"probe": None}


def test_a_diverged_fit_gets_no_numbers_of_the_raw_rows(monkeypatch):
    def diverge(*args):
        raise DivergedError("Training diverged in step1.")

    monkeypatch.setattr(cell_fits, "_fit_gedi", diverge)
    measured = cell_fits.measure_cell(Cell("digits", 10, preset="smoke", rows=100), more=of_representation)
    assert measured["nmi"] == 0.0 and "probe" not in measured and "nmi_of_representation" not in measured


def test_probes_read_the_representation_and_labels_of_the_right_rows():
    """A representation that equals the label is read without errors; a random one is not."""
    data = load("digits")
    images = CellData(data.x, data.x, data.y)

    def scored(features):
        return of_representation(Cell("digits", 10), SimpleNamespace(represent=lambda x: features), images)

    perfect = scored(np.eye(10, dtype=np.float32)[data.y])
    assert perfect == {"nmi_of_representation": pytest.approx(1.0), "probe": 1.0, "sgd_probe": 1.0, "knn": 1.0}
    chance = scored(np.random.default_rng(0).normal(size=(len(data.y), 10)).astype(np.float32))
    assert chance["probe"] < 0.25 and chance["knn"] < 0.25 and chance["nmi_of_representation"] < 0.05


def test_walks_that_end_in_another_cluster_are_counted(monkeypatch):
    ends = np.array(
        [[[-1.0, 0.0], [-2.0, 0.0]], [[-1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [2.0, 0.0]], [[1, 0], [-1, 0]]]
    )
    monkeypatch.setattr(figures, "walk_paths", lambda model, x, n, seed: ends)
    model = SimpleNamespace(predict=lambda x: (x[:, 0] > 0).astype(int))
    data = CellData(np.zeros((4, 2)), np.zeros((4, 2)), np.zeros(4, dtype=int))
    assert figures.of_walks(Cell("moons", 2), model, data) == {"walk_crossing": 0.5}


def test_foreign_images_are_those_of_the_two_other_test_sets(oracle):
    cell = ImageCell("cifar10", 10, preset="smoke", rows=50)
    numbers = of_foreign(cell, oracle, cell_data(cell))
    assert numbers["ood_log_density_svhn"] == 0.0  # the oracle was made from SVHN, so CIFAR-10 is less likely
    assert numbers["ood_log_density_cifar100"] == 1.0


def test_distances_grow_from_images_to_noise_and_too_few_samples_have_none(images):
    data = cell_data(SVHN)
    rng = np.random.default_rng(1)
    near = data.x_train[:50].astype(int)
    near = np.clip(near + rng.integers(-60, 60, near.shape), 0, 255).astype(np.uint8)
    numbers = of_samples(SVHN, {"buffer": near, "fresh": near[:0]}, data)
    distances = [numbers[f"small_net_frechet_{name}"] for name in ("real", "buffer", "noise")]
    assert distances == sorted(distances)
    assert 0 <= numbers["recognised_buffer"] <= 1 and "small_net_frechet_fresh" not in numbers
    assert image_cells.recogniser_of("svhn", SVHN.rows, SVHN.seed) is image_cells.recogniser_of(
        "svhn", SVHN.rows, SVHN.seed
    )


def test_fid_is_measured_if_the_weights_are_named(monkeypatch):
    calls = []

    def fid(real, fake, path):
        calls.append((len(real), len(fake), path))
        return 200.0 + len(fake)

    monkeypatch.setattr(image_cells, "inception_fid", fid)
    monkeypatch.setenv(image_cells.INCEPTION, "inception.pth")
    x = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    numbers = of_samples(SVHN, {"buffer": x[:4], "fresh": x[:3]}, CellData(x, x, np.zeros(9, dtype=int)))
    assert (numbers["fid_buffer"], numbers["fid_fresh"]) == (204.0, 203.0)
    assert calls == [(9, 4, "inception.pth"), (9, 3, "inception.pth")]


def test_some_rows_are_distinct_and_all_of_few_are_kept():
    x = np.arange(10)
    assert np.array_equal(some(x, 10, 0), x)
    assert len(set(some(x, 4, 0).tolist())) == 4


def test_tiles_are_in_reading_order():
    tiles = tiled(np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1), columns=2)[..., 0]
    assert tiles[::2, ::2].tolist() == [[0, 1], [2, 255]] and (tiles[1::2] == 255).all()
