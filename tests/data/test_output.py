"""Tables written a block at a time, whole or not at all."""

import csv
import os
import stat

import numpy as np
import pytest

from gedi.data import output
from gedi.data.output import new_file, new_table
from gedi.errors import DataError

rng = np.random.default_rng(0)
CLUSTERS, VALUES = rng.integers(0, 9, 50), rng.normal(size=50)


def write_in_blocks(path, size=7):
    with new_table(path) as write:
        for start in range(0, 50, size):
            write({"cluster": CLUSTERS[start : start + size], "value": VALUES[start : start + size]})


def test_csv_keeps_every_digit(tmp_path):
    write_in_blocks(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["cluster"]) for row in rows] == CLUSTERS.tolist()
    assert [float(row["value"]) for row in rows] == VALUES.tolist()


def test_npz_is_what_numpy_reads(tmp_path):
    write_in_blocks(tmp_path / "t.npz")
    with np.load(tmp_path / "t.npz", allow_pickle=False) as archive:
        assert archive.files == ["cluster", "value"]
        assert archive["cluster"].dtype == CLUSTERS.dtype and np.array_equal(archive["cluster"], CLUSTERS)
        assert np.array_equal(archive["value"], VALUES)


def test_npz_columns_may_have_more_axes(tmp_path):
    images = rng.normal(size=(10, 3, 2)).transpose(0, 2, 1)  # not contiguous
    with new_table(tmp_path / "t.npz") as write:
        write({"x": images[:4]})
        write({"x": images[4:]})
    assert np.array_equal(np.load(tmp_path / "t.npz")["x"], images)


def test_parquet_holds_every_block(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_in_blocks(tmp_path / "t.parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["cluster"].to_pylist() == CLUSTERS.tolist() and table["value"].to_pylist() == VALUES.tolist()


@pytest.mark.parametrize("name", ["t.csv", "t.npz", "t.parquet"])
def test_an_error_half_way_leaves_nothing(tmp_path, name):
    with pytest.raises(ZeroDivisionError), new_table(tmp_path / name) as write:
        write({"cluster": CLUSTERS})
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_the_file_appears_only_when_it_is_complete(tmp_path):
    with new_table(tmp_path / "t.csv") as write:
        write({"cluster": CLUSTERS})
        assert not (tmp_path / "t.csv").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_a_file_created_in_the_meantime_is_not_overwritten(tmp_path):
    with pytest.raises(DataError, match="already exists"), new_table(tmp_path / "t.csv") as write:
        write({"cluster": CLUSTERS})
        (tmp_path / "t.csv").write_text("mine")
    assert (tmp_path / "t.csv").read_text() == "mine"


def test_a_full_disk_is_one_sentence(tmp_path):
    expected = r"t\.csv could not be written: No space left on device"
    with pytest.raises(DataError, match=expected), new_table(tmp_path / "t.csv"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_others_may_read_it_if_the_umask_allows(tmp_path):
    before = os.umask(0o022)
    try:
        write_in_blocks(tmp_path / "t.csv")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "t.csv").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t.txt", r"must end in \.csv"),
        ("t", "must end in"),
        ("nowhere/t.csv", "does not exist"),
        ("link.csv", "exists"),
    ],
)
def test_a_bad_path_is_refused_before_anything_is_written(tmp_path, name, expected):
    (tmp_path / "link.csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=expected), new_file(tmp_path / name, output.OUTPUT_SUFFIXES):
        pytest.fail("it was not refused")


def test_without_pyarrow_parquet_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"gedi-ssl\[parquet\]"), new_table(tmp_path / "t.parquet"):
        pytest.fail("it was not refused")
