"""The verdict: every threshold does what its comment says, and whatever is not good comes with a remedy."""

import shlex
from dataclasses import replace

import numpy as np
import pytest

from gedi.cli import build_parser, training_flags
from gedi.report import verdict
from gedi.report.gaps import Gaps, MeasuredClusters, Surroundings
from gedi.report.measures import Measures
from gedi.report.rerun import Rerun
from gedi.report.verdict import LIMITS, TOO_SHORT, Finding, Judgement, Limit, headline, overall
from gedi.training.config import TrainingConfig, override
from gedi.training.presets import configure


def apart(crowding, hidden=0):
    """Four clusters whose borders are this crowded, some of which fall into two."""
    one = Surroundings(25, border=0.1 * crowding, inside=0.1)
    parts = replace(one, gap=0.0)
    return MeasuredClusters(np.repeat(range(4), 25), Gaps({k: parts if k < hidden else one for k in range(4)}), 0.5)


FINE = Measures(
    n_clusters=4,
    has_clusters=True,
    has_density=True,
    iterations=800,
    own=apart(0.1),
    rivals={"k-means": apart(0.3), "Gaussian mixture": apart(0.05)},
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
    outside=0.0,
    energy_gap=0.2,
    energy_spread=1.0,
    candidates={"a head": 0.01, "kmeans": 0.2},
    winner="a head",
)


def judge(measures, rerun=None):
    return verdict.judge(measures, rerun or Rerun(n_clusters=measures.n_clusters))


def levels(measures):
    return {judgement.ability: judgement.level for judgement in judge(measures)}


def test_a_flawless_run_is_good_in_everything():
    assert levels(FINE) == dict.fromkeys(("clusters", "embedding", "density", "samples", "training"), "good")
    assert not any(finding.remedy for judgement in judge(FINE) for finding in judgement.findings)
    assert overall(judge(FINE)) == "good"


@pytest.mark.parametrize(
    ("change", "ability", "level"),
    [
        ({"own": apart(0.6), "rivals": {}}, "clusters", "fair"),
        ({"own": apart(1.0), "rivals": {}}, "clusters", "poor"),
        ({"own": apart(1.0), "rivals": {}, "has_images": True}, "clusters", "fair"),
        ({"own": apart(0.1, hidden=1)}, "clusters", "fair"),
        ({"own": apart(0.1, hidden=3)}, "clusters", "poor"),
        ({"own": apart(0.3)}, "clusters", "fair"),
        (
            {"own": MeasuredClusters(np.zeros(100, int), Gaps({0: Surroundings(100, 0.0, 0.1)}), None)},
            "clusters",
            "poor",
        ),
        ({"confidence": 0.8}, "clusters", "fair"),
        ({"confidence": 0.4}, "clusters", "fair"),
        ({"keeps_noise": 0.7}, "clusters", "poor"),
        ({"keeps_walk": 0.85}, "clusters", "fair"),
        ({"sizes": [50, 50, 0, 0]}, "clusters", "poor"),
        ({"sizes": [40, 40, 20, 0]}, "clusters", "fair"),
        ({"sizes": [97, 1, 1, 1]}, "clusters", "poor"),
        ({"spread": 0.001}, "embedding", "poor"),
        ({"effective_rank": 1.2}, "embedding", "fair"),
        ({"noise_auroc": 0.5}, "density", "poor"),
        ({"shuffled_auroc": 0.5}, "density", "fair"),
        ({"sample_test": 1.0}, "samples", "poor"),
        ({"outside": 0.1}, "samples", "fair"),
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
    assert worst.level == level and worst.remedy and worst.command


def test_an_energy_gap_is_judged_relative_to_the_spread_of_log_p():
    assert levels(replace(FINE, energy_gap=9.0, energy_spread=30.0))["training"] == "good"


@pytest.mark.parametrize(
    ("crowding", "remedy"),
    [(0.6, "ask for fewer clusters"), (1.0, "4 of 4 clusters have no gap around them: ask for fewer")],
)
def test_clusters_without_a_gap_are_counted_if_there_are_any(crowding, remedy):
    clusters, *_ = judge(replace(FINE, own=apart(crowding), rivals={}))
    assert clusters.worst_first[0].remedy == remedy


def test_certainty_alone_earns_nothing():
    sure = replace(FINE, own=apart(1.2), rivals={}, confidence=1.0, unsure=0.0, keeps_noise=1.0, keeps_walk=1.0)
    assert levels(sure)["clusters"] == "poor"


def test_a_trial_run_is_not_graded_and_says_why():
    found = judge(replace(FINE, iterations=TOO_SHORT - 1), Rerun("rows.csv", 4, about_settings=("--preset", "smoke")))
    assert {judgement.level for judgement in found} == {overall(found)} == {"not graded"}
    assert headline(found) == "Not graded: a trial run of at most 99 iterations per stage is too short to judge."
    assert {judgement.advice for judgement in found} == {"gedi fit rows.csv --n-clusters 4 --out RUN-2"}
    assert levels(replace(FINE, iterations=TOO_SHORT)) == levels(FINE)


def test_more_training_within_a_time_budget_is_a_longer_budget():
    rerun = Rerun("photos", 4, minutes=3.0, config=TrainingConfig())
    advice = {judgement.ability: judgement.advice for judgement in judge(replace(FINE, keeps_noise=0.0), rerun)}
    assert "--minutes 9 " in advice["clusters"] and "iterations" not in advice["clusters"]
    assert "--minutes 3 " in rerun.fit(n_clusters=5)


def test_every_remedy_is_a_command_that_the_command_line_takes():
    warnings = [("the cluster loss is 2.", "x"), ("DAM's walks end.", "x"), ("1 of 4 clusters has no rows.", "x")]
    bad = replace(
        FINE,
        own=apart(1.0, hidden=3),
        sizes=[97, 3, 0, 0],
        rollbacks=3,
        warnings=warnings,
        **dict.fromkeys(("confidence", "keeps_noise", "keeps_walk", "spread", "noise_auroc", "shuffled_auroc"), 0.0),
        effective_rank=0.0,
        sample_test=1.0,
        outside=1.0,
        energy_gap=9.0,
    )
    rerun = Rerun("my rows.csv", 4, config=TrainingConfig())
    findings = [finding for judgement in judge(bad, rerun) for finding in judgement.findings]
    assert {finding.measure for finding in findings} == LIMITS.keys() - {"crowding_of_images"} | {""}
    assert all(finding.remedy for finding in findings)
    for finding in findings:
        program, *words = shlex.split(finding.command)
        rest, changes = training_flags(words)
        args = build_parser().parse_args(rest)
        assert program == "gedi" and args.data == "my rows.csv" and args.out == "RUN-2" and args.n_clusters >= 2
        override(TrainingConfig(), changes)  # settings that exist, with values in their range
        assert changes or args.n_clusters != 4


@pytest.mark.parametrize("word", ["nats", "guard", "sphere", "energy", "DAM", "L_DI", "tau", "SGLD", "AUROC"])
def test_findings_are_in_plain_words(word):
    bad = replace(FINE, own=apart(2.0, hidden=4), rollbacks=3, energy_gap=9.0, sample_test=1.0, sizes=[99, 1, 0, 0])
    for run in (FINE, bad, replace(bad, warnings=[("the cluster loss is 2.", "x"), ("DAM's walks end.", "x")])):
        for judgement in judge(run):
            assert not any(word in f"{finding.text} {finding.remedy}" for finding in judgement.findings)


def test_poor_samples_leave_the_run_fair():
    assert overall(judge(replace(FINE, sample_test=1.0))) == "fair"


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("toy", "--training.step1.iterations"),
        ("rows", "--training.objective.generative.components 64"),
        ("images", "--training.step2.iterations"),  # which has 64 components
    ],
)
def test_the_remedy_for_samples_is_one_that_the_density_knows(preset, said):
    rerun = Rerun("rows.csv", 4, config=configure(preset, "gedi", n_features=3072, image_shape=(32, 32, 3)))
    found = {judgement.ability: judgement for judgement in judge(replace(FINE, sample_test=1.0), rerun)}
    assert said in found["samples"].advice


def test_a_run_that_diverged_says_why_and_nothing_else():
    training, *others = judge(Measures(diverged="Training diverged in step1."))
    assert training.level == "poor" and training.why == "Training diverged in step1." and training.advice
    assert {judgement.level for judgement in others} == {"not graded"}


def test_what_a_method_does_not_train_is_absent_not_bad():
    no_density = replace(
        FINE, has_density=False, noise_auroc=None, shuffled_auroc=None, sample_test=None, outside=None, energy_gap=None
    )
    assert levels(no_density) | {"density": "not graded", "samples": "not graded"} == levels(no_density)
    no_clusters = Measures(has_density=True, noise_auroc=0.9, energy_gap=0.1, energy_spread=1.0)
    assert levels(no_clusters)["clusters"] == levels(no_clusters)["embedding"] == "not graded"
    assert overall(judge(no_clusters)) == "good"


def test_a_run_without_rows_asks_for_some():
    bare = Measures(n_clusters=2, has_clusters=True, has_density=True)
    assert {j.absent for j in judge(bare) if j.ability != "training"} == {"no rows to measure: pass some with --data"}


def test_an_empty_cluster_that_the_guard_saw_too_is_mentioned_once():
    seen = ("1 of 4 clusters has no rows.", "ask for fewer clusters")
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
        (Limit(0.0, 2.0, "fair"), 2.1, "fair"),
    ],
)
def test_limits_hold_in_either_direction(limit, value, level):
    assert limit.level(value) == level


def test_the_headline_names_every_ability_once():
    found = [Judgement(name, [Finding(level, "")]) for name, level in zip("abc", ("good", "good", "poor"), strict=True)]
    assert headline(found) == "A and b look good; c looks poor."
    assert headline([]) == "There is nothing to judge yet."
