"""Images on a page have the scale of the data and stay within their budget of bytes."""

from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from gedi.errors import DataError
from gedi.report.images import (
    EXEMPLAR_BYTES,
    MOST_CLUSTERS,
    SAMPLE_BYTES,
    SHEET_BYTES,
    Painter,
    exemplars,
    walk_strips,
    write_samples,
)
from gedi.report.measures import Answers

rng = np.random.default_rng(0)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_pixels_have_the_scale_of_the_painter_and_three_channels(channels):
    rows = np.linspace(-1, 1, 3 * 4 * channels)[None].repeat(2, axis=0)
    pixels = Painter((3, 4, channels), -1.0, 1.0).pixels(rows + [[0.0], [100.0]])
    assert pixels.shape == (2, 3, 4, 3) and pixels[0].min() == 0 and (pixels[1] == 255).all()


def answers_of(rows, probability, *, has_density=True, log_density=None):
    """Answers of a model that says what it is told to."""
    model = SimpleNamespace(
        has_density=has_density, predict_proba=lambda x: probability, score_samples=lambda x: log_density
    )
    return Answers(model, rows)


def test_exemplars_of_many_clusters_of_large_noisy_images_stay_small():
    rows = rng.integers(0, 256, (808, 96 * 96 * 3), dtype=np.uint8)
    painter = Painter((96, 96, 3), 0.0, 255.0)
    probability = np.eye(101)[np.arange(808) % 101]
    found = exemplars(painter, answers_of(rows, probability, log_density=np.zeros(808)))
    assert [one["cluster"] for one in found] == list(range(MOST_CLUSTERS))
    sources = [picture.source for one in found for picture in (one["typical"], one["unsure"])]
    assert sum(map(len, sources)) <= EXEMPLAR_BYTES
    assert len(painter.grid(rows[:48], 12, "noise", SAMPLE_BYTES).source) <= SAMPLE_BYTES


@pytest.mark.parametrize(("has_density", "first"), [(True, 20), (False, 39)])
def test_typical_images_have_the_highest_log_p_or_without_a_density_the_highest_probability(has_density, first):
    """Row i has pixels of value i. Rows become more certain with i, and log p is highest at row 9."""
    rows = np.arange(0.0, 40.0)[:, None].repeat(4, axis=1)
    sure = np.linspace(0.6, 0.9, 40)
    probability = np.stack([sure, 1 - sure], axis=1)
    log_density = -np.abs(rows[:, 0] - 9)
    seen = []
    painter = SimpleNamespace(grid=lambda rows, *_: seen.append(rows))
    exemplars(painter, answers_of(rows, probability, has_density=has_density, log_density=log_density))
    typical, unsure = seen
    assert typical[0, 0] == first and unsure[:, 0].tolist() == list(range(8))


def test_a_sheet_of_noisy_thumbnails_stays_small():
    rows = rng.integers(0, 256, (1_000, 64 * 64 * 3)).astype(float)
    sheet = Painter((64, 64, 3), 0.0, 255.0).sheet(rows)
    assert len(sheet["source"]) <= SHEET_BYTES
    assert sheet["columns"] * sheet["lines"] >= 1_000 and max(sheet["width"], sheet["height"]) <= 40


# ---- samples in a file ----


def sampler(image_shape, scaling="global"):
    return SimpleNamespace(
        image_shape=image_shape,
        config=SimpleNamespace(scaling=scaling),
        black_and_white=(0.0, 255.0),
        predict=lambda x: np.arange(len(x)),
    )


@pytest.mark.parametrize(
    ("shape", "samples"),
    [(None, np.eye(2)), ((2, 2, 1), np.ones((3, 4))), ((2, 2, 3), np.full((1, 12), 0.5))],
    ids=["points", "grey images", "colour images"],
)
def test_samples_as_a_picture(tmp_path, shape, samples):
    write_samples(sampler(shape), samples, tmp_path / "s.png")
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("scaling", "grey"), [("pixels", [0, 51, 102]), ("global", [0, 128, 255])])
def test_images_have_the_black_and_white_of_the_run_if_it_knows_them(tmp_path, scaling, grey):
    write_samples(sampler((1, 1, 1), scaling), np.array([[0.0], [51.0], [102.0]]), tmp_path / "s.png")
    with Image.open(tmp_path / "s.png") as image:
        pixels = np.asarray(image)
    seen = pixels[pixels[..., 3] == 255]
    assert max(image.size) > 500 and sorted(set(seen[:, 0].tolist())) == grey


def test_samples_of_many_features_cannot_be_drawn(tmp_path):
    with pytest.raises(DataError, match=r"5 features.*\.npz"):
        write_samples(sampler(None), np.ones((2, 5)), tmp_path / "s.png")
    assert list(tmp_path.iterdir()) == []


def test_strips_of_walks_begin_with_an_image_of_the_data_and_follow_its_steps(monkeypatch):
    rows = np.arange(8.0)[:, None].repeat(4, axis=1)
    seen = []
    painter = SimpleNamespace(grid=lambda rows, columns, *_: seen.append((rows, columns)))
    walks = lambda model, x, n: np.stack([x[:n], x[:n] + 0.25, x[:n] + 0.5], axis=1)  # noqa: E731
    monkeypatch.setattr("gedi.report.images.walk_paths", walks)
    walk_strips(SimpleNamespace(), painter, rows)
    ((drawn, columns),) = seen
    assert columns == 3 and drawn[:6, 0].tolist() == [0.0, 0.25, 0.5, 1.0, 1.25, 1.5]
