"""Files of ours, written whole or not at all, with numbers that JSON knows."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from gedi.errors import RunError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never half of either."""
    temporary = path.with_name(f".{path.name}")
    # Made anew: what lies there may be a link to a file elsewhere, which must not be written to.
    temporary.unlink(missing_ok=True)
    with temporary.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def replace_text(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror}.") from error


def finite(value: Any) -> Any:
    """JSON has no NaN: what was not measured is null."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
