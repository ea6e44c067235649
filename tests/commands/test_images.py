"""`gedi fit photos/`: all kinds of pictures are trained on and reported; unreadable files are named."""

import csv
import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np
import pytest
from PIL import Image

from gedi import runs
from gedi.explore.uploads import rows_of

FLAGS = ["--preset", "smoke"]
for _setting in ("step1", "step2"):
    FLAGS.append(f"--training.{_setting}.iterations=2")
BROKEN = ["cut.png", "text.png"]


def noise(mode, seed, size=(40, 30)):
    rng = np.random.default_rng(seed)
    shape = size[::-1] if mode == "L" else (*size[::-1], len(mode))
    return Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8), mode)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of mixed pictures, some of them broken."""
    folder = tmp_path_factory.mktemp("photos")
    for i in range(4):
        noise("RGB", i).save(folder / f"plain{i}.png")
    noise("RGB", 5, (64, 20)).save(folder / "wide.jpg")
    noise("L", 6).save(folder / "grey.png")
    noise("RGBA", 7).save(folder / "see-through.png")
    deep = np.random.default_rng(8).integers(0, 65536, (33, 33), dtype=np.uint16)
    Image.fromarray(deep).save(folder / "sixteen.png")
    noise("RGB", 9).save(folder / "žluťoučký 写真.png")
    whole = (folder / "plain0.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    (folder / "text.png").write_text("not a picture")
    return folder


@pytest.fixture(scope="module")
def fit(photos, gedi, tmp_path_factory):
    """A run on the photos, and what `gedi fit` said on both streams."""
    run, streams = tmp_path_factory.mktemp("runs") / "run", (StringIO(), StringIO())
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        assert gedi("fit", photos, "--n-clusters", 2, "--out", run, "--skip-broken", *FLAGS) == 0
    return run, *(stream.getvalue() for stream in streams)


@pytest.fixture(scope="module")
def run(fit):
    return fit[0]


@pytest.mark.parametrize("command", ["fit", "predict", "eval"])
def test_broken_files_stop_a_command_before_it_begins(photos, run, gedi, tmp_path, capsys, command):
    out = ["--out", tmp_path / "out.csv"]
    words = {
        "fit": ["fit", photos, "--n-clusters", 2, *out],
        "predict": ["predict", run, photos, *out],
        "eval": ["eval", run, photos],
    }
    assert gedi(*words[command]) == 2
    err = capsys.readouterr().err
    assert "--skip-broken" in err and all(name in err for name in BROKEN)
    assert not list(tmp_path.iterdir())
    if command != "fit":  # the fixture's fit had the flag
        assert gedi(*words[command], "--skip-broken") == 0


def test_unreadable_files_are_counted_and_named_and_the_rest_trains(fit):
    run, out, err = fit
    assert "Left out 2 of 11 image files" in err and all(name in err for name in BROKEN)
    assert "each image is center-cropped and resized to 32 x 32 pixels" in err
    assert "9 images of 32x32x3" in err and "MB of memory" in err
    assert out.splitlines()[-1].endswith(" --out clusters.csv --skip-broken"), "the next step has to work"
    assert json.loads((run / "results.json").read_text())["unreadable"] == BROKEN


def test_the_report_says_what_was_left_out(run, gedi):
    said = "2 image files were left out as unreadable: cut.png, text.png."
    assert said in (run / "report.html").read_text(encoding="utf-8")
    (run / "report.html").unlink()
    assert gedi("report", run) == 0
    assert said in (run / "report.html").read_text(encoding="utf-8")


def test_every_picture_gets_a_cluster_beside_its_name(photos, run, gedi, tmp_path):
    assert gedi("predict", run, photos, "--out", tmp_path / "p.csv", "--skip-broken") == 0
    with (tmp_path / "p.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["image"] for row in rows] == sorted(p.name for p in photos.iterdir() if p.name not in BROKEN)
    assert {row["cluster"] for row in rows} <= {"0", "1"}


def test_a_single_picture_gets_the_cluster_it_has_in_its_folder(photos, run, gedi, tmp_path, capsys):
    assert gedi("predict", run, photos / "plain3.png", "--out", tmp_path / "one.csv") == 0
    assert gedi("predict", run, photos, "--out", tmp_path / "all.csv", "--skip-broken") == 0
    rows = {}
    for name in ("one", "all"):
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            rows[name] = {row["image"]: row["cluster"] for row in csv.DictReader(file)}
    assert rows["one"] == {"plain3.png": rows["all"]["plain3.png"]}
    assert gedi("predict", run, photos / "cut.png", "--out", tmp_path / "cut.csv") == 2
    assert "cut.png cannot be read as an image" in capsys.readouterr().err


def test_grey_pictures_are_read_with_the_channels_the_run_knows(run, gedi, tmp_path):
    (tmp_path / "grey").mkdir()
    noise("L", 0, (50, 50)).save(tmp_path / "grey" / "one.png")
    assert gedi("predict", run, tmp_path / "grey", "--out", tmp_path / "p.npz") == 0
    assert len(np.load(tmp_path / "p.npz")["cluster"]) == 1


def test_samples_are_drawn_as_a_grid(run, gedi, tmp_path):
    assert gedi("sample", run, "-n", 4, "--out", tmp_path / "s.png") == 0
    with Image.open(tmp_path / "s.png") as image:
        drawn = np.asarray(image.convert("L"))
    assert drawn.std() > 5  # not one white sheet


def test_fresh_chains_are_shown_on_their_way(run, gedi, tmp_path):
    options = ("--fresh", "--steps", 6, "--frames", 4)
    assert gedi("sample", run, "-n", 2, "--out", tmp_path / "way.png", *options) == 0
    with Image.open(tmp_path / "way.png") as image:
        wide, high = image.size
    assert wide > 1.7 * high  # four columns, two rows
    ways = runs.load(run).sample_paths(2, frames=4, steps=6, fresh=True)
    assert ways.shape[:2] == (2, 4) and not np.array_equal(ways[:, 0], ways[:, -1])


def test_the_plan_of_a_run_on_a_folder_is_accepted(photos, run, gedi, capsys):
    assert gedi("resume", run) == 0
    assert "already finished" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(12, 20, 20), (12, 20, 20, 3)])
@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_arrays_of_images_train_and_are_evaluated(gedi, tmp_path, capsys, shape, kind):
    x = np.random.default_rng(0).integers(0, 256, shape).astype(kind)
    np.save(tmp_path / "x.npy", x)
    assert gedi("fit", tmp_path / "x.npy", "--n-clusters", 2, "--out", tmp_path / "run", *FLAGS) == 0
    capsys.readouterr()
    assert gedi("eval", tmp_path / "run", tmp_path / "x.npy") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 12
    np.save(tmp_path / "y.npy", x.reshape(12, 10, 40, *shape[3:]))
    assert gedi("eval", tmp_path / "run", tmp_path / "y.npy") == 2
    assert "trained on images of 20x20" in capsys.readouterr().err


@pytest.mark.parametrize(("black", "white"), [(0, 16), (-1, 1), (0, 255)])
def test_pictures_are_read_in_the_value_range_of_training(gedi, tmp_path, black, white):
    pixels = np.random.default_rng(0).integers(0, 256, (12, 20, 20), dtype=np.uint8)
    values = black + (white - black) / 255 * pixels
    np.save(tmp_path / "x.npy", values.astype("float32"))
    assert gedi("fit", tmp_path / "x.npy", "--n-clusters", 2, "--out", tmp_path / "run", *FLAGS) == 0
    (tmp_path / "pictures").mkdir()
    for i, one in enumerate(pixels):
        Image.fromarray(one).save(tmp_path / "pictures" / f"{i:02}.png")
    for name in ("x.npy", "pictures"):
        assert gedi("predict", tmp_path / "run", tmp_path / name, "--out", tmp_path / f"{name}.npz") == 0
    array, pictures = (np.load(tmp_path / f"{name}.npz") for name in ("x.npy", "pictures"))
    np.testing.assert_allclose(pictures["log_density"], array["log_density"], rtol=1e-5)
    dropped = rows_of((tmp_path / "pictures" / "00.png").read_bytes(), "00.png", runs.load(tmp_path / "run"))
    np.testing.assert_allclose(dropped.rows, values[:1].reshape(1, -1), atol=1e-5)


def test_pictures_are_refused_if_black_and_white_are_unknown(gedi, tmp_path, capsys):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(12, 20, 20)).astype("float32"))
    assert gedi("fit", tmp_path / "x.npy", "--n-clusters", 2, "--out", tmp_path / "run", *FLAGS) == 0
    (tmp_path / "pictures").mkdir()
    noise("L", 0).save(tmp_path / "pictures" / "one.png")
    assert gedi("predict", tmp_path / "run", tmp_path / "pictures", "--out", tmp_path / "p.npz") == 2
    assert "black and white" in capsys.readouterr().err


def test_a_folder_without_pictures_is_refused(refused, tmp_path):
    (tmp_path / "photos").mkdir()
    assert "holds no images" in refused("fit", "photos", "--n-clusters", 2, "--out", "run", *FLAGS)


def test_a_preset_for_images_is_refused_for_rows(refused, tmp_path, write_rows):
    write_rows(tmp_path / "rows.csv")
    assert "encoder resnet8 takes images, but the data are rows of 2 features" in refused(
        "fit", "rows.csv", "--n-clusters", 2, "--out", "run", "--preset", "paper-svhn"
    )
