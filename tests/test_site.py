"""The documentation site: it builds offline and strictly, and can be read and searched from files."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from gedi import GEDI

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PATIENCE = 120_000  # milliseconds: a busy machine is not a broken page


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("material", reason="needs mkdocs-material: pip install 'gedi-ssl[docs]'")
    pytest.importorskip("mkdocstrings", reason="needs mkdocstrings: pip install 'gedi-ssl[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    place = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(place), strict=True)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    return place


def pages_of(nav):
    """All files named in a navigation."""
    if isinstance(nav, str):
        return [nav]
    return [page for item in (nav.values() if isinstance(nav, dict) else nav) for page in pages_of(item)]


def test_the_navigation_names_every_page_and_no_other():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = pages_of(config["nav"])
    assert sorted(named) == sorted(path.name for path in DOCS.glob("*.md"))


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_a_page_has_no_diagram_that_the_theme_would_fetch_a_script_for(path):
    assert "```mermaid" not in path.read_text(encoding="utf-8")


def test_the_site_builds_strictly(site):
    assert "sampler.box_margin" in (site / "settings.html").read_text(encoding="utf-8")
    assert (site / "results" / "laptop" / "fig-landscapes.png").exists()
    assert not list(site.rglob("hooks.py"))


def test_the_python_page_lists_every_method_and_every_learned_attribute(site):
    page = (site / "api.html").read_text(encoding="utf-8")
    fitted = GEDI(n_clusters=2, preset="smoke", training={"step1.iterations": 1, "step2.iterations": 2})
    fitted.fit(np.random.default_rng(0).normal(size=(40, 2)))
    learned = [name for name in vars(fitted) if name.endswith("_") and not name.startswith("_")]
    assert "labels_" in learned
    assert [name for name in learned if f'title="gedi.estimator.GEDI.{name}"' not in page] == []
    methods = [name for name, value in vars(GEDI).items() if callable(value) and not name.startswith("_")]
    assert "predict_proba" in methods
    assert [name for name in methods if f'id="gedi.estimator.GEDI.{name}"' not in page] == []


@pytest.mark.usefixtures("needs_chromium")
def test_search_works_in_pages_opened_as_files(site, request):
    pytest.importorskip("pytest_playwright", reason="needs pytest-playwright: pip install 'gedi-ssl[dev]'")
    context = request.getfixturevalue("new_context")(offline=True)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(site.as_uri()) else complaints.append(f"request: {r.url}"))
    page.goto((site / "index.html").as_uri())
    page.fill("[data-md-component=search-query]", "missing values", force=True)
    # The theme may begin to listen only after the words are there: a key wakes it up.
    page.wait_for_function(
        """() => {
            document.querySelector("[data-md-component=search-query]").dispatchEvent(new Event("keyup"));
            return document.querySelector(".md-search-result__link");
        }"""
    )
    found = page.eval_on_selector_all(".md-search-result__link", "links => links.map((link) => link.href)")
    section = f"{(site / 'quickstart.html').as_uri()}#words-dates-and-missing-values"
    assert any(link.startswith(section) for link in found), found
    assert complaints == []
