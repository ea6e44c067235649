"""Batches of whole groups."""

import numpy as np
import pytest
import torch

from gedi.errors import ConfigError, DataError
from gedi.objectives.clustering import Sinkhorn
from gedi.objectives.symbolic import Symbolic, find_groups

TRIPLE = {"symbolic": Symbolic(rule="a, b, c : 2\na + b >= c")}


def test_rows_that_follow_each_other_are_a_group():
    assert find_groups(TRIPLE, 6, 2).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_without_a_constraint_that_counts_there_are_no_groups():
    assert find_groups({"clustering": Sinkhorn()}, 7, 2) is None
    assert find_groups({"symbolic": Symbolic(rule="a, b, c : 2\na + b >= c", weight=0.0)}, 7, 5) is None


@pytest.mark.parametrize(
    ("rows", "clusters", "given", "kind", "expected"),
    [
        (7, 2, None, DataError, "7 rows, which is not a multiple of the constraint's 3 variables (a, b, c)"),
        (6, 4, None, ConfigError, "'a' has 2 values, but there are 4 clusters"),
        (6, 2, [[0, 1], [2, 3]], DataError, "whole numbers [groups, 3]"),
        (6, 2, [[0.0, 1.0, 2.0]], DataError, "type float64"),
        (6, 2, [[0, 1, 6]], DataError, "rows 0 to 6, but rows are 0 to 5"),
        (6, 2, [[-1, 1, 2]], DataError, "rows -1 to 2"),
        (6, 2, [[0, 1, 2], [2, 3, 4]], DataError, "1 rows are in none of the 'groups' (the first is row 5)"),
        (6, 2, np.empty((0, 3), dtype=int), DataError, "shape (0, 3)"),
    ],
)
def test_groups_that_do_not_fit_are_refused(rows, clusters, given, kind, expected):
    with pytest.raises(kind) as caught:
        find_groups(TRIPLE, rows, clusters, given)
    assert expected in str(caught.value)


def test_batches_hold_whole_groups_in_order(make_engine, tiny):
    settings = {"kind": "constraint", "rule": "a, b, c, d : 2\na + b + c + d >= 1"}
    run = make_engine(tiny(**{f"objective__symbolic__{name}": value for name, value in settings.items()}))
    drawn = [run._draw(size).view(-1, 4) for size in (30, 1000, 3)]
    assert [len(groups) for groups in drawn] == [7, 20, 1]  # no more than 30 rows; all; at least one
    for groups in drawn:
        assert (groups[:, 0] % 4 == 0).all() and torch.equal(groups, groups[:, :1] + torch.arange(4))
    assert len(drawn[1][:, 0].unique()) == 20


def test_every_process_gets_whole_groups(make_engine, tiny):
    settings = {"kind": "constraint", "rule": "a, b, c, d : 2\na + b + c + d >= 1"}
    run = make_engine(tiny(**{f"objective__symbolic__{name}": value for name, value in settings.items()}))
    whole = run._draw(36)
    parts = []
    for rank in range(2):
        again = make_engine(run.config)
        again.world.part = lambda chosen, rank=rank: chosen[rank * (len(chosen) // 2) :][: len(chosen) // 2]
        parts.append(again._draw(36))
    assert torch.cat(parts).tolist() == whole[:32].tolist()  # 9 groups: 4 each
