"""The pages in a real browser, opened as files: they draw, react to the mouse, and make no network requests."""

import re

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
        ".filter((chart) => chart.querySelector('.main-svg .trace, .main-svg .hm, .main-svg .contour'))"
        ".map((chart) => chart.dataset.chart)"
    )


def charts(page):
    return page.evaluate("[...document.querySelectorAll('[data-chart]')].map((chart) => chart.dataset.chart)")


def test_moons_draw_every_chart_and_zoom(opened, moons_run):
    page = opened(moons_run / "report.html")
    plane = [f"plane-{name}" for name in ("clusters", "energy", "walks", "samples")]
    training = [f"training-{name}" for name in ("error", "gap", "losses", "objective", "diagnostics")]
    assert {*plane, *training, "ood-density", "ood-gradient", "spectrum"} == set(charts(page)) == set(drawn(page))
    chart = page.locator("[data-chart=plane-clusters] .nsewdrag")
    chart.scroll_into_view_if_needed()
    ends = "document.querySelector('[data-chart=plane-clusters]').layout.xaxis.range"
    span = f"({ends}[1] - {ends}[0])"
    before, box = page.evaluate(span), chart.bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=4)
    page.mouse.up()
    wait_until(page, f"{span} < {0.6 * before}")


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
    assert set(charts(page)) == set(drawn(page)) >= {"map", "ood-density", "spectrum"}
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    thumb = page.locator(".thumb")
    assert thumb.is_hidden()
    point = page.locator("[data-chart=map] .scatterlayer .point").first
    point.scroll_into_view_if_needed()
    hover_until(page, point, thumb)
    said = re.search(r"row (\d+) of the sample\s+cluster (\d+), probability", thumb.inner_text())
    assert said
    # The thumbnail is the part of the sheet for the row that the text names.
    row = int(said[1])
    place = page.evaluate(
        "(row) => { const map = document.querySelector('[data-chart=map]'); for (const trace of map.data) {"
        " const i = trace.text.findIndex((text) => text.startsWith(`row ${row} `));"
        " if (i >= 0) return trace.customdata[i]; } }",
        row,
    )
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


def test_wide_rows_show_profiles_with_unchanged_names(opened, wide_run, hostile):
    page = opened(wide_run / "report.html")
    assert {"profile", "map"} <= set(drawn(page)) and set(charts(page)) == set(drawn(page))
    assert hostile in (page.locator("[data-chart=profile]").text_content() or "")
    assert page.evaluate("document.querySelectorAll('[onerror], img[src=x]').length") == 0


def test_the_comparison_draws_maps_and_curves(opened, moons_run, other_moons_run, tmp_path):
    path = tmp_path / "both.html"
    assert main(["report", str(moons_run), str(other_moons_run), "--out", str(path)]) == 0
    page = opened(path)
    assert {"clusters-0", "clusters-1", "curve-generative", "curve-objective"} <= set(drawn(page)) == set(charts(page))
    assert page.locator("#agreement td").count() == 4


@pytest.mark.parametrize(("name", "scheme"), [("image_run", "light"), ("image_run", "dark"), ("wide_run", "dark")])
def test_a_phone_shows_the_page_without_scrolling_sideways(opened, name, scheme, request):
    run = request.getfixturevalue(name)
    page = opened(run / "report.html", viewport=PHONE, is_mobile=True, has_touch=True, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert page.evaluate("[...document.querySelectorAll('[data-chart]')].every((chart) => chart.scrollWidth <= 390)")
    # Words are not broken, and numbers in cells have the page's ink.
    whole = "[...document.querySelectorAll('#provenance th code')].find((name) => name.textContent === 'python')"
    assert page.evaluate(f"{whole}.getClientRects().length") == 1
    if name == "wide_run":
        ink = "getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()"
        assert page.evaluate(f"document.querySelector('[data-chart=profile]').data[0].textfont.color === {ink}")


def test_a_finger_zooms_with_the_buttons_as_the_page_says(opened, moons_run):
    page = opened(moons_run / "report.html", viewport=PHONE, is_mobile=True, has_touch=True)
    assert page.locator("#plane .by-touch").is_visible() and page.locator("#plane .by-mouse").is_hidden()
    icon = "document.querySelector('[data-chart=plane-clusters] .modebar-btn path')"
    assert page.evaluate(f"getComputedStyle({icon}).fill").startswith("rgb("), "icons must be opaque to be seen"
    ends = "document.querySelector('[data-chart=plane-clusters]').layout.xaxis.range"
    span = f"({ends}[1] - {ends}[0])"
    before = page.evaluate(span)
    page.locator("[data-chart=plane-clusters] .modebar-btn[data-val=in]").tap()
    wait_until(page, f"{span} < {0.8 * before}")
    page.locator("[data-chart=plane-clusters] .modebar-btn[data-val=reset]").tap()
    wait_until(page, f"Math.abs({span} - {before}) < 1e-6")


def test_charts_follow_the_readers_mode(opened, moons_run):
    page = opened(moons_run / "report.html", color_scheme="light")
    ink = "document.querySelector('[data-chart=training-gap]').layout.font.color"
    ground = "getComputedStyle(document.body).backgroundColor"
    light = (page.evaluate(ink), page.evaluate(ground))
    page.emulate_media(color_scheme="dark")
    wait_until(page, f"{ink} !== '{light[0]}'")
    assert page.evaluate(ground) != light[1]
