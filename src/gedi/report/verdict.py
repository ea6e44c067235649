"""Is the model any good? Judged without labels, in plain words, with advice on what to change.

Every threshold is in `LIMITS`. We set them on runs with a known answer, but they prove nothing: a clustering can be
certain and stable and still not be the one you want. The report says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from gedi.report.look import percent, short
from gedi.report.measures import Measures
from gedi.training.choice import HEAD

GOOD, FAIR, POOR, ABSENT = "good", "fair", "poor", "absent"
WORST_FIRST = (POOR, FAIR, GOOD, ABSENT)


class Limit(NamedTuple):
    """A measure is good up to one value and fair up to another; beyond that it is poor."""

    good: float
    fair: float

    def level(self, value: float) -> str:
        higher_is_better = self.good > self.fair
        if value == self.good or (value > self.good) == higher_is_better:
            return GOOD
        return FAIR if value == self.fair or (value > self.fair) == higher_is_better else POOR


LIMITS = {
    "confidence": Limit(0.90, 0.70),  # mean probability of a row's own cluster
    "keeps_noise": Limit(0.97, 0.90),  # share of rows that stay in their cluster under a little noise
    "keeps_walk": Limit(0.97, 0.90),  # ... at the end of a DAM walk
    "largest_share": Limit(0.80, 0.95),  # share of rows in the largest cluster
    "empty": Limit(0, 0.25),  # share of empty clusters
    "spread": Limit(0.10, 0.01),  # of the embedding; 0 if all rows are at one point
    "rank_share": Limit(0.50, 0.25),  # effective rank divided by what the clusters need, n_clusters - 1
    "noise_auroc": Limit(0.75, 0.60),  # how well log p tells data from uniform noise
    "shuffled_auroc": Limit(0.65, 0.55),  # ... and from the data with its columns shuffled
    "sample_test": Limit(0.65, 0.85),  # how reliably nearest neighbours tell samples from data
    "energy_gap": Limit(0.5, 1.5),  # between data and samples late in training, in standard deviations of log p
    "rollbacks": Limit(0, 2),  # number of times the guard rolled training back
    "unexplained": Limit(0.30, 0.60),  # share of the clusters' entropy that neighbours and walks left unexplained
}

CANDIDATES = {  # where the clusters may come from
    HEAD: "the best head",
    "walks": "a cut of the walk graph",
    "neighbours": "a cut of the neighbour graph",
    "kmeans": "k-means",
    "mixture": "a Gaussian mixture",
}


@dataclass(frozen=True)
class Finding:
    """One observation, and what to do about it; no remedy if it is good."""

    level: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Judgement:
    """One ability of the model, judged by its worst finding."""

    ability: str
    findings: list[Finding] = field(default_factory=list)
    absent: str = ""  # why there is nothing to judge

    @property
    def level(self) -> str:
        levels = {finding.level for finding in self.findings}
        return next((level for level in WORST_FIRST if level in levels), ABSENT)

    @property
    def worst_first(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: WORST_FIRST.index(finding.level))


def judge(m: Measures) -> list[Judgement]:
    """A run's abilities, each judged separately."""
    training = Judgement("training", _training(m))
    if m.diverged:
        return [training]
    no_rows = "no rows to measure: pass some with --data"
    clusters = _clusters(m)
    said = {finding.text for finding in clusters}
    training = Judgement("training", [finding for finding in training.findings if finding.text not in said])
    return [
        Judgement("clusters", clusters, no_rows if m.has_clusters else "this run trained no clusters"),
        Judgement("embedding", _embedding(m), no_rows if m.has_clusters else "this run trained no embedding"),
        Judgement("density", _density(m), no_rows if m.has_density else "this run trained no density"),
        Judgement("samples", _samples(m), no_rows if m.has_density else "no density, so nothing to sample from"),
        training,
    ]


def headline(judgements: list[Judgement]) -> str:
    """All judgements in one sentence.

    >>> headline([Judgement("clusters", [Finding("good", "")]), Judgement("samples", [Finding("poor", "")])])
    'Clusters look good; samples look poor.'
    """
    parts = []
    for level, words in ((GOOD, "good"), (FAIR, "doubtful"), (POOR, "poor")):
        names = [judgement.ability for judgement in judgements if judgement.level == level]
        if names:
            together = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
            plural = len(names) > 1 or names[0].endswith("s")
            parts.append(f"{together} look{'' if plural else 's'} {words}")
    sentence = "; ".join(parts) or "there is nothing to judge yet"
    return sentence[0].upper() + sentence[1:] + "."


def overall(judgements: list[Judgement]) -> str:
    """The level of the worst part. Poor samples count as fair: they do not make the clusters worse."""
    levels = {FAIR if j.ability == "samples" and j.level == POOR else j.level for j in judgements}
    return next(level for level in WORST_FIRST if level in levels)


def _finding(name: str, value: float | None, text: str, remedy: str, *, worst: str = POOR) -> list[Finding]:
    """What a measure says, at most as bad as ``worst``; nothing if it could not be measured."""
    if value is None or not math.isfinite(value):
        return []
    level = LIMITS[name].level(value)
    level = worst if level == POOR else level
    return [Finding(level, text, "" if level == GOOD else remedy)]


def _clusters(m: Measures) -> list[Finding]:
    longer = "raise step2.iterations, or lower objective.clustering.tau"
    found = _finding(
        "confidence",
        m.confidence,
        f"Rows belong to their cluster with {percent(m.confidence)} certainty on average; "
        f"{percent(m.unsure)} lie between clusters.",
        f"{longer}; if that does not help, the data may have fewer clusters, or none that are clear",
    )
    found += _finding(
        "keeps_noise",
        m.keeps_noise,
        f"{percent(m.keeps_noise)} of the rows keep their cluster under a little noise.",
        f"{longer}, or let more heads compete: raise heads.random",
    )
    found += _finding(
        "keeps_walk",
        m.keeps_walk,
        f"{percent(m.keeps_walk)} of the walks along the density end in the cluster where they began.",
        "raise step1.iterations or heads.random, or try another n_clusters: the clusters cut through dense regions",
    )
    if m.sizes:
        found += _finding(
            "empty",
            m.empty / m.n_clusters,
            f"{m.empty} of {m.n_clusters} clusters have no rows." if m.empty else "No cluster is empty.",
            "ask for fewer clusters, or raise heads.random",
        )
        found += _finding(
            "largest_share",
            m.largest_share,
            f"The largest cluster holds {percent(m.largest_share)} of the rows.",
            "raise heads.random or objective.clustering.prior: nearly all rows are in one cluster",
        )
    return found + _choice(m)


def _choice(m: Measures) -> list[Finding]:
    if m.winner is None or m.unexplained is None:
        return []
    text = (
        f"The clusters come from {CANDIDATES.get(m.winner, m.winner)}, chosen from {len(m.candidates)} candidates: "
        f"its score is {short(m.unexplained)}, where 0 means that neighbours and walks never leave a cluster "
        "and 1 is chance."
    )
    remedy = "raise step2.iterations or heads.random, or try another n_clusters; or there are no clear clusters"
    # The winner is only where the rest of step 2 starts: it does not make clear clusters poor.
    return _finding("unexplained", m.unexplained, text, remedy, worst=FAIR)


def _embedding(m: Measures) -> list[Finding]:
    if m.effective_rank is None or m.spread is None:
        return []
    text = f"Rows are embedded close to one point (spread {short(m.spread)}; 0 is a single point)."
    if LIMITS["spread"].level(m.spread) == GOOD:
        text = "Rows are spread out."
    remedy = "add L_NF or raise its weight (objective.negative_free), or lower step2.learning_rate"
    found = _finding("spread", m.spread, text, remedy)
    needed = max(1, min(m.n_clusters - 1, m.dimensions or 1))
    return found + _finding(
        "rank_share",
        min(1.0, m.effective_rank / needed),
        f"It uses {m.effective_rank:.1f} of {m.dimensions} dimensions; {m.n_clusters} clusters need about {needed}.",
        "raise heads.neutral, or add L_NF or raise its weight (objective.negative_free)",
    )


def _density(m: Measures) -> list[Finding]:
    longer = "raise step1.iterations"
    found = _finding(
        "noise_auroc",
        m.noise_auroc,
        f"log p is higher for a row than for uniform noise {percent(m.noise_auroc)} of the time.",
        longer,
    )
    # Shuffling independent columns changes nothing: no density could do better.
    return found + _finding(
        "shuffled_auroc",
        m.shuffled_auroc,
        f"It is higher than for shuffled columns {percent(m.shuffled_auroc)} of the time (50\u00a0% is chance).",
        f"{longer}: unless the columns are independent, the density has not learned how they depend on each other",
        worst=FAIR,
    )


def _samples(m: Measures) -> list[Finding]:
    found = _finding(
        "sample_test",
        m.sample_test,
        f"Nearest neighbours tell samples from data with {percent(m.sample_test)} accuracy (50\u00a0% is chance).",
        "do not use the samples as data; raise step1.iterations or sampler.steps, or lower sampler.final_noise",
    )
    return found if m.has_density else []


def _training(m: Measures) -> list[Finding]:
    if m.diverged:
        return [Finding(POOR, m.diverged, "change the setting named above")]
    found = _finding(
        "energy_gap",
        None if m.energy_gap is None else m.energy_gap / (m.energy_spread or 1.0),
        f"Late in training, log p of samples was {short(m.energy_gap)} nats away from that of data on average"
        + (f"; it varies by {short(m.energy_spread)} over the data." if m.energy_spread else "."),
        "raise sampler.steps, or lower the learning_rate of the stage: the sampler lags behind the density",
    )
    times = "once" if m.rollbacks == 1 else f"{m.rollbacks} times"
    text = f"The guard rolled training back {times}." if m.rollbacks else "The guard never had to step in."
    found += _finding("rollbacks", m.rollbacks, text, "lower step1.learning_rate; see the events below the curves")
    return found + [Finding(FAIR, seen, remedy) for seen, remedy in m.warnings]
