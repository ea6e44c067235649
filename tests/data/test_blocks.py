"""Files read a block at a time give the same rows as files read whole."""

import zipfile

import numpy as np
import pandas as pd
import pytest

from gedi.data import arrays, check_rows, load, stream
from gedi.errors import DataError

rng = np.random.default_rng(0)
X = rng.normal(size=(53, 3))
IMAGES = rng.integers(0, 256, (53, 4, 4, 3), dtype=np.uint8)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch, tmp_path):
    """Pretend that ten rows are many."""
    monkeypatch.setattr(arrays, "BLOCK_ROWS", 10)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def same_as_whole(path, **options):
    blocks = list(stream(path, **options).blocks)
    whole = load(path, **options, raw=True).x
    assert len(blocks) == 6 and max(map(len, blocks)) == 10
    assert np.array_equal(np.concatenate(blocks), whole)


@pytest.mark.parametrize("header", ["", "a,b,c\n", "1,b,c\n"])
def test_text(tmp_path, header):
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", header=header.strip(), comments="")
    same_as_whole(tmp_path / "a.csv")


def test_text_with_labels_and_row_numbers(tmp_path):
    lines = [f"{i},{x[0]},{x[1]},{'red' if i % 2 else 'blue'}" for i, x in enumerate(X)]
    (tmp_path / "a.csv").write_text("\n".join([",a,b,kind", *lines]))
    with pytest.warns(UserWarning, match="numbers the rows"):
        same_as_whole(tmp_path / "a.csv", label_column="kind")


def test_row_numbers_that_stop_counting_are_a_feature(tmp_path):
    lines = [f"{min(i, 51)},{x[0]}" for i, x in enumerate(X)]
    (tmp_path / "a.csv").write_text("\n".join([",a", *lines]))
    assert next(stream(tmp_path / "a.csv").blocks).shape == (10, 2)


@pytest.mark.parametrize(("last", "columns"), [("1", 1), ("1.5", 2), ("", 1), ("red", 1)])
def test_whether_y_is_a_label_depends_on_every_row(tmp_path, last, columns):
    lines = [f"{x[0]},{i % 2}" for i, x in enumerate(X)]
    (tmp_path / "a.csv").write_text("\n".join(["a,y", *lines, f"0.5,{last}"]))
    assert next(stream(tmp_path / "a.csv").blocks).shape == (10, columns)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("x", [X, np.asfortranarray(X), X.astype(np.int16), IMAGES, IMAGES[..., 0], IMAGES / 255])
def test_npz(tmp_path, save, x):
    save(tmp_path / "a.npz", x=x, y=np.zeros(53))
    same_as_whole(tmp_path / "a.npz")


@pytest.mark.parametrize("x", [X, np.asfortranarray(X), X.astype(np.float32), IMAGES])
def test_npy(tmp_path, x):
    np.save(tmp_path / "a.npy", x)
    same_as_whole(tmp_path / "a.npy")
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    same_as_whole(tmp_path / "a.npz")


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(X, columns=list("abc"))
    table.loc[7, "b"] = None
    table.assign(label=["red", *["blue"] * 52], whole=np.arange(53), flag=True).to_parquet(tmp_path / "a.parquet")
    blocks = list(stream(tmp_path / "a.parquet").blocks)
    whole = load(tmp_path / "a.parquet", raw=True)
    assert whole.y.tolist() == [1] + [0] * 52 and whole.feature_names == ["a", "b", "c", "whole", "flag"]
    assert len(blocks) == 6 and np.array_equal(np.concatenate(blocks), whole.x, equal_nan=True)


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        (["a", "a", "label"], list(range(53)), "several columns named 'a': rename them"),
        (["a", "b", "label"], [[1, 2]] * 53, "'label' holds lists, not one label per row"),
        (["a", "b", "y"], [[1], [1, 2], *[[3]] * 51], "'y' holds lists, not one label per row"),
    ],
)
def test_a_parquet_file_that_does_not_fit_says_why(tmp_path, names, labels, message):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([X[:, 0], X[:, 1], pyarrow.array(labels)], names=names)
    pytest.importorskip("pyarrow.parquet").write_table(table, tmp_path / "a.parquet")
    with pytest.raises(DataError, match=f"a.parquet.*{message}"):
        load(tmp_path / "a.parquet")


def test_names_come_in_blocks_too():
    blocks = list(stream("moons").blocks)
    assert len(blocks) == 200 and np.array_equal(np.concatenate(blocks), load("moons").x)


@pytest.mark.parametrize(("width", "rows"), [(1, 10), (2**22, 1), (2**40, 1)])
def test_wide_rows_make_small_blocks(width, rows):
    assert arrays.block_rows(width) == rows


def test_an_empty_array_says_so(tmp_path):
    for name, save in (("a.npy", np.save), ("a.npz", np.savez)):
        save(tmp_path / name, np.empty((0, 3)))
        with pytest.raises(DataError, match="empty"):
            for block in stream(tmp_path / name).blocks:
                check_rows(block, n_clusters=None)


def test_a_header_that_promises_more_than_there_is_reserves_nothing(tmp_path):
    """8 TB by its header, 24 bytes by its length."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 1)}
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(24))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.write(tmp_path / "a.npy", "x.npy")
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DataError, match=name):
            list(stream(tmp_path / name).blocks)


def test_a_bad_cell_far_down_is_named_with_its_place(tmp_path):
    lines = ["1.0,2.0"] * 30
    (tmp_path / "a.csv").write_text("\n".join([*lines, "1.0,two", *lines]))
    with pytest.raises(DataError, match=r"a\.csv, column 2 is not numeric \(it holds 'two'\)"):
        list(stream(tmp_path / "a.csv").blocks)
    (tmp_path / "b.csv").write_text("\n".join([*lines, "1.0"]))
    with pytest.raises(DataError, match=r"Line 31 of .*b\.csv"):
        list(stream(tmp_path / "b.csv").blocks)
    with pytest.raises(DataError, match="first at row 25, column 0"):
        check_rows(np.array([[np.nan]]), n_clusters=None, first_row=25)


def test_bytes_that_are_not_text_are_refused(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,2\n\xff\xfe\x00,3\n")
    with pytest.raises(DataError, match="not UTF-8"):
        list(stream(tmp_path / "a.csv").blocks)
