"""The pages in a real browser, opened as files: they draw, react to the mouse, and make no network requests."""

import re

import numpy as np
import pytest

from gedi.cli import main

pytest.importorskip("pytest_playwright", reason="needs pytest-playwright: pip install 'gedi-ssl[dev]'")
pytestmark = pytest.mark.usefixtures("needs_chromium")
PATIENCE = 120_000  # milliseconds: a busy machine is not a broken page
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture
def opened(new_context):
    """A function that opens a page and waits for its charts; console messages and requests fail the test."""
    complaints: list[str] = []

    def show(path, **options):
        context = new_context(**({"viewport": WIDE, "offline": True} | options))
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        local = (path.as_uri(), "data:", "blob:")
        page.on("request", lambda r: None if r.url.startswith(local) else complaints.append(f"request: {r.url}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=PATIENCE)
        return page

    yield show
    assert complaints == []


def drawn(page):
    """Names of the charts in which plotly has drawn something."""
    return page.evaluate(
        "[...document.querySelectorAll('[data-chart]')]"
        ".filter((chart) => chart.querySelector('.main-svg .trace'))"
        ".map((chart) => chart.dataset.chart)"
    )


def charts(page):
    return page.evaluate("[...document.querySelectorAll('[data-chart]')].map((chart) => chart.dataset.chart)")


def unfold(page):
    """Open everything that is folded away, and wait until it is drawn."""
    page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
    wait_until(page, "[...document.querySelectorAll('[data-chart]')].every((c) => c.querySelector('.main-svg .trace'))")


def test_the_first_screen_is_the_answer(opened, runs_of_other_columns):
    page = opened(runs_of_other_columns[0][0] / "report.html")
    for part in ("#answer .verdict .badge", ".found tr >> nth=2", ".found .apart >> nth=1", ".found .typical >> nth=1"):
        box = page.locator(part).bounding_box()
        assert box and box["y"] + box["height"] < WIDE["height"], part


def test_diagnostics_are_folded_away_and_drawn_when_opened(opened, moons_run):
    page = opened(moons_run / "report.html")
    assert {"map", "plane-density", "plane-samples", "ood-density"} == set(drawn(page))
    assert not page.locator("#training").get_by_text("Events", exact=True).is_visible()
    page.locator("#training > summary").click()
    wait_until(page, "document.querySelector('[data-chart=training-gap] .main-svg .trace')")
    assert page.locator("#training").get_by_text("Events", exact=True).is_visible()
    unfold(page)
    training = [f"training-{name}" for name in ("error", "gap", "losses", "objective", "diagnostics")]
    assert {*training, "plane-walks", "ood-gradient", "spectrum"} < set(charts(page)) == set(drawn(page))


def test_a_chart_zooms(opened, moons_run):
    page = opened(moons_run / "report.html")
    chart = page.locator("[data-chart=map] .nsewdrag")
    chart.scroll_into_view_if_needed()
    ends = "document.querySelector('[data-chart=map]').layout.xaxis.range"
    span = f"({ends}[1] - {ends}[0])"
    before, box = page.evaluate(span), chart.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    wait_until(page, f"{span} < {0.6 * before}")


def test_no_button_sends_the_rows_away(opened, moons_run):
    page = opened(moons_run / "report.html")
    buttons = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map((one) => one.dataset.title)")
    allowed = {"Zoom in", "Zoom out", "Reset axes", "Zoom", "Pan", "Download plot as a PNG"}
    assert buttons and set(buttons) <= allowed


def test_rivals_and_labels_are_one_click_away_on_the_same_map(opened, moons_run):
    page = opened(moons_run / "report.html")
    names = page.locator("[data-views=map] button").all_inner_texts()
    assert names == ["gedi", "k-means", "Gaussian mixture", "labels"]
    traces = "document.querySelector('[data-chart=map]').data.map((t) => [t.name, t.x.length, t.text[0]])"
    groups = lambda: sorted(size for _, size, _ in page.evaluate(traces))  # noqa: E731
    rows, own = sum(groups()), groups()
    page.get_by_role("button", name="k-means").click()
    wait_until(page, f"{traces}.every(([name, size, text]) => text.includes('k-means: cluster'))")
    assert sum(groups()) == rows and groups() != own
    assert re.fullmatch(r"k-means puts \d+% of the rows .*", page.locator("[data-note=map]").inner_text())
    assert page.get_by_role("button", name="k-means").get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="labels").click()
    wait_until(page, f"{traces}.every(([name]) => !name.startsWith('cluster'))")
    assert "not used in training" in page.locator("[data-note=map]").inner_text()
    page.get_by_role("button", name="gedi").click()
    wait_until(page, f"{traces}.every(([name]) => name.startsWith('cluster'))")
    assert groups() == own


def test_a_command_is_copied_with_one_click(opened, moons_run):
    page = opened(moons_run / "report.html", permissions=["clipboard-read", "clipboard-write"])
    code, button = page.locator("#answer .try code"), page.locator("#answer .try .copy")
    assert code.inner_text().startswith("gedi fit ")
    button.click()
    wait_until(page, "document.querySelector('#answer .try .copy').textContent === 'copied'")
    assert page.evaluate("navigator.clipboard.readText()") == code.inner_text()


def test_pointing_at_a_row_shows_its_number_and_values(opened, runs_of_other_columns):
    (run, _), table = runs_of_other_columns
    page = opened(run / "report.html")
    point = page.locator("[data-chart=map] .scatterlayer .point").first
    point.scroll_into_view_if_needed()
    label = page.locator("[data-chart=map] .hoverlayer .hovertext")
    hover_until(page, point, label)
    said = label.text_content()
    row = re.match(r"row (\d+)cluster \d+, [>\d.\s\u00a0]+% sure", said)
    assert row and "log density" in said, said
    values = np.loadtxt(table, delimiter=",", skiprows=1)[int(row[1])]
    assert all(f"{name}: {value:.4g}" in said for name, value in zip("bcd", values[1:], strict=True))


def wait_until(page, expression, patience=PATIENCE // 50):
    """Poll from here: the page's policy forbids the eval on which playwright's own waiting relies."""
    while not page.evaluate(expression):
        patience -= 1
        assert patience, expression
        page.wait_for_timeout(50)


def hover_until(page, point, shown, patience=PATIENCE // 50):
    """Keep moving over the point as a hand does: the scrolling that brought it here hides what one move showed."""
    while not shown.is_visible():
        patience -= 1
        assert patience, "nothing appears under the mouse"
        box = point.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x - 3, y)
        page.mouse.move(x, y)
        page.wait_for_timeout(50)


@pytest.mark.parametrize("name", ["digits_run", "image_run"])
def test_hovering_over_the_map_shows_the_image_of_that_row(opened, name, request):
    page = opened(request.getfixturevalue(name) / "report.html")
    unfold(page)
    assert set(charts(page)) == set(drawn(page)) >= {"map", "ood-density", "spectrum"}
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    thumb = page.locator(".thumb")
    assert thumb.is_hidden()
    point = page.locator("[data-chart=map] .scatterlayer .point").first
    point.scroll_into_view_if_needed()
    hover_until(page, point, thumb)
    said = re.match(r"row (\d+)\s+cluster \d+, [>\d.\s]+% sure", thumb.inner_text())
    assert said, thumb.inner_text()
    # The thumbnail is the part of the sheet for the row that the text names; all rows are shown, in order.
    place = int(said[1])
    sheet = page.evaluate("JSON.parse(document.getElementById('content').textContent).sheet")
    style = page.evaluate(
        "[document.querySelector('.thumb i').style].map((s) => [s.backgroundImage, s.backgroundPositionX])[0]"
    )
    assert style[0].startswith('url("data:image/') and style[1].lstrip("-") == f"{112 * (place % sheet['columns'])}px"
    page.mouse.move(2, 2)
    thumb.wait_for(state="hidden")


def test_a_thumbnail_that_scrolling_hid_comes_back_on_the_same_point(opened, digits_run):
    page = opened(digits_run / "report.html")
    point, thumb = page.locator("[data-chart=map] .scatterlayer .point").first, page.locator(".thumb")
    point.scroll_into_view_if_needed()
    hover_until(page, point, thumb)
    page.evaluate("scrollBy(0, 10)")
    thumb.wait_for(state="hidden")
    hover_until(page, point, thumb)


def test_names_are_shown_unchanged(opened, wide_run, hostile):
    page = opened(wide_run / "report.html")
    assert hostile in page.locator("#columns").inner_text()
    assert page.evaluate("document.querySelectorAll('[onerror], img[src=x]').length") == 0


def test_a_thumbnail_keeps_the_proportions_of_the_image(opened, image_run):
    page = opened(image_run / "report.html")
    sheet = page.evaluate("JSON.parse(document.getElementById('content').textContent).sheet")
    style = page.evaluate("[document.querySelector('.thumb i').style].map((s) => [s.width, s.height])[0]")
    width, height = (float(length.removesuffix("px")) for length in style)
    assert width / height == pytest.approx(sheet["width"] / sheet["height"]) and max(width, height) <= 150


def test_the_comparison_draws_maps_and_curves(opened, moons_run, other_moons_run, tmp_path):
    path = tmp_path / "both.html"
    assert main(["report", str(moons_run), str(other_moons_run), "--out", str(path)]) == 0
    page = opened(path)
    assert set(drawn(page)) == {"clusters-0", "clusters-1"}
    unfold(page)
    assert {"clusters-0", "clusters-1", "curve-generative", "curve-objective"} <= set(drawn(page)) == set(charts(page))
    assert page.locator("#agreement td").count() == 4


@pytest.mark.parametrize(("name", "scheme"), [("image_run", "light"), ("image_run", "dark"), ("wide_run", "dark")])
def test_a_phone_shows_the_page_without_scrolling_sideways(opened, name, scheme, request):
    run = request.getfixturevalue(name)
    page = opened(run / "report.html", viewport=PHONE, is_mobile=True, has_touch=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("[...document.querySelectorAll('[data-chart]')].every((chart) => chart.scrollWidth <= 390)")
    # Nothing in a chart is under its buttons, and words are not broken.
    covered = (
        "[...document.querySelectorAll('.chart')].some((chart) => { const bar = chart.querySelector('.modebar');"
        " const legend = chart.querySelector('.legend'); if (!bar || !legend) return false;"
        " return legend.getBoundingClientRect().right > bar.getBoundingClientRect().left + 1; })"
    )
    assert not page.evaluate(covered)
    unfold(page)
    wide = "[...document.querySelectorAll('caption')].filter((one) => one.getBoundingClientRect().right > 390)"
    assert page.evaluate(f"{wide}.map((one) => one.textContent)") == [], "captions are read without scrolling"
    cut = "[...document.querySelectorAll('nav a')].filter((one) => one.getBoundingClientRect().right > 390)"
    assert page.evaluate(f"{cut}.length") == 0, "all sections can be reached"
    whole = "[...document.querySelectorAll('#provenance th code')].find((name) => name.textContent === 'python')"
    assert page.evaluate(f"{whole}.getClientRects().length") == 1


def test_a_chart_never_covers_what_follows_it(opened, wide_run):
    page = opened(wide_run / "report.html")
    inside = (
        "[...document.querySelectorAll('.chart .main-svg')].every((svg) => svg.getBoundingClientRect().bottom"
        " <= svg.closest('figure').getBoundingClientRect().bottom + 1)"
    )
    assert page.evaluate(inside)
    width = "document.querySelector('[data-chart=map]')._fullLayout.width"
    before = page.evaluate(width)
    page.set_viewport_size({"width": 900, "height": 700})
    wait_until(page, f"{width} < {before}")
    assert page.evaluate(inside)


def test_the_names_of_stages_stand_above_the_curves(opened, moons_run):
    page = opened(moons_run / "report.html")
    unfold(page)
    lowest, highest = page.evaluate(
        "[...document.querySelectorAll('[data-chart^=training]')].map((chart) => ["
        " Math.max(...[...chart.querySelectorAll('.annotation')].map((one) => one.getBoundingClientRect().bottom)),"
        " chart.querySelector('.nsewdrag').getBoundingClientRect().top])[0]"
    )
    assert lowest <= highest + 2


def test_paper_is_white_and_shows_no_buttons(opened, wide_run):
    page = opened(wide_run / "report.html", color_scheme="dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("nav", ".views", "#diagnostics"):
        assert page.locator(hidden).is_hidden()
    assert page.locator(".found").is_visible()


def test_a_finger_zooms_with_the_buttons_as_the_page_says(opened, moons_run):
    page = opened(moons_run / "report.html", viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.locator("#map .by-touch").is_visible() and page.locator("#map .by-mouse").is_hidden()
    icon = "document.querySelector('[data-chart=map] .modebar-btn path')"
    assert page.evaluate(f"getComputedStyle({icon}).fill").startswith("rgb("), "icons must be opaque to be seen"
    ends = "document.querySelector('[data-chart=map]').layout.xaxis.range"
    span = f"({ends}[1] - {ends}[0])"
    before = page.evaluate(span)
    page.locator("[data-chart=map] .modebar-btn[data-val=in]").tap()
    wait_until(page, f"{span} < {0.8 * before}")
    page.locator("[data-chart=map] .modebar-btn[data-val=reset]").tap()
    wait_until(page, f"Math.abs({span} - {before}) < 1e-6")


def test_charts_follow_the_readers_mode(opened, moons_run):
    page = opened(moons_run / "report.html", color_scheme="light")
    ink = "document.querySelector('[data-chart=ood-density]').layout.font.color"
    ground = "getComputedStyle(document.body).backgroundColor"
    light = (page.evaluate(ink), page.evaluate(ground))
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"{ink} !== '{light[0]}'")
    assert page.evaluate(ground) != light[1]
