"""The demo's table and pictures, at the smallest budget."""

from gedi.experiments import cells as cells_module
from gedi.experiments import demo


def test_demo_shows_four_methods_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "TOY_ROWS", {"train": 200, "test": 200})
    lines = []
    outcome = demo.run(tmp_path, seed=0, preset="smoke", say=lines.append, jobs=1)
    assert outcome.columns == ["data set", "k-means", "SwAV", "JEM", "GEDI"]
    assert [row[0] for row in outcome.rows] == ["moons", "circles", "digits"]
    assert [row[3] for row in outcome.rows] == ["0.00", "0.00", "0.00"]
    assert [path.name for path in outcome.files] == ["moons.png", "circles.png", "digits.png", "report.html"]
    assert all(path.stat().st_size > 10_000 for path in outcome.files)
    page = outcome.files[-1].read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 3 and "http" not in page
    assert len(lines) == 12
    lines.clear()
    demo.run(tmp_path, seed=0, preset="smoke", say=lines.append, jobs=1)
    assert len(lines) == 1 and lines[0].startswith("12 of 12")
