"""A cache for the tests, and random constraints with their meaning in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import strategies as st

from gedi.logic import Categorical, Formula, all_different, exactly_one, implies, sdd, table

needs_sdd = pytest.mark.skipif(not sdd.available(), reason="PySDD is not installed")
METHODS = ["enumeration", pytest.param("sdd", marks=needs_sdd)]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("GEDI_CACHE", str(tmp_path_factory.mktemp("cache")))


class Random(NamedTuple):
    """A formula, and its meaning as a function of {name: value}."""

    formula: Formula
    meaning: Callable[[dict[str, int]], bool]
    variables: list[Categorical]


def models(variables: list[Categorical], meaning: Callable[[dict[str, Any]], bool]) -> torch.Tensor:
    """Satisfying rows of value indices, by trying every combination."""
    names = [v.name for v in variables]
    rows = [
        [v.values.index(x) for v, x in zip(variables, row, strict=True)]
        for row in itertools.product(*(v.values for v in variables))
        if meaning(dict(zip(names, row, strict=True)))
    ]
    return torch.tensor(rows, dtype=torch.long).reshape(-1, len(variables))


def model_log_probs(
    variables: list[Categorical], rows: torch.Tensor, log_probs: dict[str, torch.Tensor]
) -> torch.Tensor:
    """The log-probability of each model, [batch, models]."""
    return sum(log_probs[v.name][:, rows[:, i]] for i, v in enumerate(variables))  # type: ignore[return-value]


def random_log_probs(variables: list[Categorical], batch: int, seed: int = 0, scale: float = 2.0):
    generator = torch.Generator().manual_seed(seed)
    return {
        v.name: torch.log_softmax(scale * torch.randn(batch, v.size, generator=generator, dtype=torch.float64), dim=1)
        for v in variables
    }


@st.composite
def random_constraints(draw) -> Random:
    """Formulas over two to four variables of two to five values, some of them negative."""
    variables = []
    for name in "abcd"[: draw(st.integers(2, 4))]:
        low, size = draw(st.integers(-2, 2)), draw(st.integers(2, 5))
        variables.append(Categorical(name, range(low, low + size)))

    def term(depth: int):
        kind = draw(st.sampled_from("vvvn" if depth == 0 else "vn+-*%/a"))
        if kind == "v":
            v = draw(st.sampled_from(variables))
            return v, lambda w: w[v.name]
        if kind == "n":
            n = draw(st.integers(-4, 4))
            return n, lambda w: n
        left, f = term(depth - 1)
        if kind == "a":
            return abs(left), lambda w: abs(f(w))
        if kind in "%/":
            n = draw(st.sampled_from([-3, -2, 2, 3]))
            return (left % n, lambda w: f(w) % n) if kind == "%" else (left // n, lambda w: f(w) // n)
        right, g = term(depth - 1)
        return {
            "+": (left + right, lambda w: f(w) + g(w)),
            "-": (left - right, lambda w: f(w) - g(w)),
            "*": (left * right, lambda w: f(w) * g(w)),
        }[kind]

    def comparison():
        v = draw(st.sampled_from(variables))
        left, f = term(2)
        shifted, moved = left + v, lambda w: f(w) + w[v.name]  # with a variable, so that the comparison is a formula
        right, g = term(1)
        return draw(
            st.sampled_from(
                [
                    (shifted == right, lambda w: moved(w) == g(w)),
                    (shifted != right, lambda w: moved(w) != g(w)),
                    (shifted < right, lambda w: moved(w) < g(w)),
                    (shifted <= right, lambda w: moved(w) <= g(w)),
                    (shifted > right, lambda w: moved(w) > g(w)),
                    (shifted >= right, lambda w: moved(w) >= g(w)),
                ]
            )
        )

    def formula(depth: int):
        kind = draw(st.sampled_from("cctd" if depth == 0 else "cctd&|~^>1"))
        if kind == "c":
            return comparison()
        if kind == "d":
            some = draw(st.lists(st.sampled_from(variables), min_size=2, unique_by=id))
            return all_different(*some), lambda w: len({w[v.name] for v in some}) == len(some)
        if kind == "t":
            some = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique_by=id))
            rows = draw(st.lists(st.tuples(*(st.sampled_from(v.values) for v in some)), min_size=1, max_size=8))
            return table(some, rows), lambda w: tuple(w[v.name] for v in some) in rows
        one, f = formula(depth - 1)
        if kind == "~":
            return ~one, lambda w: not f(w)
        two, g = formula(depth - 1)
        if kind == "1":
            three, h = formula(depth - 1)
            return exactly_one(one, two, three), lambda w: [f(w), g(w), h(w)].count(True) == 1
        return {
            "&": (one & two, lambda w: f(w) and g(w)),
            "|": (one | two, lambda w: f(w) or g(w)),
            "^": (one ^ two, lambda w: f(w) != g(w)),
            ">": (implies(one, two), lambda w: g(w) or not f(w)),
        }[kind]

    built, meaning = formula(2)
    # Uses every variable; these comparisons are always true.
    for v in variables:
        built = built & (v >= min(v.values))
    return Random(built, lambda w: bool(meaning(w)), variables)
