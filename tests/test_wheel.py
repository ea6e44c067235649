"""The wheel can be built, and works when installed without the rest of this checkout."""

import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build", reason="pip install build hatchling")
pytest.importorskip("hatchling", reason="pip install build hatchling")
pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]


def run(*words, cwd) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=cwd, env={"PATH": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built with the installed packages: no test goes online."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (made,) = folder.glob("*.whl")
    return made


def test_every_file_of_the_package_is_in_it(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("gedi/")}
    source = ROOT / "src"
    there = {p.relative_to(source).as_posix() for p in (source / "gedi").rglob("*") if p.is_file()}
    assert packed == {name for name in there if "__pycache__" not in name}
    assert {"gedi/py.typed", "gedi/explore/panel/index.html", "gedi/explore/panel/panel.js"} <= packed


def test_it_installs_into_a_clean_environment_and_works(wheel, tmp_path):
    """gedi's dependencies come from this environment through a .pth file; gedi itself comes only from the wheel."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    packages = Path(run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip())
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    (packages / "needs.pth").write_text(f"{site.getsitepackages()[0]}\n")
    place = run(python, "-c", "import gedi; print(gedi.__file__)", cwd=tmp_path).strip()
    assert Path(place).is_relative_to(packages)
    gedi = tmp_path / "venv" / "bin" / "gedi"
    assert run(gedi, "--version", cwd=tmp_path).startswith("gedi ")
    words = ["--training.step1.iterations=3", "--training.step2.iterations=3", "--training.start.nodes=5"]
    run(gedi, "fit", "moons", "--n-clusters", 2, "--out", "run", "--preset", "smoke", *words, cwd=tmp_path)
    run(gedi, "predict", "run", "moons", "--out", "p.csv", cwd=tmp_path)
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 2001
    page = "from gedi.explore.site import _panel; print(len(_panel('index.html')))"
    assert int(run(python, "-c", page, cwd=tmp_path)) > 1000
