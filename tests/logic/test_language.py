"""What expressions mean, how they are shown, and what is said about mistakes."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

from gedi.errors import LogicError
from gedi.logic import (
    Categorical,
    Constraint,
    all_different,
    conjunction,
    disjunction,
    exactly_one,
    holds,
    implies,
    table,
)

from .conftest import METHODS, needs_sdd

a, b, c = (Categorical(n, 10) for n in "abc")
colour = Categorical("colour", ["red", "green", "blue"])


def count(rule, method="auto", variables=None) -> int:
    """The number of models, from the probability under uniform distributions."""
    constraint = Constraint(rule, method=method, variables=variables)
    uniform = {v.name: torch.full((1, v.size), -math.log(v.size), dtype=torch.float64) for v in constraint.variables}
    return round(float(constraint.log_prob(uniform).exp()) * math.prod(v.size for v in constraint.variables))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (a + b == c, 55),
        (10 - a == b, 9),
        (-a + 3 > b, 6),
        (a >= b, 55),
        (a * b > 72, 1),
        (a * b >= 72, 3),
        (3 * a == b, 4),
        (a * b == 12, 4),
        (abs(a - b) <= 1, 28),
        (a % 2 == 0, 5),
        (17 // (a + 1) == 3, 1),
        (a // 3 == b, 10),
        ((a < b) & (b < c), 120),
        (implies(a == 1, b == 1), 91),
        ((a == 1) ^ (b == 1), 18),
        ((a == 1) != (b == 1), 18),
        ((a == 1) == (b == 1), 82),
        (exactly_one(a == 1, b == 1, c == 1), 243),
        (all_different(a, b, c), 720),
        (all_different(a + 1, b, c), 738),
        ((a == 1) & all_different(), 1),
        ((a + b) // 10**30 == 0, 100),
        ((a - 1) % 10**30 == 10**30 - 1, 1),
        (10**30 // (a + 1) == 10**29, 1),
        (a + b < 10**30, 100),
        (a + b == 10**30 - 10**30, 1),
        (table([a, b], [(0, 1), (1, 0), (0, 1)]), 2),
        (table([a], [0, 1]) & table([colour], ["red", ("blue",)]), 4),
        (Categorical("n", np.int64(3)) < 2, 2),
        (holds(lambda x, y: x in (1, 3) and x < y, a, b), 14),
        ((colour == "red") | (colour != "blue"), 2),
        ((colour == "red") & (a > 7), 2),
        (conjunction([a == 1, b == 2]), 1),
        (disjunction([a == 1, a == 2]), 2),
        ((a == True) | (a >= 9), 2),  # noqa: E712 - a bool is a number
        (~(a == 3), 9),
        (a - a + b == 4, 10),
        (a < 100, 10),
    ],
)
def test_expressions_have_the_right_models(rule, expected, method):
    assert count(rule, method) == expected


def test_a_function_is_a_constraint():
    assert count(lambda x, y: x == y, variables=[a, b]) == 10


def test_variables_are_in_order_of_appearance_or_as_given():
    assert Constraint(a + b == c).inputs == ["a", "b", "c"]
    assert Constraint(a + b == c, variables=[c, b, a]).inputs == ["c", "b", "a"]


@pytest.mark.parametrize("rule", [a > b, a >= b, a + 1 > b, ~(a >= b), a < b, 2 * a >= b - 1])
def test_a_comparison_keeps_the_order_of_its_variables(rule):
    assert Constraint(rule).inputs == ["a", "b"]


def test_a_chain_of_any_length_is_one_node():
    rule, other = a < b, a < b
    for i in range(300):
        rule, other = rule & (c != i % 10), (c == i % 10) | other
    assert (rule.op, len(rule.children)) == ("and", 301) and (other.op, len(other.children)) == ("or", 301)
    assert len((rule & rule).children) == 301
    with pytest.raises(LogicError, match="No values"):
        Constraint(rule)


@needs_sdd
def test_strings_shared_by_two_variables_compare():
    other = Categorical("other", ["blue", "red", "white"])
    assert count(colour == other, "sdd") == count(colour == other, "enumeration") == 2


def test_large_numbers_do_not_overflow():
    big = Categorical("big", [0, 2**40, 2**62])
    assert count(big * big * big == 0) == 1
    assert count(10**30 * a == 10**30 * b, "enumeration") == 10


@needs_sdd
def test_sudoku_row():
    cells = [Categorical(f"cell{i}", range(1, 10)) for i in range(9)]
    row = Constraint(all_different(*cells))
    assert row.method == "sdd"
    uniform = {v.name: torch.full((1, 9), 1 / 9, dtype=torch.float64).log() for v in cells}
    expected = math.lgamma(10) - 9 * math.log(9)
    assert float(row.log_prob(uniform)) == pytest.approx(expected, abs=1e-9)
    scores = torch.randn(5, 9, 9, generator=torch.Generator().manual_seed(0)).log_softmax(2)
    best = row.most_likely({v.name: scores[:, i] for i, v in enumerate(cells)})
    for k in range(5):
        rows, columns = linear_sum_assignment(-scores[k].numpy())
        assert [int(best[v.name][k]) for v in cells] == columns[rows].tolist()


@needs_sdd
def test_even_parity_of_twenty_bits():
    bits = [Categorical(f"bit{i}", 2) for i in range(20)]
    even = Constraint(sum(bits[1:], start=bits[0]) % 2 == 0)
    p = torch.rand(7, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    log_probs = {v.name: torch.stack([1 - p[:, i], p[:, i]], 1).log() for i, v in enumerate(bits)}
    torch.testing.assert_close(even.log_prob(log_probs).exp(), (1 + (1 - 2 * p).prod(1)) / 2)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Categorical("", 3), "name"),
        (lambda: Categorical("x", 1), "at least 2"),
        (lambda: Categorical("x", [1, "a"]), "mixed types"),
        (lambda: Categorical("x", 3.0), "domain of 'x' is 3.0"),
        (lambda: Categorical("x", [1, 1]), "twice"),
        (lambda: a == 12, "not in its domain"),
        (lambda: colour == "pink", "not in its domain"),
        (lambda: colour == 1, "not in its domain"),
        (lambda: colour == a, "one has numbers"),
        (lambda: colour + 1, "not a number"),
        (lambda: colour < "green", "not a number"),
        (lambda: a == 1.5, "whole number"),
        (lambda: a / 2, "use //"),
        (lambda: a < b < c, "no truth value"),
        (lambda: (a == 1) and (b == 1), "no truth value"),
        (lambda: (a == 1) & b, "not a formula"),
        (lambda: exactly_one(a), "not a formula"),
        (lambda: (a == 1) == 1, "not a formula"),
        (lambda: a == (b == 1), "not a variable"),
        (lambda: all_different(a, a), "twice"),
        (lambda: table([a, a], [(1, 1)]), "different variables"),
        (lambda: table([a, b], [(1, 2, 3)]), "3 values for 2 variables"),
        (lambda: table([a, b], [0, 1]), "1 values for 2 variables"),
        (lambda: table([a], [1.5]), "1.5, which is not in its domain"),
        (lambda: table([a, b], [(1, 12)]), "not in its domain"),
        (lambda: holds(lambda *_: True, 3), "not a variable"),
        (lambda: holds(lambda *_: True, *(Categorical(f"v{i}", 10) for i in range(7))), "combinations"),
        (lambda: Constraint(a // b == 1), "can be 0"),
        (lambda: Constraint(a == b, method="magic"), "method='magic' is unknown"),
        (lambda: Constraint("a == b"), "a formula such as"),
        (lambda: Constraint(lambda x: x), "needs variables"),
        (lambda: Constraint(conjunction([])), "no variable"),
        (lambda: Constraint(a < b, variables=[a, b, c]), "'c' is declared but"),
        (lambda: Constraint(a < b, variables=[a]), "uses 'b'"),
        (lambda: Constraint(a < b, variables=[a, Categorical("b", 3)]), "declared and used with different domains"),
        (lambda: Constraint(a != 1, variables=[a, a]), "lists 'a' twice"),
        (lambda: Constraint(a != 1, variables=[a, Categorical("a", 10)]), "lists 'a' twice"),
        (lambda: Constraint(a < b, variables=["a", "b"]), "'a', which is not a variable"),
        (lambda: Constraint(a < Categorical("a", 5)), "Two variables named 'a'"),
        (lambda: Constraint((a < b) & (b < a)), "No values"),
        (lambda: Constraint(a + b == 30), "No values"),
        (lambda: Constraint(table([a, b], [])), "No values"),
        (
            lambda: Constraint(all_different(*(Categorical(f"v{i}", 9) for i in range(9))), method="enumeration"),
            "too many to enumerate",
        ),
    ],
)
def test_mistakes_are_explained_in_one_sentence(make, says):
    with pytest.raises(LogicError, match=says) as caught:
        make()
    assert "\n" not in str(caught.value)


@needs_sdd
@pytest.mark.parametrize("rule", [(a < b) & (b < a), a + b == 30, a // b == 1])
def test_the_compiler_reports_the_same_mistakes(rule):
    with pytest.raises(LogicError, match=r"No values|can be 0"):
        Constraint(rule, method="sdd")


def test_without_pysdd_small_constraints_work_and_large_ones_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pysdd", None)
    monkeypatch.setitem(sys.modules, "pysdd.sdd", None)
    assert count(a + b == c) == 55
    assert count(holds(lambda *x: len(set(x)) == 4, a, b, c, Categorical("d", 10))) == 5040
    with pytest.raises(LogicError, match=r"gedi-ssl\[logic\]"):
        Constraint(all_different(*(Categorical(f"v{i}", 9) for i in range(9))))


def test_a_variable_is_shown_as_it_was_made_and_by_name_in_a_formula():
    a, die = Categorical("a", 10), Categorical("die", range(1, 7))
    assert repr(a) == "Categorical('a', 10)" and repr(Categorical("c", ["r", "g"])) == "Categorical('c', ['r', 'g'])"
    assert repr(die) == "Categorical('die', [1, 2, 3, 4, 5, 6])"
    assert str(a) == "a" and repr(a + die == 3) == "((a + die) == 3)"


def test_a_constraint_shows_its_variables_and_its_size():
    a, b = Categorical("a", 3), Categorical("b", 3)
    constraint = Constraint(a < b)
    assert repr(constraint) == f"Constraint(a, b; enumeration, {constraint.circuit.nodes} nodes)"


def test_a_notebook_shows_the_rule_and_the_values_escaped():
    colour, many = Categorical("<b>colour</b>", ["red", "<script>"]), Categorical("many", 100)
    html = Constraint((colour == "red") & (many < 50))._repr_html_()
    assert "&lt;b&gt;colour&lt;/b&gt;" in html and "red, &lt;script&gt;" in html and "<script>" not in html
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, ..., 99" in html


def test_a_rule_with_shared_parts_is_cut_before_it_doubles():
    a, b = Categorical("a", 2), Categorical("b", 2)
    rule = a == b
    for _ in range(200):
        rule = (rule ^ (a == 1)) ^ (rule ^ (b == 1))
    assert len(repr(rule)) < 600 and repr(rule).endswith(" ...")


def test_a_long_rule_is_cut():
    a = Categorical("a", 100)
    rule = a == 0
    for i in range(1, 60):
        rule = rule | (a == i)
    assert len(Constraint(rule)._repr_html_()) < 1200
