"""Is the model any good? Judged without labels, in plain words, with a command to try if it is not.

Clusters are judged by the rows around them and against cheap rivals, never by the model's certainty alone: a network is
certain of any cut it has learned. Every threshold is in `LIMITS`; `gedi reproduce table-verdict` compares the grades
with the truth where it is known. They prove nothing: clusters can be real and still not be the ones you want.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gedi.nets.mixture import SIZES
from gedi.report.gaps import K_MEANS, MIXTURE, MOST_CROWDING
from gedi.report.look import percent, short
from gedi.report.measures import Measures
from gedi.report.rerun import Rerun
from gedi.training.choice import HEAD
from gedi.training.guard import STRAYING, UNLEARNED

GRADES = GOOD, FAIR, POOR, UNGRADED = "good", "fair", "poor", "not graded"
WORST_FIRST = (POOR, FAIR, GOOD, UNGRADED)
TOO_SHORT = 100  # iterations: a run whose stages are all shorter only shows that everything works


def worst_of(levels: Iterable[str]) -> str:
    return min(levels, key=WORST_FIRST.index, default=UNGRADED)


class Limit(NamedTuple):
    """A measure is good up to one value and fair up to another; beyond that it is poor, or at worst ``worst``."""

    good: float
    fair: float
    worst: str = POOR

    def level(self, value: float) -> str:
        higher_is_better = self.good > self.fair
        if value == self.good or (value > self.good) == higher_is_better:
            return GOOD
        return FAIR if value == self.fair or (value > self.fair) == higher_is_better else self.worst


LIMITS = {
    "crowding": Limit(0.50, 0.80),  # of the clusters' borders: an arbitrary cut has 0.5 (a line) to 1 or more
    "crowding_of_images": Limit(0.50, 0.80, FAIR),  # the same for images, whose pixels may not show the gaps
    "hidden": Limit(0.20, 0.60),  # share of rows in clusters that split in two
    "behind": Limit(0.15, 0.50),  # how far the crowding is above that of the best rival
    "confidence": Limit(0.90, 0.70, FAIR),  # mean probability of a row's own cluster: doubt counts, certainty does not
    "keeps_noise": Limit(0.90, 0.80),  # share of rows that stay in their cluster under a little noise
    "keeps_walk": Limit(0.90, 0.80),  # ... at the end of a DAM walk
    "largest_share": Limit(0.80, 0.95),  # share of rows in the largest cluster
    "empty": Limit(0, 0.25),  # share of empty clusters
    "spread": Limit(0.10, 0.01),  # spread of the embedding; 0 if all rows are at one point
    "rank_share": Limit(0.50, 0.25),  # effective rank divided by what the clusters need, n_clusters - 1
    "noise_auroc": Limit(0.75, 0.60),  # how well log p tells data from uniform noise
    "shuffled_auroc": Limit(0.65, 0.55, FAIR),  # ... and from the data with its columns shuffled
    "sample_test": Limit(0.65, 0.85),  # how reliably nearest neighbours tell samples from data
    "outside": Limit(0.05, 0.25),  # share of samples outside the range of the data
    "energy_gap": Limit(0.5, 1.5),  # gap between data and samples late in training, in standard deviations of log p
    "rollbacks": Limit(0, 2),  # number of times the guard rolled training back
}

CANDIDATES = {  # where the clusters may come from
    HEAD: "the best head",
    "walks": "a cut of the walk graph",
    "neighbours": "a cut of the neighbour graph",
    "kmeans": "k-means",
    "mixture": "a Gaussian mixture",
}
RIVAL_NAMES = {K_MEANS: "K-means", MIXTURE: "A Gaussian mixture"}


@dataclass(frozen=True)
class Finding:
    """One observation; unless it is good, also what to do about it and a command that does it."""

    level: str
    text: str
    remedy: str = ""
    command: str = ""
    measure: str = ""  # its name in `LIMITS`, if it has one
    value: float | None = None


@dataclass(frozen=True)
class Judgement:
    """One ability of the model, judged by its worst finding."""

    ability: str
    findings: list[Finding] = field(default_factory=list)
    absent: str = ""  # why it is not graded
    command: str = ""  # what to run if it is not graded, if any command helps

    @property
    def level(self) -> str:
        return worst_of(finding.level for finding in self.findings)

    @property
    def worst_first(self) -> list[Finding]:
        return sorted(self.findings, key=lambda finding: WORST_FIRST.index(finding.level))

    @property
    def why(self) -> str:
        """The reason for the grade, in one sentence."""
        return self.worst_first[0].text if self.findings else f"{self.absent[:1].upper()}{self.absent[1:]}."

    @property
    def advice(self) -> str:
        """A command to paste; empty if the grade is good, or if no command would help."""
        return next((finding.command for finding in self.worst_first if finding.command), self.command)


def judge(m: Measures, rerun: Rerun) -> list[Judgement]:
    """A run's abilities, each judged separately; ``rerun`` knows how the run was started, for commands to paste."""
    if m.diverged:
        why = "training diverged"
        training = Judgement("training", _training(m, rerun))
        return [training, *(Judgement(ability, [], why) for ability in ("clusters", "density", "samples"))]
    if m.iterations is not None and m.iterations < TOO_SHORT:
        why = f"a trial run of at most {m.iterations} iterations per stage is too short to judge"
        again = rerun.fit(afresh=True)
        return [Judgement(ability, [], why, again) for ability in ("clusters", "density", "samples", "training")]
    no_rows = "no rows to measure: pass some with --data"
    clusters, training = _clusters(m, rerun), _training(m, rerun)
    said = {finding.text for finding in clusters}
    return [
        Judgement("clusters", clusters, no_rows if m.has_clusters else "this run trained no clusters"),
        Judgement("embedding", _embedding(m, rerun), no_rows if m.has_clusters else "this run trained no embedding"),
        Judgement("density", _density(m, rerun), no_rows if m.has_density else "this run trained no density"),
        Judgement("samples", _samples(m, rerun), no_rows if m.has_density else "no density, so nothing to sample from"),
        Judgement("training", [finding for finding in training if finding.text not in said]),
    ]


def headline(judgements: list[Judgement]) -> str:
    """All judgements in one sentence.

    >>> headline([Judgement("clusters", [Finding("good", "")]), Judgement("samples", [Finding("poor", "")])])
    'Clusters look good; samples look poor.'
    """
    parts = []
    for level in (GOOD, FAIR, POOR):
        names = [judgement.ability for judgement in judgements if judgement.level == level]
        if names:
            together = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
            plural = len(names) > 1 or names[0].endswith("s")
            parts.append(f"{together} look{'' if plural else 's'} {level}")
    reasons = [judgement.absent for judgement in judgements if judgement.absent]
    nothing = f"not graded: {reasons[0]}" if reasons else "there is nothing to judge yet"
    sentence = "; ".join(parts) or nothing
    return sentence[0].upper() + sentence[1:] + "."


def overall(judgements: list[Judgement]) -> str:
    """The level of the worst part. Poor samples count as fair: they do not make the clusters worse."""
    return worst_of(FAIR if j.ability == "samples" and j.level == POOR else j.level for j in judgements)


def _finding(name: str, value: float | None, text: str, remedy: str, command: str) -> list[Finding]:
    """What a measure says; nothing if it could not be measured."""
    if value is None or math.isnan(value):
        return []
    level = LIMITS[name].level(value)
    return [Finding(level, text, *(("", "") if level == GOOD else (remedy, command)), measure=name, value=value)]


def _things(m: Measures) -> tuple[str, str]:
    """What the data consists of: many, and one."""
    return ("images", "an image") if m.has_images else ("rows", "a row")


def _clusters(m: Measures, rerun: Rerun) -> list[Finding]:
    things, one = _things(m)
    longer = rerun.fit(rerun.times(3, "step2.iterations") | rerun.times(4, "heads.random"))
    found = _apart(m, rerun, longer)
    if m.sizes:
        have, fewer = "has" if m.empty == 1 else "have", rerun.fit(n_clusters=max(2, m.n_clusters - m.empty))
        text = f"{m.empty} of {m.n_clusters} clusters {have} no {things}." if m.empty else "No cluster is empty."
        found += _finding("empty", m.empty / m.n_clusters, text, "ask for fewer clusters", fewer)
        text = f"The largest cluster holds {percent(m.largest_share)} of the {things}."
        remedy = f"nearly all {things} are in one cluster: let more attempts compete"
        found += _finding("largest_share", m.largest_share, text, remedy, longer)
    text = f"{percent(m.keeps_noise)} of the {things} keep their cluster when a little noise is added."
    found += _finding("keeps_noise", m.keeps_noise, text, "train for longer, with more competing attempts", longer)
    text = f"{percent(m.keeps_walk)} of the walks along the data end in the cluster where they began."
    remedy = "the clusters cut through crowded regions: train for longer, or ask for fewer clusters"
    denser = rerun.fit(rerun.times(2, "step1.iterations") | rerun.times(4, "heads.random"))
    found += _finding("keeps_walk", m.keeps_walk, text, remedy, denser)
    text = (
        f"The model is {percent(m.confidence)} certain of {one}'s cluster on average; "
        f"{percent(m.unsure)} of the {things} lie between clusters."
    )
    remedy = "train for longer; if that does not help, there may be fewer clusters, or none that are clear"
    return found + _finding("confidence", m.confidence, text, remedy, longer)


def _apart(m: Measures, rerun: Rerun, longer: str) -> list[Finding]:
    """Whether gaps set the clusters apart, and whether rivals do better."""
    if m.own is None:
        return []
    things, _ = _things(m)
    gaps, crowding = m.own.gaps, m.own.crowding
    if crowding is None:
        text = "At most one cluster is large enough to tell whether a gap lies around it."
        return _finding("crowding", MOST_CROWDING, text, "let more attempts compete", longer)
    clear = LIMITS["crowding"].level(crowding) == GOOD
    text = (
        f"{'Gaps set the clusters apart' if clear else 'Clusters meet without a gap'}: their borders are "
        f"{percent(crowding)} as crowded as the clusters themselves (0%: empty; 100%: an arbitrary cut would do as "
        "well)."
    )
    crowded = len(gaps.crowded)
    fewer = max(2, m.n_clusters - max(1, crowded // 2))
    if m.has_images:
        name, command = "crowding_of_images", longer
        remedy = (
            "pixels alone may not show gaps between images: look at the examples of each cluster, or train for longer"
        )
    elif fewer == m.n_clusters:
        name, remedy, command = "crowding", "there may be no clusters in this data", ""
    else:
        name, remedy, command = "crowding", "ask for fewer clusters", rerun.fit(n_clusters=fewer)
        if crowded:
            none = "has no gap around it" if crowded == 1 else "have no gap around them"
            remedy = f"{crowded} of {m.n_clusters} clusters {none}: ask for fewer"
    found = _finding(name, crowding, text, remedy, command)
    hidden = len(gaps.hidden)
    text = "No cluster falls into clearly separate parts."
    if hidden:
        which = f"{hidden} of {m.n_clusters} clusters, with {percent(gaps.hidden_share)} of the {things},"
        text = f"{which} fall{'s' if hidden == 1 else ''} into clearly separate parts."
    more = rerun.fit(n_clusters=m.n_clusters + hidden)
    found += _finding("hidden", gaps.hidden_share, text, "ask for more clusters", more)
    if m.best_rival is None or (theirs := m.best_rival[1].crowding) is None:
        return found
    name, rival = m.best_rival
    behind = crowding - theirs
    clearer = "no clearer" if LIMITS["behind"].level(behind) == GOOD else "clearer"
    text = (
        f"{RIVAL_NAMES.get(name, name)} on the same {things} finds {clearer} gaps: its borders are {percent(theirs)} "
        f"as crowded as its clusters, ours {percent(crowding)}. Agreement between the two: {percent(rival.agreement)}."
    )
    return found + _finding("behind", behind, text, "train for longer, with more competing attempts", longer)


def _embedding(m: Measures, rerun: Rerun) -> list[Finding]:
    if m.effective_rank is None or m.spread is None:
        return []
    things = _things(m)[0].capitalize()
    text = f"{things} are embedded close to one point (spread {short(m.spread)}; 0 is a single point)."
    if LIMITS["spread"].level(m.spread) == GOOD:
        text = f"{things} are spread out."
    slower = rerun.fit(rerun.times(0.5, "step2.learning_rate"))
    found = _finding("spread", m.spread, text, "train more slowly", slower)
    needed = max(1, min(m.n_clusters - 1, m.dimensions or 1))
    text = f"It uses {m.effective_rank:.1f} of {m.dimensions} dimensions; {m.n_clusters} clusters need about {needed}."
    finer = rerun.fit(rerun.times(2, "heads.neutral", "step2.iterations"))
    remedy = "train a finer auxiliary clustering alongside the clusters"
    return found + _finding("rank_share", min(1.0, m.effective_rank / needed), text, remedy, finer)


def _density(m: Measures, rerun: Rerun) -> list[Finding]:
    longer, one = rerun.fit(rerun.times(3, "step1.iterations")), _things(m)[1]
    often = f"{percent(m.noise_auroc)} of the time"
    text = f"The log density is higher for {one} than for random noise {often}."
    found = _finding("noise_auroc", m.noise_auroc, text, "train the density for longer", longer)
    # Shuffling independent columns changes nothing: no density could do better.
    parts, often = "pixels" if m.has_images else "columns", f"{percent(m.shuffled_auroc)} of the time"
    text = f"It is higher than for shuffled {parts} {often} (50% is chance)."
    remedy = (
        "unless they are independent, the density has not learned how they depend on each other: train it for longer"
    )
    return found + _finding("shuffled_auroc", m.shuffled_auroc, text, remedy, longer)


def _samples(m: Measures, rerun: Rerun) -> list[Finding]:
    better, command = _better_samples(rerun)
    remedy, accuracy = f"do not use the samples as data; {better}", percent(m.sample_test)
    text = f"A nearest-neighbour test tells samples from data with {accuracy} accuracy (50% is chance)."
    found = _finding("sample_test", m.sample_test, text, remedy, command)
    text = f"{percent(m.outside)} of the samples lie outside the range of the data."
    return found + _finding("outside", m.outside, text, remedy, command)


def _better_samples(rerun: Rerun) -> tuple[str, str]:
    """What to change, in words and as a command."""
    more = rerun.times(8, "objective.generative.components")
    if more and max(more.values()) <= max(SIZES):
        return "give the density more components", rerun.fit(more)
    if more:  # it trains without chains
        return "train for longer", rerun.fit(rerun.times(3, "step2.iterations"))
    longer = rerun.times(3, "step1.iterations") | rerun.times(2, "sampler.steps")
    return "train the density for longer", rerun.fit(longer)


def _training(m: Measures, rerun: Rerun) -> list[Finding]:
    slower = rerun.fit(rerun.times(0.3, "step1.learning_rate", "step2.learning_rate"))
    if m.diverged:
        return [Finding(POOR, m.diverged, "train more slowly", slower)]
    gap = None if m.energy_gap is None else m.energy_gap / (m.energy_spread or 1.0)
    varies = f"; it varies by {short(m.energy_spread)} over the data" if m.energy_spread else ""
    text = (
        f"Late in training, the log density of samples was {short(m.energy_gap)} away from that of data "
        f"on average{varies}."
    )
    more_steps = rerun.fit(rerun.times(2, "sampler.steps"))
    found = _finding("energy_gap", gap, text, "let the sampler take more steps: it lags behind the density", more_steps)
    times = "once" if m.rollbacks == 1 else f"{m.rollbacks} times"
    text = f"Training was unstable and rolled back {times}." if m.rollbacks else "Training was stable throughout."
    found += _finding("rollbacks", m.rollbacks, text, "train more slowly", slower)
    return found + [_warning(seen, remedy, rerun) for seen, remedy in m.warnings]


def _warning(seen: str, remedy: str, rerun: Rerun) -> Finding:
    """A warning during training, in plain words if it is a known one."""
    longer = rerun.fit(rerun.times(3, "step2.iterations"))
    if seen.startswith(UNLEARNED):
        return Finding(FAIR, "The clusters had hardly formed when training ended.", "train for longer", longer)
    if seen.startswith(STRAYING):
        text, command = "Walks along the data stray from it.", rerun.fit(rerun.times(0.5, "dam.radius", "dam.steps"))
        return Finding(FAIR, text, "take shorter walks", command)
    return Finding(FAIR, seen, remedy, rerun.fit(rerun.times(4, "heads.random")))
