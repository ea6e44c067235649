"""DIMACS files and ProbLog programs mean what they mean elsewhere."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import torch

from gedi.errors import LogicError
from gedi.logic import Categorical, Constraint
from gedi.logic import constraint as constraint_module
from gedi.logic.constraint import constraint_text

from .conftest import METHODS, random_log_probs

CNF = """c a comment
p cnf 5 3
1 -2 0
2 3
-1 0
-3 -5 0
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("from_file", [True, False])
def test_dimacs_clauses(method, from_file, tmp_path):
    (tmp_path / "f.cnf").write_text(CNF)
    constraint = Constraint.from_dimacs(tmp_path / "f.cnf" if from_file else CNF, method=method)
    assert constraint.inputs == ["1", "2", "3", "4", "5"]  # no clause mentions 4
    log_probs = random_log_probs(constraint.variables, 3)
    expected = 0
    for one, two, three, five in itertools.product([0, 1], repeat=4):
        if (one or not two) and (two or three or not one) and (not three or not five):
            values = {"1": one, "2": two, "3": three, "5": five}
            expected = expected + sum(log_probs[name][:, value] for name, value in values.items()).exp()
    torch.testing.assert_close(constraint.log_prob(log_probs).exp(), expected)


def test_dimacs_variables_are_in_the_order_of_their_numbers():
    assert Constraint.from_dimacs("p cnf 3 2\n3 -1 0\n-3 2 0\n").inputs == ["1", "2", "3"]
    assert constraint_text(Constraint.from_dimacs("p cnf 3 1\n3 0\n")).startswith("v_1 : 2\nv_2 : 2\nv_3 : 2\n")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 2 0\n", "p cnf"),
        ("p cnf 1000000000 1\n1 0\n", "declares 1,000,000,000 variables"),
        ("p cnf 2 1\n1 2\n", "truncated"),
        ("p cnf 2 1\n1 3 0\n", "variable 3"),
        ("p cnf 2 2\n1 2 0\n", "declares 2 clauses and has 1"),
        ("p cnf 2 1\n1 x 0\n", "Line 2"),
        ("p wcnf 3 2\n5 1 0\n7 2 0\n", "Line 1 .* 'p wcnf 3 2': only 'p cnf"),
        ("c one\np sat 2\n1 2 0\n", "Line 2 .* only 'p cnf"),
        ("p cnf 1 2\n1 0\n-1 0\n", "No values"),
    ],
)
def test_bad_dimacs_is_refused(text, says):
    with pytest.raises(LogicError, match=says):
        Constraint.from_dimacs(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(LogicError, match=r"nowhere\.cnf"):
        Constraint.from_dimacs(tmp_path / "nowhere.cnf")
    with pytest.raises(LogicError, match=r"nowhere\.pl"):
        Constraint.from_problog(tmp_path / "nowhere.pl")


ADDITION = """
nn(mnist_net, [X], Y, [0,1,2,3,4,5,6,7,8,9]) :: digit(X, Y).
addition(X, Y, Z) :- digit(X, X2), digit(Y, Y2), Z is X2 + Y2.
"""


def problog_probability(program: str) -> float:
    """The probability that problog itself gives a program with numbers in it."""
    from problog import get_evaluatable
    from problog.program import PrologString

    return next(iter(get_evaluatable().create_from(PrologString(program)).evaluate().values()))


@pytest.fixture
def problog():
    return pytest.importorskip("problog", reason="problog is not installed")


@pytest.mark.parametrize("method", METHODS)
def test_addition_as_a_program_is_addition_as_an_expression(problog, method):
    first, second = Categorical("mnist_net(one)", 10), Categorical("mnist_net(two)", 10)
    program = Constraint.from_problog(ADDITION, "addition(one, two, 7)", method=method)
    assert sorted(program.inputs) == ["mnist_net(one)", "mnist_net(two)"]
    log_probs = random_log_probs([first, second], 4)
    torch.testing.assert_close(program.log_prob(log_probs), Constraint(first + second == 7).log_prob(log_probs))


NET = "nn(net, [X], Y, [0,1,2]) :: digit(X, Y).\n"


@pytest.mark.parametrize(
    ("program", "query", "inputs"),
    [
        # the body mentions c first, the text mentions a
        ("sum(X, Y, Z) :- digit(Z, C), digit(X, A), digit(Y, B), C is A + B.\nquery(sum(a, b, c)).", None, "a b c"),
        ("sum(X, Y) :- digit(Y, B), digit(X, A), A < B.\nquery(sum(q, r)).", "sum(z, y)", "z y"),
        ("% b, then a\nq :- digit(a, A), digit(b, A).", "q", "a b"),
        ("q :- digit(2, A), digit(1, A).", "q", "2 1"),
        ("q :- digit(img(7), A), digit(img(3), A), digit([x], A).", "q", "img(7) img(3) [x]"),
        ("odd([A, B]) :- digit(B, V), digit(A, V).", "odd([r, p])", "r p"),
        ("q :- between(9, 10, I), J is 19 - I, digit(x(J), V), digit(x(I), V).", "q", "x(9) x(10)"),
    ],
)
def test_inputs_are_in_the_order_of_the_programs_text(problog, program, query, inputs):
    found = Constraint.from_problog(NET + "0.5 :: noise.\n" + program.replace(":-", ":- noise,"), query).inputs
    assert found == [f"net({name})" for name in inputs.split()]


def test_two_nets_of_one_input_are_in_the_order_of_their_predicates(problog):
    nets = "nn(one, [X], Y, [0,1]) :: p(X, Y).\nnn(two, [X, Y], Z, [0,1]) :: r(X, Y, Z).\n"
    found = Constraint.from_problog(nets + "q :- r(b, a, 0), p(b, 1), p(a, 1), r(b, b, 0).", "q").inputs
    assert found == ["one(b)", "two(b, b)", "two(b, a)", "one(a)"]


@pytest.mark.parametrize("method", METHODS)
def test_facts_rules_negation_and_choices_agree_with_problog(problog, method):
    rules = """
0.3 :: noise.
0.1 :: noise.
0.2 :: shade(dark); 0.5 :: shade(light) :- noise.
seen(X) :- shape(X, S), S \\= square, \\+ noise.
seen(X) :- shape(X, round), alarm(X), shade(dark).
seen(X) :- near(X, Y), seen(Y).
near(p, q). near(q, p).
query(seen(p)).
"""
    neural = "nn(shape_net, [X], S, [round, square, flat]) :: shape(X, S).\nnn(alarm_net, [X]) :: alarm(X).\n"
    constraint = Constraint.from_problog(neural + rules, method=method)
    assert sorted(constraint.inputs) == ["alarm_net(p)", "alarm_net(q)", "shape_net(p)", "shape_net(q)"]
    log_probs = random_log_probs([v for v in constraint.variables if v.name in constraint.inputs], 1)
    p = {name: value[0].exp().tolist() for name, value in log_probs.items()}
    facts = "".join(
        f"{p[f'shape_net({x})'][0]}::shape({x},round); {p[f'shape_net({x})'][1]}::shape({x},square); "
        f"{p[f'shape_net({x})'][2]}::shape({x},flat).\n{p[f'alarm_net({x})'][1]}::alarm({x}).\n"
        for x in "pq"
    )
    assert float(constraint.log_prob(log_probs).exp()) == pytest.approx(problog_probability(facts + rules), abs=1e-9)
    assert set(constraint.most_likely(log_probs)) == set(constraint.inputs)


HIDDEN = """
nn(net, [X], Y, [0,1]) :: d(X, Y).
0.2::h(1); 0.2::h(2); 0.2::h(3); 0.3::h(4); 0.1::h(5).
q :- d(a, 0), h(X), X < 4.
q :- d(a, 1), h(4).
"""


@pytest.mark.parametrize("method", METHODS)
def test_facts_are_summed_out_of_the_best_values_and_the_entropy(problog, method):
    constraint = Constraint.from_problog(HIDDEN, "q", method=method)
    even = {"net(a)": torch.tensor([[0.5, 0.5], [0.1, 0.9], [1.0, 0.0]], dtype=torch.float64).log().requires_grad_()}
    given = torch.tensor([[0.3, 0.15], [0.06, 0.27], [0.6, 0.0]], dtype=torch.float64)
    given = given / given.sum(1, keepdim=True)
    torch.testing.assert_close(constraint.marginals(even)["net(a)"], given)
    assert constraint.most_likely(even)["net(a)"].tolist() == [0, 1, 0]
    entropy = constraint.entropy(even)
    torch.testing.assert_close(entropy, torch.special.entr(given).sum(1))
    entropy.sum().backward()
    assert even["net(a)"].grad.isfinite().all()


def test_too_many_inputs_beside_facts_are_refused(problog):
    body = ", ".join(f"digit(x{i}, 0)" for i in range(9))
    constraint = Constraint.from_problog(f"{NET}0.5 :: noise.\nq :- noise, {body}.", "q")
    log_probs = random_log_probs([v for v in constraint.variables if v.name in constraint.inputs], 1)
    for question in (constraint.most_likely, constraint.entropy):
        with pytest.raises(LogicError, match="19,683 joint values"):
            question(log_probs)


def test_one_program_serves_all_observed_sums(problog):
    program = """
nn(digits, [X], Y, [0,1,2]) :: digit(X, Y).
nn(sums, [X], Y, [0,1,2,3,4]) :: total(X, Y).
query(right(a, b, c)).
right(A, B, C) :- digit(A, X), digit(B, Y), total(C, Z), Z is X + Y.
"""
    constraint = Constraint.from_problog(program)
    log_probs = random_log_probs(constraint.variables, 5)
    log_probs["sums(c)"] = torch.eye(5, dtype=torch.float64).log()
    torch.testing.assert_close(constraint.log_prob(log_probs).exp().shape, torch.Size([5]))
    x, y = log_probs["digits(a)"].exp(), log_probs["digits(b)"].exp()
    expected = torch.stack([sum(x[z, i] * y[z, z - i] for i in range(3) if 0 <= z - i < 3) for z in range(5)])
    torch.testing.assert_close(constraint.log_prob(log_probs).exp(), expected)


@pytest.mark.parametrize(
    ("program", "query", "says"),
    [
        (ADDITION, None, "one query"),
        (ADDITION, "addition(one, two, 99)", "never follow|No values"),
        (ADDITION + "always.", "always", "always follows"),
        (ADDITION, "subtraction(one, two, 3)", "problog cannot use"),
        (ADDITION, "addition(one, two, S)", "one query"),
        ("nn(n, [X], Y) :: p(X, Y).", "p(a, 1)", "not a neural predicate"),
        ("nn(n, X, Y, [0,1]) :: p(X, Y).", "p(img, 1)", r"The inputs in nn\(n,img,.* are not a list"),
        ("nn(n, [X], Y, L) :: p(X, Y).", "p(a, 1)", r"The values in nn\(n,\[X\],Y,L\) are not a list"),
        ("nn(n,[X],Y,[0,1])::p(X,Y). t(0.3)::f. r:-p(a,0),f.", "r", r"The probability of f is t\(0.3\)"),
        ("nn(n,[X],Y,[0,1])::p(X,Y). t(0.3)::f;0.1::g. r:-p(a,0),f.", "r", r"is t\(0.3\): write a number"),
        ("nn(n,[X],Y,[0,1])::p(X,Y). nn(n,[X],Y,[0,2])::q(X,Y). r:-p(a,0),q(a,0).", "r", "two lists of values"),
        ("nn(n,[X],Y,[0,1])::p(X,Y). nn(n,[X],Y,[0,1])::q(X,Y). r:-p(a,0),q(a,1).", "r", "more than once"),
        ("nn(n,[X],Y,[0,1])::p(X,Z,Y) :- z(Z). z(1). z(2). r:-p(a,1,0),p(a,2,1).", "r", "more than once"),
        ("nn(n,[a],0)::p; 0.5::q. r:-p.", "r", "has alternatives"),
        ("nn(n,[a])::p. 0.8::q(1); 0.9::q(2). r:-p,q(1). r:-p,q(2).", "r", "sum to more than 1|problog cannot use"),
        ("0.5::p.", "p", "no neural predicate"),
        (ADDITION + "evidence(digit(one, 3)).", "addition(one, two, 7)", "evidence"),
        ("p(X :- q.", "p(a)", "problog cannot use"),
    ],
)
def test_bad_programs_are_refused(problog, program, query, says):
    with pytest.raises(LogicError, match=says) as caught:
        Constraint.from_problog(program, query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "load",
    [
        ":- use_module('{evil}.py').",
        ":- use_module('{evil}').",
        ":- use_module('{evil}', [p/1]).",
        ":- 'use_module'('{evil}.py').",
        ':- use_module("{evil}.py").',
        ":- use_module(library('{evil}')).",
        ":- use_module(library('../../../../../../../../../../..{evil}.py')).",
        ":- consult('{evil}.pl').",
        ":- ['{evil}.pl'].",
        ":- '_use_module'(none, '{evil}.py').",
        ":- call(use_module, '{evil}.py').",
        ":- findall(X, use_module('{evil}.py'), L).",
        ":- findall(X, findall(Y, use_module('{evil}.py'), L), M).",
        ":- U = use_module, G =.. [U, '{evil}.py'], call(G).",
        ":- use_module(library(db)).",
        "q :- use_module('{evil}.py').",
        "q :- \\+ use_module('{evil}.py').",
        "q :- subquery(use_module('{evil}.py'), P).",
        "q :- forall(true, use_module('{evil}.py')).",
        ":- try_call(use_module('{evil}.py')).",
    ],
)
def test_a_program_runs_no_file(problog, load, tmp_path):
    evil, mark = tmp_path / "evil", tmp_path / "mark"
    evil.with_suffix(".py").write_text(f"open({str(mark)!r}, 'w')")
    evil.with_suffix(".pl").write_text(f":- use_module('{evil}.py').\n")
    with contextlib.suppress(LogicError):  # some of these are not valid programs
        Constraint.from_problog(NET + load.format(evil=evil) + "\nq :- digit(a, 0).", "q")
        assert "try_call" in load  # try_call hides errors
    assert not mark.exists()


def test_the_error_names_what_a_program_loads(problog, tmp_path):
    (tmp_path / "rule.pl").write_text(NET + ":- use_module('helper.py').\nq :- digit(a, 0).\nquery(q).\n")
    with pytest.raises(LogicError, match=r"loads 'helper.py': it may only use problog's own libraries"):
        Constraint.from_file(tmp_path / "rule.pl")


@pytest.mark.parametrize("name", ["lists", "apply", "string", "aggregate", "cut", "'lists.pl'"])
def test_problogs_own_libraries_may_be_used(problog, name):
    call = "member(X, [a])" if "lists" in name else "X = a"
    program = f":- use_module(library({name})).\n{NET}q :- findall(X, {call}, [A]), digit(A, 1)."
    assert Constraint.from_problog(program, "q").inputs == ["net(a)"]


def test_without_problog_the_error_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "problog.engine", None)
    with pytest.raises(LogicError, match=r"gedi-ssl\[logic\]"):
        Constraint.from_problog(ADDITION, "addition(one, two, 7)")


def test_a_file_is_not_compiled_to_be_written_as_text(tmp_path, monkeypatch):
    monkeypatch.setattr(constraint_module, "_compile", lambda *_: pytest.fail("compiled"))
    (tmp_path / "rule.cnf").write_text("p cnf 2 1\n1 -2 0\n")
    assert constraint_text(tmp_path / "rule.cnf") == "v_1 : 2\nv_2 : 2\n((v_1 == 1) or (v_2 == 0))"
