"""The report and pictures of a model in memory."""

import webbrowser

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from gedi import GEDI
from gedi.errors import DataError

mpl.use("agg")
FEW = {"step1.iterations": 3, "step2.iterations": 3, "start.nodes": 5}
rng = np.random.default_rng(0)


def fitted(x, **options):
    return GEDI(2, preset="smoke", training=FEW, random_state=0, **options).fit(x)


@pytest.fixture(scope="module")
def plane():
    rows = np.vstack([rng.normal(-2, 0.3, (40, 2)), rng.normal(2, 0.3, (40, 2))])
    return fitted(pd.DataFrame(rows, columns=["height", "weight"]))


@pytest.fixture(scope="module")
def wide():
    return fitted(rng.normal(size=(50, 4)))


@pytest.fixture
def opened(monkeypatch):
    """The pages opened in a browser; there is a display."""
    pages = []
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr(webbrowser, "open", pages.append)
    return pages


def test_a_report_is_written_where_it_is_asked_for(plane, tmp_path, opened):
    path = plane.report(tmp_path / "mine.html")
    assert path == tmp_path / "mine.html" and opened == []
    page = path.read_text()
    assert "<b>height</b>" in page and 'data-chart="map"' in page and "all 80 rows" in page


def test_without_a_path_it_opens_in_a_browser_if_there_is_a_display(plane, opened, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    path = plane.report()
    assert opened == [path.as_uri()] and path.is_relative_to(tmp_path)
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    plane.report()
    assert len(opened) == 1


def test_given_rows_are_shown_instead(plane, tmp_path):
    data = pd.DataFrame({"height": [1.0, 2.0, 3.0], "weight": [1.0, 2.0, 3.0]})
    assert "all 3 rows" in plane.report(tmp_path / "mine.html", data=data).read_text()


def test_a_loaded_model_shows_the_rows_it_is_given_or_says_so(wide, tmp_path):
    wide.save(tmp_path / "run")
    loaded = GEDI.load(tmp_path / "run")
    for show in (lambda: loaded.report(tmp_path / "page.html"), loaded.plot):
        with pytest.raises(DataError, match="pass some as"):
            show()
    assert loaded.plot(rng.normal(size=(9, 4))).collections


def test_two_columns_are_drawn_as_they_are_over_the_density(plane):
    axes = plane.plot()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("height", "weight") and len(axes.lines) > 3
    drawn = np.vstack([dots.get_offsets() for dots in axes.collections])
    assert len(drawn) == 80 and np.abs(drawn).max() < 4
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == [f"cluster {k}" for k in np.unique(plane.labels_)]


def test_more_columns_are_drawn_on_a_map_in_the_axes_given(wide):
    figure = mpl.figure.Figure()
    axes = figure.subplots()
    assert wide.plot(ax=axes) is axes and axes.get_xlabel() == "first direction" and not axes.lines
    assert sum(len(dots.get_offsets()) for dots in axes.collections) == 50


def test_notebooks_show_facts_once_it_is_fitted(wide):
    for html in (wide._repr_mimebundle_()["text/html"], wide._repr_html_()):
        assert html.count('gedi-facts"') == 1 and "<th>sizes</th>" in html and "4 features" in html
    assert "gedi-facts" not in clone(wide)._repr_html_()
