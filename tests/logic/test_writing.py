"""Any constraint as text that is read back as the same constraint."""

from __future__ import annotations

import pytest

from gedi.errors import LogicError
from gedi.logic import Categorical, Constraint, all_different, conjunction, disjunction, exactly_one, holds, implies
from gedi.logic.enumeration import models
from gedi.logic.files import read_constraint
from gedi.logic.writing import constraint_text

a, b, c = (Categorical(name, 4) for name in "abc")
x, y = (Categorical(name, ["red", "green"]) for name in ("x", "y"))
dice = [Categorical(f"die {i}", range(1, 7)) for i in range(2)]


@pytest.mark.parametrize(
    "formula",
    [
        a + b == c,
        (a - 2 * b) // 3 == c % 2,
        abs(a - b) > c,
        (a < b) & ~(b == c) | (c >= 2),
        implies(a == 1, exactly_one(b == 2, c == 3)),
        all_different(a, b, c),
        (x == "red") ^ (y != x),
        holds(lambda p, q: p * q == 6, *dice),
        conjunction([a == b, disjunction([])]) | (a != b),
        conjunction([]) & (a == b),
        dice[0] + dice[1] == 7,
    ],
)
def test_what_is_written_is_read_back(formula):
    constraint = Constraint(formula)
    again, variables = read_constraint(constraint_text(constraint))
    assert [v.values for v in variables] == [v.values for v in constraint.variables]
    assert models(again, variables).tolist() == models(formula, constraint.variables).tolist()


def test_text_files_and_constraints_are_taken(tmp_path):
    text = "a, b : 10  # digits\na < b\n"
    (tmp_path / "rule.txt").write_text(text)
    assert constraint_text(text) == constraint_text(tmp_path / "rule.txt") == text
    assert constraint_text(str(tmp_path / "rule.txt")) == text
    (tmp_path / "some.cnf").write_text("p cnf 2 1\n1 -2 0\n")
    assert constraint_text(tmp_path / "some.cnf") == "v_1 : 2\nv_2 : 2\n((v_1 == 1) or (v_2 == 0))"


def test_a_programs_variables_get_plain_names(tmp_path):
    pytest.importorskip("problog", reason="problog is not installed")
    net = "nn(net, [X], Y, [0,1,2]) :: d(X, Y).\n"
    text = constraint_text(Constraint.from_problog(net + "q :- d(a, X), d(b, Y), X < Y.", "q"))
    formula, variables = read_constraint(text)
    assert [v.name for v in variables] == ["net_a", "net_b"] and len(models(formula, variables)) == 3
    with pytest.raises(LogicError, match="probabilities of their own"):
        constraint_text(Constraint.from_problog(net + "0.5 :: f.\nq :- f, d(a, 1).", "q"))


def test_what_is_too_deep_to_be_read_back_is_said_shortly():
    rule = a < b
    for i in range(500):
        rule = rule ^ (a == i % 4)
    with pytest.raises(LogicError, match="is not a formula: ") as caught:
        constraint_text(Constraint(rule))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("nowhere.txt", "cannot be read"),
        ("a : 2\nb == 1", "'b' is not declared"),
        (Constraint(Categorical("a", ["1", "2"]) == "1"), "not in its domain|cannot be written"),
        (Constraint(Categorical("a", ["light red", "blue"]) == "blue"), "cannot be written"),
        ("a : 2\na == 1\n" + "#" * 100_000, "the most is 100,000"),
    ],
)
def test_what_cannot_be_written_is_refused(source, says):
    with pytest.raises(LogicError, match=says):
        constraint_text(source)
