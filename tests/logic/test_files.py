"""Constraints as text files."""

from __future__ import annotations

import pytest

from gedi.errors import LogicError
from gedi.logic import Constraint
from gedi.logic.files import read_constraint

from .test_language import count


def models_of(text: str) -> int:
    formula, variables = read_constraint(text)
    return count(formula, variables=variables)


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
    assert models_of(text) == expected


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
        ("a : 10\na == '-' * 1000000000", "calculates with text"),
        ("a : 10\na == '%1000000000d' % 1", "calculates with text"),
        ("a : 1000000000\na == 1", "more than 10,000 values"),
        ("a : 1 ²\na == 1", "not a domain"),
        ("a : 1, 2 .. 6\na == 1", "not a domain"),
        ("a : 1..3 5..7\na == 1", "not a domain"),
        ("a : red, light green\na == 'red'", "not a domain"),
        ("a : 1, 2,\na == 1", "not a domain"),
        ("a, b : 2\ntable([a, b], [(0, 1, 1)])", "3 values for 2 variables"),
    ],
)
def test_mistakes_name_their_line(text, says):
    with pytest.raises(LogicError, match=says) as caught:
        read_constraint(text)
    assert "\n" not in str(caught.value)


def test_the_suffix_says_what_a_file_is(tmp_path):
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
