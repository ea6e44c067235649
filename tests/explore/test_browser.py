"""The page in a real browser: the system's chromium, driven by playwright; skipped if either is missing."""

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

playwright = pytest.importorskip("playwright.sync_api", reason="needs pytest-playwright: pip install 'gedi-ssl[dev]'")
pytestmark = pytest.mark.usefixtures("needs_chromium")
PHONE = {"width": 390, "height": 844}
# A file dropped on the window, as the browser itself would hand it over.
DROP = """(dropped) => {
  const files = new DataTransfer();
  for (const [name, bytes] of dropped) files.items.add(new File([new Uint8Array(bytes)], name));
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
        page.wait_for_selector("#rows:not([hidden])")
        return page

    go.complaints = complaints
    yield go
    assert [line for line in complaints if "422" not in line] == []
    assert all(url.startswith(("http://127.0.0.1:", "data:")) for url in asked)


def drop(page, **files):
    """Drop files at once; a dot in a name is written as two underscores."""
    page.evaluate(DROP, [[name.replace("__", "."), list(body)] for name, body in files.items()])


def answered(page, title):
    """Wait for the answer with this title."""
    playwright.expect(page.locator("#name")).to_have_text(title)


def column(page, title):
    """The cells of one column of the table."""
    heads = page.locator("#heads th").all_inner_texts()
    place = next(i for i, head in enumerate(heads) if head.rstrip(" ▲▼") == title)
    return page.locator(f"#body tr td:nth-child({place + 1})").all_inner_texts()


def test_the_page_begins_with_an_example(visit, server):
    page = visit(server)
    playwright.expect(page.locator("#name")).to_have_text("Example: 12 rows")
    assert "Drop your own files" in page.locator("#example").inner_text()
    assert "with the columns feature 0, feature 1" in page.locator("#needs").inner_text()
    assert page.locator("#body tr").count() == 12


def test_a_dropped_table_is_answered_row_by_row(visit, server):
    page = visit(server)
    drop(page, rows__csv=b"a,b\n-3,-3\n3,3\n500,-500\n")
    answered(page, "rows.csv: 3 rows")
    assert column(page, "Row") == ["row 0", "row 1", "row 2"] and column(page, "feature 1") == ["-3", "3", "-500"]
    assert not page.locator("#example").is_visible()
    assert page.locator("#body tr").count() == 3
    assert page.locator("#body tr").nth(2).locator(".badge").inner_text() == "foreign"
    assert page.locator("#body tr").nth(0).locator(".neighbour").count() == 5
    assert page.locator("#plane").is_visible()


def test_large_numbers_are_written_out(visit, server):
    page = visit(server)
    drop(page, mine__csv=b"a,b\n123456.7,1.5\n1234567,0.123456\n")
    answered(page, "mine.csv: 2 rows")
    assert column(page, "feature 0") == ["123457", "1234567"] and column(page, "feature 1") == ["1.5", "0.1235"]


def test_a_dropped_picture_is_shown_beside_its_nearest_examples(visit, image_server):
    page = visit(image_server)
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)).save(file, "PNG")
    drop(page, photo__png=file.getvalue())
    answered(page, "photo.png: 1 image")
    assert page.locator("#count").inner_text() == "1 image"
    playwright.expect(page.locator("#body img")).to_have_count(6)
    for image in page.locator("#body img").all():
        playwright.expect(image).not_to_have_js_property("naturalWidth", 0)
    assert page.locator("#body tr").count() == 1


def test_a_broken_file_gives_one_sentence_and_the_next_one_works(visit, server):
    page = visit(server)
    drop(page, **{"<b>holiday</b>.docx": b"PK\x03\x04 not an archive"})
    page.wait_for_selector("#problems:not([hidden])")
    assert page.locator("#problems").inner_text().startswith("<b>holiday</b>.docx is a damaged archive")
    assert not page.locator("#rows").is_visible()
    drop(page, rows__csv=b"1,2\n")
    answered(page, "rows.csv: 1 row")
    assert not page.locator("#problems").is_visible()


def test_several_files_are_one_table_and_what_is_wrong_with_one_is_said(visit, server):
    page = visit(server)
    drop(page, a__csv=b"1,2\n3,4\n", bad__csv=b"1,2,3\n", b__csv=b"5,6\n")
    answered(page, "a.csv, b.csv: 3 rows")
    assert column(page, "File") == ["a.csv", "a.csv", "b.csv"] and column(page, "Row") == ["row 0", "row 1", "row 0"]
    assert page.locator("#problems li").all_inner_texts() == ["bad.csv has 3 features, but the run was trained on 2."]


def test_rows_are_sorted_found_and_downloaded_as_they_are_seen(visit, server):
    page = visit(server)
    drop(page, rows__csv=b"a,b\n2,10\n-7,9\n500,-500\n")
    answered(page, "rows.csv: 3 rows")
    head = page.locator("#heads button", has_text="feature 0")
    head.click()
    assert column(page, "feature 0") == ["-7", "2", "500"] and column(page, "Row") == ["row 1", "row 0", "row 2"]
    head.click()
    assert column(page, "feature 0") == ["500", "2", "-7"]
    page.locator("#find").fill("-7")
    assert column(page, "Row") == ["row 1"] and page.locator("#count").inner_text() == "1 of 3 rows"
    page.locator("#find").fill("")
    page.locator("#of-familiarity").select_option("foreign")
    assert "row 2" in column(page, "Row") and set(column(page, "Familiarity")) == {"foreign"}
    page.locator("#of-familiarity").select_option("all")
    with page.expect_download() as waiting:
        page.locator("#download").click()
    assert waiting.value.suggested_filename == "gedi-run.csv"
    lines = list(csv.DictReader(waiting.value.path().open()))
    assert [(line["row"], line["feature 0"]) for line in lines] == [("row 2", "500"), ("row 0", "2"), ("row 1", "-7")]
    assert {"cluster", "probability", "familiarity", "log_density", "ood_score"} < set(lines[0])
    cluster = column(page, "Cluster")[0]
    page.locator("#of-cluster").select_option(cluster)
    assert set(column(page, "Cluster")) == {cluster}


def test_long_tables_are_shown_in_parts(visit, server):
    page = visit(server)
    drop(page, rows__csv="".join(f"{i},{-i}\n" for i in range(230)).encode())
    answered(page, "rows.csv: 230 rows")
    for count in (100, 200, 230):
        playwright.expect(page.locator("#body tr")).to_have_count(count)
        if page.locator("#more").is_visible():
            page.locator("#more").click()


def test_a_file_over_the_limit_is_not_sent(visit, server):
    page = visit(server)
    page.evaluate("about.limits.bytes = 3")
    drop(page, rows__csv=b"1,2\n")
    page.wait_for_selector("#problems:not([hidden])")
    assert "the limit here is 3" in page.locator("#problems").inner_text()


def test_a_file_can_be_chosen_without_dragging(visit, server):
    page = visit(server)
    page.set_input_files("#file", {"name": "rows.csv", "mimeType": "text/csv", "buffer": b"1,2\n"})
    answered(page, "rows.csv: 1 row")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark_mode(visit, server, scheme):
    page = visit(server, viewport=PHONE, color_scheme=scheme)
    drop(page, rows__csv=b"a,b\n-3,-3\n3,3\n")
    answered(page, "rows.csv: 2 rows")
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
