"""Gaps in columns of numbers are filled from similar rows, not with one value for all."""

import numpy as np
import pandas as pd
import pytest

from gedi.data.mixed import read_frame
from gedi.data.table_rows import fill_gaps


def two_groups(n=200):
    truth = np.arange(n) % 2
    noise = np.random.default_rng(0).normal(size=(n, 2))
    return np.column_stack([4.0 * truth, -4.0 * truth]) + 0.2 * noise, truth


def test_a_gap_takes_the_value_of_rows_that_are_similar_elsewhere():
    rows, truth = two_groups()
    gaps = np.zeros(rows.shape, bool)
    gaps[:40, 1] = True
    filled = fill_gaps(np.where(gaps, 0.0, rows), gaps)
    assert np.abs(filled[:40, 1] + 4.0 * truth[:40]).max() < 1.0
    assert np.array_equal(filled[~gaps], rows[~gaps])


def test_rows_without_gaps_are_returned_as_they_are():
    rows, _ = two_groups()
    assert fill_gaps(rows, np.zeros(rows.shape, bool)) is rows


def test_donors_may_be_other_rows():
    donors = np.column_stack([np.linspace(-1, 1, 50), 3 * np.linspace(-1, 1, 50)])
    rows, gaps = np.array([[0.5, 0.0], [-0.5, 0.0]]), np.array([[False, True], [False, True]])
    assert fill_gaps(rows, gaps, donors)[:, 1] == pytest.approx([1.5, -1.5], abs=0.1)


def test_a_column_or_row_without_any_value_is_no_failure():
    rows = np.zeros((30, 2))
    assert np.isfinite(fill_gaps(rows, np.tile([True, False], (30, 1)))).all()
    assert np.isfinite(fill_gaps(rows, np.tile([[True, True]], (30, 1)))).all()


def test_a_recipe_knows_the_gaps_of_the_rows_that_it_encoded():
    numbers = np.random.default_rng(0).normal(size=60)
    gone = np.arange(60) % 10 == 3
    frame = pd.DataFrame({"a": np.where(gone, np.nan, numbers), "b": numbers, "c": ["x", "y", None] * 20})
    rows, table = read_frame(frame, "X")
    found = table.gaps(rows)
    assert np.array_equal(found[:, 0], gone) and not found[:, 1:].any()
