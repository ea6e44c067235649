"""FID in the tables: asked of kept models where weights are named, and refused before the first fit if they are not."""

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.experiments import EXPERIMENTS, image_cells, image_scores
from gedi.experiments.cells import CELLS, MODELS, read_cells
from gedi.experiments.image_cells import ImageCell, lacks_fid, measure

CELL = ImageCell("svhn", 10, preset="smoke", rows=40, iterations=2)


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Small images in place of the data sets, and no weights."""
    rng = np.random.default_rng(0)
    for name in image_scores.DATA:
        x, y = rng.integers(0, 256, (80, 20, 20, 3), dtype=np.uint8), np.arange(80) % 10
        np.savez(tmp_path / f"{name}.npz", x_train=x[:40], y_train=y[:40], x_test=x[40:], y_test=y[40:])
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    monkeypatch.delenv(image_scores.INCEPTION, raising=False)


def test_a_kept_model_is_asked_for_its_fid_and_not_fitted_again(small, tmp_path, monkeypatch):
    out = tmp_path / "out"
    (first,) = image_cells.run_cells([CELL], out, 1, print, measure=lambda cell, _: measure(cell, out=out)).values()
    assert lacks_fid(first) and (out / MODELS / CELL.key).is_dir()
    monkeypatch.setenv(image_scores.INCEPTION, "inception.pth")
    monkeypatch.setattr(image_scores, "inception_fid", lambda real, fake, path: float(len(fake)))
    monkeypatch.setattr("gedi.experiments.cells._fit_gedi", None)
    again = measure(CELL, out=out)
    assert again["fid_fresh"] == image_scores.FRESH and not lacks_fid(again)
    assert {name: again[name] for name in first} == first


def test_fits_that_lack_something_are_measured_again_and_their_new_numbers_count(tmp_path):
    def fake(cell, models):
        return {"key": cell.key, "cell": {"method": "gedi"}, "nmi": 0.5, "seconds": 1.0, "fid_fresh": 9.0}

    def without(cell, models):
        return {name: value for name, value in fake(cell, models).items() if name != "fid_fresh"}

    image_cells.run_cells([CELL], tmp_path, 1, print, measure=without)
    for expected in (without, fake):
        (found,) = image_cells.run_cells(
            [CELL], tmp_path, 1, print, measure=fake, lacks=lacks_fid if expected is fake else lambda measured: False
        ).values()
        assert found == expected(CELL, None)
    assert read_cells(tmp_path / CELLS) == {CELL.key: found}


def test_weights_that_are_not_there_are_refused_before_the_first_fit(small, tmp_path, monkeypatch):
    monkeypatch.setenv(image_scores.INCEPTION, str(tmp_path / "nowhere.pth"))
    monkeypatch.setattr(image_cells, "run_cells", None)
    with pytest.raises(DataError, match=r"no Inception weights at .*nowhere\.pth"):
        EXPERIMENTS["table-fid"].run("smoke", None, tmp_path / "out", 1, print)
