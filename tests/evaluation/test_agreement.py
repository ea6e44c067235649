from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gedi.errors import DataError
from gedi.evaluation import accuracy, ami, ari, clustering_scores, nmi, nmi_batch64

labellings = st.integers(2, 40).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 3), min_size=n, max_size=n)] * 2))


@settings(max_examples=50, deadline=None)
@given(pair=labellings, names=st.permutations([7, -1, 30, 4]))
def test_renaming_the_clusters_changes_nothing(pair, names):
    true, pred = pair
    renamed = [names[k] for k in pred]
    for score in (nmi, accuracy, ari, ami, nmi_batch64):
        assert score(true, pred) == pytest.approx(score(true, renamed), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(pair=labellings)
def test_accuracy_is_the_best_of_all_matchings(pair):
    true, pred = map(np.asarray, pair)
    best = max(np.mean(np.asarray(p)[pred] == true) for p in permutations(range(4)))
    assert accuracy(true, pred) == pytest.approx(best)


def test_the_same_partition_scores_one_and_a_constant_scores_zero():
    true = np.repeat([0, 1, 2], 40)
    assert clustering_scores(true, (true + 1) % 3) == pytest.approx(
        {"nmi": 1, "accuracy": 1, "ari": 1, "ami": 1, "nmi_batch64": 1}
    )
    assert nmi(true, np.zeros(120)) == ari(true, np.zeros(120)) == ami(true, np.zeros(120)) == 0


@pytest.mark.parametrize(
    "true, pred, expected",
    [
        ([0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 2, 1, 1, 3, 1], 6 / 8),  # more clusters than classes
        ([0, 0, 0, 1, 1, 2, 2, 2], [0, 0, 0, 0, 0, 1, 1, 1], 6 / 8),  # fewer
        ([0, 1, 0, 1], [0, 0, 0, 0], 1 / 2),
    ],
)
def test_accuracy_with_unequal_numbers(true, pred, expected):
    assert accuracy(true, pred) == pytest.approx(expected)


def test_ari_and_ami_are_corrected_for_chance_nmi_is_not_and_batches_of_64_flatter_most():
    rng = np.random.default_rng(0)
    true, pred = rng.integers(0, 100, (2, 6400))
    assert abs(ari(true, pred)) < 0.01 and abs(ami(true, pred)) < 0.01
    assert 0.1 < nmi(true, pred) < 0.25
    assert nmi_batch64(true, pred) > 0.85


@settings(max_examples=50, deadline=None)
@given(pair=labellings, size=st.integers(1, 12))
def test_batches_are_scored_one_by_one(pair, size):
    true, pred = map(np.asarray, pair)
    order = np.random.default_rng(0).permutation(len(true))
    batches = [order[i : i + size] for i in range(0, len(order) - size + 1, size)] or [order]
    expected = np.mean([nmi(true[batch], pred[batch]) for batch in batches])
    assert nmi_batch64(true, pred, batch_size=size) == pytest.approx(expected, abs=1e-12)


def test_batches_do_not_depend_on_sorted_data():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 10, 6400)
    pred = np.where(rng.random(6400) < 0.5, true, rng.integers(0, 10, 6400))
    order = np.argsort(true)
    assert nmi_batch64(true[order], pred[order]) == pytest.approx(nmi_batch64(true, pred), abs=0.03)


@pytest.mark.parametrize("true, pred", [([0, 1], [0, 1, 1]), ([], []), ([[0, 1]], [[0, 1]])])
def test_lengths_must_agree(true, pred):
    with pytest.raises(DataError, match="shapes"):
        clustering_scores(true, pred)
