"""Charts are compact, the same every time, and show what is in the data."""

import json
import re
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gedi.data import Dataset
from gedi.data.cell_values import Cells
from gedi.data.customers import CITIES, customers
from gedi.data.mixed import read_frame
from gedi.data.recognition import column_of
from gedi.report.charts import View, cloud, histograms, matched, number_chart
from gedi.report.comparison import differing
from gedi.report.data_sample import sample_of
from gedi.report.differences import ShownColumn, columns_of, differences, strongest
from gedi.report.history import CURVE_POINTS, History, training_charts
from gedi.report.look import PALETTE, SYMBOLS, colour, compact, literal, percent, rgb, short, side_by_side, symbol
from gedi.report.measures import Answers, Measures, spread_evenly, two_directions
from gedi.report.records import number_of_clusters
from gedi.report.run_page import column_table
from gedi.report.run_view import RunView
from gedi.training.number import Number

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
    assert percent(share) == f"{text}%"


# What red, green and blue light become for readers who lack one kind of cone (Machado et al. 2009), in linear light.
COLOUR_BLIND = {
    "nothing": np.eye(3),
    "red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def as_seen(colours, lacking):
    """CIELAB coordinates: colours 10 apart are easy to tell apart side by side."""
    light = np.asarray(colours) / 255
    light = np.where(light <= 0.04045, light / 12.92, ((light + 0.055) / 1.055) ** 2.4)
    light = np.clip(light @ np.asarray(COLOUR_BLIND[lacking]).T, 0, 1)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(np.maximum(light @ to_xyz.T / [0.9505, 1, 1.089], 0.0089)).T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("lacking", COLOUR_BLIND)
def test_twenty_clusters_stay_apart_for_every_reader(lacking):
    assert len(PALETTE) == len(set(PALETTE)) == 20
    seen = as_seen([rgb(k) for k in range(20)], lacking)
    assert ((seen[:, 0] > 25) & (seen[:, 0] < 85)).all(), "visible on white and on black"
    for i in range(20):
        for j in range(i):
            apart = np.linalg.norm(seen[i] - seen[j])
            assert apart > 20 if lacking == "nothing" else apart > 10 or symbol(i) != symbol(j), (i, j)


def test_more_clusters_than_colours_still_look_different():
    assert len({(colour(k), symbol(k)) for k in range(140)}) == 140 == len(PALETTE) * len(SYMBOLS)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((60_123.4, 31_050.2), ("60,000", "31,000")),
        ((0.1234, 0.1236), ("0.12340", "0.12360")),
        ((-0.04, 3.0), ("0.0", "3.0")),
        ((7.0, 7.0), ("7.00", "7.00")),
        ((3e15, 1.0), ("3e+15", "1")),
    ],
)
def test_two_numbers_have_the_digits_in_which_they_differ(values, text):
    assert side_by_side(*values) == text


def test_plotly_shows_names_unchanged():
    assert literal("<b>%{x}</b> & co") == "&lt;b&gt;% {x}&lt;/b&gt; &amp; co"


# ---- points ----


def test_few_points_stand_for_many_always_the_same_ones():
    assert spread_evenly(10, 100).tolist() == list(range(10))
    assert len(spread_evenly(10_000, 100)) == 100 and spread_evenly(10_000, 100)[-1] == 9_999


def test_a_cloud_has_its_points_once_and_a_group_for_each_in_every_view():
    points, cluster = rng.normal(size=(30, 2)), np.arange(30) % 3
    views = [View("gedi", cluster), View("labels", cluster[::-1], ["<a>", "b", "c"], "not used")]
    made = cloud(points, views, text=["row 4", "row 9"], shown=np.array([4, 9]))
    assert made["cloud"]["text"] == ["row 4", "row 9"] and len(made["cloud"]["x"]) == 2
    first, second = made["cloud"]["views"]
    assert first == {"name": "gedi", "group": [1, 0], "names": None, "note": ""}
    assert second == {"name": "labels", "group": [1, 2], "names": ["&lt;a&gt;", "b", "c"], "note": "not used"}


def test_the_map_keeps_distances_and_does_not_flip():
    x = rng.normal(size=(40, 2)) * [3, 1]
    rotated = x @ np.linalg.qr(rng.normal(size=(5, 5)))[0][:2]
    points = two_directions(rotated)
    far = np.linalg.norm(points[:, None] - points, axis=-1)
    assert np.allclose(far, np.linalg.norm(x[:, None] - x, axis=-1))
    assert np.allclose(two_directions(rotated[:, :1])[:, 1], 0)


def test_histograms_count_every_row_and_outliers_at_the_edge():
    own, far = rng.normal(size=500), np.full(100, -1e9)
    made = histograms({"data": own, "far": far}, "score", "rows")
    own_trace, far_trace = made["data"]
    assert sum(own_trace["y"]) == pytest.approx(100, abs=0.5)
    assert far_trace["y"][0] == 100 and max(own_trace["y"]) < made["layout"]["yaxis"]["range"][1] < 100


# ---- training ----


def test_stages_follow_each_other_and_every_measure_is_one_curve():
    lines = [line("step1", 50, generative=1.0), line("step1", 100, generative=2.0)]
    lines += [line("step2", 50, generative=3.0, objective=0.5, neutral_clustering_dam=0.1, anchor=0.2)]
    history = History(lines, [])
    assert history.begins == {"step1": 0, "step2": 100}
    assert history.curve("generative") == ([50, 100, 150], [1.0, 2.0, 3.0])
    charts = training_charts(history)
    assert set(charts) == {"gap", "objective", "losses"}
    assert [trace["name"] for trace in charts["gap"]["data"]] == ["gap in log p"]
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
    (mark,) = (trace for trace in training_charts(history)["gap"]["data"] if trace["name"] == "event")
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


def test_the_column_that_tells_a_cluster_apart_comes_first_in_its_own_units():
    cluster = np.repeat([0, 1], 200)
    x = rng.normal(size=(400, 5))
    x[:, 3] = 31_000 + 29_000 * cluster + rng.normal(size=400)
    found = differences(columns_of(sample_of(Dataset("d", x, None, list("abcde")))), cluster, 3)
    assert [(one.column, one.text) for one in strongest(found[1])] == [("d", "60,000 (others 31,000)")]
    assert found[1][3].strength == pytest.approx(-found[0][3].strength) and found[1][3].strength > 1.8
    assert found[2] == []
    table = column_table(found)
    assert table is not None and table["clusters"] == [0, 1]
    assert (table["lines"][0]["name"], [cell["text"] for cell in table["lines"][0]["cells"]]) == (
        "d",
        ["31,000", "60,000"],
    )


def test_words_and_yes_or_no_are_compared_by_their_shares():
    cluster = np.repeat([0, 1], 100)
    city = np.where(np.arange(200) < 61, "Antwerp", "Ghent")
    member = (np.arange(200) % 100 < np.where(cluster, 80, 10)).astype(float)
    first, second = differences([ShownColumn("city", city), ShownColumn("member", member)], cluster, 2)
    assert first[0].text == "Antwerp 61% (others 0%)" and second[0].own == "Ghent 100%"
    assert second[1].text == "80% (others 10%)" and second[1].strength > 1


def test_a_table_is_compared_in_its_own_words_units_and_dates():
    frame, segment = customers(400)
    rows, table = read_frame(frame, "X")
    columns = columns_of(sample_of(Dataset("d", rows, None, table.features)), table)
    assert [column.name for column in columns] == [column.name for column in table.used]
    found = {one.column: one for one in differences(columns, segment, 4)[3]}
    assert re.fullmatch(r"\d+ EUR \(others \d+ EUR\)", found["spend"].text) and found["spend"].strength > 1
    assert re.fullmatch(r"[A-Z][a-z]{2} 20\d\d \(others [A-Z][a-z]{2} 20\d\d\)", found["signup"].text)
    assert re.fullmatch(r"[\d,]+ \(others [\d,]+\)", found["income"].text)
    assert re.fullmatch(r"Brussels \d+% \(others \d+%\)", found["city"].text)
    values = {column.name: column.value(0) for column in columns}
    assert values["city"] in CITIES and values["spend"].endswith(" EUR") and values["income"].replace(",", "").isdigit()


@pytest.mark.parametrize(
    ("apart", "expected"),
    [(400, ("May 2017", "Jun 2018")), (20, ("2017-05-10", "2017-05-30")), (1, ("10/05/2017", "11/05/2017"))],
)
def test_averages_of_dates_are_as_precise_as_their_difference(apart, expected):
    recipe = column_of(Cells(pd.Series(["10/05/2017", "23/06/2018"] * 5)), "d")
    first = float(date(2017, 5, 10).toordinal() - date(1970, 1, 1).toordinal())
    assert ShownColumn("d", np.zeros(2), recipe).pair(first, first + apart) == expected


def test_gaps_and_constant_columns_set_nothing_apart():
    cluster = np.repeat([0, 1], 3)
    columns = [ShownColumn("gaps", np.array([np.nan, np.nan, np.nan, 1, 2, 3])), ShownColumn("same", np.full(6, 7.5))]
    for line in differences(columns, cluster, 2):
        assert strongest(line) == [] and line[0].text == "– (others –)"


def test_clusters_without_rows_are_not_listed():
    probability = np.eye(4)[[1, 1, 2]]
    model = SimpleNamespace(predict_proba=lambda x: probability, has_density=False, image_shape=(1, 2, 1))
    run = RunView(Path("run"), "run", model, {}, [])
    run.answers, run.measures, run.sample = Answers(model, np.zeros((3, 2))), Measures(has_clusters=True), None
    lines = run.cluster_lines
    assert [(line["cluster"], line["rows"]) for line in lines] == [(1, 2), (2, 1)]


def test_one_cluster_of_all_rows_is_not_set_apart():
    x = rng.normal(size=(20, 3))
    found = differences(columns_of(sample_of(Dataset("d", x))), np.zeros(20, dtype=int), 2)
    assert found == [[], []] and column_table(found) is None


@pytest.mark.parametrize("junk", [None, 7, {"chosen": "3"}, {"chosen": 3, "curve": [1]}])
def test_the_number_of_clusters_is_told_if_it_was_searched_for(junk):
    assert number_of_clusters({"number": junk}) is None
    found = Number(3, 5, "unsure", 0.7, {2: 0.1, 3: 0.9, 5: 0.8}).plain()
    assert number_of_clusters({"number": found}) == found | {"curve": {2: 0.1, 3: 0.9, 5: 0.8}}
    found["curve"] |= {"x": 1, "4": "high", "9" * 99: 1.0}
    told = number_of_clusters({"number": found})
    assert told is not None and told["curve"] == {2: 0.1, 3: 0.9, 5: 0.8}


# ---- several runs ----


def test_only_settings_that_differ_are_listed():
    assert differing([{"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}]) == [("b", ["2", "3"]), ("c", ["–", "4"])]


def test_the_same_groups_get_the_same_numbers():
    reference = np.array([0, 0, 1, 1, 2, 2])
    assert matched(reference, np.array([2, 2, 0, 0, 1, 1])).tolist() == reference.tolist()
    split = matched(reference, np.array([5, 5, 1, 1, 3, 4]))
    assert split[:4].tolist() == [0, 0, 1, 1] and split[4] != split[5] and 2 in split[4:]


def test_many_numbers_of_clusters_do_not_crowd_the_axis():
    few, many = (number_chart(dict.fromkeys(range(2, last), 0.5), 2)["layout"]["xaxis"] for last in (11, 20))
    assert few["tickmode"] == "linear" and many["tickmode"] == "auto"
