"""plan.yaml is read back as it was written; older plans are read too, and invalid ones are refused by name."""

from dataclasses import replace

import pytest
import yaml

from gedi import runs
from gedi.errors import RunError
from gedi.runs import Plan
from gedi.training.config import with_iterations
from gedi.training.hardware import Hardware


@pytest.fixture
def plan(begun):
    return Plan.read(begun)


def test_a_plan_is_read_back_as_it_was_written(plan, tmp_path):
    full = replace(plan, label_column="kind", drop=["id"], raw=True, groups_sha256="0", tensorboard=True)
    full = replace(full, hardware=Hardware("auto", 1, 2, "bf16-mixed", 30.0))
    full = replace(full, minutes=2.5, iterations=(7, 9), preset="toy", is_changed=False)
    full.write(tmp_path)
    assert Plan.read(tmp_path) == full


def test_a_budget_of_time_decides_the_iterations_and_nothing_else(plan):
    assert plan.settings == plan.training
    decided = replace(plan, iterations=(7, 9)).settings
    assert (decided.step1.iterations, decided.step2.iterations) == (7, 9)
    assert with_iterations(decided, (plan.training.step1.iterations, plan.training.step2.iterations)) == plan.training


def test_the_file_has_these_entries_in_this_order(plan, tmp_path):
    plan.write(tmp_path)
    content = yaml.safe_load((tmp_path / runs.PLAN).read_text())
    names = ["data", "label_column", "drop", "raw", "skip_broken", "rows_sha256", "groups_sha256", "n_clusters"]
    names += ["number", "outliers", "method", "seed", "hardware", "tensorboard", "minutes", "iterations"]
    names += ["preset", "is_changed", "training"]
    assert list(content) == names
    assert content["hardware"] == {"device": "cpu", "devices": 1, "nodes": 1, "precision": "auto", "timeout": 600.0}


def changed(plan, folder, **changes):
    plan.write(folder)
    content = yaml.safe_load((folder / runs.PLAN).read_text()) | changes
    content = {name: value for name, value in content.items() if value != "missing"}
    (folder / runs.PLAN).write_text(yaml.safe_dump(content))
    return folder


def test_a_plan_from_before_some_entries_existed_is_read(plan, tmp_path):
    names = ("label_column", "drop", "raw", "skip_broken", "groups_sha256", "hardware", "tensorboard", "minutes")
    newer = dict.fromkeys((*names, "number", "outliers", "iterations", "preset", "is_changed"), "missing")
    assert Plan.read(changed(plan, tmp_path, unknown=3, **newer)) == plan


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"n_clusters": 0}, "n_clusters must be positive, got 0"),
        ({"number": [7]}, "number must be a group of settings"),
        ({"seed": -1}, "seed must not be negative"),
        ({"seed": True}, "seed must be a whole number"),
        ({"method": 3}, "method must be text, got 3"),
        ({"label_column": ["a"]}, "label_column must be text or null"),
        ({"drop": "id"}, "drop must be a list, got 'id'"),
        ({"drop": ["id", 3]}, "drop must contain only names"),
        ({"tensorboard": "yes"}, "tensorboard must be true or false, got 'yes'"),
        ({"hardware": [1]}, "hardware must be"),
        ({"hardware": {"device": "tpu"}}, "hardware.device must be auto, cpu, cuda or mps, got 'tpu'"),
        ({"hardware": {"devicez": "cpu"}}, "no setting hardware.devicez; the nearest is hardware.device"),
        ({"hardware": {"devices": 10**6}}, "hardware must not ask for more devices than there are"),
        ({"hardware": {"nodes": 0}}, "hardware.nodes must be positive"),
        ({"hardware": {"timeout": 0}}, "hardware.timeout must be positive"),
        ({"minutes": 0}, "minutes must be positive"),
        ({"iterations": [1]}, "iterations must be a list of 2 whole numbers"),
        ({"iterations": [1, 10**12]}, "iterations must lie between 0 and"),
        ({"training": [1]}, "'training' is not a mapping"),
        ({"training": "missing"}, "is not the plan of a run"),
        ({"seed": "missing"}, "is not the plan of a run"),
        ({"data": "rows.csv"}, "data must be a known data set, or the absolute path"),
        ({"data": 5}, "data must be text, got 5"),
    ],
)
def test_an_invalid_plan_is_refused_by_name(plan, tmp_path, refused, changes, expected):
    with refused(RunError, match=expected):
        Plan.read(changed(plan, tmp_path, **changes))
