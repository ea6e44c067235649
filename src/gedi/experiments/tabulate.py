"""From fits to a table: run the cells, take means over seeds, lay out the rows, and write NAME.json."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from matplotlib.figure import Figure

from gedi import runs
from gedi.experiments import Outcome, Request, plots
from gedi.experiments.cell_fits import run_cells
from gedi.experiments.cells import Cell, Measured, cells_of
from gedi.files.writing import finite, replace_text

if TYPE_CHECKING:
    from gedi.experiments import paper

Entry = tuple[Any, ...]  # the names of one entry of a table, such as ("moons", "gedi")
Group = dict[str, Any]  # statistics over the cells of one entry

HEADINGS = {"nmi": "NMI", "ami": "AMI", "accuracy": "accuracy", "ari": "ARI", "nmi_of_representation": "NMI of enc"}
HEADINGS |= {"probe": "probe", "sgd_probe": "probe by SGD", "knn": "kNN"}
HEADINGS |= {"auroc_uniform": "AUROC, noise", "auroc_shuffled": "AUROC, shuffled"}
DENSITY = ("auroc_uniform", "auroc_shuffled")
METHOD_NAMES = {"jem": "JEM", "barlow": "Barlow", "swav": "SwAV", "simclr": "SimCLR", "gedi": "GEDI"}
METHOD_NAMES |= {"kmeans": "k-means", "spectral": "spectral", "ward": "Ward", "untrained": "untrained encoder"}
RANDOM = "random labels"  # the name of the chance row

NOTE_JEM = "JEM has no cluster head (one output neuron in the paper): it predicts a single cluster, so its NMI is 0."
NOTE_CHANCE = (
    "AMI is corrected for chance; NMI is not. 'random labels' are GEDI's clusters in random order. 'k-means' is run on "
    "the raw input, and 'untrained encoder' is k-means on enc(x) of GEDI's net before training."
)
NOTE_AUROC = (
    "AUROC of log p: the probability that a test row scores higher than uniform noise in the test rows' bounding box, "
    "and higher than a test row with every column shuffled."
)
NOTE_SMOKE = "The smoke scale only checks that everything runs: its numbers mean nothing."


class Results(NamedTuple):
    """The cells and statistics of a table, by entry."""

    cells: Mapping[Entry, Sequence[Cell]]  # one per seed
    found: dict[Cell, Measured]
    groups: dict[Entry, Group]

    def first(self, *entry: Any) -> Measured:
        """The numbers of an entry's first seed."""
        return self.found[self.cells[entry][0]]


def statistics_of(found: Sequence[Measured]) -> Group:
    """Mean, standard deviation, lowest and highest value of every number over the cells of an entry."""
    group: Group = {"n": len(found), "diverged": sum("diverged" in measured for measured in found)}
    for name in dict.fromkeys(name for measured in found for name in measured):
        values = [measured.get(name) for measured in found]
        values = [value for value in values if isinstance(value, int | float)]
        if values:
            group[name] = {
                "mean": statistics.fmean(values),
                "std": statistics.stdev(values) if len(values) > 1 else 0.0,
                "min": min(values),
                "max": max(values),
            }
    return group


Text = Callable[[Results, Entry], str]  # what a column shows in a row
Note = str | Callable[[Results], str]


def tabulate(
    request: Request,
    title: str,
    *,
    parts: Sequence[str],
    cells: Mapping[Entry, Cell | Sequence[Cell]],
    columns: dict[str, Text],
    notes: Iterable[Note],
    rows: Iterable[Entry] | None = None,
    chance: str | None = None,
    varies: str | None = "data and fit both change",
    draw: Callable[[Results], Figure] | None = None,
    pictures: Iterable[Path] = (),
    **fitting: Any,
) -> Outcome:
    """Fit the ``cells`` that are missing, then make the table and ``out/NAME.json``.

    ``parts`` says what the names in an entry are, such as ("dataset", "method"). An entry's cells are those of its
    seeds; a single cell stands for one per seed of the request (see `cells_of`). There is one row per entry unless
    ``rows`` lists others; each column turns a row's names into text. ``chance`` adds entries for random labels, with
    the cluster sizes of the entries of that name. ``varies`` says what changes with the seed; None if no column is a
    mean. ``draw`` makes ``out/NAME.png``; ``pictures`` are files that the fits may have drawn. ``fitting`` is passed to
    `run_cells`.
    """
    seeded = {at: cells_of(request.budget, one) if isinstance(one, Cell) else one for at, one in cells.items()}
    wanted = [cell for group in seeded.values() for cell in group]
    found = run_cells(wanted, request.out, request.jobs, request.say, **fitting)
    groups = {entry: statistics_of([found[cell] for cell in group]) for entry, group in seeded.items()}
    for entry in [entry for entry in seeded if entry[-1] == chance]:
        groups[*entry[:-1], RANDOM] = statistics_of([found[cell]["random_labels"] for cell in seeded[entry]])
    results = Results(seeded, found, groups)
    if rows is None:  # entries that differ in their last name only are listed together
        places = [entry[:-1] for entry in groups]
        rows = sorted(groups, key=lambda entry: places.index(entry[:-1]))
    lines = [[text(results, row) for text in columns.values()] for row in rows]
    said = [_spread_note(seeded, varies)] if varies else []
    said += [note if isinstance(note, str) else note(results) for note in notes]
    said += [NOTE_CHANCE] if chance else []
    said += [NOTE_AUROC] if HEADINGS[DENSITY[0]] in columns else []
    said += [NOTE_SMOKE] if request.budget.scale == "smoke" else []
    said += divergence_notes(found)
    files = [path for path in pictures if path.is_file()]
    files += [plots.save(draw(results), request.out / f"{request.name}.png")] if draw else []
    names = settings_names(found)
    return _write_json(
        request,
        Outcome(title, list(columns), lines, said, files),
        seeds=sorted({cell.seed for cell in found}),
        files=[path.name for path in files],
        groups=[dict(zip(parts, entry, strict=True)) | group for entry, group in groups.items()],
        cells=[_short(measured, names[cell]) for cell, measured in found.items()],
        settings={name: cell.settings() for name, cell in {names[cell]: cell for cell in found}.items()},
    )


def _write_json(request: Request, outcome: Outcome, *, seeds: Sequence[int], **content: Any) -> Outcome:
    """Write ``out/NAME.json``: the table, its sources, and the versions used."""
    everything = {
        "name": request.name,
        "title": outcome.title,
        "scale": request.budget.scale,
        "seeds": seeds,
        "table": {"columns": outcome.columns, "rows": outcome.rows},
        "notes": outcome.notes,
        **content,
        "provenance": runs.provenance(),
    }
    path = request.out / f"{request.name}.json"
    replace_text(path, json.dumps(finite(everything), indent=1, ensure_ascii=False) + "\n")
    outcome.files.append(path)
    return outcome


# ---- columns ----


def part(place: int = 0, names: Mapping[Any, str] | None = None) -> Text:
    """The row's name at ``place``, spelled as in ``names``."""
    return lambda results, row: str((names or {}).get(row[place], row[place]))


def of_row(text: Callable[..., object]) -> Text:
    """A column computed from the row's names alone."""
    return lambda results, row: str(text(*row))


def count(*at: Any) -> Text:
    """The number of fits of an entry."""
    return lambda results, row: str(results.groups[*row, *at]["n"])


def mean(score: str = "nmi", *at: Any, digits: int = 2) -> Text:
    """Mean and deviation of a score, for the entry named by the row followed by ``at``."""
    return lambda results, row: mean_std(results.groups[*row, *at], score, digits)


def printed(numbers: Mapping[Any, paper.Printed], names: Mapping[str, str] | None = None) -> Text:
    """The paper's number for the row's data and method; ``names`` maps our methods to the paper's."""
    called = names or {}
    return of_row(lambda data, row: numbers.get(data, {}).get(called.get(row, str(row)), "–"))


def means(*scores: str) -> dict[str, Text]:
    """A column for each score, under its usual heading."""
    return {HEADINGS[score]: mean(score) for score in scores}


def number(score: str, *at: Any, of: str = "mean", form: str = ".2f") -> Text:
    """One statistic of a score: mean, std, min or max. A dash if no fit has the score."""

    def text(results: Results, row: Entry) -> str:
        group = results.groups[*row, *at]
        return format(group[score][of], form) if score in group else "–"

    return text


SECONDS = {"seconds a fit": number("seconds", form=".0f")}  # a column


# ---- statistics as text ----


def mean_std(group: Group, score: str = "nmi", digits: int = 2) -> str:
    """'0.98 ± 0.02', or '0.98' for one fit; plus how many diverged, if any. A dash if no fit has this score."""
    if score not in group:
        return "–"
    s = group[score]
    diverged = f" ({group['diverged']} of {group['n']} diverged)" if group["diverged"] else ""
    deviation = f" ± {s['std']:.{digits}f}" if group["n"] > 1 else ""
    return f"{s['mean']:.{digits}f}{deviation}{diverged}"


def _spread_note(cells: Mapping[Entry, Sequence[Cell]], varies: str) -> str:
    sizes = {len(group) for group in cells.values()}
    if sizes == {1}:
        return "One seed, so no standard deviation."
    seeds = f"{sizes.pop()} seeds" if len(sizes) == 1 else "the seeds"
    return f"Mean ± standard deviation (n - 1) over {seeds}; {varies} with the seed."


def divergence_notes(found: dict[Cell, Measured]) -> list[str]:
    """A note on how many fits diverged, with the first message; nothing if none did."""
    diverged = {cell: m["diverged"] for cell, m in found.items() if "diverged" in m}
    if not diverged:
        return []
    cell, message = next(iter(diverged.items()))
    return [
        f"{len(diverged)} of {len(found)} fits diverged; each counts as one cluster, NMI 0. First ({cell}): {message}"
    ]


# ---- NAME.json ----


def _short(measured: Measured, settings: str) -> dict[str, Any]:
    """A cell for readers: settings by name, without the labels, which stay in `CELLS`."""
    left_out = ("cell", "config", "labels", "random_labels", "provenance")
    shown = {k: v for k, v in measured.items() if k not in left_out}
    source = {name: measured["provenance"][name] for name in ("date", "versions")}
    return {"cell": measured["cell"], "settings": settings, **shown, **source}


def settings_names(cells: Iterable[Cell]) -> dict[Cell, str]:
    """A name for each cell's settings. It includes the data set if settings differ between data sets."""
    short = {cell: _settings_name(cell) for cell in cells}
    called: dict[str, list[dict[str, Any]]] = {}
    for cell, name in short.items():
        called.setdefault(name, []).append(cell.settings())
    differ = {name for name, settings in called.items() if any(one != settings[0] for one in settings)}
    return {cell: f"{name}, {cell.dataset}" if name in differ else name for cell, name in short.items()}


def _settings_name(cell: Cell) -> str:
    parts = [cell.method, cell.preset or "default", cell.variant]
    parts += [f"{cell.rows} rows"] if cell.dataset == "addition" else []  # its settings depend on them
    parts += [f"{cell.columns} columns"] if cell.columns else []
    parts += [f"T={cell.dam_steps}"] if cell.dam_steps is not None else []
    return ", ".join([*parts, "images"] if cell.dataset == "digits" else parts)
