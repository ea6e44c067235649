"""The examples in docstrings work."""

import doctest
import importlib
import pkgutil

import pytest

import gedi.data
import gedi.logic
import gedi.objectives
import gedi.report
import gedi.sampling
import gedi.training

MODULES = [
    module.name
    for package in (gedi.data, gedi.sampling, gedi.objectives, gedi.logic, gedi.training, gedi.report)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
]
WITH_EXAMPLES = {
    "gedi.data.dataset",
    "gedi.data.pictures",
    "gedi.data.toys",
    "gedi.logic.constraint",
    "gedi.logic.expressions",
    "gedi.logic.formats",
    "gedi.logic.text",
    "gedi.objectives.clustering",
    "gedi.objectives.contrastive",
    "gedi.objectives.precision",
    "gedi.objectives.symbolic",
    "gedi.report.comparison",
    "gedi.report.measures",
    "gedi.report.verdict",
    "gedi.sampling.dam",
    "gedi.sampling.sgld",
    "gedi.training.config",
    "gedi.training.engine",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_give_what_they_say(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0 or name not in WITH_EXAMPLES


def test_modules_with_examples_are_found():
    assert set(MODULES) >= WITH_EXAMPLES
