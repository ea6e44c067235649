"""The machinery of `make bench`, on sizes that take seconds."""

import sys
from pathlib import Path

import pytest
import torch

from gedi.objectives.term import kinds
from gedi.training.methods import METHODS

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def bench():
    """The modules of benchmarks/, which is a folder of scripts."""
    before = list(sys.path)
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import fits
    import literal
    import loops
    import run
    import same_weights

    yield {"fits": fits, "literal": literal, "loops": loops, "run": run, "same_weights": same_weights}
    sys.path[:] = before


def test_fits_take_turns_and_a_failing_one_is_skipped_with_its_reason(bench):
    fits, skipped = bench["fits"], []
    who = {"gedi": (ROOT, "gmm"), "nobody": (ROOT, "nobody")}
    found = fits._alternating(who, ["moons", "--rows", "60"], 1, skipped, 100.0)
    (line,) = fits._with_ratios(found)
    assert line["their time / ours"] == 1.0 and 0 <= line["NMI"] <= 1 and line["peak memory, MB"] > 10
    assert len(skipped) == 1 and "nobody" in skipped[0] and "invalid choice" in skipped[0]


def test_inner_loops_are_compared_with_each_other(bench):
    lines = bench["loops"].langevin(1, []) + bench["loops"].walks(1)
    assert {"a literal loop on autograd", "bare matrix products"} <= {line["beside"] for line in lines}
    assert all(line["their time / ours"] == line["theirs, ms"] / line["ours, ms"] for line in lines)


def test_the_literal_algorithm_trains(bench):
    training = bench["literal"].Training(torch.randn(100, 2), batch=50, sgld_steps=2, dam_steps=2)
    before = [p.detach().clone() for p in training.model.parameters()]
    training.step1()
    training.step2()
    changed = [not torch.equal(a, b) for a, b in zip(before, training.model.parameters(), strict=True)]
    assert all(changed) and all(bool(p.isfinite().all()) for p in training.model.parameters())


def test_the_picture_of_growth_and_the_names_of_parts(bench, tmp_path):
    lines = [{"rows": n, "who": "gedi", "seconds": 1.0 * n, "peak memory, MB": 100.0} for n in (10, 100)]
    bench["run"].draw(lines, tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000
    with pytest.raises(SystemExit):
        bench["run"].main(["--only", "loops,nothing"])


def test_every_method_and_every_kind_of_term_is_compared_bit_for_bit(bench):
    cases = bench["same_weights"].cases()
    assert {f"method {name}, toy" for name in METHODS} <= cases.keys()
    assert {f"term {family}.{kind}" for family in kinds() for kind in kinds()[family] if family != "symbolic"} <= set(
        cases
    )
    assert (
        cases["method jem, toy"]["training"]["step2.iterations"]
        == 0
        < cases["preset toy"]["training"]["step2.iterations"]
    )
