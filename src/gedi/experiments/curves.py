"""NMI against the number of DAM steps T: what fig-steps, fig-ablation and fig-classes have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from gedi.experiments import plots
from gedi.experiments.cells import Cell, run_cells
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import divergence_notes, mean_std, spread_note, summary, write_json


class Curve(NamedTuple):
    """One line of one panel: the cells of every T, one a seed. A method without DAM has the same cells at every T."""

    panel: str
    label: str
    cells: dict[int, list[Cell]]
    has_dam: bool = True


class Mark(NamedTuple):
    """A number of the paper, drawn and listed beside ours."""

    panel: str
    label: str
    steps: int
    nmi: float


def gedi_curve(
    budget: Budget, panel: str, label: str, dataset: str, *, n_clusters: int = 2, variant: str = "full"
) -> Curve:
    """GEDI with our settings at every T of the budget."""
    cells = {
        t: [
            Cell(
                dataset,
                n_clusters,
                seed,
                variant=variant,
                preset=budget.preset,
                dam_steps=t,
                rows=budget.rows,
                iterations=budget.iterations,
            )
            for seed in budget.seeds
        ]
        for t in budget.dam_steps
    }
    return Curve(panel, label, cells)


def run_curves(
    name: str,
    title: str,
    curves: Sequence[Curve],
    budget: Budget,
    out: Path,
    jobs: int,
    say: Say,
    *,
    notes: Sequence[str] = (),
    marks: Sequence[Mark] = (),
) -> Outcome:
    """Fit the cells of all curves, draw them, and list them."""
    found = run_cells([cell for c in curves for cells in c.cells.values() for cell in cells], out, jobs, say)
    groups = {
        (c.panel, c.label, t): summary([found[cell] for cell in cells]) for c in curves for t, cells in c.cells.items()
    }
    steps = sorted({t for c in curves for t in c.cells})
    rows = [[c.panel, c.label, *(mean_std(groups[c.panel, c.label, t]) for t in steps)] for c in curves]
    marks = [m for m in marks if m.steps in steps]
    for m in marks:
        rows.append([m.panel, m.label, *(f"{m.nmi:.2f}" if t == m.steps else "" for t in steps)])
    rows.sort(key=lambda row: list(dict.fromkeys(c.panel for c in curves)).index(row[0]))
    columns = ["panel", "curve", *(f"T = {t}" for t in steps)]
    outcome = Outcome(title, columns, rows, [spread_note(budget), *notes, *divergence_notes(found)])
    outcome.files.append(_draw(out / f"{name}.png", title, curves, groups, marks))
    listed = [{"panel": p, "curve": label, "T": t, **group} for (p, label, t), group in groups.items()]
    write_json(name, outcome, budget, out, found, listed)
    return outcome


def _draw(
    path: Path,
    title: str,
    curves: Sequence[Curve],
    groups: dict[tuple[str, str, int], Any],
    marks: Sequence[Mark],
) -> Path:
    panels = list(dict.fromkeys(c.panel for c in curves))
    labels = list(dict.fromkeys(c.label for c in curves))
    made, grid = plots.figure(1, len(panels))
    steps = sorted({t for c in curves for t in c.cells})
    handles: dict[str, Any] = {}
    for panel, axes in zip(panels, grid.flat, strict=False):
        _panel(axes, panel, steps)
        mine = [c for c in curves if c.panel == panel]
        for k, c in enumerate(mine):
            handles.setdefault(
                c.label,
                _line(
                    axes, c, labels.index(c.label), _offset(k, len(mine)), lambda t, c=c: groups[c.panel, c.label, t]
                ),
            )
        for m in (m for m in marks if m.panel == panel):
            place = axes.plot([m.steps], [m.nmi], "*", markersize=13, markerfacecolor="none", color="black", zorder=5)
            handles.setdefault(m.label, place[0])
    for axes in grid[:, 0]:
        axes.set_ylabel("NMI on test points")
    for axes in grid[-1]:
        axes.set_xlabel("DAM steps T")
    made.suptitle(f"{title}\nmean over seeds, band from lowest to highest", fontsize=10)
    # Under the panels: within them it would hide curves, which lie at 0 and at 1.
    if len(handles) > 1:
        made.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=min(4, len(handles)), frameon=False
        )
    return plots.save(made, path)


def _panel(axes: Axes, title: str, steps: list[int]) -> None:
    axes.set_title(title, fontsize=10)
    axes.set_xticks(steps)
    axes.set_ylim(-0.05, 1.08)
    plots.quiet(axes)


def _offset(k: int, n: int) -> float:
    """A small shift along T, so that curves at the same height are all seen."""
    return 0.06 * (k - (n - 1) / 2)


def _line(axes: Axes, curve: Curve, index: int, offset: float, group: Callable[[int], dict[str, Any]]) -> Any:
    steps = sorted(curve.cells)
    scores = [group(t)["nmi"] for t in steps]
    places = [t + offset for t in steps]
    axes.fill_between(
        places,
        [s["min"] for s in scores],
        [s["max"] for s in scores],
        color=plots.colour(index),
        alpha=0.15,
        linewidth=0,
    )
    (line,) = axes.plot(
        places,
        [s["mean"] for s in scores],
        color=plots.colour(index),
        marker=plots.MARKERS[index % len(plots.MARKERS)],
        markersize=5,
        linestyle="-" if curve.has_dam else "--",
        label=curve.label,
        clip_on=False,
    )
    return line
