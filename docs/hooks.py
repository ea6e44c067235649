"""Hooks for mkdocs: tables, numbers and outputs from the code and the results, and links that leave the folder.

    python docs/hooks.py     # after new results: update the numbers and outputs in README.md and docs/*.md

A number of a results file stands before ``<!-- FILE / ROW / COLUMN -->``, and what an example printed stands after the
line ``<!-- printed: EXAMPLE -->``: pages can be read as they are, and tests check that they say what the files say. The
line after ``<!-- table: NAME -->`` (`TABLES` lists the names) is replaced by a table when the site is built.
"""

from __future__ import annotations

import ast
import inspect
import io
import json
import posixpath
import re
import tokenize
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "laptop"
SPEED_PARTS = {
    "loops": "Inner loops",
    "fits": "Whole fits",
    "growth": "Growth with the number of rows",
    "devices": "Two processes on images",
    "imports": "Imports and answers",
    "skipped": "What was not measured",
}
SHOWN_PRESETS = ("toy", "rows", "images")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\./[^)\s]+)\)")
MARKER = re.compile(r"^<!-- table: ([a-z-]+) -->\n.+$", re.MULTILINE)
NUMBER = re.compile(r"(not measured|[\d.,]+(?: ± [\d.]+)?)(\**)<!-- ([\w.-]+(?: / [^<>]+?)+) -->")
PRINTED = re.compile(r"^<!-- printed: (\w+) -->\n(?:```text\n.*?^```\n\n\*.*?\*\n)?", re.MULTILINE | re.DOTALL)
NOT_MEASURED = "not measured"
ELSEWHERE = ("bench", "gallery")  # results that have pages of their own

# -- tables -----------------------------------------------------------------------------------------------------------


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A Markdown table; bars within cells are escaped."""
    lines = [list(columns), *(list(row) for row in rows)]
    texts = [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    texts.insert(1, ["---"] * len(texts[0]))
    return "\n".join(f"| {' | '.join(line)} |" for line in texts)


def comments_of(owner: type) -> dict[str, str]:
    """The comment on each field of a dataclass, including inherited fields, with values as in YAML, by field name."""
    found: dict[str, str] = {}
    for cls in reversed(owner.__mro__):
        if is_dataclass(cls) and "__annotations__" in vars(cls):
            found |= _own_comments(cls)
    return found


def _own_comments(cls: type) -> dict[str, str]:
    source = inspect.getsource(cls)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    by_line = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            if texts := [by_line[line] for line in lines if line in by_line]:
                found[node.target.id] = " ".join(texts).replace("None:", "null:").replace("False:", "false:")
    return found


def _value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) or '""'


def _choices(cls: type, name: str) -> str:
    from gedi.settings import types_of

    kind = types_of(cls)[name]
    return f" ({', '.join(get_args(kind))})" if get_origin(kind) is Literal else ""


def settings_table() -> str:
    """Every setting outside the objective, with its value in the presets that are chosen by shape."""
    from gedi.training.presets import preset

    presets = [preset(name, n_features=2) for name in SHOWN_PRESETS]
    config, comments = presets[0], comments_of(type(presets[0]))
    columns = ["setting", *(f"`{name}`" for name in SHOWN_PRESETS), "meaning"]
    parts, single = [], []
    for field in fields(config):
        group = getattr(config, field.name)
        if field.name == "objective":
            continue
        if not is_dataclass(group):
            values = [_value(getattr(preset, field.name)) for preset in presets]
            single.append([f"`{field.name}`", *values, comments[field.name] + _choices(type(config), field.name)])
            continue
        about, rows = comments_of(type(group)), []
        for item in fields(group):
            values = [_value(getattr(getattr(preset, field.name), item.name)) for preset in presets]
            meaning = about.get(item.name, "") + _choices(type(group), item.name)
            rows.append([f"`{field.name}.{item.name}`", *values, meaning])
        parts.append(f"### {field.name}: {comments[field.name]}\n\n{markdown_table(columns, rows)}")
    return "\n\n".join([*parts, f"### The rest\n\n{markdown_table(columns, single)}"])


def terms_table() -> str:
    """Every setting of every kind of term, with its default."""
    from gedi.objectives.term import kinds

    parts = []
    for family, members in kinds().items():
        rows = []
        for kind, term in members.items():
            about = comments_of(term)
            for field in fields(term):
                if field.name != "kind":
                    meaning = about.get(field.name, "") + _choices(term, field.name)
                    rows.append([f"`{kind}`", f"`objective.{family}.{field.name}`", _value(field.default), meaning])
        columns = ["kind", "setting", "default", "meaning"]
        parts.append(f"### objective.{family}\n\n{markdown_table(columns, rows)}")
    return "\n\n".join(parts)


def limits_table() -> str:
    """The limits of the report's verdict."""
    from gedi.report import verdict

    body = inspect.getsource(verdict).split("LIMITS = {", 1)[1].split("\n}", 1)[0]
    meanings = dict(re.findall(r'"(\w+)": Limit\(.*?\),\s*# (.*)', body))
    rows = []
    for name, limit in verdict.LIMITS.items():
        sign = "≥" if limit.good > limit.fair else "≤"
        rows.append([f"`{name}`", meanings[name], f"{sign} {limit.good:g}", f"{sign} {limit.fair:g}"])
    return markdown_table(["measure", "what it is", "good", "fair (beyond: poor)"], rows)


def results_tables() -> str:
    """Every table under results/laptop, as the command wrote it, except for those that have pages of their own."""
    parts = []
    for path in sorted(RESULTS.glob("*.json")):
        if path.stem in ELSEWHERE:
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        parts.append(_experiment(path.stem, content) if "table" in content else _measurements(path.stem, content))
    return "\n\n".join(parts)


def speed_tables() -> str:
    """What `make bench` measured, or that it has not been run."""
    path = RESULTS / "bench.json"
    if not path.is_file():
        return "*There are no numbers here yet: `make bench` has not been run for this version.*"
    content = json.loads(path.read_text(encoding="utf-8"))
    made = content["provenance"]
    parts = [_origin("bench", content), f"Revision `{made['revision']}`, medians of {made['repeats']} fits."]
    if made.get("against"):
        parts.append(f"*gedi, earlier* is revision `{made['against']}`, with the same libraries.")
    for part, title in SPEED_PARTS.items():
        if lines := content.get(part):
            columns = list(lines[0])
            rows = [[_measured(line.get(column, "")) for column in columns] for line in lines]
            parts += [f"## {title}", markdown_table(columns, rows)]
        if part == "growth" and lines and (RESULTS / "bench-growth.png").is_file():
            parts.append("![time and memory against the number of rows](../results/laptop/bench-growth.png)")
    return "\n\n".join(parts)


def number(place: str) -> str:
    """One cell of a results file's table, by ``FILE / ROW / COLUMN``; a row is named by its first cell or cells."""
    name, *row, column = place.split(" / ")
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return NOT_MEASURED
    table = json.loads(path.read_text(encoding="utf-8"))["table"]
    found = next((line for line in table["rows"] if line[: len(row)] == row), None)
    return NOT_MEASURED if found is None else found[table["columns"].index(column)]


def printed(example: str) -> str:
    """What an example of the gallery printed when docs/make_gallery.py last ran it."""
    content = json.loads((RESULTS / "gallery.json").read_text(encoding="utf-8"))[example]
    made, lines = content["provenance"], "\n".join(content["printed"])
    took = f"{content['processor_seconds']:.0f} seconds of one core"
    return f"```text\n{lines}\n```\n\n*`{made['command']}`, {made['date'][:10]}, {took}.*"


def renewed(text: str) -> str:
    """A page with the numbers and outputs that the results have now."""
    text = NUMBER.sub(lambda match: f"{number(match[3])}{match[2]}<!-- {match[3]} -->", text)
    return PRINTED.sub(lambda match: f"<!-- printed: {match[1]} -->\n{printed(match[1])}\n", text)


def renew_pages() -> None:
    """Write the numbers and outputs that the results have now into the README and the pages."""
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")


def _experiment(name: str, content: dict[str, Any]) -> str:
    table = content["table"]
    parts = [f"### {name}: {content['title']}", _origin(name, content)]
    if seconds := [cell["seconds"] for cell in content.get("cells", []) if cell.get("seconds") is not None]:
        parts.append(f"{len(seconds)} fits, {sum(seconds) / 60:,.0f} minutes in total, while other work was running.")
    parts.append(markdown_table(table["columns"], table["rows"]))
    parts.append("\n".join(f"* {note}" for note in content.get("notes", [])))
    parts += [
        f"![{content['title']}](../results/laptop/{file})" for file in content.get("files", []) if file.endswith(".png")
    ]
    return "\n\n".join(parts)


def _measurements(name: str, content: dict[str, Any]) -> str:
    parts = [f"### {name}", _origin(name, content)]
    single = {}
    for title, value in content.items():
        if title == "provenance":
            continue
        if isinstance(value, list):
            columns = list(dict.fromkeys(column for line in value for column in line))
            rows = [[_measured(line.get(column, "")) for column in columns] for line in value]
            parts += [f"**{title}**", markdown_table(columns, rows)]
        elif isinstance(value, dict):
            parts += [f"**{title}**", markdown_table(["what", "value"], [[k, _measured(v)] for k, v in value.items()])]
        else:
            single[title] = value
    if single:
        parts.append(markdown_table(["what", "value"], [[k, _measured(v)] for k, v in single.items()]))
    return "\n\n".join(parts)


def _measured(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _origin(name: str, content: dict[str, Any]) -> str:
    made = content["provenance"]
    versions = ", ".join(f"{package} {version}" for package, version in made["versions"].items())
    file = f"[`{name}.json`](../results/laptop/{name}.json)"
    return f"`{made['command']}` · {made['date'][:10]} · {made['machine']} · {versions} · {file}"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "terms": terms_table,
    "limits": limits_table,
    "results": results_tables,
    "speed": speed_tables,
}

# -- links ------------------------------------------------------------------------------------------------------------


def rewrite_links(text: str, repository: str | None) -> str:
    """Rewrite links that leave docs/: pictures of results become part of the site, other links point to the repository.

    If the repository's address is not known (`repo_url` in mkdocs.yml), only the text of such a link is kept.
    """

    def replace(match: re.Match[str]) -> str:
        picture, words, target = match.groups()
        inside = posixpath.normpath(target.removeprefix("../"))
        if inside.startswith("results/") and inside.endswith(".png"):
            return f"{picture}[{words}]({inside})"
        return f"[{words}]({repository.rstrip('/')}/blob/main/{inside})" if repository else words

    return LINK.sub(replace, text)


# -- called by mkdocs -------------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in sorted(RESULTS.glob("*.png")):
        files.append(File.generated(config, f"results/laptop/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    filled = MARKER.sub(lambda match: TABLES[match[1]](), markdown)
    filled = NUMBER.sub(lambda match: f"{match[1]}{match[2]}", renewed(filled))
    return rewrite_links(filled, config.repo_url)


if __name__ == "__main__":
    renew_pages()
