"""Training curves: losses, gap and objective, with the guard's events marked on them."""

from __future__ import annotations

from typing import Any

from gedi.files.reading import shown
from gedi.report.charts import Chart, axis, chart, trace
from gedi.report.look import colour, compact, finite_number, literal
from gedi.report.measures import spread_evenly

STAGE_NAMES = {"step1": "density", "step2": "clusters"}  # what each stage trains
CURVE_POINTS = 300  # in one curve
UNDER_NAMES = 0.86  # share of a chart's height for its curves; above them are the names of the stages
ENERGY_GAP, ERROR, OBJECTIVE = "generative", "denoising_error", "objective"
CURVE_NAMES = {
    ENERGY_GAP: "gap in log p",
    ERROR: "denoising error",
    OBJECTIVE: "objective",
    "denoising": "denoising error of a batch",
    "clustering_augment": "L_DI, augmented views",
    "clustering_dam": "L_DI, ends of walks",
    "neutral_clustering_augment": "neutral head, augmented views",
    "neutral_clustering_dam": "neutral head, ends of walks",
    "negative_free": "L_NF",
    "contrastive": "L_CT",
    "symbolic": "constraint",
    "anchor": "agreement with the start",
    "negative_log_likelihood": "negative log likelihood",
    "energy_size": "mean square of log p",
    "gradient_norm": "gradient norm",
    "at_box": "samples at the edge of the box",
    "walk_distance": "length of the walks",
    "walk_log_density_change": "change of log p along walks",
}
# Terms that end before training does. Later lines of history repeat their last value.
ENDING = ("neutral_clustering_augment", "neutral_clustering_dam", "anchor")
DIAGNOSTICS = ("energy_size", "gradient_norm", "at_box", "walk_distance", "walk_log_density_change")
EVENT_COLUMNS = ("stage", "iteration", "seen", "action", "remedy")
MOST_CURVES = 12  # measures in one chart


class History:
    """Lines of an untrusted metrics.jsonl, in order on one axis of iterations.

    ``chosen`` is the iteration of step 2 at which the best candidate was chosen, if there was a choice.
    """

    def __init__(
        self, lines: list[dict[str, Any]], events: list[dict[str, Any]], *, chosen: float | None = None
    ) -> None:
        self.lines = [line for line in lines if _is_place(line) and "seen" not in line]
        self.events = [event for event in events if _is_place(event)]
        reached = 0.0
        self.begins: dict[str, float] = {}
        for stage in STAGE_NAMES:
            mine = [line["iteration"] for line in [*self.lines, *self.events] if line["stage"] == stage]
            if mine:
                self.begins[stage] = reached
                reached += max(mine)
        self.choice: float | None = None  # on the same axis
        if chosen is not None and "step2" in self.begins and self.begins["step2"] + chosen < reached:
            self.choice = self.begins["step2"] + chosen

    def place(self, line: dict[str, Any]) -> float:
        return self.begins[line["stage"]] + line["iteration"]

    def names(self) -> list[str]:
        """Everything that was measured, in order of appearance."""
        found: dict[str, None] = {}
        for line in self.lines:
            found |= dict.fromkeys(name for name, value in line.items() if type(value) is float)
        return list(found)

    def curve(self, name: str) -> tuple[list[Any], list[Any]]:
        """Positions and values of one measure."""
        points = [
            (self.place(line), value) for line in self.lines if (value := finite_number(line.get(name))) is not None
        ]
        while name in ENDING and len(points) > 1 and points[-1][1] == points[-2][1]:
            points.pop()
        points = [points[i] for i in spread_evenly(len(points), CURVE_POINTS)]
        return [x for x, _ in points], compact([y for _, y in points])

    def event_rows(self) -> list[list[str]]:
        """The guard's events as rows of a table."""
        return [[shown(str(event.get(name, "")), 400) for name in EVENT_COLUMNS] for event in self.events]


def _is_place(line: dict[str, Any]) -> bool:
    """Whether a line has a valid stage and iteration."""
    iteration = line.get("iteration")
    return type(iteration) is int and 0 <= iteration < 2**40 and line.get("stage") in list(STAGE_NAMES)


def training_charts(history: History) -> dict[str, Chart]:
    """Denoising error, energy gap, losses, objective and diagnostics; charts without any values are left out."""
    losses = [n for n in history.names() if n not in (ENERGY_GAP, ERROR, OBJECTIVE, *DIAGNOSTICS)]
    wanted = {
        "error": ([ERROR], "share of the noise", {}),
        "gap": ([ENERGY_GAP], "log p of samples − of data", {}),
        "losses": (losses, "loss", {}),
        "objective": ([OBJECTIVE], "label-free objective", {}),
        "diagnostics": (
            [n for n in DIAGNOSTICS if n in history.names()],
            "",
            {"type": "log", "nticks": 3, "tickformat": "~g"},
        ),
    }
    charts = {}
    for key, (names, title, options) in wanted.items():
        traces = curves(history, names[:MOST_CURVES])
        if traces:
            made = chart(traces, height=320, xaxis=axis("iteration"), yaxis=axis(title, **options))
            charts[key] = with_stages(made, history)
    return charts


def curves(history: History, names: list[str], *, prefix: str = "", first_colour: int = 0) -> list[dict[str, Any]]:
    """One line for each measure."""
    traces = []
    for i, name in enumerate(names):
        x, y = history.curve(name)
        if not x:
            continue
        called = prefix or literal(CURVE_NAMES.get(name, shown(name, 30)))
        look = {"line": {"color": colour(first_colour + i), "width": 2}, "hovertemplate": "%{y:.4g} at %{x}"}
        look["showlegend"] = True  # even for a single line
        traces.append(trace(called, x, y, mode="lines" if len(x) > 1 else "markers", **look))
    return traces


def with_stages(made: Chart, history: History) -> Chart:
    """A chart with a line where each stage begins and where clusters were chosen, and marks at the guard's events."""
    at_top = {"y": 1, "yref": "paper", "yanchor": "top", "xanchor": "left"}
    quiet = {"showarrow": False, "opacity": 0.75, "font": {"size": 11}}
    places = {STAGE_NAMES[stage]: begin for stage, begin in history.begins.items()}
    if history.choice is not None:
        places["choice"] = history.choice
    # The names stand above the curves. Every other one is a line lower, since the name of a short stage has no room.
    made["layout"]["yaxis"]["domain"] = [0, UNDER_NAMES]
    names = [
        {"x": begin, "text": name, "yshift": -13 * (i % 2)} | at_top | quiet
        for i, (name, begin) in enumerate(places.items())
    ]
    lines = [_line(begin, "rgba(128,128,128,0.6)", "dot") for begin in places.values() if begin]
    if history.events:
        marks = _guard_marks(history)
        made["data"].append(marks)
        lines += [_line(x, colour(3), "dash") for x in dict.fromkeys(marks["x"])]
        made["layout"]["yaxis2"] = {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True}
    made["layout"] |= {"shapes": lines, "annotations": names, "hovermode": "closest"}
    return made


def _guard_marks(history: History) -> dict[str, Any]:
    said = [(shown(str(event.get("seen")), 200), shown(str(event.get("action")), 200)) for event in history.events]
    places = [history.place(event) for event in history.events]
    look = {
        "yaxis": "y2",
        "text": [literal(f"{seen}: {action}") for seen, action in said],
        "hovertemplate": "%{text}<extra>event</extra>",
        "marker": {"symbol": "triangle-up", "size": 12, "color": colour(3)},
    }
    return trace("event", places, [0.03] * len(places), **look)


def _line(x: float, colour: str, dash: str) -> dict[str, Any]:
    style = {"width": 1, "color": colour, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper", "line": style}
