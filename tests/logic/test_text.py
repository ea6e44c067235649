"""Constraints as text: what it means, which mistakes are reported, and that any constraint can be written."""

from __future__ import annotations

import pytest

from gedi.errors import LogicError
from gedi.logic import Categorical, Constraint, all_different, conjunction, disjunction, exactly_one, holds, implies
from gedi.logic.constraint import constraint_text
from gedi.logic.enumeration import models
from gedi.logic.text import read_constraint

a, b, c = (Categorical(name, 4) for name in "abc")
x, y = (Categorical(name, ["red", "green"]) for name in ("x", "y"))
dice = [Categorical(f"die {i}", range(1, 7)) for i in range(2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a, b, c : 10\n\na + b == c  # the sum", 55),
        ("a, b, c : 10\na < b < c", 120),
        ("a, b : 1..6\na + b >= 10 and not a == b", 4),
        ("a, b : 1..6\n(a + b >= 10) & ~(a == b)", 4),
        ("a, b : 1 .. 6\na + b >= 10 and not a == b", 4),
        ("a, b : -1, 0, 1\nabs(a - b) == 2", 2),
        ("c, d : red, green,blue\nc != d\nc == 'red' or d == 'red'", 4),
        ("c, d : red green blue\nc != d\nc == 'red' or d == 'red'", 4),
        ("a, b : 3\nall_different(a, b)\nimplies(a == 0, b == 1)", 5),
        ("a, b : -1 0 1\nabs(a - b) == 2 ", 2),
        ("a, b : 10\na in (1, 3) and b in [2]", 2),
        ("a, b : 10\n(a == 1) == (b == 2)", 82),
        ("a, b : -1 0 1\ntable([a, b], [(-1, 0), (0, 1), (0, 1)])", 2),
        ("a, b : 4\nexactly_one(a == 0, b == 0) | (a % 2 == 1) ^ (b // 2 == 1)", 10),
    ],
)
def test_text_means_what_it_says(text, expected):
    assert len(models(*read_constraint(text))) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a : 10", "no formula"),
        ("a + b == 3", "Line 1 .* 'a' is not declared"),
        ("a : ten\na == 1", "not a domain"),
        ("a : 10\na : 5\na == 1", "Line 2 .* cannot be declared"),
        ("a : 10\na + 1", "Line 2 .* compare something"),
        ("a : 10\na ==", "not a formula"),
        ("a : 10\na == 11", "not in its domain"),
        ("a : 10\nopen('x') == a", "not part of the constraint language"),
        ("a : 10\na.data == 1", "not part of the constraint language"),
        ("a : 10\n[a == 1 for a in (1, 2)]", "not part of the constraint language"),
        ("a : 10\na ** 2 == 4", "not part of the constraint language"),
        ("a : 10\na & 1 == 1", "not a formula"),
        ("a : 10\na == ((a == 1) == (a == 2))", "Line 2 .* is not a variable"),
        ("a : 10\nabs(a, a) == 1", "not a formula"),
        ("a : 10\na + 1 // 0 == 1", "not a formula"),
        ("a : 10\na == '-' * 1000000000", "does arithmetic on text"),
        ("a : 10\na == '%1000000000d' % 1", "does arithmetic on text"),
        ("a : 1000000000\na == 1", "more than 10,000 values"),
        ("a : 1 ²\na == 1", "not a domain"),
        ("a : 1, 2 .. 6\na == 1", "not a domain"),
        ("a : 1..3 5..7\na == 1", "not a domain"),
        ("a : red, light green\na == 'red'", "not a domain"),
        ("a : 1, 2,\na == 1", "not a domain"),
        ("a, b : 2\ntable([a, b], [(0, 1, 1)])", "3 values for 2 variables"),
    ],
)
def test_mistakes_are_reported_with_their_line(text, says):
    with pytest.raises(LogicError, match=says) as caught:
        read_constraint(text)
    assert "\n" not in str(caught.value)


def test_the_suffix_gives_the_format(tmp_path):
    (tmp_path / "sum.txt").write_text("a, b, c : 10\na + b == c\n")
    (tmp_path / "some.cnf").write_text("p cnf 2 1\n1 2 0\n")
    assert Constraint.from_file(tmp_path / "sum.txt").inputs == ["a", "b", "c"]
    assert Constraint.from_file(str(tmp_path / "some.cnf")).inputs == ["1", "2"]
    with pytest.raises(LogicError, match="cannot be read"):
        Constraint.from_file(tmp_path / "none.txt")
    (tmp_path / "extra.txt").write_text("a, b : 10\na == 1\n")
    with pytest.raises(LogicError, match="'b' is declared but"):
        Constraint.from_file(tmp_path / "extra.txt")


def test_a_program_file(tmp_path):
    pytest.importorskip("problog", reason="problog is not installed")
    (tmp_path / "p.pl").write_text("nn(net, [X], Y, [0,1,2]) :: d(X, Y).\nquery(q).\nq :- d(a, X), d(b, Y), X < Y.\n")
    assert sorted(Constraint.from_file(tmp_path / "p.pl").inputs) == ["net(a)", "net(b)"]


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


def test_text_and_files_are_accepted(tmp_path):
    text = "a, b : 10  # digits\na < b\n"
    (tmp_path / "rule.txt").write_text(text)
    assert constraint_text(text) == constraint_text(tmp_path / "rule.txt") == text
    assert constraint_text(str(tmp_path / "rule.txt")) == text
    (tmp_path / "some.cnf").write_text("p cnf 2 1\n1 -2 0\n")
    assert constraint_text(tmp_path / "some.cnf") == "v_1 : 2\nv_2 : 2\n((v_1 == 1) or (v_2 == 0))"


def test_variables_of_a_program_get_plain_names(tmp_path):
    pytest.importorskip("problog", reason="problog is not installed")
    net = "nn(net, [X], Y, [0,1,2]) :: d(X, Y).\n"
    text = constraint_text(Constraint.from_problog(net + "q :- d(a, X), d(b, Y), X < Y.", "q"))
    formula, variables = read_constraint(text)
    assert [v.name for v in variables] == ["net_a", "net_b"] and len(models(formula, variables)) == 3
    with pytest.raises(LogicError, match="probabilities of their own"):
        constraint_text(Constraint.from_problog(net + "0.5 :: f.\nq :- f, d(a, 1).", "q"))


def test_a_rule_too_deep_to_be_read_back_is_refused_briefly():
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
        ("a : 2\na == 1\n" + "#" * 100_000, "more than 100,000"),
    ],
)
def test_a_constraint_that_cannot_be_written_is_refused(source, says):
    with pytest.raises(LogicError, match=says):
        constraint_text(source)
