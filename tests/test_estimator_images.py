"""GEDI on arrays of images: the usual shapes and types work; others are refused with a hint."""

import numpy as np
import pytest
import torch

from gedi import GEDI

FEW = {f"{stage}.iterations": 2 for stage in ("step1", "step2")}
FEW |= {"sampler.steps": 1, "dam.steps": 1, "start.repeats": 1, "augment.neighbours": 3}
WHITE = {"bytes": 255, "floats to one": 1, "floats to 255": 255}


def tiny() -> GEDI:
    return GEDI(n_clusters=2, preset="smoke", training=FEW, random_state=0)


def images(shape, kind="bytes"):
    x = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    x.flat[0], x.flat[1] = 0, 255
    return x if kind == "bytes" else (x / (255 / WHITE[kind])).astype(np.float32)


@pytest.mark.parametrize("shape", [(12, 20, 18), (12, 20, 18, 1), (12, 20, 18, 3)])
@pytest.mark.parametrize("kind", WHITE)
def test_images_of_every_shape_and_type_train_and_are_answered(shape, kind):
    x = images(shape, kind)
    model = tiny().fit(x)
    assert model.model_.image_shape == (*shape[1:], 1)[:3]
    assert model.n_features_in_ == np.prod(shape[1:])
    assert np.array_equal(model.predict(x), model.labels_) and set(model.labels_) <= {0, 1}
    assert np.allclose(model.predict_proba(x[:1]).sum(), 1)
    for answer in (model.transform, model.score_samples, model.ood_score):
        found = answer(x)
        assert len(found) == 12 and np.isfinite(found).all()
        assert np.array_equal(found, answer(x.reshape(12, -1)))  # flat rows are taken, too
    samples = model.sample(3)
    assert samples.shape == (3, model.n_features_in_)
    grey, half = WHITE[kind] / 2, WHITE[kind] / 2
    assert np.abs(samples - grey).max() <= 1.25 * half + 1e-3 and np.ptp(samples) > half
    assert model.score_samples(samples.reshape(3, *shape[1:])).shape == (3,)


def test_bytes_floats_and_maps_of_the_same_images_train_to_the_same_weights(tmp_path):
    x = images((12, 20, 18, 3))
    np.save(tmp_path / "x.npy", x)
    bytes_, floats, mapped = (
        tiny().fit(given).model_.net.state_dict()
        for given in (x, x.astype(np.float32), np.load(tmp_path / "x.npy", mmap_mode="r"))
    )
    assert all(torch.equal(bytes_[k], floats[k]) and torch.equal(bytes_[k], mapped[k]) for k in bytes_)


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((10, 20, 18, 2), r"1, 3 or 4 channels; .*x\.reshape\(len\(x\), -1\)"),
        ((10, 3, 20, 18), r"channels last, with x\.transpose\(0, 2, 3, 1\)"),
        ((10, 1, 20, 18), r"x\.transpose\(0, 2, 3, 1\)"),
        ((2, 5, 20, 18, 3), r"x\.reshape\(len\(x\), -1\)"),
    ],
)
def test_other_shapes_are_refused_with_a_hint(shape, hint, tmp_path):
    with pytest.raises(ValueError, match=hint) as error:
        tiny().fit(np.zeros(shape))
    assert f"X has shape {shape}" in str(error.value) and "\n" not in str(error.value)


def test_images_of_another_shape_than_in_training_are_refused():
    model = tiny().fit(images((12, 20, 18)))
    with pytest.raises(ValueError, match=r"Expected images of shape \(20, 18, 1\), as in training, got \(18, 20, 1\)"):
        model.predict(images((3, 18, 20)))
