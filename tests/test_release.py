"""What a release needs to agree on: version, name, changelog, workflows."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from gedi import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_every_file_names_the_same_version():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
    newest = re.search(r"^## \[(.+?)\] - (unreleased|\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None and newest[1] == __version__


def test_advice_to_install_something_names_our_package_and_an_extra_that_it_has():
    """On PyPI, `gedi` is another project."""
    advised = set()
    for folder in ("src", "docs", "benchmarks"):
        for path in (*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")):
            advised |= set(re.findall(r"pip install '?(gedi[\w-]*)(?:\[(\w+)\])?", path.read_text(encoding="utf-8")))
    assert advised
    assert {name for name, _ in advised} == {PROJECT["name"]}
    assert {extra for _, extra in advised} - {""} <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_only_call_targets_that_the_makefile_has(path):
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {target for command in commands for target in re.findall(r"\bmake ([a-z-]+)", command)}
    assert called and called <= targets
