"""The demo's table and pictures, at the smallest budget."""

from gedi.experiments import cells as cells_module
from gedi.experiments import demo


def test_demo_shows_four_methods_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "TOY_ROWS", {"train": 200, "test": 200})
    lines = []
    outcome = demo.run(tmp_path, seed=0, preset="smoke", say=lines.append, jobs=1)
    assert outcome.columns == ["data set", "k-means", "SwAV", "JEM", "GEDI"]
    assert [row[0] for row in outcome.rows] == ["moons", "circles"]
    assert [row[3] for row in outcome.rows] == ["0.00", "0.00"]
    assert [path.name for path in outcome.files] == ["moons.png", "circles.png"]
    assert all(path.stat().st_size > 10_000 for path in outcome.files)
    assert len(lines) == 8
    lines.clear()
    demo.run(tmp_path, seed=0, preset="smoke", say=lines.append, jobs=1)
    assert len(lines) == 1 and lines[0].startswith("8 of 8")
