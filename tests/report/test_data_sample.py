"""The sample of the data in a RUN folder is exact and bounded, and is read as if a stranger had written it."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from gedi.data import Dataset
from gedi.errors import RunError
from gedi.report import data_sample
from gedi.report.data_sample import FILE, DataSample, read_sample, sample_of, write_sample

ABOUT = {"name": "rows", "total": 3, "feature_names": ["a", "b"]}


def stored(folder, tensors, about=None):
    (folder / FILE).write_bytes(save(tensors, metadata={"about": json.dumps(ABOUT if about is None else about)}))


@pytest.mark.parametrize(
    ("rows", "dtype"),
    [
        (np.array([[0, 255], [7, 3]], dtype=np.uint8), np.uint8),
        (np.array([[0.0, 16.0], [7.0, 3.0]], dtype=np.float32), np.uint8),
        (np.array([[0.5, -16.0], [7.0, 3.0]], dtype=np.float32), np.float32),
        (np.array([[1.7e9 + 0.125, 0.1], [1.7e9, 0.2]]), np.float64),
    ],
)
def test_rows_come_back_exactly_in_the_smallest_type(tmp_path, rows, dtype):
    write_sample(sample_of(Dataset("d", rows, np.array([4, 9]), ["a", "b"])), tmp_path)
    back = read_sample(tmp_path, 2)
    assert back is not None and back.rows.dtype == dtype and np.array_equal(back.rows, rows)
    assert back.labels is not None and back.labels.tolist() == [4, 9]
    assert back.feature(1) == "b" and back.is_whole


def test_a_large_set_is_cut_to_a_sample_whose_labels_stay_with_their_rows():
    x = np.arange(10_000, dtype=np.float32)[:, None]
    found = sample_of(Dataset("d", x, np.arange(10_000)))
    assert len(found.rows) == data_sample.ROWS_KEPT and found.total == 10_000 and not found.is_whole
    assert found.labels is not None and np.array_equal(found.labels, found.rows[:, 0])
    assert np.array_equal(found.rows, sample_of(Dataset("d", x)).rows)
    assert found.feature(0) == "feature 0"


def test_a_row_keeps_its_number_and_id_when_it_is_drawn_and_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(data_sample, "ROWS_KEPT", 5)
    x = np.arange(4000.0)[:, None]
    found = sample_of(Dataset("d", x, files=[f"{i}.png" for i in range(4000)]))
    write_sample(found, tmp_path)
    back = read_sample(tmp_path, 1)
    assert back is not None and len(back.rows) == 5
    assert [back.row_name(i) for i in range(5)] == [f"row {int(x):,} · {int(x)}.png" for x in found.rows[:, 0]]
    old = DataSample("d", x[:2], 2)
    assert old.row_name(1) == "row 1 of the sample"


def test_labels_keep_their_names(tmp_path, monkeypatch):
    data = Dataset("d", np.eye(2), np.array([1, 0]), classes=["cat", "dog"])
    write_sample(sample_of(data), tmp_path)
    back = read_sample(tmp_path, 2)
    assert back is not None and back.labels is not None
    assert [back.label(value) for value in back.labels] == ["dog", "cat"]
    monkeypatch.setattr(data_sample, "MOST_CLASSES", 1)
    assert sample_of(data).label(1) == "1"


def test_wide_rows_are_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(data_sample, "BYTES", 8 * 3 * 10)
    assert sample_of(Dataset("d", np.random.default_rng(0).normal(size=(50, 3)))).rows.nbytes <= 8 * 3 * 10


def test_a_folder_without_a_sample_has_none(tmp_path):
    assert read_sample(tmp_path, 2) is None


@pytest.mark.parametrize(
    ("tensors", "about"),
    [
        ({"rows": torch.zeros(3, 5)}, None),
        ({"rows": torch.zeros(0, 2)}, None),
        ({"rows": torch.zeros(3, 2, dtype=torch.int64)}, None),
        ({"rows": torch.full((3, 2), torch.nan)}, None),
        ({"rows": torch.zeros(3, 2), "labels": torch.zeros(2, dtype=torch.int64)}, None),
        ({"rows": torch.zeros(3, 2), "places": torch.zeros(2, dtype=torch.int64)}, None),
        ({"rows": torch.zeros(3, 2)}, ABOUT | {"ids": ["a"]}),
        ({"rows": torch.zeros(3, 2), "more": torch.zeros(1)}, None),
        ({"labels": torch.zeros(3, dtype=torch.int64)}, None),
        ({"rows": torch.zeros(3, 2)}, {"name": "x"}),
        ({"rows": torch.zeros(3, 2)}, ABOUT | {"total": 1}),
        ({"rows": torch.zeros(3, 2)}, ABOUT | {"total": "3"}),
        ({"rows": torch.zeros(3, 2)}, ABOUT | {"feature_names": ["a"]}),
        ({"rows": torch.zeros(3, 2)}, ABOUT | {"classes": ["labels of nothing"]}),
        ({"rows": torch.zeros(3, 2), "labels": torch.tensor([0, 1, 2])}, ABOUT | {"classes": ["a", "b"]}),
        ({"rows": torch.zeros(3, 2), "labels": torch.tensor([0, 1, -1])}, ABOUT | {"classes": ["a", "b"]}),
        ({"rows": torch.zeros(3, 2), "labels": torch.tensor([0, 1, 1])}, ABOUT | {"classes": "ab"}),
    ],
)
def test_an_invalid_sample_is_refused_by_name(tmp_path, tensors, about):
    stored(tmp_path, tensors, about)
    with pytest.raises(RunError, match=FILE):
        read_sample(tmp_path, 2)


def test_a_link_is_not_followed(tmp_path):
    stored(tmp_path, {"rows": torch.zeros(3, 2)})
    (tmp_path / FILE).rename(tmp_path / "elsewhere")
    (tmp_path / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="link"):
        read_sample(tmp_path, 2)
