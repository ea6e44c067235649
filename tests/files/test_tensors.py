"""Safetensors files: read into memory of their own, and never mistaken for another file under the same name."""

import os

import pytest
import torch
from safetensors.torch import save_file

from gedi.errors import RunError
from gedi.files import tensors as tensors_module
from gedi.files.tensors import open_tensors

TENSORS = {
    "b": torch.tensor(1.5),
    "a": torch.arange(6.0).reshape(2, 3),
    "empty": torch.zeros(0, 4),
    "longs": torch.tensor([7, -7]),
    "bytes": torch.tensor([1, 2, 255], dtype=torch.uint8),
}


@pytest.fixture
def path(tmp_path):
    save_file(TENSORS, tmp_path / "x.safetensors", metadata={"about": "text"})
    return tmp_path / "x.safetensors"


def test_tensors_outlive_their_file(path):
    with open_tensors(path, 2**20) as file:
        assert file.metadata == {"about": "text"}
        read = file.read()
    os.truncate(path, 0)
    path.unlink()
    assert read.keys() == TENSORS.keys()
    for name, value in TENSORS.items():
        assert torch.equal(read[name], value) and read[name].dtype == value.dtype
        read[name].add_(1)


def test_a_file_cut_short_after_its_header_was_read_is_one_sentence(path, refused):
    save_file({"long": torch.zeros(100_000)}, path)
    with refused(RunError, match="ends too early"), open_tensors(path, 2**20) as file:
        os.truncate(path, 0)
        file.read()


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_put_in_its_place_after_the_check_is_not_believed(path, kept, refused, monkeypatch):
    """The library sees the descriptor that was checked; a system without such paths notices the change."""
    whole = tensors_module.check_json_size

    def swap(text):
        whole(text)
        save_file({"other": torch.zeros(10_000)}, path.with_name("other"))
        os.replace(path.with_name("other"), path)

    monkeypatch.setattr(tensors_module, "check_json_size", swap)
    if kept:
        with open_tensors(path, 2**20) as file:
            assert torch.equal(file.read()["a"], TENSORS["a"])
        return
    monkeypatch.setattr(tensors_module.Path, "exists", lambda path: False)
    with refused(RunError, match="changed while it was read"), open_tensors(path, 2**20):
        pass
