"""Write files whole or not at all, with numbers that JSON can represent."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from gedi.errors import RunError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash leaves either the old one or the new one."""
    temporary = path.with_name(f".{path.name}")
    # Removed first: it could be a link, and the file it points to must not be overwritten.
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
    """Write a text file whole or not at all; a failure is a RunError."""
    try:
        write_whole(path, text.encode("utf-8", "backslashreplace"))  # file names need not be valid text
    except OSError as error:
        raise RunError(f"{path} could not be written: {error.strerror}.") from error


def finite(value: Any) -> Any:
    """The same data with null for numbers that are not finite, which JSON cannot represent."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
