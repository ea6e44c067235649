"""A table with ids, words, dates, units and gaps, from `gedi fit` to the files that the other commands write."""

import csv
import io
import json
import re
import shutil
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from gedi import runs
from gedi.data.customers import customers
from gedi.errors import RunError

ANSWERS = ["cluster", "probability", "log_density", "typicality", "ood_score"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory, gedi, tiny):
    """A folder with customers, and a run on them; what was said is in said.txt."""
    folder = tmp_path_factory.mktemp("shop")
    frame, segments = customers(120, seed=1)
    frame.to_csv(folder / "customers.csv", index=False)
    frame.assign(segment=segments).to_csv(folder / "known.csv", index=False)
    words = ["--n-clusters", 4, "--out", folder / "run", *tiny]
    with redirect_stderr(io.StringIO()) as said, redirect_stdout(io.StringIO()) as told:
        assert gedi("fit", folder / "customers.csv", *words) == 0
    (folder / "said.txt").write_text(said.getvalue())
    (folder / "told.txt").write_text(told.getvalue())
    return folder


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fit_says_what_it_made_of_each_column(shop):
    said = {line.split()[0]: line for line in (shop / "said.txt").read_text().splitlines() if line.strip()}
    assert "number in EUR" in said["spend"] and "% missing, filled from similar rows" in said["spend"]
    assert "boolean" in said["newsletter"] and "%Y-%m-%d" in said["signup"] and "left out" in said["name"]
    assert "a different word in every row" in said["customer_id"]


def test_fit_ends_with_what_sets_each_cluster_apart(shop):
    told = (shop / "told.txt").read_text().splitlines()
    start = next(place for place, line in enumerate(told) if line.startswith("clusters, "))
    assert re.match(
        r"clusters, judged without labels: not graded\. A trial run .* is too short to judge\.$", told[start]
    )
    shares = [int(re.match(r"  cluster \d, (\d+)(?:\.\d)?% of the rows", line)[1]) for line in told[start + 1 : -2]]
    assert 95 < sum(shares) <= 101 and any(" (others " in line for line in told[start + 1 : -2])
    assert told[-2].startswith("report: ") and re.match(r"next: gedi predict .* --keep$", told[-1])


def test_the_table_of_the_examples_is_the_one_of_the_code():
    kept = Path(__file__).parents[2] / "docs" / "examples" / "customers.csv"
    assert kept.read_text() == customers(300)[0].to_csv(index=False)


def test_the_run_keeps_it(shop):
    model = runs.load(shop / "run")
    kinds = {column.name: column.kind for column in model.table.columns}
    assert kinds["customer_id"] == "id" and kinds["city"] == "category" and model.table.ids == ["customer_id"]
    assert model.columns == model.table.features and len(model.table.features) == model.n_features


def test_predict_writes_the_ids_first(shop, tmp_path, gedi):
    assert gedi("predict", shop / "run", shop / "customers.csv", "--out", tmp_path / "p.csv") == 0
    found, table = rows(tmp_path / "p.csv"), rows(shop / "customers.csv")
    assert list(found[0]) == ["customer_id", *ANSWERS]
    assert [row["customer_id"] for row in found] == [row["customer_id"] for row in table]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_predict_keeps_the_columns_on_request(shop, tmp_path, gedi, suffix):
    path = tmp_path / f"p{suffix}"
    assert gedi("predict", shop / "run", shop / "customers.csv", "--out", path, "--keep") == 0
    table = rows(shop / "customers.csv")
    if suffix == ".npz":
        with np.load(path) as found:
            assert set(found) == {*table[0], *ANSWERS} and found["spend"].tolist() == [row["spend"] for row in table]
        return
    found = pd.read_csv(path, dtype=str, keep_default_na=False) if suffix == ".csv" else pd.read_parquet(path)
    assert list(found) == [*table[0], *ANSWERS] and found["spend"].tolist() == [row["spend"] for row in table]


def test_a_column_that_is_called_like_an_answer_is_kept_under_another_name(shop, tmp_path, gedi):
    frame = pd.read_csv(shop / "customers.csv", dtype=str).assign(cluster="mine")
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert gedi("predict", shop / "run", tmp_path / "new.csv", "--out", tmp_path / "p.csv", "--keep") == 0
    found = rows(tmp_path / "p.csv")[0]
    assert found["cluster (input)"] == "mine" and found["cluster"].isdigit()


def test_samples_look_like_the_table_and_can_be_predicted(shop, tmp_path, gedi):
    assert gedi("sample", shop / "run", "-n", 5, "--out", tmp_path / "s.csv") == 0
    (first, *_) = rows(tmp_path / "s.csv")
    assert first["spend"].endswith(" EUR") and first["city"].isalpha() and len(first["signup"].split("-")) == 3
    assert gedi("predict", shop / "run", tmp_path / "s.csv", "--out", tmp_path / "p.csv") == 0


def test_eval_and_report_read_new_tables_the_same_way(shop, tmp_path, capsys, gedi):
    capsys.readouterr()
    assert gedi("eval", shop / "run", shop / "known.csv", "--labels", "segment") == 0
    assert "nmi" in json.loads(capsys.readouterr().out)
    assert gedi("report", shop / "run", "--data", shop / "customers.csv", "--out", tmp_path / "r.html") == 0


def test_raw_refuses_words(shop, tmp_path, refused):
    said = refused("fit", shop / "customers.csv", "--n-clusters", 4, "--out", tmp_path / "run", "--raw")
    assert "not numeric" in said and "'customer_id'" in said


def test_keep_needs_columns(shop, home, tmp_path, refused, x):
    np.save(tmp_path / "rows.npy", x)
    assert "no named columns to keep" in refused(
        "predict", home / "run", tmp_path / "rows.npy", "--out", tmp_path / "p.csv", "--keep"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([{"name": "a", "kind": "number", "fill": 0.0}], "make 1 features, not"),
        ("all", "must be a list"),
        ([{"name": "a", "kind": "code"}], "kind must be"),
        ([{"name": "a", "kind": kind, "fill": 0.0} for kind in ("number", "id")], "two columns with the same name"),
    ],
)
def test_a_strangers_recipe_is_checked(shop, tmp_path, table, message):
    shutil.copytree(shop / "run", tmp_path / "run")
    path = tmp_path / "run" / runs.CONFIG
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"table": table}))
    with pytest.raises(RunError, match=message):
        runs.load(tmp_path / "run")
