"""The page in a real browser: the system's chromium, driven by playwright; skipped if either is missing."""

import io
import json

import numpy as np
import pytest
from PIL import Image

playwright = pytest.importorskip("playwright.sync_api", reason="needs pytest-playwright: pip install 'gedi-ssl[dev]'")
pytestmark = pytest.mark.usefixtures("needs_chromium")
PHONE = {"width": 390, "height": 844}
# A file dropped on the window, as the browser itself would hand it over.
DROP = """([name, bytes]) => {
  const files = new DataTransfer();
  files.items.add(new File([new Uint8Array(bytes)], name));
  window.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
}"""


@pytest.fixture
def visit(new_context):
    """A function that opens a server's page; console errors and requests to other hosts fail the test."""
    complaints, asked = [], []

    def go(server, **options):
        page = new_context(**options).new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda line: complaints.append(line.text) if line.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(server.url)
        playwright.expect(page).to_have_title("gedi explore run")
        return page

    go.complaints = complaints
    yield go
    assert [line for line in complaints if "422" not in line] == []
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in asked)


def drop(page, name, body):
    page.evaluate(DROP, [name, list(body)])


def test_a_dropped_table_is_answered_row_by_row(visit, server):
    page = visit(server)
    drop(page, "rows.csv", b"a,b\n-3,-3\n3,3\n500,-500\n")
    page.wait_for_selector("#rows:not([hidden])")
    assert page.locator("#name").inner_text() == "rows.csv: 3 rows"
    assert page.locator("#body tr").count() == 3
    assert page.locator("#body tr").nth(2).locator(".badge").inner_text() == "foreign"
    assert page.locator("#body tr").nth(0).locator(".neighbour").count() == 5
    assert page.locator("#plane").is_visible()


def test_a_dropped_picture_is_shown_beside_its_nearest_examples(visit, image_server):
    page = visit(image_server)
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(file, "PNG")
    drop(page, "photo.png", file.getvalue())
    page.wait_for_selector("#rows:not([hidden])")
    playwright.expect(page.locator("#body img")).to_have_count(6)
    for image in page.locator("#body img").all():
        playwright.expect(image).not_to_have_js_property("naturalWidth", 0)
    assert page.locator("#body tr").count() == 1


def test_a_broken_file_gives_one_sentence_and_the_next_one_works(visit, server):
    page = visit(server)
    drop(page, "<b>holiday</b>.docx", b"PK\x03\x04 not an archive")
    page.wait_for_selector("#problem:not([hidden])")
    assert page.locator("#problem").inner_text().startswith("<b>holiday</b>.docx is a damaged archive")
    assert not page.locator("#rows").is_visible()
    drop(page, "rows.csv", b"1,2\n")
    page.wait_for_selector("#rows:not([hidden])")
    assert not page.locator("#problem").is_visible()


def test_a_file_over_the_limit_is_not_sent(visit, server):
    page = visit(server)
    page.evaluate("about.limits.bytes = 3")
    drop(page, "rows.csv", b"1,2\n")
    page.wait_for_selector("#problem:not([hidden])")
    assert "the limit here is 3" in page.locator("#problem").inner_text()


def test_a_file_can_be_chosen_without_dragging(visit, server):
    page = visit(server)
    page.set_input_files("#file", {"name": "rows.csv", "mimeType": "text/csv", "buffer": b"1,2\n"})
    page.wait_for_selector("#rows:not([hidden])")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark_mode(visit, server, scheme):
    page = visit(server, viewport=PHONE, color_scheme=scheme)
    drop(page, "rows.csv", b"a,b\n-3,-3\n3,3\n")
    page.wait_for_selector("#rows:not([hidden])")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(json.loads(f"[{ground[4:-1]}]")) > 600) == (scheme == "light")


def test_a_hostile_report_draws_but_reaches_nothing(visit, rows_run, serve):
    (rows_run / "report.html").write_text(
        "<h1 id=here>mine</h1><script>"
        "fetch('about.json').then(() => 1, () => 0).then((got) => {"
        "  let up = 1; try { up = parent.document.title.length } catch { up = 0 }"
        "  here.textContent = 'reached ' + (got + up) })</script>"
    )
    try:
        with serve(rows_run) as server:
            page = visit(server)
            page.click("#tab-report")
            page.frame_locator("iframe").get_by_text("reached 0").wait_for()
        assert any("Content Security Policy" in line for line in visit.complaints)
        visit.complaints.clear()
    finally:
        (rows_run / "report.html").unlink()
