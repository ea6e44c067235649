import os
import random
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image

from gedi.data import load
from gedi.data.pictures import read_folder
from gedi.errors import DataError


def picture(path, mode="RGB", size=(40, 30), value=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(zlib.crc32(path.name.encode()))
    if value is not None:
        image = Image.new(mode, size, value)
    elif mode == "I;16":
        image = Image.fromarray(rng.integers(0, 65536, size[::-1], dtype=np.uint16))
    else:
        image = Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), dtype=np.uint8)).convert(mode)
    image.save(path, **options)
    return path


@pytest.fixture
def zoo(tmp_path):
    """Every kind of file the reader must cope with."""
    folder = tmp_path / "photos"
    picture(folder / "a.png")
    picture(folder / "b.JPG", size=(300, 200))
    picture(folder / "c grey.png", "L")
    picture(folder / "d.png", "RGBA")
    picture(folder / "e.png", "I;16")
    picture(folder / "f.gif", "P")
    picture(folder / "g.tif", "CMYK")
    picture(folder / "h.bmp", "1", size=(1, 1))
    picture(folder / "ünïcødé 猫.webp")
    picture(folder / "i.png", "LA")
    whole = picture(folder / "j truncated.jpg", size=(200, 200)).read_bytes()
    (folder / "j truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "k text.png").write_text("not a picture")
    (folder / "l empty.png").touch()
    (folder / "README.txt").write_text("read me")
    picture(folder / ".hidden.png")
    picture(folder / ".thumbnails" / "x.png")
    return folder


BAD = ["j truncated.jpg", "k text.png", "l empty.png"]


def test_any_mode_and_size_becomes_one_array(zoo):
    with pytest.warns(UserWarning, match="Left out 3 of 13 image files") as caught:
        pictures = read_folder(zoo, size=(24, 16), skip_broken=True)
    assert len(caught) == 1 and all(name in str(caught[0].message) for name in BAD)
    assert pictures.x.shape == (10, 24, 16, 3) and pictures.x.dtype == np.uint8
    assert pictures.unreadable == BAD and pictures.y is None
    assert pictures.files == sorted(pictures.files) and "ünïcødé 猫.webp" in pictures.files
    assert all(image.std() > 5 for name, image in zip(pictures.files, pictures.x, strict=True) if name != "h.bmp")


def test_the_same_folder_gives_the_same_rows(zoo, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    files = [p for p in zoo.iterdir() if p.is_file()]
    random.Random(0).shuffle(files)
    for path in files:  # written in another order
        (copy / path.name).write_bytes(path.read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, two, three = (read_folder(folder, skip_broken=True) for folder in (zoo, copy, copy))
    assert one.files == two.files == three.files
    assert np.array_equal(one.x, two.x) and np.array_equal(two.x, three.x)


def test_load_knows_folders(zoo):
    with pytest.warns(UserWarning, match="Left out 3"):
        data = load(zoo, size=20, skip_broken=True)
    assert data.name == "photos" and data.image_shape == (20, 20, 3) == data.x.shape[1:]
    assert data.unreadable == BAD and data.files is not None and len(data.files) == len(data.x)
    with pytest.warns(UserWarning, match="Left out 3"):
        part = load(str(zoo), n=4, seed=1, skip_broken=True)
    assert part.image_shape == (32, 32, 3) and len(part.files) == 4
    with pytest.warns(UserWarning, match="Left out 3"):
        whole = load(zoo, skip_broken=True)
    assert np.array_equal(part.x, whole.x[[whole.files.index(name) for name in part.files]])


def test_grey_folders_have_one_channel(tmp_path):
    picture(tmp_path / "a.png", "L")
    picture(tmp_path / "b.png", "I;16")
    picture(tmp_path / "c.png", "1")
    assert read_folder(tmp_path).x.shape == (3, 32, 32, 1)
    assert read_folder(tmp_path, channels=3).x.shape == (3, 32, 32, 3)
    picture(tmp_path / "d.png", "RGB")
    assert read_folder(tmp_path).x.shape == (4, 32, 32, 3)
    assert read_folder(tmp_path, channels=1).x.shape == (4, 32, 32, 1)


@pytest.mark.parametrize(
    "mode, value, expected",
    [
        ("I;16", 65535, 255),
        ("I;16", 32768, 128),
        ("I;16", 200, 1),  # dark, not light
        ("L", 77, 77),
        ("1", 1, 255),
        ("RGB", (10, 20, 30), (10, 20, 30)),
        ("RGBA", (10, 20, 30, 0), (255, 255, 255)),
        ("RGBA", (10, 20, 30, 255), (10, 20, 30)),
        ("LA", (0, 0), 255),
        ("F", 0.5, 128),
        ("F", 51.0, 51),
        ("I", 51, 51),
        ("CMYK", (0, 255, 255, 0), (255, 0, 0)),
    ],
)
def test_values_of_every_mode(tmp_path, mode, value, expected):
    picture(tmp_path / ("a.tif" if mode in ("F", "I", "CMYK") else "a.png"), mode, value=value)
    pixels = read_folder(tmp_path).x[0]
    assert (np.abs(pixels.astype(int) - expected) <= 1).all()


def test_the_middle_is_kept_and_photographs_stand_upright(tmp_path):
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 200
    Image.fromarray(wide).save(tmp_path / "wide.png")
    assert (read_folder(tmp_path, size=10).x == 200).all()
    tall = Image.new("RGB", (20, 40))
    tall.paste((255, 255, 255), (0, 0, 20, 20))  # white above
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    tall.save(tmp_path / "turned.png", exif=exif)
    turned = read_folder(tmp_path, size=(40, 20)).x[0]
    assert turned[:15].max() < 20 and turned[25:].min() > 235


def test_half_transparent_pixels_are_mixed_with_white(tmp_path):
    picture(tmp_path / "a.png", "RGBA", value=(0, 0, 0, 128))
    assert (np.abs(read_folder(tmp_path).x.astype(int) - 127) <= 1).all()


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.tif", "a.png"])
def test_the_first_picture_of_an_animation_is_taken(tmp_path, name):
    red, green = (Image.new("RGB", (20, 20), colour) for colour in ("red", "lime"))
    red.save(tmp_path / name, save_all=True, append_images=[green, green], lossless=True)
    pixels = read_folder(tmp_path).x[0].astype(int)
    assert pixels[..., 0].min() > 240 and pixels[..., 1].max() < 15


def test_large_photographs_look_the_same_with_the_decoder_that_skips_detail(tmp_path):
    ramp = np.linspace(0, 255, 1000).astype(np.uint8)
    image = Image.fromarray(
        np.stack([np.tile(ramp, (1000, 1)), np.tile(ramp[:, None], (1, 1000)), np.full((1000, 1000), 90)], 2).astype(
            np.uint8
        )
    )
    image.save(tmp_path / "a.jpg", quality=95)
    image.save(tmp_path / "b.png")
    x = read_folder(tmp_path).x.astype(int)
    assert np.abs(x[0] - x[1]).max() <= 6


# ---- labels ----


def test_sub_folders_are_labels_for_evaluation(tmp_path):
    for name in ("dog/1.png", "cat/1.png", "cat/deep/2.png", "dog/2.png"):
        picture(tmp_path / name)
    data = load(tmp_path)
    assert data.files == ["cat/1.png", "cat/deep/2.png", "dog/1.png", "dog/2.png"]
    assert data.y.tolist() == [0, 0, 1, 1] and data.y.dtype == np.int64 and len(data.classes) == 2
    assert load(tmp_path, label_column="").y is None
    picture(tmp_path / "loose.png")
    assert load(tmp_path).y is None


def test_one_sub_folder_is_not_a_label(tmp_path):
    picture(tmp_path / "all" / "a.png")
    picture(tmp_path / "all" / "b.png")
    assert read_folder(tmp_path).y is None


def test_train_and_test_are_splits_not_labels(tmp_path):
    for name in ("train/dog/1.png", "train/cat/1.png", "train/cat/2.png", "test/dog/1.png", "test/cat/9.png"):
        picture(tmp_path / name)
    assert load(tmp_path).files == ["cat/1.png", "cat/2.png", "dog/1.png"]
    assert load(tmp_path, split="test").files == ["cat/9.png", "dog/1.png"]
    assert load(tmp_path).y.tolist() == [0, 0, 1]


# ---- problems ----


def test_broken_files_are_named_and_so_is_the_way_out(zoo):
    with pytest.raises(DataError, match=r"3 of 13 image files in .* cannot be read: .*--skip-broken") as refused:
        load(zoo)
    assert all(name in str(refused.value) for name in BAD)


def test_folders_without_readable_images(tmp_path):
    with pytest.raises(DataError, match=r"holds no images.*\.png"):
        load(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match="holds no images"):
        load(tmp_path)
    for i in range(12):
        (tmp_path / f"{i:02}.png").write_text("no")
    with pytest.raises(DataError, match=r"None of the 12 .* 09\.png and 2 more"):
        load(tmp_path)
    with pytest.raises(DataError, match="at least 1"):
        load(tmp_path, size=0)
    with pytest.raises(DataError, match="1 or 3 channels"):
        read_folder(tmp_path, channels=2)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_pipes_and_circles_do_not_hang(tmp_path):
    picture(tmp_path / "a.png")
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "round").symlink_to(tmp_path)
    (tmp_path / "nowhere.png").symlink_to(tmp_path / "missing.png")
    with pytest.warns(UserWarning, match="Left out 2 of 3"):
        assert read_folder(tmp_path, skip_broken=True).files == ["a.png"]


def test_decompression_bombs_are_left_out(tmp_path, monkeypatch):
    picture(tmp_path / "a.png")
    picture(tmp_path / "bomb.png", size=(400, 400))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000)
    with pytest.warns(UserWarning, match=r"Left out 1 of 2.*bomb\.png"):
        assert read_folder(tmp_path, skip_broken=True).files == ["a.png"]
