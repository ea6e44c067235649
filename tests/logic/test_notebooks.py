"""How constraints show themselves."""

from gedi.logic import Categorical, Constraint


def test_a_constraint_says_its_variables_and_its_size():
    a, b = Categorical("a", 3), Categorical("b", 3)
    constraint = Constraint(a < b)
    assert repr(constraint) == f"Constraint(a, b; enumeration, {constraint.circuit.nodes} nodes)"


def test_a_notebook_shows_the_rule_and_the_values_as_text():
    colour, many = Categorical("<b>colour</b>", ["red", "<script>"]), Categorical("many", 100)
    html = Constraint((colour == "red") & (many < 50))._repr_html_()
    assert "&lt;b&gt;colour&lt;/b&gt;" in html and "red, &lt;script&gt;" in html and "<script>" not in html
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, ..., 99" in html


def test_a_rule_of_shared_parts_is_cut_before_it_is_written_out():
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
