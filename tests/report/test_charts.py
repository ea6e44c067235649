"""Charts are compact, the same every time, and show what is in the data."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from gedi.data import Dataset
from gedi.report.charts import (
    clusters_as_traces,
    describe,
    differences,
    histograms,
    profile_chart,
    profiles,
    two_directions,
)
from gedi.report.comparison import differing, matched
from gedi.report.data_sample import sample_of
from gedi.report.history import CURVE_POINTS, History, training_charts
from gedi.report.look import PALETTE, SYMBOLS, colour, compact, literal, percent, short, symbol
from gedi.report.measures import Answers, few

rng = np.random.default_rng(0)


def line(stage, iteration, **values):
    return {"stage": stage, "iteration": iteration, **values}


# ---- numbers ----


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_compact_numbers_are_short_and_within_a_thousandth_of_the_range(scale, offset):
    x = offset + scale * rng.normal(size=200)
    back = np.array(compact(x), dtype=float)
    assert np.abs(back - x).max() <= 1e-3 * np.ptp(x)
    if not offset:
        assert len(json.dumps(back.tolist())) < 0.7 * len(json.dumps(x.tolist()))


def test_anything_but_a_number_is_null():
    assert compact([1.0, np.nan, np.inf]) == [1.0, None, None]
    assert short("12") == short(None) == percent(True) == "–"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0"), (0.00001, "<\u00a00.1"), (0.012, "1.2"), (0.5, "50"), (0.99999, ">\u00a099.9"), (1, "100")],
)
def test_a_share_is_never_rounded_to_all_or_nothing(share, text):
    assert percent(share) == f"{text}\u00a0%"


def test_fifty_six_clusters_look_different():
    assert len({(colour(k), symbol(k)) for k in range(56)}) == 56 == len(PALETTE) * len(SYMBOLS)


def test_plotly_shows_names_unchanged():
    assert literal("<b>%{x}</b> & co") == "&lt;b&gt;% {x}&lt;/b&gt; &amp; co"


# ---- points ----


def test_few_points_stand_for_many_always_the_same_ones():
    assert few(10, 100).tolist() == list(range(10))
    assert len(few(10_000, 100)) == 100 and few(10_000, 100)[-1] == 9_999


def test_every_point_is_in_the_trace_of_its_cluster():
    points, cluster = rng.normal(size=(30, 2)), np.arange(30) % 3
    traces = clusters_as_traces(points, cluster, places=np.arange(30))
    assert [trace["name"] for trace in traces] == ["cluster 0", "cluster 1", "cluster 2"]
    assert traces[1]["customdata"] == list(range(1, 30, 3))
    assert len({(t["marker"]["color"], t["marker"]["symbol"]) for t in traces}) == 3


def test_the_map_keeps_distances_and_does_not_flip():
    x = rng.normal(size=(40, 2)) * [3, 1]
    rotated = x @ np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    points = two_directions(rotated)
    far = np.linalg.norm(points[:, None] - points, axis=-1)
    assert np.allclose(far, np.linalg.norm(x[:, None] - x, axis=-1))
    assert np.allclose(two_directions(rotated[:, :1])[:, 1], 0)


def test_histograms_count_every_row_and_outliers_at_the_edge():
    own, far = rng.normal(size=500), np.full(100, -1e9)
    made = histograms({"data": own, "far": far}, "score")
    own_trace, far_trace = made["data"]
    assert sum(own_trace["y"]) == pytest.approx(100, abs=0.5)
    assert far_trace["y"][0] == 100 and max(own_trace["y"]) < made["layout"]["yaxis"]["range"][1] < 100


@pytest.mark.parametrize("has_density", [True, False])
def test_a_row_in_words_has_no_log_p_without_a_trained_density(has_density):
    model = SimpleNamespace(
        has_density=has_density, predict_proba=lambda x: np.array([[0.25, 0.75]]), score_samples=lambda x: [2.0]
    )
    words = describe(Answers(model, np.zeros((1, 2))), 0, ["<cat>"]).split("<br>")
    density = ["log p 2"] if has_density else []
    assert words == [
        "row 0 of the sample",
        "cluster 1, probability 0.750",
        *density,
        "label &lt;cat&gt; (not used in training)",
    ]


# ---- training ----


def test_stages_follow_each_other_and_every_measure_is_one_curve():
    lines = [line("step1", 50, generative=1.0), line("step1", 100, generative=2.0)]
    lines += [line("step2", 50, generative=3.0, objective=0.5, neutral_clustering_dam=0.1, anchor=0.2)]
    history = History(lines, [])
    assert history.begins == {"step1": 0, "step2": 100}
    assert history.curve("generative") == ([50, 100, 150], [1.0, 2.0, 3.0])
    charts = training_charts(history)
    assert set(charts) == {"gap", "objective", "losses"}
    assert [trace["name"] for trace in charts["gap"]["data"]] == ["energy gap"]
    names = {trace["name"] for trace in charts["losses"]["data"]}
    assert names == {"neutral head, ends of walks", "agreement with the start"}


def test_a_curve_stops_where_its_term_ended():
    values = [(3.0, 0.0), (2.0, 0.0), (2.0, 0.0), (2.0, 0.0)]
    lines = [line("step2", 50 * i, anchor=anchor, at_box=share) for i, (anchor, share) in enumerate(values)]
    assert History(lines, []).curve("anchor") == ([0, 50], [3.0, 2.0])
    assert History(lines, []).curve("at_box") == ([0, 50, 100, 150], [0.0] * 4)


@pytest.mark.parametrize(("chosen", "place"), [(20.0, 120.0), (50.0, None), (None, None)])
def test_the_choice_of_clusters_is_marked_if_training_went_on_after_it(chosen, place):
    lines = [line("step1", 100, generative=1.0), line("step2", 50, generative=1.0)]
    layout = training_charts(History(lines, [], chosen=chosen))["gap"]["layout"]
    marks = {note["text"]: note["x"] for note in layout["annotations"]}
    assert marks == {"density": 0, "clusters": 100} | ({"choice": place} if place else {})
    assert [shape["x0"] for shape in layout["shapes"]] == [100, *([place] if place else [])]


def test_a_run_without_step_2_has_no_choice():
    assert History([line("step1", 100, generative=1.0)], [], chosen=20.0).choice is None


def test_the_guards_events_are_marked_where_they_happened():
    event = line("step2", 30, seen="<b>gap</b>", action="rolled back", remedy="lower it")
    history = History([line("step1", 100, generative=1.0), line("step2", 50, generative=1.0), event], [event])
    (mark,) = (trace for trace in training_charts(history)["gap"]["data"] if trace["name"] == "guard")
    assert mark["x"] == [130] and mark["text"] == ["&lt;b&gt;gap&lt;/b&gt;: rolled back"]
    assert history.event_rows() == [["step2", "30", "<b>gap</b>", "rolled back", "lower it"]]


def test_invalid_lines_are_left_out():
    lines = [
        {"stage": "elsewhere", "iteration": 1, "generative": 1.0},
        {"generative": 1.0},
        line("step1", -1),
        line("step1", "2"),
    ]
    lines += [line("step1", 5, generative="much"), line("step1", 2**60, generative=1.0)]
    history = History(lines, [{"stage": []}])
    assert training_charts(history) == {} and history.events == []


def test_long_curves_are_thinned_and_keep_their_end():
    history = History([line("step1", i, generative=float(i)) for i in range(5_000)], [])
    x, _ = history.curve("generative")
    assert len(x) <= CURVE_POINTS and (x[0], x[-1]) == (0, 4_999)


# ---- rows ----


def test_the_column_that_tells_a_cluster_apart_comes_first():
    cluster = np.repeat([0, 1], 200)
    x = rng.normal(size=(400, 5))
    x[:, 3] += 10 * cluster
    sample = sample_of(Dataset("d", x, None, list("abcde")))
    found = differences(x, cluster, 3)
    assert found[1, 3] == pytest.approx(-found[0, 3]) and found[1, 3] > 1.8
    assert np.isnan(found[2]).all()
    made = profiles(sample, cluster, found)
    assert [(p.cluster, p.rows, p.differences[0][0], len(p.differences)) for p in made] == [
        (0, 200, "d", 1),
        (1, 200, "d", 1),
    ]
    heat = profile_chart(sample, found)
    assert heat is not None and heat["layout"]["yaxis"]["ticktext"] == list("edcba")


def test_one_cluster_of_all_rows_has_no_profile():
    x = rng.normal(size=(20, 3))
    found = differences(x, np.zeros(20, dtype=int), 2)
    assert profile_chart(sample_of(Dataset("d", x)), found) is None


# ---- several runs ----


def test_only_settings_that_differ_are_listed():
    assert differing([{"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}]) == [("b", ["2", "3"]), ("c", ["–", "4"])]


def test_the_same_groups_get_the_same_numbers():
    reference = np.array([0, 0, 1, 1, 2, 2])
    assert matched(reference, np.array([2, 2, 0, 0, 1, 1])).tolist() == reference.tolist()
    split = matched(reference, np.array([5, 5, 1, 1, 3, 4]))
    assert split[:4].tolist() == [0, 0, 1, 1] and split[4] != split[5] and 2 in split[4:]
