"""Safetensors files of a stranger: checked before they are believed, and read into memory of their own."""

import json
import os
import struct

import pytest
import torch
from safetensors.torch import save_file

from gedi.errors import RunError
from gedi.files import reading
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
    with refused(RunError, match="changed while it was being read"), open_tensors(path, 2**20):
        pass


# ---- headers ----


def with_header(header, body=b"\x00" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def entry(**changes):
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | changes


HEADERS = {
    "seven bytes": b"\x00" * 7,
    "a length of 10 GB": struct.pack("<Q", 10 * 2**30) + b"{}",
    "the longest length": b"\xff" * 8 + b"{}",
    "many values": with_header({"__metadata__": {"x": "," * 5_001}}, b""),
    "deep nesting": with_header(b"[" * 4_000, b""),
    "not text": with_header(b"\xff\xfe", b""),
    "metadata that are numbers": with_header({"__metadata__": {"counters": 1}}, b""),
    "an unknown type": with_header({"x": entry(dtype="F4096")}),
    "a type we do not use": with_header({"x": entry(dtype="F8_E4M3", shape=[8])}),
    "a shape that does not fit": with_header({"x": entry(shape=[2**40, 2**20])}),
    "a shape that overflows": with_header({"x": entry(shape=[2**62, 4], data_offsets=[0, 0])}, b""),
    "a negative shape": with_header({"x": entry(shape=[-1, -2])}),
    "offsets beyond the end": with_header({"x": entry(data_offsets=[2**40, 2**40 + 8])}),
    "offsets reversed": with_header({"x": entry(data_offsets=[8, 0])}),
    "tensors that overlap": with_header({"x": entry(), "y": entry()}),
    "a gap": with_header({"x": entry(data_offsets=[8, 16])}, b"\x00" * 16),
    "bytes left over": with_header({"x": entry()}, b"\x00" * 9),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_is_checked_before_it_is_believed(tmp_path, refused, name, monkeypatch):
    monkeypatch.setattr(reading, "MOST_VALUES", 5_000)
    (tmp_path / "x").write_bytes(HEADERS[name])
    with refused(RunError, match="cannot be read"), open_tensors(tmp_path / "x", 2**20):
        pass


def test_a_message_shows_no_control_characters(tmp_path, refused):
    (tmp_path / "x").write_bytes(with_header({"\x1b[2J\nevil\u202e": entry()}))
    with refused(RunError, match="unknown tensor"), open_tensors(tmp_path / "x", 2**20) as file:
        tensors_module.check_layout(file.layout, {})
