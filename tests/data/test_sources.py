import numpy as np
import pytest

from gedi.data import known_datasets, load
from gedi.data.sources import IMAGES, NAMES
from gedi.errors import DataError


def save_images(folder, name="mnist", **changes):
    rng = np.random.default_rng(0)
    arrays = {
        "x_train": rng.integers(0, 256, (20, 4, 4, 3), dtype=np.uint8),
        "y_train": np.arange(20) % 5,
        "x_test": rng.integers(0, 256, (8, 4, 4, 3), dtype=np.uint8),
        "y_test": np.arange(8) % 5,
    } | changes
    np.savez(folder / f"{name}.npz", **{k: v for k, v in arrays.items() if v is not None})
    return arrays


@pytest.mark.parametrize("name", ["moons", "circles", "rings", "spirals"])
def test_toys_have_a_fresh_test_stream(name):
    train, test = load(name, seed=3), load(name, split="test", seed=3)
    assert train.x.shape == (2000, 2) and test.x.shape == (1000, 2)
    assert train.name == name and train.image_shape is None
    assert not set(map(tuple, train.x)) & set(map(tuple, test.x))
    assert np.array_equal(test.x, load(name, seed=10_003, n=1000).x)
    assert load(name, n=30).x.shape == (30, 2)


def test_digits_are_whole_in_both_splits():
    train, test = load("digits"), load("Digits", split="test")
    assert train.x.shape == (1797, 64) and train.x.dtype == np.float32 and train.image_shape == (8, 8, 1)
    assert (train.x.min(), train.x.max()) == (0, 16)
    assert train.y is not None and train.y.dtype == np.int64 and set(train.y) == set(range(10))
    assert np.array_equal(train.x, test.x)


def test_a_subset_is_random_seeded_and_keeps_labels_with_rows():
    whole, part = load("digits"), load("digits", n=100, seed=1)
    place = {row.tobytes(): label for row, label in zip(whole.x, whole.y, strict=True)}
    assert [place[row.tobytes()] for row in part.x] == part.y.tolist()
    assert np.array_equal(part.x, load("digits", n=100, seed=1).x)
    assert not np.array_equal(part.x, load("digits", n=100, seed=2).x)
    with pytest.raises(DataError, match="only 1797"):
        load("digits", n=1798)


def test_named_images_come_from_gedi_data(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    arrays = save_images(tmp_path)
    train, test = load("mnist"), load("mnist", split="test")
    assert np.array_equal(train.x, arrays["x_train"]) and train.x.dtype == np.uint8
    assert np.array_equal(test.x, arrays["x_test"]) and np.array_equal(test.y, arrays["y_test"])
    assert train.image_shape == (4, 4, 3) and train.name == "mnist"


def test_grey_images_gain_a_channel(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    save_images(tmp_path, x_train=np.zeros((20, 5, 6), dtype=np.uint8))
    assert load("mnist").x.shape == (20, 5, 6, 1)
    assert load("mnist").image_shape == (5, 6, 1)


def test_a_missing_image_set_says_where_it_should_be(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    with pytest.raises(DataError, match="GEDI_DATA") as caught:
        load("svhn")
    assert str(tmp_path / "svhn.npz") in str(caught.value) and "x_train" in str(caught.value)


def test_damaged_image_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    save_images(tmp_path, x_test=None)
    with pytest.raises(DataError, match="x_test"):
        load("mnist", split="test")
    save_images(tmp_path, x_train=np.zeros((20, 48)))
    with pytest.raises(DataError, match="should hold images"):
        load("mnist")
    (tmp_path / "mnist.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(DataError, match="Cannot read"):
        load("mnist")


@pytest.mark.parametrize(
    "typo, meant",
    [
        ("mons", "moons"),
        ("circle", "circles"),
        ("minst", "mnist"),
        ("cifar-10", "cifar10"),
        ("digit", "digits"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(typo, meant, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=f"did you mean {meant!r}"):
        load(typo)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(DataError, match="moons, circles") as caught:
        load("zzzqqq")
    assert "'zzzqqq'" in str(caught.value)


def test_paths_that_cannot_be_read(tmp_path):
    for missing in (tmp_path / "rows.csv", str(tmp_path / "rows"), "nowhere.npy"):
        with pytest.raises(DataError, match="There is no file") as caught:
            load(missing)
        assert str(missing) in str(caught.value)
    with pytest.raises(DataError, match="folder"):
        load(tmp_path)
    (tmp_path / "rows.xls").touch()
    with pytest.raises(DataError, match=r"\.csv"):
        load(tmp_path / "rows.xls")


def test_bad_arguments():
    with pytest.raises(DataError, match="'valid'"):
        load("moons", split="valid")
    with pytest.raises(DataError, match="n=0"):
        load("digits", n=0)


def test_known_datasets(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    save_images(tmp_path, "svhn")
    (tmp_path / "cifar10.npz").write_bytes(b"broken")
    known = {info.name: info for info in known_datasets()}
    assert tuple(known) == NAMES
    assert known["moons"].present and known["moons"].rows == 2000
    assert known["digits"].rows == len(load("digits").x)
    assert known["svhn"].present and known["svhn"].rows == 20
    assert known["svhn"].where == str(tmp_path / "svhn.npz")
    assert not known["mnist"].present and known["mnist"].rows is None
    assert not known["cifar10"].present


def test_without_gedi_data_the_user_cache_is_used(monkeypatch):
    monkeypatch.delenv("GEDI_DATA", raising=False)
    info = known_datasets()[-1]
    assert "gedi" in info.where and info.where.endswith("cifar100.npz")


@pytest.mark.parametrize("name", IMAGES)
def test_the_real_image_sets(name, named_dataset):
    data = load(named_dataset(name), split="test", n=100)
    assert data.x.dtype == np.uint8 and data.x.shape == (100, *data.image_shape)
    assert data.image_shape == ((28, 28, 1) if "mnist" in name else (32, 32, 3))
    assert data.y.dtype == np.int64 and data.y.min() >= 0
    assert data.x.max() > 200  # really bytes, not already scaled
