"""Runs killed by SIGKILL in any stage, or while saving, resume to the same weights, bit for bit."""

import re
import subprocess
import sys
from pathlib import Path


def test_a_run_killed_ten_times_ends_with_the_same_weights():
    script = Path(__file__).with_name("chaos.py")
    done = subprocess.run([sys.executable, str(script), "10"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("10 kills, every resumed run ended with the weights of one never stopped")
    kinds = {"timing", "iteration", "saving", "any moment"}
    assert set(re.findall(rf"'({'|'.join(kinds)})'", done.stdout)) == kinds
    assert {"step1", "step2"} <= set(re.findall(r"'([a-z0-9 ]+)': \d+", done.stdout.splitlines()[2]))
