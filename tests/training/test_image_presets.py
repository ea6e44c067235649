"""Presets for images train every stage, and refuse data that are not images."""

import math

import numpy as np
import pytest
import torch

from gedi import runs
from gedi.errors import ConfigError
from gedi.training.build import box_around, build_net, prepare
from gedi.training.config import TrainingConfig
from gedi.training.fit import fit_prepared
from gedi.training.presets import PRESETS, configure, preset

SHORT = {f"{stage}.batch_size": 4 for stage in ("step1", "step2")} | {"sampler.buffer_size": 8}
PAPERS = [name for name in PRESETS if name.startswith("paper-") and name != "paper-jem"]


def pictures(shape, n=10, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8).reshape(n, -1)


def fit(name, shape, **changes):
    rows = pictures(shape)
    config = configure(name, "gedi", SHORT, changes, n_features=rows.shape[1], image_shape=shape)
    return rows, fit_prepared(prepare(rows, config, 2, image_shape=shape), seed=0)


@pytest.fixture(scope="module")
def small():
    """A few iterations of the preset `images`."""
    iterations = {f"{stage}.iterations": 2 for stage in ("step1", "step2")}
    return fit("images", (17, 18, 3), **iterations, **{"net.representation": 8})


@pytest.mark.filterwarnings("ignore::gedi.training.guard.GuardWarning")
@pytest.mark.parametrize("name", PAPERS)
def test_the_papers_settings_take_two_steps_of_each_stage(name):
    shape = (8, 8, 1) if name == "paper-mnist" else (8, 8, 3)
    _, model = fit(name, shape, **{"step1.iterations": 2, "step2.iterations": 2})
    assert {line["stage"] for line in model.history if "gradient_norm" in line} == {"step1", "step2"}
    assert model.results["guard"] == [] or all(event["action"] == "warned" for event in model.results["guard"])
    fresh = preset(name, n_features=2)
    encoder = model.net.encoder
    assert sum(p.numel() for p in encoder.parameters()) > fresh.net.representation**2 * 9 * 7
    assert fresh.sampler.buffer_size == 10_000 and float(model.chains.abs().max()) <= 1.0


@pytest.mark.parametrize(
    ("name", "noise", "flip"),
    [
        ("paper-svhn", 0.03, False),
        ("paper-cifar10", 0.03, True),
        ("paper-cifar100", 0.03, True),
        ("paper-mnist", 0.3, False),
    ],
)
def test_the_papers_views_are_those_of_its_table(name, noise, flip):
    row = preset(name, n_features=2).augment
    assert (row.jitter, row.gray, row.noise, row.flip, row.crop) == (0.1, 0.1, noise, flip, 4)
    assert (row.brightness, row.contrast, row.saturation, row.hue) == (0.4, 0.4, 0.4, 0.1)
    assert not (row.neighbours or row.shift or row.rotate or row.scale or row.shear)


@pytest.mark.parametrize("name", ["images", *PAPERS])
def test_presets_for_images_refuse_rows(name):
    with pytest.raises(ConfigError, match=r"takes images, but the data are rows of 5 features.*another preset"):
        configure(name, "gedi", n_features=5)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((16, 40, 3), "digits"), ((17, 40, 3), "images"), ((28, 28, 1), "grey"), ((33, 33, 1), "images")],
)
def test_small_images_stay_with_the_preset_of_small_images(shape, expected):
    size = {"n_features": math.prod(shape), "image_shape": shape}
    assert preset(None, **size) == preset(expected, **size)


def test_small_images_are_shifted_by_half_a_pixel_and_a_share_of_their_side():
    shifts = [preset("digits", n_features=n * n, image_shape=(n, n, 1)).augment.shift for n in (8, 28)]
    assert shifts == [pytest.approx(0.9), pytest.approx(1.9)]


def test_walks_between_all_images_are_refused():
    with pytest.raises(ConfigError, match=r"leave out walks and mixture"):
        configure("images", "gedi", {"heads.starts": ["walks"]}, n_features=972, image_shape=(18, 18, 3))


def test_a_model_of_images_gives_the_same_answers_after_loading(small, tmp_path):
    rows, model = small
    with runs.claimed(tmp_path / "run") as folder:
        runs.save(model, folder)
    again = runs.load(tmp_path / "run")
    for name in ("predict_proba", "transform", "score_samples", "ood_score"):
        assert np.array_equal(getattr(again, name)(rows), getattr(model, name)(rows)), name
    assert np.array_equal(again.sample(3), model.sample(3))


def test_the_contrastive_term_trains_a_projector_beside_linear_heads(small):
    _, model = small
    fresh = build_net(model.config, model.n_features, 2, torch.Generator().manual_seed(0), image_shape=(17, 18, 3))
    moved = [
        not torch.equal(a, b) for a, b in zip(*(n.nf_projector.parameters() for n in (model.net, fresh)), strict=True)
    ]
    assert all(moved) and not list(model.net.projector.parameters())


def test_whether_to_mirror_is_found_in_the_images(small):
    _, model = small
    assert model.config.augment.flip is True  # noise has no left and right
    ramps = np.tile(np.linspace(0, 255, 20, dtype=np.uint8)[None, None, :, None], (60, 20, 1, 3))
    noisy = np.random.default_rng(0).integers(0, 20, ramps.shape, dtype=np.uint8) // 2 + ramps // 2
    config = configure("images", "gedi", n_features=1200, image_shape=(20, 20, 3))
    ready = prepare(noisy.reshape(60, -1), config, 2, image_shape=(20, 20, 3))
    assert ready.config.augment.flip is False and config.augment.flip is None


def test_answers_do_not_depend_on_the_other_images_of_a_batch(small):
    rows, model = small
    alone = np.concatenate([model.predict_proba(row[None]) for row in rows])
    assert np.allclose(alone, model.predict_proba(rows), atol=1e-5)


def test_samples_are_pixels(small):
    _, model = small
    samples = model.sample(4, steps=2)
    assert samples.shape == (4, 17 * 18 * 3)
    assert (
        samples.min() >= -0.125 * 255 - 1 and samples.max() <= 1.125 * 255 + 1
    )  # the box reaches 0.25 beyond -1 and 1


def test_a_pixel_that_never_changes_does_not_flatten_the_box():
    config = TrainingConfig(scaling="pixels")
    config.sampler.box_margin = 0.25
    box = box_around(torch.full((5, 3), -1.0), config)
    assert box.low.tolist() == [-1.25] * 3 and box.high.tolist() == [1.25] * 3


def test_an_energy_may_have_an_image_encoder_of_its_own():
    _, model = fit(
        "images",
        (17, 17, 1),
        **{
            "net.two_encoders": True,
            "net.representation": 4,
            "heads.random": 2,
            "step1.iterations": 1,
            "step2.iterations": 1,
        },
    )
    assert model.net.energy_encoder is not model.net.encoder
