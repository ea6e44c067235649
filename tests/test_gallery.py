"""The examples run, and the gallery shows what they are and what they print."""

import importlib
import json
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest

from gedi import GEDI

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "docs" / "examples"
GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
KEPT = json.loads((ROOT / "results" / "laptop" / "gallery.json").read_text(encoding="utf-8"))
FEW = ("--preset", "smoke", "--training.step1.iterations", "4", "--training.step2.iterations", "8")
LARGEST = 150_000  # bytes of a picture


@pytest.fixture
def run_example(capsys, monkeypatch):
    """A function that calls ``main`` of an example and returns what it prints, by the words before the colon.

    Where an example leaves the budget to the defaults, it gets that of smoke, unless ``quick`` is false.
    """

    def run(name, *flags, quick=True):
        monkeypatch.syspath_prepend(str(EXAMPLES))
        if quick:
            monkeypatch.setitem(GEDI.__init__.__kwdefaults__, "preset", "smoke")
        importlib.import_module(name).main(*flags)
        return said(capsys.readouterr().out.splitlines())

    return run


def said(lines):
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def test_the_example_of_rows(run_example):
    printed = run_example("rows")
    assert sum(json.loads(printed["rows in each cluster"])) == 150
    assert float(printed["NMI with the species, which training never saw"]) > 0.4
    assert printed["log density of the flower is higher"] == "True"
    assert printed["the same clusters after loading"] == "True"


def test_the_example_of_customers(run_example):
    printed = run_example("customers")
    assert list(printed) == list(said(KEPT["customers"]["printed"]))
    assert printed["name"].startswith("left out") and printed["customer_id"].startswith("id")
    assert printed["spend"].startswith("number in EUR") and "missing" in printed["spend"]
    assert float(printed["NMI with the segments, which training never saw"]) > 0.3


def test_the_example_of_anomalies(run_example):
    printed = run_example("anomalies")
    assert list(printed) == list(said(KEPT["anomalies"]["printed"]))
    assert printed["malignant rows"] == "20 of 377"
    assert float(printed["AUROC of the log density"]) > 0.7


def test_the_example_of_an_image_folder(run_example):
    printed = run_example("image_folder", *FEW)
    assert list(printed) == list(said(KEPT["image_folder"]["printed"]))
    assert printed["columns"].startswith("image, cluster, probability")
    explained = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
    assert [name for name in printed["columns"].split(", ") if f"| `{name}` |" not in explained] == []
    assert sum(json.loads(printed["pictures in each cluster"])) == 80
    assert printed["report"] == "report.html"


def test_the_example_of_digits(run_example):
    assert list(run_example("digits")) == list(said(KEPT["digits"]["printed"]))


@pytest.mark.slow
def test_the_example_of_digits_with_its_own_budget(run_example):
    assert float(run_example("digits", quick=False)["NMI with the digits"]) > 0.9


def test_the_example_of_mnist(run_example, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    fake = {f"x_{split}": rng.integers(0, 256, (60, 28, 28, 1), dtype=np.uint8) for split in ("train", "test")}
    np.savez(tmp_path / "mnist.npz", **fake, **{f"y_{split}": np.arange(60) % 10 for split in ("train", "test")})
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    printed = run_example("mnist")
    assert list(printed) == list(said(KEPT["mnist"]["printed"]))
    assert printed["images in training, without labels"] == "60"


@pytest.mark.slow
def test_the_example_of_two_machines(run_example):
    printed = run_example("two_machines", *FEW)
    assert list(printed) == list(said(KEPT["two_machines"]["printed"]))


def test_the_example_of_pretrained_features(run_example):
    printed = run_example("pretrained")
    assert list(printed) == list(said(KEPT["pretrained"]["printed"]))
    assert float(printed["NMI of k-means on the pixels"]) < 0.05 < float(printed["NMI of gedi on the features"])


def test_the_example_of_a_constraint(run_example):
    printed = run_example("constraint")
    assert list(printed) == list(said(KEPT["constraint"]["printed"]))
    assert int(printed["rows whose cluster's number is their size"].rstrip("%")) >= 90
    assert int(printed["pairs that keep the rule"].rstrip("%")) >= 90


def test_the_example_of_comparing_runs(run_example):
    printed = run_example("compare", "--preset", "smoke", "--training.step2.iterations", "8")
    assert list(printed) == list(said(KEPT["compare"]["printed"]))


def test_every_example_has_a_test_here():
    tested = re.findall(r'run_example\("(\w+)"', Path(__file__).read_text(encoding="utf-8"))
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(tested)


def test_code_in_the_gallery_is_that_of_the_examples():
    shown = re.findall(r"<!-- from: (\S+) -->\n```python\n(.*?)```", GALLERY, flags=re.DOTALL)
    assert shown
    for name, code in shown:
        source = (EXAMPLES / name).read_text(encoding="utf-8")
        assert textwrap.indent(code, "    ") in source, name


def test_the_gallery_shows_what_every_kept_example_printed():
    assert set(re.findall(r"<!-- printed: (\w+) -->", GALLERY)) == set(KEPT)


def test_pictures_of_the_gallery_are_small():
    pictures = re.findall(r"\((images/gallery-\w+\.png)\)", GALLERY)
    assert pictures
    assert [name for name in pictures if (ROOT / "docs" / name).stat().st_size > LARGEST] == []
