"""Runs killed by SIGKILL in any stage, or while saving, resume to the same weights, bit for bit."""

import re
import runpy
import sys
from pathlib import Path


def test_a_run_killed_ten_times_ends_with_the_same_weights(monkeypatch, capsys):
    script = str(Path(__file__).with_name("chaos.py"))
    monkeypatch.setattr(sys, "argv", [script, "10"])
    runpy.run_path(script, run_name="__main__")  # in this process: what dies is its forks
    said = capsys.readouterr().out
    assert said.startswith("10 kills, every resumed run ended with the weights of one never stopped")
    kinds = {"timing", "iteration", "saving", "any moment"}
    assert set(re.findall(rf"'({'|'.join(kinds)})'", said)) == kinds
    assert {"step1", "step2"} <= set(re.findall(r"'([a-z0-9 ]+)': \d+", said.splitlines()[2]))
