import sys

import numpy as np
import pandas as pd
import pytest

from gedi.data import check_rows, load, stream
from gedi.errors import DataError

X = np.array([[1.5, 2.0], [3.0, 4.25], [-5.0, 6.0]])


@pytest.fixture
def text(tmp_path):
    def write(content, name="rows.csv"):
        path = tmp_path / name
        path.write_text(content, encoding="utf-8")
        return path

    return write


# ---- NumPy ----


def test_npy_rows_keep_their_precision(tmp_path):
    for x in (X, X.astype(np.float32), X.astype(np.int64)):
        np.save(tmp_path / "rows.npy", x)
        data = load(tmp_path / "rows.npy")
        assert np.array_equal(data.x, x) and data.y is None and data.name == "rows"
        assert data.x.dtype == (np.float32 if x.dtype == np.float32 else np.float64)


def test_npy_images(tmp_path):
    images = np.zeros((3, 5, 6, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images)
    assert load(tmp_path / "a.npy").image_shape == (5, 6, 3)
    np.save(tmp_path / "b.npy", images.transpose(0, 3, 1, 2))
    with pytest.raises(DataError, match=r"b\.npy has shape \(3, 3, 5, 6\).*x\.transpose\(0, 2, 3, 1\)"):
        load(tmp_path / "b.npy")


def test_npy_that_is_not_numbers(tmp_path):
    np.save(tmp_path / "text.npy", X.astype(str))
    with pytest.raises(DataError, match="not numbers"):
        load(tmp_path / "text.npy")
    np.save(tmp_path / "objects.npy", X.astype(object), allow_pickle=True)
    with pytest.raises(DataError, match="Python objects"):
        load(tmp_path / "objects.npy")
    (tmp_path / "empty.npy").touch()
    with pytest.raises(DataError, match=r"empty\.npy"):
        load(tmp_path / "empty.npy")
    np.save(tmp_path / "line.npy", X[0])
    with pytest.raises(DataError, match="expected rows"):
        load(tmp_path / "line.npy")


@pytest.mark.parametrize("key", ["x", "X", "x_train", "anything"])
def test_npz_keys(tmp_path, key):
    np.savez(tmp_path / "rows.npz", **{key: X, "y_train" if key == "x_train" else "y": [0, 1, 1]})
    data = load(tmp_path / "rows.npz")
    assert np.array_equal(data.x, X) and data.y.tolist() == [0, 1, 1]


def test_npz_split_and_text_labels(tmp_path):
    np.savez(tmp_path / "rows.npz", x_train=X, x_test=X[:2] + 1, y_test=["dog", "cat"])
    assert load(tmp_path / "rows.npz").y is None
    test = load(tmp_path / "rows.npz", split="test")
    assert np.array_equal(test.x, X[:2] + 1) and test.y.tolist() == [1, 0]


def test_an_archive_is_read_whatever_its_name(tmp_path):
    np.savez(tmp_path / "rows.npz", x=X, y=[0, 1, 1])
    path = (tmp_path / "rows.npz").rename(tmp_path / "rows.npy")
    assert np.array_equal(load(path).x, X) and np.array_equal(next(stream(path).blocks), X)


def test_columns_with_odd_names_are_quoted_for_the_command_line(tmp_path):
    (tmp_path / "rows.csv").write_text('x,"a, b"\n1,red\n2,blue\n')
    with pytest.raises(DataError, match=r"""--drop '"a, b"', name it with --label-column 'a, b' if"""):
        load(tmp_path / "rows.csv", raw=True)


def test_npz_problems(tmp_path):
    np.savez(tmp_path / "two.npz", a=X, b=X)
    with pytest.raises(DataError, match="arrays a, b"):
        load(tmp_path / "two.npz")
    np.savez(tmp_path / "labels.npz", x=X, y=[0, 1])
    with pytest.raises(DataError, match="one label per row"):
        load(tmp_path / "labels.npz")
    np.savez(tmp_path / "train.npz", x_train=X)
    with pytest.raises(DataError, match="x_test"):
        load(tmp_path / "train.npz", split="test")
    np.savez(tmp_path / "nan.npz", x=X, y=[0, np.nan, 1])
    with pytest.raises(DataError, match="1 missing"):
        load(tmp_path / "nan.npz")


# ---- text ----


@pytest.mark.parametrize(
    "content, name",
    [
        ("1.5,2\n3,4.25\n-5,6\n", "a.csv"),
        ("1.5;2\n3;4.25\n-5;6\n", "a.csv"),
        ("1.5\t2\n3\t4.25\n-5\t6\n", "a.tsv"),
        ("1.5\t2\n3\t4.25\n-5\t6\n", "a.csv"),
        ("one|two\n1.5|2\n3|4.25\n-5|6\n", "a.csv"),
        ("sep=;\r\none;two\r\n1.5;2\r\n3;4.25\r\n-5;6\r\n", "a.csv"),
        ("\ufeffone,two\n1.5, 2\n3,4.25\n\n-5,6", "a.csv"),
        ('"one","0"\n1.5,2\n3,4.25\n-5,6\n', "a.CSV"),
    ],
)
def test_text_tables(text, content, name):
    data = load(text(content, name))
    assert np.array_equal(data.x, X) and data.y is None
    assert data.feature_names is None or data.feature_names[0] == "one"


def test_a_pandas_table_without_its_row_numbers(tmp_path):
    pd.DataFrame(X, columns=["a", "b"]).to_csv(tmp_path / "a.csv")
    with pytest.warns(UserWarning, match="numbers the rows"):
        data = load(tmp_path / "a.csv", raw=True)
    assert np.array_equal(data.x, X) and data.feature_names == ["a", "b"]


def test_labels_are_kept_out_of_the_features(text):
    data = load(text("a,label,b\n1.5,7,2\n3,3,4.25\n-5,7,6\n"))
    assert (
        np.array_equal(data.x, X)
        and data.y.tolist() == [7, 3, 7]
        and data.classes is None
        and data.feature_names == ["a", "b"]
    )
    data = load(text("a,b,kind\n1.5,2,red\n3,4.25,blue\n-5,6,red\n"), label_column="kind")
    assert np.array_equal(data.x, X) and data.y.tolist() == [1, 0, 1] and data.classes == ["blue", "red"]
    data = load(text("a,b,y\n1.5,2,0\n3,4.25,1\n-5,6,1\n"))
    assert np.array_equal(data.x, X) and data.y.tolist() == [0, 1, 1]
    assert load(text("a,label\n1,2\n3,4\n"), label_column="").x.shape == (2, 2)


@pytest.mark.parametrize("header", ["x,y", "a,y"])
def test_the_y_of_points_is_a_feature(text, header):
    data = load(text(header + "\n1.5,2\n3,4.25\n-5,6\n"))
    assert np.array_equal(data.x, X) and data.y is None


def test_the_y_of_whole_numbered_points_is_a_feature(text):
    assert load(text("x,y\n1,2\n3,4\n")).x.shape == (2, 2)


@pytest.mark.parametrize(
    "content, message",
    [
        ("a,colour\n1,red\n2,blue\n", "column 'colour' is not numeric .*'red'.*--drop colour, .*--label-column colour"),
        ("a,one,b c\nx,1,y\n3,1,4\n", "columns 'a', 'b c' are not numeric .'a' holds 'x'.*--drop 'a,b c'"),
        ("1,red\n2,blue\n", "column 2 is not numeric .*'red'"),
        ("a,b\n1,2\n1,1_000\n", "column 'b' is not numeric"),
        ("a,b\n1,2\n1,2,3\n", "Line 3 .* has 3 values, but the first line has 2"),
        ("Report 2024\na,b\n1,2\n", "has 2 values, but the first line has 1: if that is a title, delete it"),
        ("Report,,\na,b,c\n1,2,3\n", "Only one of the 3 columns .* has a name, 'Report'. If it is a title"),
        ("a,b,a\n1,2,3\n4,5,6\n", "several columns named 'a'"),
        ("a,label,label\n1,2,3\n4,5,6\n", "several columns named 'label'"),
        ("sep=;\na;b\n1;2\n1;2;3\n", "Line 4 .* has 3 values, but the first line has 2"),
        (f'a,b\n1,"{"2" * 140_000}\n3,4\n', "A cell of .* has more than 131,072 characters"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "no rows"),
        ("label\n1\n2\n", "no columns left"),
        ("a,label\n1,2\n3,\n", "1 missing"),
    ],
)
def test_text_problems(text, content, message):
    with pytest.raises(DataError, match=message):
        load(text(content), raw=True)


def test_a_label_column_that_is_not_there(text):
    with pytest.raises(DataError, match="did you mean 'species'"):
        load(text("a,species\n1,2\n"), label_column="specie")
    with pytest.raises(DataError, match="no header"):
        load(text("1,2\n3,4\n"), label_column="specie")


def test_columns_are_dropped_by_name(text):
    path = text("id,one,kind,two\n7,1.5,red,2\n8,3,blue,4.25\n9,-5,red,6\n")
    data = load(path, drop=["kind", "id"])
    assert np.array_equal(data.x, X) and data.feature_names == ["one", "two"] and data.y is None
    data = load(path, drop=["id"], label_column="kind")
    assert np.array_equal(data.x, X) and data.y.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="no column 'kin': did you mean 'kind'"):
        load(path, drop=["kin"])
    with pytest.raises(DataError, match="no columns left"):
        load(path, drop=["id", "one", "kind", "two"])
    with pytest.raises(DataError, match="no header"):
        load(text("1,2\n3,4\n"), drop=["a"])


@pytest.mark.parametrize("data", ["moons", "digits", "rows.npy"])
def test_columns_without_names_cannot_be_dropped(tmp_path, data):
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(DataError, match="'a' cannot be dropped"):
        load(tmp_path / data if data.endswith("npy") else data, drop=["a"])


def test_columns_wanted_by_name_come_in_that_order(text):
    wanted = ["one", "two"]
    for content in ("two,id,one\n2,x,1.5\n4.25,y,3\n6,z,-5\n", "1.5,2\n3,4.25\n-5,6\n"):
        assert np.array_equal(load(text(content), columns=wanted).x, X)
        (block,) = stream(text(content), columns=wanted).blocks
        assert np.array_equal(block, X)
    with pytest.raises(DataError, match="no column 'two': its columns are 'one', 'b'"):
        load(text("one,b\n1,2\n"), columns=wanted)
    labelled = load(text("label,two,one\n0,2,1.5\n1,4.25,3\n1,6,-5\n"), columns=wanted)
    assert np.array_equal(labelled.x, X) and labelled.y.tolist() == [0, 1, 1]


def test_missing_cells_are_left_for_the_check_of_rows(text):
    data = load(text("a,b\n1,2\n,NA\n3,4\n"), raw=True)
    assert np.isnan(data.x[1]).all()
    with pytest.raises(DataError, match=r"2 NaN.*row 1, column 0"):
        check_rows(data.x, n_clusters=2)
    with pytest.raises(DataError, match=r"2 NaN.*row 1, column 'a'"):
        check_rows(data.x, n_clusters=2, names=data.feature_names)


def test_infinite_cells_are_left_for_the_check_of_rows(text):
    with pytest.raises(DataError, match=r"1 inf.*row 1, column 'b'"):
        data = load(text("a,b\n1,2\n3,inf\n"))
        check_rows(data.x, n_clusters=2, names=data.feature_names)


def test_text_that_is_not_utf8(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"a,b\n1,\xff\n")
    with pytest.raises(DataError, match="UTF-8"):
        load(tmp_path / "a.csv", raw=True)


def test_numbers_in_an_excel_file_can_be_read_raw(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    assert np.array_equal(load(tmp_path / "a.xlsx", raw=True).x, X) and load(tmp_path / "a.xlsx").table.is_plain
    frame.assign(c="red").to_excel(tmp_path / "b.xlsx", index=False)
    with pytest.raises(DataError, match=r"column 'c' is not numeric \(it holds 'red'\)"):
        load(tmp_path / "b.xlsx", raw=True)


# ---- Parquet ----


def test_a_parquet_index_with_a_name_is_a_column(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": X[:, 0], "word": list("xyx"), "b": X[:, 1]}).set_index("word")
    frame.to_parquet(tmp_path / "a.parquet")
    assert np.array_equal(load(tmp_path / "a.parquet", drop=["word"]).x, X)
    assert load(tmp_path / "a.parquet").feature_names == ["a", "b", "word=y"]


def test_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "label": ["red", "blue", "red"]}, index=[5, 6, 9])
    table.to_parquet(tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet")
    assert np.array_equal(data.x, X) and data.y.tolist() == [1, 0, 1] and data.feature_names == ["a", "b"]
    with pytest.raises(DataError, match="column 'label' is not numeric"):
        load(tmp_path / "a.parquet", label_column="", raw=True)
    assert load(tmp_path / "a.parquet", columns=["b", "a"], label_column="").x.tolist() == X[:, ::-1].tolist()
    assert load(tmp_path / "a.parquet", drop=["label", "a"]).feature_names == ["b"]
    table.drop(columns="label").assign(y=X[:, 0]).to_parquet(tmp_path / "b.parquet")
    assert load(tmp_path / "b.parquet").x.shape == (3, 3)


def test_parquet_types_and_missing_values(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame(
        {
            "n": pd.array([1, None, 3], dtype="Int64"),
            "b": pd.array([True, None, False], dtype="boolean"),
            "f": np.array([1, 2, 3], dtype=np.float32),
            "y": [0, 1, 1],
        }
    )
    table.to_parquet(tmp_path / "a.parquet")
    data = load(tmp_path / "a.parquet", raw=True)
    expected = [[1, 1, 1], [np.nan, np.nan, 2], [3, 0, 3]]
    assert np.array_equal(data.x, expected, equal_nan=True) and data.y.tolist() == [0, 1, 1]


def test_parquet_problems(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"a": [1.0, 2.0], "y": [1.0, float("nan")]}), tmp_path / "nan.parquet")
    with pytest.raises(DataError, match="1 missing"):
        load(tmp_path / "nan.parquet")
    (tmp_path / "a.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="Parquet file"):
        load(tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"gedi-ssl\[parquet\]"):
        load(tmp_path / "a.parquet")
