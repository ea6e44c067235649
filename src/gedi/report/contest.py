"""Which of several runs has the best clusters? Judged without labels, and only where they can be compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gedi.evaluation import nmi
from gedi.report.look import short
from gedi.report.run_view import RunView
from gedi.report.verdict import FAIR, GOOD, LIMITS, POOR

SAME_CLUSTERS = 0.95  # NMI above which two clusterings are taken to be the same
GRADES_BEST_FIRST = (GOOD, FAIR, POOR)  # best first; ungraded runs come last


class Contest(NamedTuple):
    """The index of the best run, or None, and the reason in a sentence."""

    winner: int | None
    why: str


def contest(runs: Sequence[RunView], names: Sequence[str], same_rows: Sequence[int]) -> Contest:
    """The run whose clusters are best; ``same_rows`` are the runs that show the same rows in the same order."""
    entered = [i for i, run in enumerate(runs) if run.clusters is not None]
    if len(entered) < 2:
        return Contest(None, "No winner: fewer than two of the runs have clusters and rows to look at.")
    if set(same_rows) != set(entered):
        why = "No winner: these runs show different rows or columns, so their numbers cannot be compared."
        return Contest(None, f"{why} Use --data DATA to show all of them the same rows.")
    if len(numbers := sorted({runs[i].measures.n_clusters for i in entered})) > 1:
        asked = ", ".join(map(str, numbers[:-1]))
        return Contest(
            None, f"No winner: with {asked} and {numbers[-1]} clusters, these runs answer different questions."
        )
    clusters = [run.clusters for i in entered if (run := runs[i]).clusters is not None]
    if all(nmi(clusters[0], other) >= SAME_CLUSTERS for other in clusters[1:]):
        return Contest(None, "No winner is needed: these runs found the same clusters, which is a good sign. Use any.")
    ranked = sorted(entered, key=lambda i: _rank(runs[i]))
    first, second = (runs[i] for i in ranked[:2])
    (grade, crowding), (next_grade, next_crowding) = _rank(first), _rank(second)
    if grade < next_grade:
        why = next(one.why for one in first.judgements if one.ability == "clusters")
        return Contest(ranked[0], f"{names[ranked[0]]} is best: its clusters are {GRADES_BEST_FIRST[grade]}. {why}")
    if next_crowding - crowding > LIMITS["behind"].good:
        numbers = f"crowding of its borders {short(crowding, 2)}, next run's {short(next_crowding, 2)}; 0 is best"
        return Contest(ranked[0], f"{names[ranked[0]]} is best: clearer gaps set its clusters apart ({numbers}).")
    between = f"crowding of their borders {short(crowding, 2)} and {short(next_crowding, 2)}"
    return Contest(
        None,
        f"No clear winner: {names[ranked[0]]} and {names[ranked[1]]} found different clusters that are set apart about "
        f"equally well ({between}). Look at both.",
    )


def _rank(run: RunView) -> tuple[int, float]:
    """The grade of its clusters, then how crowded their borders are; lower is better."""
    level = next((one.level for one in run.judgements if one.ability == "clusters"), "")
    crowding = run.measures.crowding
    return GRADES_BEST_FIRST.index(level) if level in GRADES_BEST_FIRST else len(
        GRADES_BEST_FIRST
    ), math.inf if crowding is None else crowding
