import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from gedi.data import check_rows
from gedi.errors import DataError

GOOD = np.arange(12.0).reshape(6, 2) ** 2


def with_cell(value, dtype=np.float64):
    x = GOOD.astype(dtype)
    x[3, 1] = value
    return x


def test_good_rows_come_back_unchanged_in_float64():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (GOOD, GOOD.tolist(), GOOD.astype(np.int32), GOOD.astype(object), pd.DataFrame(GOOD)):
            rows = check_rows(x, n_clusters=2)
            assert rows.dtype == np.float64
            assert np.array_equal(rows, GOOD)


@pytest.mark.parametrize(
    "x, message",
    [
        (with_cell(np.nan), r"1 NaN and 0 inf values in 1 of 6 rows \(first at row 3, column 1\)"),
        (with_cell(-np.inf), "0 NaN and 1 inf"),
        (with_cell(None, object), "1 NaN"),
        (with_cell("red", object), "strings, not numbers .'red' at row 3, column 1"),
        (GOOD.astype(str), "strings"),
        (GOOD.astype(complex), "Complex data not supported"),
        (with_cell(1j, object), "Complex data not supported"),
        (GOOD.astype("datetime64[s]"), "datetime64"),
        (np.empty((0, 3)), "empty: give at least two rows"),
        (np.empty((3, 0)), r"0 feature\(s\) \(shape=\(3, 0\)\) while a minimum of 1 is required"),
        (GOOD[:1], "n_samples=1"),
        (GOOD[0], "Reshape your data"),
        (GOOD.reshape(3, 2, 2), r"\(3, 2, 2\)"),
        (np.float64(3), "2-D"),
        ([[1.0, 2.0], [3.0]], "unequal lengths"),
        (sparse.csr_matrix(GOOD), "[Ss]parse"),
    ],
)
def test_bad_rows_are_named(x, message):
    with pytest.raises(DataError, match=message) as caught:
        check_rows(x, n_clusters=2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "n_clusters, message",
    [(1, "at least 2, got 1"), (0, "at least 2"), (-3, "at least 2"), (2.5, "whole number"), (True, "whole")],
)
def test_bad_numbers_of_clusters(n_clusters, message):
    with pytest.raises(DataError, match=message):
        check_rows(GOOD, n_clusters=n_clusters)


def test_more_clusters_than_rows():
    assert len(check_rows(GOOD, n_clusters=6)) == 6
    with pytest.raises(DataError, match="n_clusters=7, n_samples=6"):
        check_rows(GOOD, n_clusters=7)


def test_a_cell_that_is_not_a_number_is_also_a_type_error():
    with pytest.raises(TypeError, match=r"argument must be a string.* number"):
        check_rows(with_cell({"a": 1}, object), n_clusters=2)


def test_constant_columns_warn_and_work():
    x = np.column_stack([np.full(6, 0.1), GOOD, np.zeros(6)])
    with pytest.warns(UserWarning, match=r"2 of 4 columns are constant.*: 0, 3\."):
        assert check_rows(x, n_clusters=2).shape == (6, 4)


def test_prediction_accepts_one_row_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_rows(GOOD[:1], n_clusters=None, allow_single_row=True).shape == (1, 2)


def test_the_input_is_not_written_to():
    x = GOOD.copy()
    check_rows(x, n_clusters=2)[:] = 0
    assert np.array_equal(x, GOOD)


def test_numbers_whose_squares_overflow_are_named():
    x = GOOD.copy()
    x[2, 1] = -1e200
    with pytest.raises(DataError, match=r"-1e\+200 \(row 2, column 1\).*power of ten"):
        check_rows(x, n_clusters=2)
    with pytest.raises(DataError, match=r"-1e\+200 \(row 2, column 'far'\)"):
        check_rows(x, n_clusters=2, names=["near", "far"])


@pytest.fixture
def in_small_blocks(monkeypatch):
    monkeypatch.setattr("gedi.data.streaming.BLOCK", 32)


def test_mapped_rows_stay_mapped_and_floats_as_they_are(tmp_path, in_small_blocks):
    for kind in ("float32", "float64", "int16"):
        np.save(tmp_path / f"{kind}.npy", GOOD.astype(kind))
        given = np.load(tmp_path / f"{kind}.npy", mmap_mode="r")
        rows = check_rows(given, n_clusters=2)
        assert np.array_equal(rows, GOOD)
        assert (np.shares_memory(rows, given), rows.dtype) == ((False, np.float64) if kind == "int16" else (True, kind))


def test_what_is_wrong_is_counted_over_all_blocks(in_small_blocks):
    x = np.vstack([GOOD] * 3)
    x[7, 1], x[9, 0], x[9, 1], x[15, 0] = np.nan, np.inf, np.nan, -np.inf
    with pytest.raises(DataError, match=r"2 NaN and 2 inf values in 3 of 18 rows \(first at row 7, column 1\)"):
        check_rows(x, n_clusters=2)
    with pytest.raises(DataError, match=r"1e\+200 \(row 5, column 0\)"):
        check_rows(np.where(np.arange(12).reshape(6, 2) == 10, 1e200, GOOD), n_clusters=2)


def test_a_column_is_constant_only_if_it_is_in_all_blocks(in_small_blocks):
    x = np.column_stack([np.zeros(20), np.arange(20.0), np.repeat([0.0, 1.0], [19, 1])])
    with pytest.warns(UserWarning, match="1 of 3 columns are constant and carry no information: 0"):
        check_rows(x, n_clusters=2)
