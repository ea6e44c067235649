"""What a ProbLog program may load: problog's own libraries, and no file besides.

``use_module`` and ``consult`` read any file, and run it if it is Python: a constraint is data, and must not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.errors import LogicError

READS_FILES = "db"  # problog's library that opens tables and databases


def closed(database: Any) -> Any:
    """The database, made to refuse what lies outside of problog's library, in however many ways a program may ask.

    Every directive and every call comes to ``resolve_filename``; findall runs its goals in an extended copy.
    """
    resolve, extend = database.resolve_filename, database.extend

    def resolve_inside(name: Any) -> str:
        path = Path(resolve(name) or "").resolve()
        if not path.is_relative_to(_library()) or not path.is_file() or path.stem == READS_FILES:
            raise LogicError(
                f"The program loads {name}: it may only use problog's own libraries, such as library(lists). "
                "Copy what it needs into the program."
            )
        return str(path)

    database.resolve_filename = resolve_inside
    database.extend = lambda: closed(extend())
    return database


def _library() -> Path:
    import problog

    return (Path(problog.__file__).parent / "library").resolve()
