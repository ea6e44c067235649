"""metrics.jsonl: one line a window of iterations and one an event of the guard, on disk as soon as it is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

from gedi.errors import ConfigError, RunError
from gedi.files.writing import finite, replace_text
from gedi.runs.folder import METRICS


class MetricsLog:
    """Writes a run's history while it trains; with ``tensorboard``, also as TensorBoard scalars."""

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path = folder / METRICS
        self._board: Any = _board(folder / "tensorboard") if tensorboard else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._board is not None:
            self._board.close()

    def restart(self, lines: list[dict[str, Any]]) -> None:
        """The lines up to the checkpoint that the run goes on from; later ones are about to be made again."""
        replace_text(self.path, "".join(as_json(line) for line in lines))

    def write(self, line: dict[str, Any]) -> None:
        """One more line, flushed."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(as_json(line))
        except OSError as error:
            raise RunError(f"{self.path} could not be written: {error.strerror}.") from error
        if self._board is not None:
            for name, value in line.items():
                if isinstance(value, float):
                    self._board.add_scalar(f"{line['stage']}/{name}", value, line["iteration"])
            self._board.flush()


def as_json(line: dict[str, Any]) -> str:
    return json.dumps(finite(line)) + "\n"


def _board(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError("--tensorboard needs TensorBoard: pip install 'gedi[tensorboard]'.") from error
    return SummaryWriter(str(folder))
