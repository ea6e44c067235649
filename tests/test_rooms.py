"""Imports point one way: a room imports only from the rooms before it."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import gedi
from gedi.experiments import EXPERIMENTS

ROOMS = [
    "errors",
    "settings",
    "progress",
    "files",
    "data",
    "nets",
    "sampling",
    "logic",
    "objectives",
    "training",
    "runs",
    "evaluation",
    "report",
]
ROOMS += ["explore", "experiments", "hub", "estimator", "commands", "cli", "__main__"]
SOURCE = Path(gedi.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """All rooms that a file imports, at the top or inside functions."""
    names = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if node.module == "gedi" else {node.module}
    rooms = {name.split(".")[1] for name in names if name.startswith("gedi.")}
    # `from gedi import GEDI` is the estimator by another name.
    return {"estimator" if room == "GEDI" else room for room in rooms if room != "__version__"}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_imports_point_one_way(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert {other for other in imported(path) if ROOMS.index(other) > ROOMS.index(room)} == set()


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(SOURCE)) for path in FILES])
def test_only_training_knows_fabric_and_only_the_command_line_prints(path):
    """Except for the line of progress, which `GEDI(verbose=1)` shows too."""
    text = path.read_text(encoding="utf-8")
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert "lightning_fabric" not in text or room == "training"
    assert not re.search(r"\b(from|import) rich\b", text) or room in ("progress", "commands", "cli")
    calls = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Call)]
    assert not any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


def test_no_command_but_reproduce_needs_the_experiments():
    paper = {"gedi.experiments.paper"} | {f"gedi.experiments.{one.module}" for one in EXPERIMENTS.values()}
    commands = [f"gedi.commands.{path.stem}" for path in sorted((SOURCE / "commands").glob("[!_]*.py"))]
    code = f"import sys, gedi.cli, gedi.experiments.demo, {', '.join(commands)}; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "gedi.experiments.tabulate" in loaded and not loaded & paper
