"""The calibration of the verdict: its data, and how grades are counted."""

import numpy as np
import pytest

from gedi.evaluation import ami
from gedi.experiments import Request, budget
from gedi.experiments.cells import CellData
from gedi.experiments.table_verdict import (
    MADE,
    NO_CLUSTERS,
    NOISE,
    VerdictCell,
    _count,
    _trust,
    cases,
    grade,
    is_right,
    judged,
)
from gedi.experiments.tabulate import Results
from gedi.training.build import prepare
from gedi.training.config import override
from gedi.training.fit import fit_prepared
from gedi.training.presets import preset
from gedi.training.start import tightest_kmeans


@pytest.mark.parametrize("name", MADE)
def test_data_depends_on_the_seed_alone_and_has_a_truth(name):
    x, y = MADE[name](120, seed=3)
    again, _ = MADE[name](120, seed=3)
    other, _ = MADE[name](120, seed=4)
    assert len(x) == len(y) == 120 and np.array_equal(x, again) and not np.array_equal(x, other)
    assert (len(np.unique(y)) == 1) == (name in NOISE)


def test_clear_clouds_are_found_by_anyone_and_overlapping_ones_by_nobody():
    scores = {}
    for name in ("clouds", "clouds that overlap"):
        x, y = MADE[name](300, seed=0)
        scores[name] = ami(y, tightest_kmeans(x, 4, 0, n_init=5)[0])
    assert scores["clouds"] > 0.95 and scores["clouds that overlap"] < 0.7


def test_categories_of_a_mixed_table_are_zeros_and_ones():
    x, _ = MADE["mixed table"](50, seed=0)
    assert x.shape == (50, 10) and set(np.unique(x[:, 3:])) == {0, 1} and (x[:, 3:].sum(1) == 2).all()


def measured(data="moons", ami=1.0, **values):
    cell = {"dataset": data}
    return {"cell": cell, "ami": ami, "findings": {"clusters": values}, "rivals": {"k-means": 0.5}}


def test_a_grade_is_that_of_the_worst_value_by_the_present_limits():
    assert grade(measured(crowding=0.1, hidden=0.0)) == "good"
    assert grade(measured(crowding=0.1, hidden=0.9)) == "poor"
    assert grade(measured()) == "not graded"
    assert grade({"diverged": "it did"}) == "poor"


def test_good_is_right_near_the_truth_or_near_the_best_rival_but_never_on_noise():
    assert is_right(measured(ami=0.7)) and is_right(measured(ami=0.46)) and not is_right(measured(ami=0.44))
    assert not is_right(measured("uniform noise", ami=0.0) | {"rivals": {"k-means": 0.0}})


def test_fits_are_counted_by_truth_and_grade_and_by_half():
    fits = [measured(ami=1.0, crowding=0.1), measured(ami=0.2, crowding=0.2), measured("one Gaussian", 0.0, crowding=1)]
    found = {VerdictCell("moons", 2, seed=k): fit for k, fit in enumerate(fits)}
    results = Results({}, found, {})
    assert _count("good")(results, ("AMI 0.9 to 1",)) == _count("good")(results, ("AMI below 0.5",)) == "1"
    assert _count("poor")(results, (NO_CLUSTERS,)) == "1" and _count("good")(results, (NO_CLUSTERS,)) == "0"
    assert "1 of 2 grades 'good' are right" in _trust(results, None) and "0 of 1 fits of noise" in _trust(results, None)
    assert "1 of 1 grades" in _trust(results, 0) and "0 of 1 grades" in _trust(results, 1)


def test_half_of_the_laptop_cases_confirm_the_other_half(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    found = cases(Request("table-verdict", budget("laptop", None, laptop_seeds=2), tmp_path, 1, print))
    assert len(found) == len(set(found)) >= 50  # and the sets of the benchmark suite, which are not here
    assert sum(cell.seed for cell in found) == len(found) / 2
    assert {cell.preset for cell in found} == {None, "smoke"} and NOISE[0] in {cell.dataset for cell in found}


def test_a_fit_is_judged_as_its_report_would():
    x, y = MADE["clouds"](120, seed=0)
    few = override(preset("smoke", n_features=3), {"step1.iterations": 100, "step2.iterations": 5})
    model = fit_prepared(prepare(x, few, 4), seed=0)
    found = judged(VerdictCell("clouds", 4), model, CellData(x, x, y))
    assert {"crowding", "hidden", "behind"} <= found["findings"]["clusters"].keys()
    assert found["rivals"].keys() == {"k-means", "Gaussian mixture"} and max(found["rivals"].values()) > 0.9
