"""The reader of settings takes what a field's type says, and refuses everything else in one sentence."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pytest

import gedi
from gedi.errors import ConfigError
from gedi.settings import Count, Positive, Rule, Share, at_most, check_ranges, make, read


@dataclass
class Group:
    """A setting of every type in use."""

    whole: int = 1
    real: float = 1.0
    switch: bool = False
    text: str = ""
    maybe: Positive | None = None
    choice: Literal["left", "right", "both"] = "left"
    several: tuple[int, ...] = (1,)
    chosen: tuple[Literal["left", "right"], ...] = ()
    pair: tuple[float, float] = (0.0, 1.0)
    few: Annotated[Count, at_most(10)] = 1
    share: Share = 0.5
    even: Annotated[tuple[int, ...], Rule("hold even numbers", lambda v: all(n % 2 == 0 for n in v))] = ()


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("whole", np.int64(3), 3),
        ("real", 3, 3.0),
        ("real", np.float32(0.5), 0.5),
        ("real", "1e-3", 1e-3),
        ("switch", True, True),
        ("text", "no", "no"),
        ("maybe", None, None),
        ("maybe", 2, 2.0),
        ("choice", "both", "both"),
        ("several", [3, 4], (3, 4)),
        ("several", (), ()),
        ("pair", [0, 1], (0.0, 1.0)),
    ],
)
def test_what_fits_a_type_is_taken_as_that_type(name, given, expected):
    found = getattr(make(Group, {name: given}, "g."), name)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("whole", "5", "g.whole must be a whole number, got '5'."),
        ("whole", 2.0, "g.whole must be a whole number, got 2.0."),
        ("whole", True, "g.whole must be a whole number, got True."),
        ("whole", None, "g.whole must be a whole number, got None."),
        ("real", True, "g.real must be a number, got True."),
        ("real", "warm", "g.real must be a number, got 'warm'."),
        ("real", "inf", "g.real must be a number, got 'inf'."),
        ("real", float("nan"), "g.real must be a number, got nan."),
        ("real", float("inf"), "g.real must be a number, got inf."),
        ("real", "1e999", "g.real must be a number, got '1e999'."),
        ("whole", -(2**63), "g.whole must be a whole number, got -9223372036854775808."),
        ("real", 10**400, "g.real must be a number, got 1000"),
        ("switch", 1, "g.switch must be true or false, got 1."),
        ("switch", "yes", "g.switch must be true or false, got 'yes'."),
        ("text", 5, "g.text must be text, got 5."),
        ("maybe", "x", "g.maybe must be a number or null, got 'x'."),
        ("choice", "up", "g.choice must be left, right or both, got 'up'."),
        ("choice", ["left"], "g.choice must be left, right or both, got ['left']."),
        ("several", 5, "g.several must be a list of at most 64 whole numbers, got 5."),
        ("several", "[5]", "g.several must be a list of at most 64 whole numbers, got '[5]'."),
        ("several", [1, 2.5], "g.several must be a list of at most 64 whole numbers, got [1, 2.5]."),
        ("several", [1] * 65, "g.several must be a list of at most 64 whole numbers, got [1, 1, 1, 1, 1, 1, ...]."),
        ("chosen", ["up"], "g.chosen must be a list of at most 64 of these: left, right, got ['up']."),
        ("pair", [0.1], "g.pair must be a list of 2 numbers, got [0.1]."),
        ("maybe", 0, "g.maybe must be positive, got 0.0."),
        ("few", 0, "g.few must be positive, got 0."),
        ("few", 11, "g.few must be at most 10, got 11."),
        ("share", 1.5, "g.share must lie between 0 and 1, got 1.5."),
        ("even", [2, 3], "g.even must hold even numbers, got (2, 3)."),
        ("chioce", 1, "There is no setting g.chioce; the nearest is g.choice."),
        ("zzz", 1, "There is no setting g.zzz."),
    ],
)
def test_what_does_not_fit_is_one_sentence_with_name_expectation_and_value(name, given, message):
    with pytest.raises(ConfigError) as caught:
        make(Group, {name: given}, "g.")
    assert str(caught.value).startswith(message) and str(caught.value).endswith(".")


def test_a_long_or_hostile_value_is_cut_and_printable():
    with pytest.raises(ConfigError) as caught:
        read(int, "\x1b[2J\n" + "x" * 10_000, "g.whole")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 120


@pytest.mark.parametrize("value", [float("nan"), -0.1])
def test_ranges_also_hold_for_values_set_in_python(value):
    group = Group()
    group.share = value
    with pytest.raises(ConfigError, match=r"^g\.share must lie between 0 and 1"):
        check_ranges(group, "g.")


READ = """
import gc, time
import gedi.training.fit  # and torch, which is not what is measured
gc.disable()  # a collection of all that torch made takes 100 ms, whenever it comes
from gedi.training.config import TrainingConfig, from_dict, to_dict
began = time.process_time()
config = TrainingConfig()
assert from_dict(to_dict(config)) == config
print(time.process_time() - began)
"""


def test_reading_a_whole_config_is_fast_even_the_first_time():
    """It takes about 10 ms; a general parser took seconds."""
    environment = os.environ | {"PYTHONPATH": str(Path(gedi.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True, env=environment)
    assert float(done.stdout) < 0.1
