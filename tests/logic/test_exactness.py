"""Every answer agrees with brute force, for every way of compiling."""

from __future__ import annotations

import copy
import functools
import pickle
import time

import numpy as np
import pytest
import scipy.signal
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from gedi import GEDI
from gedi.errors import LogicError
from gedi.logic import Categorical, Constraint
from gedi.logic.nodes import description

from .conftest import METHODS, model_log_probs, models, needs_sdd, random_constraints, random_log_probs

EXAMPLES = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def compiled(case, method):
    """The constraint and its models. An unsatisfiable one must say so, and is then negated."""
    rows = models(case.variables, case.meaning)
    formula = case.formula
    if not len(rows):
        with pytest.raises(LogicError, match="satisfy"):
            Constraint(formula, variables=case.variables, method=method)
        formula, rows = ~formula, models(case.variables, lambda w: not case.meaning(w))
    return Constraint(formula, variables=case.variables, method=method), rows


@pytest.mark.parametrize("method", METHODS)
@EXAMPLES
@given(case=random_constraints(), seed=st.integers(0, 1000))
def test_log_prob_and_its_gradient_are_those_of_the_sum_over_models(method, case, seed):
    constraint, rows = compiled(case, method)
    log_probs = random_log_probs(case.variables, 3, seed)
    for value in log_probs.values():
        value.requires_grad_()
    result = constraint.log_prob(log_probs)
    expected = model_log_probs(case.variables, rows, log_probs).logsumexp(1)
    torch.testing.assert_close(result, expected, atol=1e-10, rtol=1e-8)
    weight = torch.randn(3, dtype=torch.float64)
    ours = torch.autograd.grad(result, list(log_probs.values()), weight)
    theirs = torch.autograd.grad(expected, list(log_probs.values()), weight)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-7)


@pytest.mark.parametrize("method", METHODS)
@EXAMPLES
@given(case=random_constraints(), seed=st.integers(0, 1000), data=st.data())
def test_zero_and_one_probabilities_give_no_nan(method, case, seed, data):
    constraint, rows = compiled(case, method)
    log_probs = random_log_probs(case.variables, 4, seed)
    for v in case.variables:
        known = torch.tensor(data.draw(st.lists(st.integers(0, v.size - 1), min_size=2, max_size=2)))
        log_probs[v.name][:2] = torch.nn.functional.one_hot(known, v.size).double().log()  # certain
        log_probs[v.name][2] = -1e4 * torch.arange(v.size)  # almost certain
        log_probs[v.name].requires_grad_()
    result = constraint.log_prob(log_probs)
    torch.testing.assert_close(result, model_log_probs(case.variables, rows, log_probs).logsumexp(1))
    result.exp().sum().backward()
    assert not any(value.grad.isnan().any() for value in log_probs.values())
    for value in log_probs.values():
        value.grad = None
    constraint.log_prob(log_probs).sum().backward()  # with -inf among the terms
    assert all(value.grad.isfinite().all() for value in log_probs.values())


@pytest.mark.parametrize("method", METHODS)
@settings(EXAMPLES, max_examples=60)
@given(case=random_constraints(), seed=st.integers(0, 1000))
def test_answers_given_the_constraint(method, case, seed):
    constraint, rows = compiled(case, method)
    log_probs = random_log_probs(case.variables, 3, seed)
    joint = model_log_probs(case.variables, rows, log_probs)
    given_rule = torch.softmax(joint, dim=1)
    torch.testing.assert_close(constraint.entropy(log_probs), torch.special.entr(given_rule).sum(1))
    marginals = constraint.marginals(log_probs)
    for i, v in enumerate(case.variables):
        expected = given_rule @ torch.nn.functional.one_hot(rows[:, i], v.size).double()
        torch.testing.assert_close(marginals[v.name], expected)
    best = constraint.most_likely(log_probs)
    drawn = constraint.sample(log_probs, generator=torch.Generator().manual_seed(seed))
    possible = {tuple(row) for row in rows.tolist()}
    for chosen in (best, drawn):
        for row in zip(*(chosen[v.name].tolist() for v in case.variables), strict=True):
            assert row in possible
    found = sum(log_probs[v.name].gather(1, best[v.name][:, None])[:, 0] for v in case.variables)
    torch.testing.assert_close(found, joint.amax(1))


@pytest.mark.parametrize("method", METHODS)
def test_first_and_second_derivatives_through_softmax(method):
    a, b, c = (Categorical(n, 3) for n in "abc")
    constraint = Constraint((a + b == c) | (a > b), method=method)

    def log_prob(*scores):
        return constraint.log_prob({n: s.log_softmax(1) for n, s in zip("abc", scores, strict=True)})

    def entropy(*scores):
        return constraint.entropy({n: s.log_softmax(1) for n, s in zip("abc", scores, strict=True)})

    scores = [torch.randn(2, 3, dtype=torch.float64, requires_grad=True) for _ in "abc"]
    assert torch.autograd.gradcheck(log_prob, scores)
    assert torch.autograd.gradgradcheck(log_prob, scores)
    assert torch.autograd.gradcheck(entropy, scores)


@pytest.mark.parametrize("method", METHODS)
def test_samples_have_the_right_frequencies(method):
    a, b = Categorical("a", 3), Categorical("b", 3)
    constraint = Constraint(a != b, method=method)
    log_probs = random_log_probs([a, b], 1, scale=1.0)
    n = 40_000
    drawn = constraint.sample(
        {name: value.expand(n, -1) for name, value in log_probs.items()}, generator=torch.Generator().manual_seed(0)
    )
    rows = models([a, b], lambda w: w["a"] != w["b"])
    expected = torch.softmax(model_log_probs([a, b], rows, log_probs)[0], 0)
    share = torch.bincount(drawn["a"] * 3 + drawn["b"], minlength=9)[rows[:, 0] * 3 + rows[:, 1]] / n
    assert float(share.sum()) == pytest.approx(1)  # no sample breaks the rule
    assert (share - expected).abs().max() < 4 * (0.25 / n) ** 0.5
    again = constraint.sample(
        {name: value.expand(n, -1) for name, value in log_probs.items()}, generator=torch.Generator().manual_seed(0)
    )
    assert torch.equal(drawn["a"], again["a"])


@pytest.mark.parametrize("method", METHODS)
def test_tiny_probabilities_stay_exact(method):
    """Four variables at -1e4 each: their product is far below the smallest float."""
    variables = [Categorical(n, 2) for n in "abcd"]
    total = variables[0] + variables[1] + variables[2] + variables[3]
    constraint = Constraint(total == 4, method=method)
    log_probs = {v.name: torch.tensor([[0.0, -1e4]]) for v in variables}
    assert constraint.log_prob(log_probs).item() == -4e4
    impossible = {v.name: torch.tensor([[0.0, -torch.inf]], requires_grad=True) for v in variables}
    result = constraint.log_prob(impossible)
    result.sum().backward()
    assert result.item() == -torch.inf
    assert all((value.grad == 0).all() for value in impossible.values())


@needs_sdd
def test_four_digit_addition_is_exact_and_fast():
    """Eight digits and their sum, 10^8 combinations: compared with the convolution of the two numbers."""
    digits = {
        name: [Categorical(f"{name}{i}", 10) for i in range(size)] for name, size in (("a", 4), ("b", 4), ("s", 5))
    }
    a, b, s = (sum((10**i * d for i, d in enumerate(v[1:], 1)), start=1 * v[0]) for v in digits.values())
    began = time.perf_counter()
    constraint = Constraint(a + b == s)
    assert time.perf_counter() - began < 60
    log_probs = random_log_probs([*digits["a"], *digits["b"]], 64)
    sums = torch.randint(0, 19_999, (64,), generator=torch.Generator().manual_seed(0))
    for i in range(5):
        log_probs[f"s{i}"] = torch.nn.functional.one_hot(sums // 10**i % 10, 10).double().log()
    result = constraint.log_prob(log_probs)
    for row in range(3):
        numbers = []
        for name in "ab":
            places = [log_probs[f"{name}{i}"][row].exp().numpy() for i in range(4)]
            numbers.append(functools.reduce(np.multiply.outer, places[::-1]).ravel())
        expected = scipy.signal.fftconvolve(*numbers)[int(sums[row])]
        assert float(result[row].exp()) == pytest.approx(expected, rel=1e-6, abs=1e-12)
    times = []
    single = {name: value.float().requires_grad_() for name, value in log_probs.items()}
    for _ in range(10):
        began = time.perf_counter()
        constraint.log_prob(single).sum().backward()
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


def test_deep_constraints_can_be_pickled_copied_and_cloned():
    a, b = Categorical("a", 4), Categorical("b", 4)
    rule, total = a < b, a + b
    for i in range(2000):
        rule, total = rule ^ (a == i % 4), total + i
    constraint = Constraint(rule & (total > 0))
    log_probs = random_log_probs([a, b], 3)
    copies = [pickle.loads(pickle.dumps(constraint)), copy.deepcopy(constraint)]
    copies.append(clone(GEDI(4, constraint=constraint)).constraint)
    for again in copies:
        assert again.inputs == ["a", "b"]
        assert torch.equal(again.log_prob(log_probs), constraint.log_prob(log_probs))
    assert description(copies[0].formula) == description(constraint.formula)


def test_half_precision_is_widened():
    a, b = Categorical("a", 10), Categorical("b", 10)
    scores = torch.randn(8, 10).log_softmax(1)
    result = Constraint(a == b).log_prob({"a": scores.bfloat16(), "b": scores.bfloat16()})
    assert result.dtype == torch.float32


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_batch_is_fine(method):
    a, b = Categorical("a", 3), Categorical("b", 3)
    none = torch.zeros(0, 3)
    assert Constraint(a < b, method=method).log_prob({"a": none, "b": none}).shape == (0,)
