"""Make the documentation's screenshots of the report and of explore: short fits, shown in a real browser.

    python docs/make_screenshots.py [RUNS]     # writes docs/images/*.png; needs playwright, and chromium on the path

If the folder RUNS is given, runs are kept there and reused.
Each fit takes seconds, far less than the defaults: the pictures show what the pages look like, not how good a model can
be.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from gedi import runs
from gedi.cli import main
from gedi.data.customers import customers
from gedi.explore import ExploreServer, Site, find_examples

IMAGES = Path(__file__).resolve().parent / "images"
SIZE = {"width": 1280, "height": 900}
PATIENCE = 120_000  # milliseconds: a busy machine is not a broken page
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CUSTOMERS = 800  # rows of the table
LONGER_SMOKE = ["--preset", "smoke", "--training.step1.iterations", "400", "--training.step2.iterations", "200"]
ALL_STEPS = ["--training.step2.iterations", "600"]  # a method with one step gets the iterations of both
SHORT_DIGITS = ["--preset", "digits", "--training.step1.iterations", "20"]
SHORT_DIGITS += ["--training.step2.iterations", "120"]


def fit(run: Path, data: str, clusters: int, *words: str) -> Path:
    """Make a run and its report with the command line, unless they exist."""
    if (run / "report.html").exists():
        return run
    if main(["fit", data, "--n-clusters", str(clusters), "--out", str(run), *words]) != 0:
        raise SystemExit(f"gedi fit {data} failed")
    return run


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address at which a run is explored."""
    with ExploreServer(Site(run, find_examples(runs.load(run), run, None)), port=0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.url
        finally:
            server.shutdown()
            thread.join()


def open_report(page: Page, path: Path) -> None:
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready=yes]")


def shoot(page: Page, name: str, section: str | None = None) -> None:
    """Take a screenshot of the window, scrolled to the top or to a section."""
    top = f"document.querySelector('{section}').getBoundingClientRect().top + scrollY - 60" if section else "0"
    page.evaluate(f"window.scrollTo({{top: {top}, behavior: 'instant'}})")
    page.wait_for_timeout(1500)  # charts are drawn when they first come into view
    page.screenshot(path=IMAGES / f"{name}.png")


def make(chromium: str) -> None:
    """Make all screenshots, with runs in the current folder: the commands in the pictures then have short paths."""
    table, _ = customers(CUSTOMERS)
    table.to_csv("customers.csv", index=False)
    new = customers(40, seed=1)[0].to_csv(index=False).encode()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=PATIENCE)
        page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()  # type: ignore[arg-type]
        page.set_default_timeout(PATIENCE)

        shop = fit(Path("customers"), "customers.csv", 4, *LONGER_SMOKE)
        open_report(page, shop / "report.html")
        shoot(page, "report-customers")

        with served(shop) as address:
            page.goto(address)
            page.wait_for_selector("#rows:not([hidden])")
            page.set_input_files("#file", {"name": "new.csv", "mimeType": "text/csv", "buffer": new})
            page.wait_for_selector("#example", state="hidden")
            shoot(page, "explore")
            page.goto("about:blank")  # otherwise the server waits for the page's open connection

        moons = fit(Path("moons"), "moons", 2, *LONGER_SMOKE)
        other = fit(Path("moons-swav"), "moons", 2, "--preset", "smoke", "--method", "swav", *ALL_STEPS)
        comparison = Path("comparison.html")
        if main(["report", str(moons), str(other), "--out", str(comparison)]) != 0:
            raise SystemExit("gedi report failed")
        open_report(page, comparison)
        shoot(page, "comparison")

        digits = fit(Path("digits"), "digits", 10, *SHORT_DIGITS)
        open_report(page, digits / "report.html")
        shoot(page, "report-digits")
        browser.close()


if __name__ == "__main__":
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        sys.exit("Chromium not found: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="gedi-") as folder:
        runs_folder = Path(sys.argv[1] if len(sys.argv) > 1 else folder)
        runs_folder.mkdir(exist_ok=True)
        with chdir(runs_folder):
            make(found)
