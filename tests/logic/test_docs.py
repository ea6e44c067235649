"""The documentation's large example gives what it promises; tests/test_docs.py runs the others."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "logic.md"


@pytest.mark.slow
@pytest.mark.skipif(not PAGE.is_file(), reason="the documentation is not available")
def test_order_alone_names_the_clusters_of_handwritten_digits():
    (block,) = re.findall(r"```python\n(import numpy.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found = {}
    exec(block, found)
    digits = found["digits"].reshape(-1, 3)[found["np"].arange(599)[:, None], found["order"]].ravel()
    assert (found["model"].labels_ == digits).mean() > 0.85  # cluster 7 contains the sevens
