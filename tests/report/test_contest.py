"""Runs are only ranked where they can be compared, by measures without labels."""

from types import SimpleNamespace

import numpy as np
import pytest

from gedi.report.comparison import contest
from gedi.report.verdict import Finding, Judgement

HERE, THERE = np.repeat([0, 1], 50), np.tile([0, 1], 50)


def run(clusters=HERE, *, grade="good", crowding=0.2, n_clusters=2):
    judged = Judgement("clusters", [Finding(grade, f"They are {grade}.")] if grade else [], "a trial")
    measures = SimpleNamespace(crowding=crowding, n_clusters=n_clusters)
    return SimpleNamespace(clusters=clusters, judgements=[judged], measures=measures)


def told(*runs, same=None):
    return contest(runs, ["a", "b", "c"][: len(runs)], range(len(runs)) if same is None else same)


@pytest.mark.parametrize(
    ("runs", "same", "reason"),
    [
        ([run(), run(None)], [0], "fewer than two"),
        ([run(), run()], [0], "different rows or columns"),
        ([run(), run(n_clusters=3), run(n_clusters=5)], None, "with 2, 3 and 5 clusters"),
        ([run(grade="poor"), run(1 - HERE)], None, "found the same clusters"),
        ([run(crowding=0.2), run(THERE, crowding=0.25)], None, "a and b found different clusters"),
        ([run(crowding=None), run(THERE, crowding=None)], None, "No clear winner"),
    ],
)
def test_runs_that_differ_too_much_or_too_little_have_no_winner(runs, same, reason):
    winner, why = told(*runs, same=same)
    assert winner is None and reason in why and why.endswith(".")


def test_the_better_grade_wins_then_the_clearer_gaps():
    assert told(run(grade="fair", crowding=0.1), run(THERE, grade="good", crowding=0.4)) == (
        1,
        "b is best: its clusters are good. They are good.",
    )
    winner, why = told(run(crowding=0.5), run(THERE, crowding=0.1), run(THERE, grade="poor"))
    assert winner == 1 and "crowding of its borders 10%, next run's 50%" in why
    assert told(run(grade=None, crowding=0.0), run(THERE, grade="poor", crowding=0.9)).winner == 1
