"""The commands, settings and examples in the documentation work."""

import doctest
import importlib.util
import json
import pkgutil
import re
import shlex
import sys
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from gedi import GEDI
from gedi.cli import build_parser, main, training_flags
from gedi.errors import ConfigError
from gedi.objectives.term import installed_terms, kinds
from gedi.report.verdict import LIMITS
from gedi.training.config import TrainingConfig, override, paths
from gedi.training.methods import METHODS
from gedi.training.presets import preset

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
WITH_PYTHON = [path for path in PAGES if "```python" in path.read_text(encoding="utf-8")]
RESULTS = ROOT / "results" / "laptop"
COMMANDS = ("demo", "fit", "resume", "predict", "sample", "explore", "eval", "report", "reproduce")
COMMANDS += ("methods", "datasets", "fetch", "completion")


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("docs_hooks", DOCS / "hooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("own_terms")
def test_the_example_of_a_new_term_trains(monkeypatch):
    text = (DOCS / "family.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"<!-- tested: .*?-->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (name, place) = re.findall(r'^"(mine\.\w+)" = "(.*)"$', text, flags=re.MULTILINE)[0]
    package, _, class_name = place.partition(":")
    monkeypatch.setitem(sys.modules, package, module := ModuleType(package))
    exec(compile(code, "family.md", "exec", dont_inherit=True), vars(module))
    term = getattr(module, class_name)
    entry = metadata.EntryPoint(name, place, "gedi.terms")
    monkeypatch.setattr("gedi.objectives.term.entry_points", lambda group: [entry] if group == "gedi.terms" else [])
    monkeypatch.setattr("gedi.objectives.term.installed_terms", installed_terms.__wrapped__)
    family, _, kind = name.partition(".")
    assert kinds()[family] == {kind: term}
    with pytest.raises(ConfigError, match=r"nearest is training\.objective\.mine\.room"):
        override(TrainingConfig(), {f"objective.{family}": {"kind": kind, "rooom": 0.5}})
    changes = {f"objective.{family}": {"kind": kind, "room": 0.5}, "step1.iterations": 3, "step2.iterations": 60}
    rows = np.vstack([np.random.default_rng(0).normal(centre, 0.3, (60, 2)) for centre in (-2, 2)])
    model = GEDI(n_clusters=2, preset="smoke", training=changes, random_state=0).fit(rows).model_
    values = [line[kind] for line in model.history if kind in line]
    assert values and values[-1] < 1.0


@pytest.mark.usefixtures("own_terms")
@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_python_on_a_page_runs(path, monkeypatch, tmp_path):
    """All blocks of a page share their names, as in a session. ``X`` is a small table; fits have the budget of smoke.

    A comment above a block says where else it runs (``<!-- from: EXAMPLE -->``, see test_gallery.py) or why it cannot
    (``<!-- not run: REASON -->``).
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(GEDI.__init__.__kwdefaults__, "preset", "smoke")
    if path.name == "logic.md":
        pytest.importorskip("pysdd", reason="needs pysdd: pip install 'gedi-ssl[logic]'")
    rng = np.random.default_rng(0)
    names = {"X": np.vstack([rng.normal(4 * centre, 0.3, (20, 3)) for centre in range(5)]), "__name__": "page"}
    text = path.read_text(encoding="utf-8")
    for comment, code in re.findall(r"(<!--[^\n]*-->\n)?```python\n(.*?)```", text, flags=re.DOTALL):
        if re.match(r"<!-- (from|not run): \S", comment):
            continue
        if ">>>" in code:
            example = doctest.DocTestParser().get_doctest(code, names, path.name, str(path), 0)
            runner = doctest.DocTestRunner()
            assert runner.run(example, clear_globs=False).failed == 0
            names |= example.globs
        else:
            exec(compile(code, path.name, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("family", kinds())
def test_every_kind_of_term_is_on_the_page_of_the_family(family):
    text = (DOCS / "family.md").read_text(encoding="utf-8")
    assert [kind for kind in kinds()[family] if f"`{kind}`" not in text] == []


def test_every_method_is_on_the_page_of_methods():
    text = (DOCS / "methods.md").read_text(encoding="utf-8")
    assert [method for method in METHODS if f"| `{method}` |" not in text] == []


@pytest.mark.parametrize("path", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_numbers_and_outputs_are_those_of_the_results(hooks, path):
    text = path.read_text(encoding="utf-8")
    assert hooks.renewed(text) == text, "python docs/hooks.py renews them"
    marked = re.findall(r"<!-- [^:>]+ -->", text)
    assert len(marked) == len(hooks.NUMBER.findall(text)), "each stands behind its number"
    assert path.name != "README.md" or len(marked) == text.count("<!--") > 10


def test_pages_that_are_behind_the_results_are_renewed(hooks):
    kept = "| **0.1 ± 0.2**<!-- table-digits / GEDI / NMI --> |\n<!-- printed: digits -->\n"
    found = hooks.renewed(kept)
    assert f"| **{hooks.number('table-digits / GEDI / NMI')}**<!-- table-digits" in found
    assert found.endswith("of one core.*\n") and hooks.renewed(found) == found


def test_the_site_has_numbers_without_their_marks_and_tables(hooks):
    page = "0.1<!-- table-digits / GEDI / NMI -->\n\n<!-- table: limits -->\n*Not here.*\n"
    built = hooks.on_page_markdown(page, None, SimpleNamespace(repo_url=None), None)
    value, _, table = built.partition("\n\n")
    assert value == hooks.number("table-digits / GEDI / NMI")
    assert table.startswith("| measure |") and "Not here" not in table


# -- tables ----------------------------------------------------------------------------------------------------------


def test_the_table_of_settings_has_every_setting_and_its_meaning(hooks):
    rows = {line.split("|")[1].strip(" `"): line for line in hooks.settings_table().splitlines() if line.count("|") > 2}
    wanted = [path for path in paths(TrainingConfig()) if not path.startswith("objective.")]
    assert [path for path in wanted if path not in rows] == []
    assert [path for path in wanted if not rows[path].rstrip(" |").rsplit("|", 1)[1].strip()] == []
    assert "like the others (paper) (waves, linear)" in rows["net.first"]
    starts = [", ".join(preset(name, n_features=2).heads.starts) for name in hooks.SHOWN_PRESETS]
    assert len(set(starts)) > 1 and [cell.strip() for cell in rows["heads.starts"].split("|")[2:5]] == starts


def test_the_table_of_terms_has_every_setting_of_every_kind(hooks):
    rows = [[cell.strip(" `") for cell in line.split(" | ")] for line in hooks.terms_table().splitlines()]
    found = {(row[0].strip("| `"), row[1]): row[-1].strip(" |") for row in rows if len(row) == 4}
    for family, members in kinds().items():
        for kind, term in members.items():
            for field in fields(term):
                assert field.name == "kind" or found[kind, f"objective.{family}.{field.name}"], (kind, field.name)


def test_the_limits_of_the_verdict_are_those_of_the_code(hooks):
    table = hooks.limits_table()
    assert all(f"`{name}`" in table for name in LIMITS)
    assert f"≥ {LIMITS['confidence'].good:g} | ≥ {LIMITS['confidence'].fair:g}" in table
    assert f"≤ {LIMITS['sample_test'].good:g} | ≤ {LIMITS['sample_test'].fair:g}" in table


def test_every_result_is_on_the_page_with_its_command(hooks):
    text = hooks.results_tables()
    for path in RESULTS.glob("*.json"):
        if path.stem in hooks.ELSEWHERE:
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        assert content["provenance"]["command"] in text
        for row in content.get("table", {}).get("rows", []):
            assert " | ".join(cell.replace("|", "\\|") for cell in map(str, row)) in text


def test_numbers_on_pages_are_those_of_the_results(hooks, monkeypatch, tmp_path):
    places = {p for page in DOCS.glob("*.md") for _, _, p in hooks.NUMBER.findall(page.read_text(encoding="utf-8"))}
    assert "table-digits / GEDI / NMI" in places
    known = {place for place in places if (RESULTS / f"{place.split(' / ')[0]}.json").is_file()}
    assert [place for place in sorted(known) if hooks.number(place) == hooks.NOT_MEASURED] == []
    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    assert hooks.number("table-digits / GEDI / NMI") == hooks.NOT_MEASURED
    table = {"columns": ["data set", "method", "NMI"], "rows": [["digits", "swav", "0.9"], ["mnist", "swav", "0.8"]]}
    (tmp_path / "table-methods.json").write_text(json.dumps({"table": table}))
    assert hooks.number("table-methods / mnist / swav / NMI") == "0.8"


def test_the_page_of_speed_shows_what_was_measured_or_that_nothing_was(hooks, monkeypatch, tmp_path):
    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    assert "has not been run" in hooks.speed_tables()
    made = {"command": "c", "date": "2026-01-01", "machine": "m", "versions": {}, "revision": "abc", "repeats": 3}
    lines = [{"rows": 1000, "who": "gedi", "seconds": 1.2345}]
    (tmp_path / "bench.json").write_text(json.dumps({"growth": lines, "skipped": [], "provenance": made}))
    assert "| 1000 | gedi | 1.23 |" in hooks.speed_tables() and "earlier" not in hooks.speed_tables()


def test_links_out_of_the_folder_lead_to_the_repository_or_become_names(hooks):
    text = "[`a.py`](../src/a.py) ![p](../results/laptop/p.png) [b](runs.md)"
    own = "![p](results/laptop/p.png) [b](runs.md)"
    assert hooks.rewrite_links(text, "https://x.org/g/") == f"[`a.py`](https://x.org/g/blob/main/src/a.py) {own}"
    assert hooks.rewrite_links(text, None) == f"`a.py` {own}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_that_a_page_shows_exist(path, capsys):
    text = path.read_text(encoding="utf-8")
    for command, line in re.findall(
        r"^(?:srun )?gedi ([a-z]+)([^\n#]*)", "\n".join(shown_code(text)), flags=re.MULTILINE
    ):
        assert command in COMMANDS, command
        with pytest.raises(SystemExit):
            main([command, "--help"])
        known = capsys.readouterr().out
        for flag in re.findall(r"(?<=\s)--?[a-z][a-z-]*(?![\w.-])", line):
            assert flag in known or flag == "--help", f"gedi {command} {flag}"


def shown_code(text):
    """The code on a page: blocks and inline code."""
    return blocks(text) + re.findall(r"`([^`\n]+)`", text)


def blocks(text):
    return re.findall(r"```[a-z]*\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_in_blocks_have_what_they_need(path):
    code = "\n".join(blocks(path.read_text(encoding="utf-8")))
    for line in re.findall(r"^(?:srun |torchrun .*-m )?gedi (.+)$", code, flags=re.MULTILINE):
        words, _ = training_flags(shlex.split(line.split(" > ")[0], comments=True))
        if "--help" not in words and "--version" not in words:
            try:
                build_parser().parse_args(words)
            except SystemExit:
                pytest.fail(f"{path.name}: gedi {line}")


def test_settings_that_a_page_names_exist():
    known = paths(TrainingConfig())
    known += [
        f"objective.{f}.{field.name}" for f, members in kinds().items() for t in members.values() for field in fields(t)
    ]
    groups = {path.split(".")[0] for path in known if "." in path}
    for page in ("settings.md", "troubleshooting.md", "report.md", "guide.md", "methods.md", "gallery.md"):
        for words in re.findall(r"`([^`\n]+)`", (DOCS / page).read_text(encoding="utf-8")):
            name = words.split()[0].removeprefix("--training.")
            if re.fullmatch(r"\w+(\.\w+)+", name) and name.split(".")[0] in groups:
                assert name in known, f"{page}: {name}"


def test_the_walk_through_the_code_names_what_exists():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    walk = page.split("`gedi fit rows.csv`")[1].split("```")[1].splitlines()[1:]
    short = {"build": "training.build", "recipe": "training.recipe", "choice": "training.choice"}
    short |= {"Engine": "training.engine.Engine", "Term": "objectives.term.Term"}
    short |= {"GediNet": "nets.gedinet.GediNet", "TrainedModel": "training.model.TrainedModel"}
    for line in walk:
        first, _, rest = line.split()[0].partition(".")
        assert pkgutil.resolve_name(f"gedi.{short.get(first, first)}.{rest}"), line
