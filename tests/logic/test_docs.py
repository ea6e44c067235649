"""The documentation's examples are run."""

import doctest
from pathlib import Path

import pytest

from .conftest import needs_sdd

PAGE = Path(__file__).parents[2] / "docs" / "logic.md"


@needs_sdd
@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not beside the tests")
def test_the_page_on_constraints():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 15
    assert result.failed == 0
