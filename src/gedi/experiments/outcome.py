"""What an experiment may spend (Budget) and what it gives back (Outcome). Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gedi.errors import ConfigError
from gedi.experiments import paper

SCALES = ("smoke", "laptop", "paper")
Say = Callable[[str], None]  # takes one line of progress


@dataclass(frozen=True)
class Budget:
    """What a scale means for the cells of an experiment."""

    scale: str
    seeds: tuple[int, ...]
    gives_seeds: bool  # the user asked for this number of seeds
    preset: str | None  # our settings; None: the defaults
    baseline_preset: str | None  # settings of JEM and SwAV
    rows: int | None  # training and test points; None: all
    iterations: int | None  # cap on each step's iterations, also in the paper's settings; None: no cap
    dam_steps: tuple[int, ...]  # the values of T in figures


@dataclass
class Outcome:
    """A table to print, what to know about it, and the files written."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def budget(scale: str, seeds: int | None, *, laptop_seeds: int) -> Budget:
    """The budget of a scale: smoke takes seconds, laptop fits two CPU cores, paper has 5 seeds everywhere."""
    if scale not in SCALES:
        raise ConfigError(f"There is no scale {scale!r}; there are: {', '.join(SCALES)}.")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"The number of seeds must be at least 1, got {seeds}.")
    n = seeds or {"smoke": 1, "laptop": laptop_seeds, "paper": 5}[scale]
    is_smoke = scale == "smoke"
    return Budget(
        scale=scale,
        seeds=tuple(range(n)),
        gives_seeds=seeds is not None,
        preset="smoke" if is_smoke else None,
        baseline_preset={"smoke": "smoke", "laptop": None, "paper": "paper"}[scale],
        rows=300 if is_smoke else None,
        iterations=40 if is_smoke else None,
        dam_steps=(1, 2) if is_smoke else paper.FIGURE_STEPS,
    )
