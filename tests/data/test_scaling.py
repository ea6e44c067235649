import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.data import Scaler
from gedi.errors import ConfigError, DataError


def rows(seed=0, n=50, d=3):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1, d + 1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 100),
    factor=st.floats(1e-3, 1e4),
    offset=st.floats(-1e5, 1e5),
    mode=st.sampled_from(["global", "feature"]),
)
def test_unit_and_offset_do_not_matter(seed, factor, offset, mode):
    x = rows(seed)
    plain = Scaler().fit(x, mode=mode).transform(x)
    moved = Scaler().fit(x * factor + offset, mode=mode).transform(x * factor + offset)
    # float64 keeps 16 digits, and the offset takes up to 8 of them
    assert np.allclose(plain, moved, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 100), mode=st.sampled_from(["global", "feature"]))
def test_inverse_undoes_transform(seed, mode):
    x = rows(seed) * 3 + 7
    scaler = Scaler(mode=mode).fit(x)
    assert np.allclose(scaler.inverse(scaler.transform(x)), x, atol=1e-4)


def test_times_1000_plus_500_gives_the_same_numbers():
    x = rows()
    assert np.allclose(Scaler().fit(x).transform(x), Scaler().fit(x * 1000 + 500).transform(x * 1000 + 500), atol=1e-6)


@pytest.mark.parametrize("mode", ["global", "feature"])
def test_numbers_whose_squares_are_zero_are_scaled_like_others(mode):
    x = rows()
    assert np.allclose(Scaler().fit(x, mode).transform(x), Scaler().fit(x * 1e-300, mode).transform(x * 1e-300))


def test_global_keeps_geometry_and_feature_does_not():
    x = rows()
    scaled = Scaler().fit(x).transform(x)
    ratio = np.linalg.norm(scaled[1:] - scaled[:-1], axis=1) / np.linalg.norm(x[1:] - x[:-1], axis=1)
    assert np.allclose(ratio, ratio[0], rtol=1e-4)
    assert np.isclose(scaled.std(), 1, atol=1e-3)
    each = Scaler().fit(x, mode="feature").transform(x)
    assert np.allclose(each.std(axis=0), 1, atol=1e-3)
    assert each.dtype == scaled.dtype == np.float32


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1])
def test_a_constant_column_becomes_zero(value):
    x = rows()
    x[:, 1] = value
    scaled = Scaler().fit(x, mode="feature").transform(x)
    assert np.allclose(scaled[:, 1], 0, atol=1e-5)
    assert np.abs(scaled[:, 0]).max() > 0.1


@pytest.mark.parametrize("mode", ["global", "feature"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1])
def test_constant_rows_become_zero(mode, value):
    x = np.full((50, 3), value)
    assert np.allclose(Scaler().fit(x, mode=mode).transform(x), 0, atol=1e-5)


def test_global_scaling_has_one_centre_and_one_unit():
    """So that an image can be moved before or after it is scaled."""
    x = rows() + [0.0, 5.0, 1.0]
    scaled = Scaler().fit(x, mode="global").transform(x)
    assert abs(scaled.mean()) < 1e-5 and scaled.std() == pytest.approx(1.0, abs=1e-5)
    assert np.allclose(Scaler().fit(x, mode="global").transform(x[:, ::-1]), scaled[:, ::-1])


@pytest.mark.parametrize("mode", ["global", "feature"])
def test_state_survives_json(mode):
    x = rows()
    scaler = Scaler().fit(x, mode=mode)
    back = Scaler.from_state(json.loads(json.dumps(scaler.state())))
    assert back.mode == mode
    assert np.array_equal(back.transform(x), scaler.transform(x))


def test_inverse_in_float64_keeps_a_large_offset():
    x = rows() + 1e9
    scaler = Scaler().fit(x)
    back = scaler.inverse(scaler.transform(x), dtype=np.float64)
    assert back.dtype == np.float64 and np.allclose(back - 1e9, x - 1e9, atol=1e-4)
    assert scaler.inverse(scaler.transform(x)).dtype == np.float32


def test_misuse_is_named():
    with pytest.raises(ConfigError, match="'per-row'"):
        Scaler().fit(rows(), mode="per-row")
    with pytest.raises(DataError, match="not been fitted"):
        Scaler().transform(rows())
    with pytest.raises(DataError, match="not been fitted"):
        Scaler().state()
    with pytest.raises(DataError, match="3 features"):
        Scaler().fit(rows(d=3)).transform(rows(d=2))
    with pytest.raises(DataError, match="shape"):
        Scaler().fit(np.zeros(5))


def test_rows_absurdly_far_away_stay_finite():
    scaler = Scaler().fit(rows(d=2))
    far = scaler.transform(np.array([[1e149, -1e149]]))
    assert np.isfinite(far).all() and far[0, 0] == -far[0, 1] > 1e14


# ---- pixels ----


@pytest.mark.parametrize(
    ("x", "black", "white"),
    [
        (np.array([[3, 200]], dtype=np.uint8), 0, 255),
        (np.array([[0.2, 0.7]]), 0, 1),
        (np.array([[0.0, 16.0], [3.0, 3.0]]), 0, 16),
        (np.array([[-0.5, 0.5]]), -0.5, 0.5),
    ],
)
def test_black_becomes_minus_one_and_white_one(x, black, white):
    scaler = Scaler().fit(x, mode="pixels")
    assert np.allclose(scaler.transform(np.array([[black, white]])), [[-1, 1]])
    assert np.allclose(scaler.inverse(np.array([[-1, 1]])), [[black, white]])
    again = Scaler.from_state(json.loads(json.dumps(scaler.state())))
    assert np.array_equal(again.transform(x), scaler.transform(x))


def test_pixels_of_one_colour_scale_to_numbers():
    assert np.isfinite(Scaler().fit(np.full((2, 3), 7.0), mode="pixels").transform(np.full((2, 3), 7.0))).all()


@pytest.mark.parametrize("mode", ["global", "feature", "pixels", "none"])
def test_blocks_do_not_change_the_numbers(monkeypatch, mode):
    x = rows(n=25)
    scaler = Scaler().fit(x, mode=mode)
    whole = scaler.transform(x)
    monkeypatch.setattr("gedi.data.scaling.NUMBERS_AT_ONCE", 7)
    assert np.array_equal(scaler.transform(x), whole)
    in_blocks = Scaler().fit(x, mode=mode)
    assert np.allclose(in_blocks.centre, scaler.centre, rtol=1e-14) and np.allclose(in_blocks.scale, scaler.scale)


@pytest.mark.parametrize("mode", ["global", "feature", "pixels"])
@pytest.mark.parametrize("kind", ["uint8", "float32", "float64"])
@pytest.mark.parametrize("mapped", [False, True])
def test_small_types_and_maps_scale_to_the_numbers_of_doubles(monkeypatch, tmp_path, mode, kind, mapped):
    x = np.random.default_rng(0).integers(0, 256, (301, 17))
    x[0, 0], x[1, 0] = 0, 255
    x = x.astype("uint8") if kind == "uint8" else (x / 7).astype(kind)
    monkeypatch.setattr("gedi.data.scaling.NUMBERS_AT_ONCE", 200)
    whole = Scaler().fit(x.astype(np.float64), mode=mode)
    if mapped:
        np.save(tmp_path / "x.npy", x)
        x = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = Scaler().fit(x, mode=mode)
    assert np.array_equal(found.centre, whole.centre) and np.array_equal(found.scale, whole.scale)
    assert np.array_equal(found.transform(x), whole.transform(x))
