"""The demo's table, pictures and pages, at the smallest budget."""

from gedi.cli import main
from gedi.experiments import cells as cells_module
from gedi.experiments import demo


def test_demo_shows_four_methods_on_a_self_contained_page_and_resumes(tmp_path, monkeypatch, capsys):
    def small(*args, **options):
        return original(*args, **options, jobs=1)

    original = demo.run
    monkeypatch.setattr(demo, "run", small)
    monkeypatch.setattr(demo, "SMALL_SETS", {"moons": 2, "digits": 10})
    monkeypatch.setattr(cells_module, "TOY_ROWS", {"train": 200, "test": 200})
    assert main(["demo", "--out", str(tmp_path), "--preset", "smoke"]) == 0
    out, err = capsys.readouterr()
    assert "report.html" in out and len(err.splitlines()) == 8
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 2 and "http://" not in page and "https://" not in page
    for name in ("moons", "digits"):
        assert f'href="{name}.html"' in page
        assert f"GEDI on {name}" in (tmp_path / f"{name}.html").read_text(encoding="utf-8")

    lines = []
    outcome = original(tmp_path, seed=0, preset="smoke", say=lines.append, jobs=1)
    assert len(lines) == 1 and lines[0].startswith("8 of 8")
    assert outcome.columns == ["data set", "k-means", "SwAV", "JEM", "GEDI"]
    assert [row[0] for row in outcome.rows] == ["moons", "digits"]
    assert [row[3] for row in outcome.rows] == ["0.00 / 0.00"] * 2
    assert [path.name for path in outcome.files] == ["moons.png", "digits.png"]
    assert all(path.stat().st_size > 10_000 for path in outcome.files)
