"""Grounding finds which cluster is which value if the constraint allows it, and never by naming all of them alike."""

import itertools

import numpy as np
import pytest
import torch

from gedi.logic import Categorical, Constraint, all_different
from gedi.training import start
from gedi.training.config import override
from gedi.training.grounding import Grounding, ground

a, b, c = (Categorical(name, 5) for name in "abc")
SUM = Constraint(a + b == c)
MODELS = np.array([(i, j, i + j) for i, j in itertools.product(range(5), repeat=2) if i + j < 5])


def shown(n, seed=0, ways=1, wrong=0.0):
    """Values of n groups [3n], and their renamed clusters, several for each value; the last one is often wrong."""
    random = np.random.default_rng(seed)
    values = MODELS[random.integers(len(MODELS), size=n)].ravel()
    way = random.integers(ways, size=3 * n)
    mistaken = (way == ways - 1) & (random.random(3 * n) < wrong)
    seen = np.where(mistaken, random.integers(5, size=3 * n), values)
    return values, torch.from_numpy(random.permutation(5 * ways)[seen * ways + way])


def grounded(clusters, constraint=SUM, restarts=10):
    groups = torch.arange(len(clusters)).view(-1, len(constraint.variables))
    return ground(clusters, groups, constraint, restarts=restarts, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("ways", [1, 2])
def test_renamed_clusters_get_their_values_back(ways):
    values, clusters = shown(150, ways=ways)
    assert np.array_equal(grounded(clusters).values.argmax(1).numpy(), values)


def test_rows_in_the_wrong_cluster_are_corrected_by_their_group():
    values, clusters = shown(300, ways=3, wrong=0.6)
    majority = np.array([np.bincount(values[clusters == k]).argmax() for k in range(15)])
    right = (majority[clusters] == values).mean()
    assert right < 0.87 and (grounded(clusters).values.argmax(1).numpy() == values).mean() > right + 0.07


def test_the_gain_is_what_the_constraint_explains():
    values, clusters = shown(500)
    shares = np.bincount(values) / len(values)
    expected = np.log(1 / len(MODELS)) - np.log(shares)[values].sum() / 500
    assert grounded(clusters, restarts=5).gain == pytest.approx(expected, abs=0.02)
    mixed = clusters[torch.randperm(len(clusters), generator=torch.Generator().manual_seed(1))]
    assert grounded(mixed, restarts=2).gain < 0.1 * expected


def test_probabilities_satisfy_the_constraint_and_sum_to_one():
    _, clusters = shown(60, wrong=0.1)
    found = grounded(clusters).values
    torch.testing.assert_close(found.sum(1), torch.ones(180, dtype=torch.float64))
    assert bool((found >= 0).all())


def test_a_rule_that_treats_all_values_alike_still_tells_rows_apart():
    random = np.random.default_rng(0)
    values = np.array([random.permutation(4)[:3] for _ in range(80)]).ravel()
    rule = Constraint(all_different(*(Categorical(f"v{i}", 4) for i in range(3))))
    found = grounded(torch.from_numpy(values), rule).values.argmax(1).numpy()
    assert len({(v, f) for v, f in zip(values, found, strict=True)}) == 4  # correct up to the names of the values


def test_a_row_in_several_groups_has_one_value():
    clusters = torch.tensor([0, 1, 1])
    groups = torch.tensor([[0, 1], [0, 2]] * 20)
    less = Constraint(Categorical("x", 2) < Categorical("y", 2))
    found = ground(clusters, groups, less, restarts=3, generator=torch.Generator().manual_seed(0)).values
    assert found.argmax(1).tolist() == [0, 1, 1]


# ---- as the start of step 2 ----


@pytest.fixture(scope="module")
def ordered(tiny):
    """A function that makes settings in which the first row of each pair has the lower value."""

    def make(**changes):
        rule = {"kind": "constraint", "rule": "a, b : 2\na < b"}
        return override(tiny(**changes), {"objective.symbolic": rule})

    return make


@pytest.mark.parametrize("kind", ["walks", "kmeans", "neighbours", "mixture"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_start_has_the_constraints_values(make_engine, ordered, kind, turned):
    run = make_engine(ordered(start__node_rows=5))  # rows 0-39 are one blob, 40-79 the other
    groups = torch.arange(80).view(2, 40).T
    run.groups = groups.flip(1) if turned else groups
    labels = start.find_start(run, kind)
    assert (labels[:40] == int(turned)).all() and (labels[40:] == 1 - int(turned)).all()


def test_only_the_better_half_of_several_clusterings_is_used(make_engine, ordered, monkeypatch):
    run = make_engine(ordered())
    run.groups = torch.arange(80).view(2, 40).T
    right = torch.tensor([[0.6, 0.4], [0.4, 0.6]], dtype=torch.float64)
    gains = iter([(2.0, right), (0.1, 1 - right), (1.5, right), (0.2, 1 - right)])

    def ground(labels, *args, **options):
        gain, values = next(gains)
        return Grounding(values[labels], gain)

    monkeypatch.setattr(start, "ground", ground)
    labels = np.repeat([0, 1], 40)
    assert np.array_equal(start.grounded(run, [labels] * 4), labels)


def test_grounding_can_be_left_out(make_engine, ordered, tiny):
    run, plain = make_engine(ordered(start__ground=0)), make_engine(tiny())
    run.groups = torch.arange(80).view(2, 40).T
    assert np.array_equal(start.find_start(run, "mixture"), start.find_start(plain, "mixture"))
