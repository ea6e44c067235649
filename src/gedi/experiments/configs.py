"""Write the settings of every row of Tables 2 and 3 as files for `gedi fit --config`.

Run ``python -m gedi.experiments.configs configs`` after changing a preset.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import yaml

from gedi.experiments import SCALES, budget
from gedi.experiments.image_cells import ABLATIONS, COMPARED_METHODS, ROWS, TITLES, ImageCell, image_cells

ROWS_OF_TABLE = {"table2": COMPARED_METHODS, "table3": ABLATIONS}


def files() -> dict[str, str]:
    """The content of every file, by its path below the folder of configurations."""
    found = {}
    for scale, (table, rows), data in itertools.product(SCALES, ROWS_OF_TABLE.items(), TITLES):
        for row in rows:
            path = f"{scale}/{table}-{data}-{row}.yaml"
            (cell,) = image_cells(budget(scale, 1, laptop_seeds=1), data, row)
            found[path] = content(path, cell)
    return found


def content(path: str, cell: ImageCell) -> str:
    """One file: its row and its command as comments, then all settings."""
    scale, name = Path(path).parent.name, Path(path).stem
    method = "" if cell.method == "gedi" else f" --method {cell.method}"
    lines = [
        f"# Table {name[len('table')]} of the paper, {ROWS[cell.row].title} on {TITLES[cell.dataset]}, scale {scale}:",
        f"# gedi fit {cell.dataset} --n-clusters {cell.n_clusters}{method} --config configs/{path} --out {name}",
        "# Made from the presets by: python -m gedi.experiments.configs configs",
    ]
    text = yaml.safe_dump({"training": cell.settings()}, sort_keys=False, width=100, default_flow_style=None)
    return "\n".join([*lines, text])


def write(folder: Path) -> None:
    """Write all files below ``folder``, and remove those of rows that no longer exist."""
    made = files()
    for path in folder.glob("*/table*.yaml"):
        if path.relative_to(folder).as_posix() not in made:
            path.unlink()
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the settings of every row of Tables 2 and 3.")
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
