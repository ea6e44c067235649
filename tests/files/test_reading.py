"""Files of a stranger, read as plain data of bounded size: whatever is wrong is one sentence, and nothing hangs."""

import os

import pytest

from gedi.errors import RunError
from gedi.files import reading
from gedi.files.reading import read_json, read_json_lines, read_yaml
from gedi.files.writing import write_whole


def test_a_pipe_put_there_after_the_first_look_is_not_waited_for(tmp_path, refused, monkeypatch):
    regular = os.lstat(__file__)
    os.mkfifo(tmp_path / "x")
    monkeypatch.setattr(reading.os, "lstat", lambda path: regular)
    with refused(RunError, match="not a regular file"):
        read_json(tmp_path / "x")


def test_a_link_in_place_of_a_temporary_file_is_not_written_through(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / ".model").symlink_to(tmp_path / "mine")
    write_whole(tmp_path / "model", b"theirs")
    assert (tmp_path / "mine").read_text() == "mine" and (tmp_path / "model").read_bytes() == b"theirs"


# ---- YAML ----

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def test_yaml_is_what_it_says(tmp_path):
    (tmp_path / "x").write_text("a: [1, 2.5, yes, null, text, '1', 1e-3, .inf]\nb: {c: []}\nb: {d: 0x10}\n")
    assert read_yaml(tmp_path / "x") == {
        "a": [1, 2.5, True, None, "text", "1", "1e-3", float("inf")],
        "b": {"d": 16},  # the last of equal keys
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "contains a reference"),
        ("a: &a [*a]", "contains a reference"),
        ("[" * 100_000, "nested"),
        ("{a: " * 100_000, "nested"),
        ("- " * 100_000, "nested"),
        ("? " * 100_000, "nested"),
        ("a: " + "1:" * 100_000 + "1", "a value of"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("n_features: " + "9" * 400, "64 bits"),
        ("1: 2", "not a name"),
        ("? [a]\n: 1", "unhashable key"),
        ("a: 2020-01-01", "neither text nor a number"),
        ("<<: {a: 1}", "neither text nor a number"),
        ('a: "\\ud800"', "cannot be read"),
        ("--- 1\n--- 2", "another document"),
        ("[" + "1," * 6_000 + "]", "more than 5,000 values"),
        ("a: !!int '1'", "asks for the type"),
    ],
)
def test_yaml_is_plain_and_bounded(tmp_path, text, why, refused, monkeypatch):
    monkeypatch.setattr(reading, "MOST_VALUES", 5_000)
    (tmp_path / "x").write_text(text)
    with refused(RunError, match=why):
        read_yaml(tmp_path / "x")


# ---- JSON ----


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[" * 100_000, "RecursionError|nested|cannot be read"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, "nested|RecursionError"),
        (b"[" + b"1," * 2_000_000 + b"1]", "more than 1,000,000"),
        (b'{"a": 1' + b"0" * 400 + b"}", "64 bits"),
        (b'{"a": NaN}', "not finite"),
        (b'{"a": -Infinity}', "not finite"),
        (b'{"a": 1e999}', "not finite"),
        (b'{"a": "\\ud800"}', "cannot be read"),
        (b'{"\\ud800": 1}', "cannot be read"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
@pytest.mark.parametrize("read", [read_json, read_json_lines])
def test_json_is_plain_and_bounded(tmp_path, read, text, why, refused):
    (tmp_path / "x").write_bytes(text)
    with refused(RunError, match=why):
        read(tmp_path / "x")
