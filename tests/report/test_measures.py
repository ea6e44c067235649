"""What is measured without labels."""

from types import SimpleNamespace

import numpy as np
import pytest

from gedi import GEDI, runs
from gedi.data import Scaler
from gedi.data.table_rows import categories
from gedi.report.gaps import compare_rivals
from gedi.report.measures import (
    Answers,
    Measures,
    candidates,
    effective_rank,
    embedding_measures,
    kept_clusters,
    late_gap,
    measure,
    size_entropy,
    spectrum,
    two_sample_test,
)

rng = np.random.default_rng(0)


def test_effective_rank_counts_equal_directions():
    for k in (1, 3, 8):
        assert effective_rank(np.full(k, 1 / k)) == pytest.approx(k)
    sphere = np.concatenate([np.eye(5), -np.eye(5)])
    assert effective_rank(spectrum(sphere)) == pytest.approx(5)


def test_an_embedding_at_one_point_has_no_spread():
    point = np.tile([1.0, 0.0], (10, 1))
    assert embedding_measures(point)["spread"] == pytest.approx(0)
    poles = np.array([[1.0, 0.0], [-1.0, 0.0]] * 5)
    found = embedding_measures(poles)
    assert found["spread"] == pytest.approx(1) and found["effective_rank"] == pytest.approx(1)


def test_the_spread_does_not_depend_on_the_embeddings_unit():
    z = rng.normal(size=(50, 6)) + 1.0
    found, larger = embedding_measures(z), embedding_measures(1000 * z)
    assert found["spread"] == pytest.approx(larger["spread"]) and 0.3 < found["spread"] < 0.7
    assert found["effective_rank"] == pytest.approx(larger["effective_rank"])
    unit = z / np.linalg.norm(z, axis=1, keepdims=True)
    assert embedding_measures(unit)["spread"] == pytest.approx(1 - (unit.mean(0) ** 2).sum())
    for point in (np.full((9, 2), 40.0), np.zeros((9, 2))):
        assert embedding_measures(point)["spread"] == 0


def test_entropy_is_one_for_equal_sizes_and_zero_for_one_cluster():
    assert size_entropy(np.array([7, 7, 7])) == pytest.approx(1)
    assert size_entropy(np.array([7, 0, 0])) == 0


def test_samples_like_the_data_cannot_be_told_apart_and_others_can():
    rows = rng.normal(size=(400, 3))
    assert two_sample_test(rows, rng.normal(size=(400, 3))) < 0.57
    assert two_sample_test(rows, rng.normal(size=(400, 3)) + 50) == 1
    copies = rows + 1e-9
    assert two_sample_test(rows, copies) == 1


def test_blurred_samples_can_be_told_from_data_in_many_dimensions():
    rows = 0.1 * rng.normal(size=(300, 60))
    assert two_sample_test(rows, rng.normal(size=(300, 60))) > 0.9


def line_model(noise):
    """Two clusters, left and right of zero, and no density."""
    scaler = Scaler().fit(np.zeros((1, 1)), mode="none")
    return SimpleNamespace(
        config=SimpleNamespace(augment=SimpleNamespace(noise=noise)),
        has_density=False,
        scaler=scaler,
        scaled=scaler.transform,
        predict=lambda x: (x[:, 0] > 0).astype(int),
        predict_proba=lambda x: np.eye(2)[(x[:, 0] > 0).astype(int)],
    )


@pytest.mark.parametrize(("distance", "low", "high"), [(1.0, 1.0, 1.0), (0.001, 0.4, 0.6)])
def test_rows_far_from_the_border_keep_their_cluster(distance, low, high):
    x = np.repeat([[-distance], [distance]], 500, axis=0)
    found = kept_clusters(Answers(line_model(0.1), x))
    assert low <= found["keeps_noise"] <= high and "keeps_walk" not in found


def test_the_late_gap_is_the_mean_absolute_gap_of_the_last_quarter():
    lines = [{"generative": value} for value in (100.0, 100.0, 100.0, 100.0, 100.0, 100.0, -2.0, 4.0)]
    assert late_gap(lines) == 3.0
    assert late_gap([{"generative": "many"}, {"objective": 1.0}]) is None


@pytest.mark.parametrize(("winner", "unexplained"), [("walks", 0.1), ("a head", 0.2), ("x", None), ([], None)])
def test_the_winner_is_the_candidate_that_the_run_names(winner, unexplained):
    results = {"candidates": {"a head": 0.2, "walks": 0.1, "kmeans": 0.1}, "winner": winner}
    assert measure(None, None, None, results, []).unexplained == unexplained
    assert Measures().winner is Measures().unexplained is None


def test_a_head_without_rivals_was_judged_by_its_loss_which_is_not_a_share():
    assert Measures(candidates={"a head": 2.3}, winner="a head").unexplained is None


@pytest.mark.parametrize("given", [None, 3, [0.1], "walks", {"walks": "0.1"}, {"walks": None}, {"walks": float("nan")}])
def test_candidates_that_are_not_numbers_are_left_out(given):
    assert candidates({"candidates": given}) == {}
    assert len(candidates({"candidates": {str(i): 0.1 for i in range(999)}})) < 100


def test_guard_events_are_counted_and_kept():
    events = [
        {"action": "rolled back to iteration 0", "seen": "gap"},
        {"action": "warned", "seen": "empty", "remedy": "fewer"},
        "not an event",
    ]
    found = measure(None, None, None, {"guard": events, "diverged": "it did"}, [])
    assert (found.rollbacks, found.warnings, found.diverged) == (1, [("empty.", "fewer")], "it did")


def test_the_categories_are_those_of_training_even_if_a_sample_would_show_others(tmp_path):
    """One row of 3,000 is in two categories at once, so these columns are numbers; a sample may not contain it."""
    x = np.eye(2)[rng.integers(2, size=3000)]
    x[0] = 1.0
    x = np.hstack([x, rng.normal(size=(3000, 1)) + 4 * x[:, :1]])
    model = (
        GEDI(2, preset="smoke", random_state=0, training={"step1.iterations": 2, "step2.iterations": 2}).fit(x).model_
    )
    assert model.words == [] and categories(x[1:]) == [[0, 1]]
    with runs.claimed(tmp_path / "run") as folder:
        runs.save(model, folder)
    assert runs.load(folder).words == []
    found = measure(model, Answers(model, x[1:500]), None, {}, [])
    assert found.own is not None
    own, _ = compare_rivals(model.scaled(x[1:500]), model.predict(x[1:500]), 2, images=False)
    assert found.own.gaps == own.gaps
