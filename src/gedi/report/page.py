"""One self-contained HTML page: tables, notes and pictures, no request to anywhere."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment

TEMPLATE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
  :root { color-scheme: light dark; --line: #8884; }
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; }
  th, td { padding: .35rem .9rem; border-bottom: 1px solid var(--line); text-align: left; }
  .scroll { overflow-x: auto; }
  figure { margin: 1rem 0; }
  img { max-width: 100%; background: white; border-radius: .4rem; }
  figcaption, .notes { opacity: .8; }
</style>
<h1>{{ title }}</h1>
{% for section in sections %}
<section>
  <h2>{{ section.title }}</h2>
  {% if section.rows %}
  <div class="scroll"><table>
    <tr>{% for name in section.columns %}<th>{{ name }}</th>{% endfor %}</tr>
    {% for row in section.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}
  </table></div>
  {% endif %}
  {% if section.notes %}<ul class="notes">{% for note in section.notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
  {% for name, data in section.images %}
  <figure><img alt="{{ name }}" src="data:image/png;base64,{{ data }}"><figcaption>{{ name }}</figcaption></figure>
  {% endfor %}
</section>
{% endfor %}
<footer class="notes">{{ footer }}</footer>
</html>
"""


@dataclass
class Section:
    """A heading with a table, notes and pictures under it, each of them optional."""

    title: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    pictures: list[Path] = field(default_factory=list)

    @property
    def images(self) -> list[tuple[str, str]]:
        """Name and base64 of every picture."""
        return [(path.stem, base64.b64encode(path.read_bytes()).decode()) for path in self.pictures]


def write_page(title: str, sections: list[Section], path: Path, footer: str = "") -> Path:
    """Write the page; text is escaped, so names of files and columns cannot break it."""
    page = Environment(autoescape=True).from_string(TEMPLATE)
    path.write_text(page.render(title=title, sections=sections, footer=footer), encoding="utf-8")
    return path
