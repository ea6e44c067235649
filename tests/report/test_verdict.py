"""The verdict: every threshold does what its comment says, and whatever is not good comes with a remedy."""

import re
from dataclasses import fields, replace

import pytest

from gedi.objectives.term import kinds
from gedi.report.measures import Measures
from gedi.report.verdict import LIMITS, Finding, Judgement, Limit, headline, judge, overall
from gedi.training.config import TrainingConfig, paths

FINE = Measures(
    n_clusters=4,
    has_clusters=True,
    has_density=True,
    sizes=[25, 25, 25, 25],
    entropy=1.0,
    confidence=0.98,
    unsure=0.01,
    keeps_noise=0.99,
    keeps_walk=0.99,
    effective_rank=3.0,
    spread=0.9,
    dimensions=8,
    noise_auroc=0.95,
    shuffled_auroc=0.9,
    sample_test=0.55,
    energy_gap=0.2,
    energy_spread=1.0,
    candidates={"a head": 0.01, "kmeans": 0.2},
    winner="a head",
)


def levels(measures):
    return {judgement.ability: judgement.level for judgement in judge(measures)}


def test_a_flawless_run_is_good_in_everything():
    assert levels(FINE) == dict.fromkeys(("clusters", "embedding", "density", "samples", "training"), "good")
    assert not any(finding.remedy for judgement in judge(FINE) for finding in judgement.findings)
    assert overall(judge(FINE)) == "good"


@pytest.mark.parametrize(
    ("change", "ability", "level"),
    [
        ({"confidence": 0.8}, "clusters", "fair"),
        ({"confidence": 0.4}, "clusters", "poor"),
        ({"keeps_noise": 0.8}, "clusters", "poor"),
        ({"keeps_walk": 0.92}, "clusters", "fair"),
        ({"sizes": [50, 50, 0, 0]}, "clusters", "poor"),
        ({"sizes": [40, 40, 20, 0]}, "clusters", "fair"),
        ({"sizes": [97, 1, 1, 1]}, "clusters", "poor"),
        ({"candidates": {"a head": 0.5, "kmeans": 0.45}}, "clusters", "fair"),
        ({"candidates": {"a head": 0.9, "kmeans": 0.95}}, "clusters", "fair"),
        ({"spread": 0.001}, "embedding", "poor"),
        ({"effective_rank": 1.2}, "embedding", "fair"),
        ({"noise_auroc": 0.5}, "density", "poor"),
        ({"shuffled_auroc": 0.5}, "density", "fair"),
        ({"sample_test": 1.0}, "samples", "poor"),
        ({"energy_gap": 9.0}, "training", "poor"),
        ({"rollbacks": 1}, "training", "fair"),
        ({"rollbacks": 3}, "training", "poor"),
        ({"warnings": [("walks leave the density.", "lower dam.radius")]}, "training", "fair"),
    ],
)
def test_one_fault_shows_in_its_own_ability_with_a_remedy(change, ability, level):
    changed = replace(FINE, **change)
    assert levels(changed) == levels(FINE) | {ability: level}
    worst = next(judgement for judgement in judge(changed) if judgement.ability == ability).worst_first[0]
    assert worst.level == level and worst.remedy


def test_an_energy_gap_is_judged_relative_to_the_spread_of_log_p():
    assert levels(replace(FINE, energy_gap=9.0, energy_spread=30.0))["training"] == "good"


def test_the_winner_among_several_candidates_is_named_and_judged_by_itself():
    def said(**candidates):
        run = replace(FINE, candidates=candidates, winner=min(candidates, default=None, key=candidates.get))
        return [f for j in judge(run) for f in j.findings if "candidates" in f.text]

    (found,) = said(kmeans=0.02, neighbours=0.99)
    assert found.level == "good" and "from k-means, chosen from 2 candidates: its score is 0.02," in found.text
    assert said(**{"a head": 0.9}) == said() == []  # without rivals, it was judged by its own loss alone


def test_remedies_name_settings_that_exist():
    terms = {f"objective.{f}": [field.name for t in ts.values() for field in fields(t)] for f, ts in kinds().items()}
    known = {*paths(TrainingConfig()), *terms, *(f"{term}.{name}" for term, names in terms.items() for name in names)}
    groups = {path.split(".")[0] for path in known}
    bad = replace(
        FINE,
        sizes=[97, 3, 0, 0],
        candidates={"a head": 1.0, "kmeans": 2.0},
        winner="a head",
        rollbacks=3,
        **dict.fromkeys(("confidence", "keeps_noise", "keeps_walk", "spread", "noise_auroc", "shuffled_auroc"), 0.0),
        effective_rank=0.0,
        sample_test=1.0,
        energy_gap=9.0,
    )
    findings = [finding for judgement in judge(bad) for finding in judgement.findings]
    assert len(findings) == len(LIMITS) and all(finding.remedy for finding in findings)
    named = [name for finding in findings for name in re.findall(r"\w+(?:\.\w+)+", finding.remedy)]
    assert {name for name in named if name.split(".")[0] in groups} - known == set()
    assert {name.split(".")[0] for name in named} <= groups
    assert not any("n_init" in finding.remedy for finding in findings)  # the command line has no such setting


def test_poor_samples_leave_the_run_fair():
    assert overall(judge(replace(FINE, sample_test=1.0))) == "fair"


def test_a_run_that_diverged_says_why_and_nothing_else():
    (only,) = judge(Measures(diverged="Training diverged in step1."))
    assert only.level == "poor" and only.findings[0].text == "Training diverged in step1."


def test_what_a_method_does_not_train_is_absent_not_bad():
    no_density = replace(
        FINE, has_density=False, noise_auroc=None, shuffled_auroc=None, sample_test=None, energy_gap=None
    )
    assert levels(no_density) | {"density": "absent", "samples": "absent"} == levels(no_density)
    no_clusters = Measures(has_density=True, noise_auroc=0.9, energy_gap=0.1, energy_spread=1.0)
    assert levels(no_clusters)["clusters"] == levels(no_clusters)["embedding"] == "absent"
    assert overall(judge(no_clusters)) == "good"


def test_a_run_without_rows_asks_for_some():
    bare = Measures(n_clusters=2, has_clusters=True, has_density=True)
    assert {j.absent for j in judge(bare) if j.ability != "training"} == {"no rows to measure: pass some with --data"}


def test_an_empty_cluster_that_the_guard_saw_too_is_mentioned_once():
    seen = ("1 of 4 clusters have no rows.", "ask for fewer clusters")
    found = [f.text for j in judge(replace(FINE, sizes=[40, 40, 20, 0], warnings=[seen])) for f in j.findings]
    assert found.count(seen[0]) == 1


@pytest.mark.parametrize(
    ("limit", "value", "level"),
    [
        (Limit(0.9, 0.7), 0.9, "good"),
        (Limit(0.9, 0.7), 0.7, "fair"),
        (Limit(0.9, 0.7), 0.69, "poor"),
        (Limit(0.0, 2.0), 0.0, "good"),
        (Limit(0.0, 2.0), 2.0, "fair"),
        (Limit(0.0, 2.0), 2.1, "poor"),
    ],
)
def test_limits_hold_in_either_direction(limit, value, level):
    assert limit.level(value) == level


def test_the_headline_names_every_ability_once():
    found = [Judgement(name, [Finding(level, "")]) for name, level in zip("abc", ("good", "good", "poor"), strict=True)]
    assert headline(found) == "A and b look good; c looks poor."
    assert headline([]) == "There is nothing to judge yet."
