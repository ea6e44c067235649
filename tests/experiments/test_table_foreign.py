"""Foreign images for a density of MNIST: each breaks one thing, and keeps the rest."""

import numpy as np
import pytest

from gedi.experiments import EXPERIMENTS, table_foreign
from gedi.experiments.cells import Cell, CellData
from gedi.experiments.table_foreign import FOREIGN, PATCH, shuffled_patches


@pytest.fixture
def images():
    return np.random.default_rng(0).integers(0, 256, (30, 28, 28, 1), dtype=np.uint8)


def patches(image):
    return sorted(
        image[i : i + PATCH, j : j + PATCH].tobytes() for i in range(0, 28, PATCH) for j in range(0, 28, PATCH)
    )


def test_patches_move_whole_and_in_every_image_differently(images):
    made = shuffled_patches(images, np.random.default_rng(1))
    assert [patches(image) for image in made] == [patches(image) for image in images]
    same = shuffled_patches(np.repeat(images[:1], 30, axis=0), np.random.default_rng(1))
    assert len({image.tobytes() for image in same}) == 30


def test_shuffled_pixels_keep_the_values_of_every_pixel(images):
    made = FOREIGN["shuffled pixels"](images, np.random.default_rng(1))
    assert np.array_equal(np.sort(made, axis=0), np.sort(images, axis=0)) and not np.array_equal(made, images)


def test_a_missing_data_set_has_no_row(images, monkeypatch):
    monkeypatch.setattr(table_foreign, "known_datasets", lambda: [])
    assert len(FOREIGN["SVHN"](images, np.random.default_rng(0))) == 0


def test_every_kind_is_scored_by_the_sum_and_by_each_term(images, monkeypatch):
    """By a density that prefers dark images: the energy is minus the mean, and the mixture knows nothing."""

    class Dark:
        has_density = True

        def log_density_parts(self, x):
            return np.stack([-x.mean(1), np.zeros(len(x))], axis=1)

        def typicality(self, x):
            return -np.abs(x.mean(1) - 32)

    monkeypatch.setattr(table_foreign, "known_datasets", lambda: [])
    monkeypatch.setattr(table_foreign, "of_representation", lambda *_: {"probe": 1.0})
    dark = images // 4
    found = table_foreign._of_mnist(Cell("mnist", 10), Dark(), CellData(dark, dark, np.zeros(30, dtype=int)))
    assert found["probe"] == 1.0
    assert found["auroc by log_p, inverted"] == found["auroc by energy, inverted"] == 1.0
    assert found["auroc by mixture, inverted"] == 0.5 and found["auroc by typicality, inverted"] == 1.0
    assert found["auroc by log_p, shuffled patches"] == pytest.approx(0.5, abs=0.05)
    assert not any("SVHN" in name for name in found)


def test_the_table_runs_and_shares_its_fit_with_that_of_mnist(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    x, y = np.zeros((600, 28, 28, 1), dtype=np.uint8), np.arange(600) % 10
    for image, digit in zip(x, y, strict=True):
        image[5 + digit : 12 + digit, 6:22] = 200
    np.savez(tmp_path / "mnist.npz", x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    outcome = EXPERIMENTS["table-foreign"].run("smoke", 1, tmp_path / "out", 1, print)
    table = {row[0]: row[1:] for row in outcome.rows}
    assert table.keys() == FOREIGN.keys() and table["SVHN"] == ["–"] * 4
    assert float(table["noise"][0]) > 0.9
    said = []
    EXPERIMENTS["table-mnist"].run("smoke", 1, tmp_path / "out", 1, said.append)
    assert any(line.startswith("1 of 5 fits are already in") for line in said)
