"""Tables as people have them become rows of features, and rows become cells again."""

import json

import numpy as np
import pandas as pd
import pytest

from gedi.data import Column, TableRecipe, load, mixed, stream, tables
from gedi.data.cell_values import Cells
from gedi.data.customers import customers
from gedi.data.recognition import column_of
from gedi.errors import DataError

N = 40
ROWS = {
    "id": [f"C{i}" for i in range(N)],
    "place": (["here", "there", "nowhere"] * N)[:N],
    "spend": [f"{i + 0.5:.2f} EUR" for i in range(N)],
    "income": [f"{49_000 + 1_000 * i:,}" for i in range(N)],
    "since": [f"2021-03-{1 + i % 28:02d}" for i in range(N)],
    "member": (["yes", "no"] * N)[:N],
    "size": [1.5 * (i % 7) for i in range(N)],
}


@pytest.fixture
def frame():
    return pd.DataFrame(ROWS)


def kinds(frame):
    return {name: column_of(Cells(frame[name]), name).kind for name in frame}


def test_every_kind_of_column_is_recognised(frame):
    expected = ["id", "category", "number", "number", "date", "boolean", "number"]
    assert list(kinds(frame).values()) == expected
    assert kinds(frame.assign(same="x"))["same"] == "constant"
    assert (
        kinds(frame.assign(note=[f"this is what customer {i} told us last week" for i in range(N)]))["note"] == "text"
    )


@pytest.mark.parametrize(
    ("cells", "expected", "unit"),
    [
        (["18.48 EUR", "7.5 EUR", "3 EUR"], [18.48, 7.5, 3], "EUR"),
        (["49,000", "51,200", "1,000,000"], [49_000, 51_200, 1_000_000], ""),
        (["38,0", "37,5", "1.236,9"], [38, 37.5, 1236.9], ""),
        (["$5", "-$7.20", "$ 1,200.50"], [5, -7.2, 1200.5], "$"),
        (["1 234,5", "900,1", "7,0"], [1234.5, 900.1, 7], ""),
        (["45%", "3 %", "2%"], [45, 3, 2], "%"),
        (["0,123", "0,456", "0,7"], [0.123, 0.456, 0.7], ""),
        (["1e-3", "2", "-.5"], [0.001, 2, -0.5], ""),
        (["5 m2", "7 m2", "8 m2"], [5, 7, 8], "m2"),
        (["12.50-", "3.20", "1,200.00 -"], [-12.5, 3.2, -1200], ""),
        (["(1,250)", "(7)", "38"], [-1250, -7, 38], ""),
        (["\u22122.5", "3", "\u22121"], [-2.5, 3, -1], ""),
        (["₹1,200", "₹7.5", "(₹3)"], [1200, 7.5, -3], "₹"),
        (["R$ 12,50", "R$ 7,25", "R$ 1.234,00"], [12.5, 7.25, 1234], "R$"),
        (["１２", "３.５", "７"], [12, 3.5, 7], ""),
        (["1.5k", "20k", "0"], [1.5, 20, 0], "k"),
    ],
)
def test_numbers_as_people_write_them(cells, expected, unit):
    frame = pd.DataFrame({"a": cells * 10})
    column = column_of(Cells(frame["a"]), "a")
    recipe = TableRecipe([column])
    assert column.kind == "number" and column.unit == unit
    rows = recipe.encode(frame, surprises())
    np.testing.assert_allclose(rows[:3, 0], expected)
    assert (
        list(
            pd.DataFrame(recipe.decode(rows[:3]))["a"].pipe(
                lambda shown: recipe.encode(shown.to_frame(), surprises())[:, 0]
            )
        )
        == expected
    )


def surprises():
    from gedi.data.table_recipe import Surprises

    return Surprises("the table")


@pytest.mark.parametrize(
    "cells",
    [
        ["C01", "C02"],
        ["ABC123", "ABC124"],
        ["12a", "13b"],
        ["1 km", "2 m"],
        ["+32 470 12", "+32 471 99"],
        ["1.2k", "800"],
    ],
)
def test_words_with_digits_are_not_numbers(cells):
    assert column_of(Cells(pd.Series(cells * 10)), "a").kind == "category"


@pytest.mark.parametrize(
    ("cells", "form"),
    [
        (["2021-03-01", "2021-04-25"], "%Y-%m-%d"),
        (["3/4/2021", "25/4/2021"], "%d/%m/%Y"),
        (["3/4/2021", "4/25/2021"], "%m/%d/%Y"),
        (["3.4.2021", "5.4.2021"], "%d.%m.%Y"),
        (["14.03.24", "05.11.98"], "%d.%m.%y"),
        (["3/14/24", "11/5/98"], "%m/%d/%y"),
        (["14/03/24 10:30", "05/11/98 09:05"], "%d/%m/%y %H:%M"),
        (["14-Mar-24", "05-Nov-98"], "%d-%b-%y"),
        (["2021-03-01 10:00:00", "2022-03-01 11:20:05"], "%Y-%m-%d %H:%M:%S"),
    ],
)
def test_dates_are_read_and_shown_in_their_own_format(cells, form):
    frame = pd.DataFrame({"a": cells * 10})
    column = column_of(Cells(frame["a"]), "a")
    assert column.kind == "date" and column.format == form
    days = TableRecipe([column]).encode(frame, surprises())[:2, 0]
    assert [column.shown(day) for day in days] == pd.to_datetime(cells, format=form).strftime(form).tolist()


@pytest.mark.parametrize("name", ["id", "customer_id", "customerId", "Unnamed: 0", "index"])
def test_unique_whole_numbers_with_the_name_of_an_id_are_never_a_feature(name):
    values = np.random.default_rng(0).permutation(1_000)[:N]
    assert column_of(Cells(pd.Series(values)), name).kind == "id"
    assert column_of(Cells(pd.Series(values)), "paid").kind == "number"
    assert column_of(Cells(pd.Series(values // 2)), name).kind == "number"


def test_the_index_that_pandas_writes_is_carried_as_an_id(tmp_path):
    pd.DataFrame({"a": [1.5, 2, 7], "b": [3, 1, 2]}).to_csv(tmp_path / "a.csv")
    data = load(tmp_path / "a.csv")
    assert data.feature_names == ["a", "b"] and data.ids["column 1"].tolist() == ["0", "1", "2"]


def test_a_column_that_counts_the_rows_is_never_a_feature(tmp_path, frame):
    frame[["size"]].assign(count=range(1, N + 1), other=np.sin(range(N))).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    assert data.feature_names == ["size", "other"] and data.ids["count"].tolist() == [str(i) for i in range(1, N + 1)]


def test_rare_words_are_other_and_many_gaps_are_a_value_of_their_own():
    column = column_of(Cells(pd.Series(["a"] * 60 + ["b"] * 50 + ["c", "d"] + [None] * 20)), "a")
    assert column.levels == ("a", "b", "other", "missing") and sum(column.shares) == pytest.approx(1)


# ---- rows ----


def test_a_recipe_survives_json_and_gives_the_cells_back(tmp_path, frame):
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    recipe = TableRecipe.from_state(json.loads(json.dumps(data.table.state())))
    assert recipe == data.table and data.feature_names == recipe.features
    shown = pd.DataFrame(recipe.decode(data.x))
    for name in ("place", "spend", "since", "member"):
        assert shown[name].tolist() == frame[name].tolist()
    assert shown["income"].tolist() == [49_000 + 1_000 * i for i in range(N)]
    assert data.ids["id"].tolist() == frame["id"].tolist()
    assert recipe.groups["place"] == [0, 1, 2] and recipe.groups["spend"] == [3]


def test_plain_numbers_stay_bit_for_bit(tmp_path):
    x = np.random.default_rng(0).normal(size=(N, 3))
    pd.DataFrame(x, columns=list("abc")).to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    assert np.array_equal(data.x, load(tmp_path / "a.csv", raw=True).x) and np.array_equal(data.x, x)
    assert data.table.is_plain and load(tmp_path / "a.csv", raw=True).table is None


def test_gaps_become_the_median_or_no_value_at_all(tmp_path, frame):
    frame.loc[3, ["place", "spend"]] = None
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    spend, place = (data.x[:, data.table.groups[name]] for name in ("spend", "place"))
    assert spend[3, 0] == pytest.approx(np.median(np.delete(spend, 3))) and place[3] == pytest.approx(
        np.delete(place, 3, 0).mean(0)
    )


def test_a_real_median_is_not_a_gap(tmp_path):
    frame = pd.DataFrame({"a": [0.0] * 30 + [None] * 3 + list(range(1, 28)), "b": np.arange(60) % 7 + 0.5})
    frame.to_csv(tmp_path / "a.csv", index=False)
    data = load(tmp_path / "a.csv")
    assert np.flatnonzero(data.table.gaps(data.x).any(1)).tolist() == [30, 31, 32]


def test_unique_codes_with_leading_zeros_are_ids(tmp_path):
    pd.DataFrame({"staff no": [f"{i:05}" for i in range(60, 0, -1)], "b": np.arange(60) % 7 + 0.5}).to_csv(
        tmp_path / "a.csv", index=False
    )
    assert [column.kind for column in load(tmp_path / "a.csv").table.columns] == ["id", "number"]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8", "utf-8-sig", "utf-16"])
def test_text_in_any_common_encoding(tmp_path, frame, encoding):
    frame["place"] = frame["place"].replace("here", "Liège")
    frame.to_csv(tmp_path / "a.csv", index=False, encoding=encoding)
    assert "place=Liège" in load(tmp_path / "a.csv").feature_names


@pytest.mark.parametrize("suffix", [".xlsx", ".parquet", ".tsv"])
def test_other_files_give_the_same_features(tmp_path, frame, suffix):
    frame.to_csv(tmp_path / "a.csv", index=False)
    writers = {".xlsx": frame.to_excel, ".parquet": frame.to_parquet}
    writers.get(suffix, lambda path, index: frame.to_csv(path, index=index, sep="\t"))(
        tmp_path / f"b{suffix}", index=False
    )
    one, other = load(tmp_path / "a.csv"), load(tmp_path / f"b{suffix}")
    assert np.array_equal(one.x, other.x) and one.feature_names == other.feature_names


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no", b"a,b\n1,2\n"])
def test_a_damaged_workbook_is_refused(tmp_path, content):
    (tmp_path / "a.xlsx").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        load(tmp_path / "a.xlsx")


def test_a_table_without_anything_to_learn_from_says_why(tmp_path):
    (tmp_path / "a.csv").write_text("id,note\n" + "\n".join(f"C{i},same" for i in range(N)))
    with pytest.raises(DataError, match=r"no columns to learn from .*'note': always 'same'"):
        load(tmp_path / "a.csv")


# ---- new data ----


@pytest.fixture
def trained(tmp_path, frame):
    frame.to_csv(tmp_path / "train.csv", index=False)
    return load(tmp_path / "train.csv").table


def test_new_words_and_gaps_work_with_one_warning(tmp_path, frame, trained):
    frame.loc[0, "place"], frame.loc[1, "size"], frame.loc[2, "spend"] = "Mars", None, "a lot"
    frame.to_csv(tmp_path / "new.csv", index=False)
    with pytest.warns(UserWarning) as told:
        data = load(tmp_path / "new.csv", table=trained)
    (said,) = [str(one.message) for one in told]
    assert all(word in said for word in ("'place'", "'Mars'", "gaps in 'size' (1)", "'a lot'"))
    assert told[0].filename == __file__
    assert data.x[0, trained.groups["place"]] == pytest.approx(trained.columns[1].shares)
    assert np.isfinite(data.x).all()


def test_a_header_of_numbers_is_known_by_the_names_of_training(tmp_path):
    recipe = TableRecipe([Column(name=year, kind="number", fill=0.0) for year in ("2019", "2020")])
    (tmp_path / "new.csv").write_text("2020,2019\n1,2\n3,4\n")
    assert load(tmp_path / "new.csv", table=recipe).x.tolist() == [[2, 1], [4, 3]]
    assert next(stream(tmp_path / "new.csv", table=recipe).blocks).tolist() == [[2, 1], [4, 3]]


def test_a_column_that_holds_something_else_is_refused(tmp_path, frame, trained):
    frame.assign(spend="a lot").to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match=r"Column 'spend' of .* must hold numbers in EUR, .*'a lot'"):
        load(tmp_path / "new.csv", table=trained)
    frame.drop(columns="place").to_csv(tmp_path / "new.csv")
    with pytest.raises(DataError, match="no column 'place'"):
        load(tmp_path / "new.csv", table=trained)


@pytest.mark.parametrize(("trained_on", "new"), [("18.48", "7,31"), ("18,48", "7.31"), ("1,848.00", "7,31")])
def test_a_separator_that_training_did_not_have_is_never_dropped(trained_on, new):
    column = column_of(Cells(pd.Series([trained_on, f"3{trained_on[1:]}"] * 10)), "spend")
    with pytest.raises(DataError, match=rf"Column 'spend' of .* must hold numbers, .*'{new}'"):
        column.encode(Cells(pd.Series([new, new])), surprises())


@pytest.mark.parametrize("keep", [False, True])
def test_blocks_are_the_rows_of_the_whole_table_with_their_ids(tmp_path, trained, monkeypatch, keep):
    from gedi.data import arrays

    monkeypatch.setattr(arrays, "BLOCK_ROWS", 7)
    parts = list(stream(tmp_path / "train.csv", table=trained, keep=keep).parts)
    assert len(parts) == 6 and list(parts[0].beside) == (list(ROWS) if keep else ["id"])
    assert np.array_equal(np.concatenate([part.x for part in parts]), load(tmp_path / "train.csv", table=trained).x)
    assert np.concatenate([part.beside["id"] for part in parts]).tolist() == ROWS["id"]


def test_a_stream_of_plain_numbers_survives_a_word_further_down(tmp_path, monkeypatch):
    from gedi.data import arrays

    monkeypatch.setattr(arrays, "BLOCK_ROWS", 7)
    lines = [f"{i * i},{i % 5}" for i in range(N)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b", *lines]))
    recipe = load(tmp_path / "train.csv").table
    (tmp_path / "new.csv").write_text("\n".join(["b,a", *(f"{i % 5},{'?' if i == 30 else i * i}" for i in range(N))]))
    with pytest.warns(UserWarning, match="gaps in 'a'"):
        x = np.concatenate(list(stream(tmp_path / "new.csv", table=recipe).blocks))
    expected = np.array([[i * i, i % 5] for i in range(N)], dtype=float)
    expected[30, 0] = recipe.columns[0].fill
    assert np.array_equal(x, expected)


# ---- a stranger's recipe ----


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "pickle"},
        {"fill": None},
        {"fill": "one"},
        {"unknown": 1},
        {"levels": ["a"], "kind": "category"},
        {"digits": 99},
        {"kind": "date"},
        {"kind": "date", "format": "%999999999d"},
    ],
)
def test_an_invalid_recipe_is_refused(change):
    """Of a file that somebody else wrote; a width in a date would fill the memory."""
    with pytest.raises(ValueError):
        TableRecipe.from_state([{"name": "a", "kind": "number", "fill": 1.0} | change])


def test_customers_are_the_same_for_the_same_seed_and_hide_their_segment():
    frame, segments = customers(200, seed=3)
    again, _ = customers(200, seed=3)
    assert frame.equals(again) and len(np.unique(segments)) == 4
    assert 0.02 < (frame.iloc[:, 2:] == "").to_numpy().mean() < 0.08
    expected = {"customer_id": "id", "name": "text", "city": "category", "signup": "date", "age": "number"}
    expected |= {
        "income": "number",
        "spend": "number",
        "orders": "number",
        "newsletter": "boolean",
        "channel": "category",
    }
    assert kinds(frame) == expected


@pytest.mark.parametrize("place", [0, 5_000])
@pytest.mark.parametrize("kept", [10**9, 1])
def test_a_table_with_a_gap_is_parsed_once_unless_its_beginning_is_too_large_to_keep(
    tmp_path, monkeypatch, place, kept
):
    frame = pd.DataFrame({"a": [f"{i % 7}.5" for i in range(6_000)], "b": ["3", "4"] * 3_000})
    frame.loc[place, "a"] = ""
    frame.to_csv(tmp_path / "t.csv", index=False)
    passes, lines = [], tables.text_lines
    monkeypatch.setattr(tables, "text_lines", lambda *args, **more: passes.append(1) or lines(*args, **more))
    monkeypatch.setattr(mixed, "KEPT_CELLS", kept)
    data = load(tmp_path / "t.csv")
    assert len(passes) == 2 + (2 if place and kept == 1 else 1)  # two look for a header and a first row
    known, column = np.arange(6_000) != place, data.table.columns[0]
    assert data.x[known, 0].tolist() == frame["a"][known].astype(float).tolist()
    assert column.missing == pytest.approx(1 / 6_000) and data.x[place, 0] == column.fill


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series(pd.to_timedelta([12, 36] * 10, unit="h")), [0.5, 1.5]),
        (pd.Series([pd.Timestamp(1970, 1, 2), pd.Timestamp(1970, 1, 5)] * 10, dtype=object), [1.0, 4.0]),
    ],
)
def test_durations_and_dates_in_columns_of_objects_are_counted_in_days(column, expected):
    rows, table = mixed.read_frame(pd.DataFrame({"a": column}), "X")
    assert rows[:2, 0].tolist() == expected
    assert np.array_equal(mixed.encoded(pd.DataFrame({"a": column}), table), rows)
