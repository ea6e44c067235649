"""What the documentation shows can be done."""

import re
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gedi import GEDI
from gedi.training.objective import kinds
from gedi.training.terms import KINDS

DOCS = Path(__file__).parent.parent / "docs"


def test_the_how_to_of_a_term_of_ones_own_trains(monkeypatch):
    text = (DOCS / "family.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- tested: .*?-->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (name, place) = re.findall(r'^"(mine\.\w+)" = "(.*)"$', text, flags=re.MULTILINE)[0]
    package, _, class_name = place.partition(":")
    monkeypatch.setitem(sys.modules, package, module := ModuleType(package))
    exec(compile(code, "family.md", "exec", dont_inherit=True), vars(module))
    term = getattr(module, class_name)
    entry = metadata.EntryPoint(name, place, "gedi.terms")
    monkeypatch.setattr("gedi.training.objective.entry_points", lambda group: [entry])
    family, _, kind = name.partition(".")
    assert kinds()[family] == {kind: term}
    changes = {f"objective.{family}": {"kind": kind, "room": 0.5}, "step1.iterations": 3, "step2.iterations": 60}
    rows = np.vstack([np.random.default_rng(0).normal(centre, 0.3, (60, 2)) for centre in (-2, 2)])
    model = GEDI(n_clusters=2, preset="smoke", training=changes, random_state=0).fit(rows).model_
    values = [line[kind] for line in model.history if kind in line]
    assert values and values[-1] < 1.0


@pytest.mark.parametrize("family", KINDS)
def test_every_kind_of_term_is_on_the_page_of_the_family(family):
    text = (DOCS / "family.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in text for kind in KINDS[family])


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target
