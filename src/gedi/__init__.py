"""gedi: one model, trained without labels, that clusters, embeds, scores and generates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gedi.estimator import GEDI

__version__ = "0.2.0"
__all__ = ["GEDI", "__version__"]


def __getattr__(name: str) -> Any:
    # Importing torch takes seconds: `gedi --help` and `import gedi.data` should not wait for it.
    if name == "GEDI":
        from gedi.estimator import GEDI

        return GEDI
    raise AttributeError(f"module 'gedi' has no attribute {name!r}")
