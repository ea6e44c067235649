"""Curves of training: losses, energy gap, objective, with the guard's events where they happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gedi.files.reading import shown
from gedi.report.charts import DASHES, Chart, axis, chart
from gedi.report.look import colour, compact, literal, number

STAGES = ("step1", "embedding", "step2")
STAGE_NAMES = {"step1": "density", "embedding": "embedding", "step2": "clusters"}
POINTS = 300  # of one curve
NAMES = {
    "clustering_augment": "L_DI, augmented views",
    "clustering_dam": "L_DI, ends of walks",
    "negative_free": "L_NF",
    "contrastive": "L_CT",
    "anchor": "anchor to the start",
    "energy_size": "mean square of log p",
    "gradient_norm": "norm of the gradient",
    "at_box": "samples at the box",
    "walk_distance": "length of the walks",
    "walk_log_density_change": "change of log p along walks",
}
GAP, OBJECTIVE = "generative", "objective"
DIAGNOSTICS = ("energy_size", "gradient_norm", "at_box", "walk_distance", "walk_log_density_change")
EVENT_COLUMNS = ("stage", "iteration", "seen", "action", "remedy")
MOST_CURVES = 12  # in one chart


class History:
    """Lines of metrics.jsonl, which anybody may have written, put in order on one axis of iterations."""

    def __init__(self, lines: list[dict[str, Any]], events: Iterable[Any]) -> None:
        self.lines = [line for line in lines if _is_place(line) and "seen" not in line]
        self.events = [event for event in events if isinstance(event, dict) and _is_place(event)]
        reached = 0.0
        self.begins: dict[str, float] = {}
        for stage in STAGES:
            mine = [line["iteration"] for line in [*self.lines, *self.events] if line["stage"] == stage]
            if mine:
                self.begins[stage] = reached
                reached += max(mine)

    def place(self, line: dict[str, Any]) -> float:
        return self.begins[line["stage"]] + line["iteration"]

    @property
    def attempts(self) -> list[int]:
        return sorted({line["attempt"] for line in self.lines})

    def names(self) -> list[str]:
        """All that was measured, in the order of appearance."""
        found: dict[str, None] = {}
        for line in self.lines:
            found |= dict.fromkeys(name for name, value in line.items() if type(value) is float)
        return list(found)

    def curve(self, name: str, attempt: int) -> tuple[list[Any], list[Any]]:
        """Places and values of one measure in one start; step 1, which all starts share, belongs to the first."""
        points = [
            (self.place(line), value)
            for line in self.lines
            if line["attempt"] == attempt and (value := number(line.get(name))) is not None
        ]
        every = max(1, -(-len(points) // POINTS))
        points = points[::every] + (points[-1:] if points[::every][-1:] != points[-1:] else [])
        return [x for x, _ in points], compact([y for _, y in points])

    def event_rows(self) -> list[list[str]]:
        """The guard's events as lines of a table."""
        return [[shown(str(event.get(name, "")), 400) for name in EVENT_COLUMNS] for event in self.events]


def _is_place(line: dict[str, Any]) -> bool:
    """Whether a line says where in training it was made."""
    whole = all(type(line.get(name)) is int and 0 <= line[name] < 2**40 for name in ("attempt", "iteration"))
    return whole and line.get("stage") in STAGES


def training_charts(history: History) -> dict[str, Chart]:
    """Losses, energy gap, objective and diagnostics; those without a line are left out."""
    losses = [n for n in history.names() if n not in (GAP, OBJECTIVE, *DIAGNOSTICS)]
    wanted = {
        "gap": ([GAP], "nats", {}),
        "losses": (losses, "loss", {}),
        "objective": ([OBJECTIVE], "label-free objective", {}),
        "diagnostics": ([n for n in DIAGNOSTICS if n in history.names()], "", {"type": "log"}),
    }
    charts = {}
    for key, (names, title, options) in wanted.items():
        traces = curves(history, names[:MOST_CURVES])
        if traces:
            charts[key] = with_stages(
                chart(traces, height=320, xaxis=axis("iteration"), yaxis=axis(title, **options)), history
            )
    return charts


def curves(history: History, names: list[str], *, prefix: str = "", first_colour: int = 0) -> list[dict[str, Any]]:
    """One line a measure and a start."""
    traces = []
    for i, name in enumerate(names):
        for attempt in history.attempts:
            x, y = history.curve(name, attempt)
            if not x:
                continue
            start = f", start {attempt + 1}" if len(history.attempts) > 1 and attempt else ""
            label = prefix or literal(NAMES.get(name, "energy gap" if name == GAP else shown(name, 30)))
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines" if len(x) > 1 else "markers",
                    "name": label + start,
                    "legendgroup": label,
                    "showlegend": not start,  # the first stands for all: a legend of every start would hide the chart
                    "x": x,
                    "y": y,
                    "line": {"color": colour(first_colour + i), "dash": DASHES[attempt % len(DASHES)], "width": 2},
                    "hovertemplate": "%{y:.4g} at %{x}",
                }
            )
    return traces


def with_stages(made: Chart, history: History) -> Chart:
    """Lines where the stages begin, and a mark at each of the guard's events."""
    shapes, names = [], []
    for stage, begin in history.begins.items():
        if begin:
            shapes.append(_line(begin, "rgba(128,128,128,0.6)", "dot"))
        names.append(
            {
                "x": begin,
                "y": 1,
                "yref": "paper",
                "yanchor": "top",
                "xanchor": "left",
                "opacity": 0.75,
                "text": STAGE_NAMES[stage],
                "showarrow": False,
                "font": {"size": 11},
            }
        )
    warned = {
        "type": "scatter",
        "mode": "markers",
        "name": "guard",
        "x": [history.place(event) for event in history.events],
        "y": [0.03] * len(history.events),
        "yaxis": "y2",
        "text": [
            literal(f"{shown(str(e.get('seen')), 200)}: {shown(str(e.get('action')), 200)}") for e in history.events
        ],
        "hovertemplate": "%{text}<extra>guard</extra>",
        "marker": {"symbol": "triangle-up", "size": 12, "color": colour(3)},
    }
    if history.events:
        made["data"].append(warned)
        shapes += [_line(x, colour(3), "dash") for x in dict.fromkeys(warned["x"])]
        made["layout"]["yaxis2"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    made["layout"] |= {"shapes": shapes, "annotations": names, "hovermode": "closest"}
    return made


def _line(x: float, colour: str, dash: str) -> dict[str, Any]:
    return {
        "type": "line",
        "x0": x,
        "x1": x,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"width": 1, "color": colour, "dash": dash},
    }
