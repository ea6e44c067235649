"""What each part of GEDI is good for: the default settings with one thing left out, added or replaced."""

from __future__ import annotations

from dataclasses import replace

from gedi.data import known_datasets
from gedi.experiments import Budget, Outcome, Request
from gedi.experiments.cells import UNTRAINED, Cell
from gedi.experiments.tabulate import (
    DENSITY,
    NAMES,
    NOTE_AUROC,
    NOTE_CHANCE,
    RANDOM,
    Entry,
    Results,
    means,
    of_row,
    seconds,
    spread_note,
    tabulate,
)

DATA: dict[str, Cell] = {
    "moons": Cell("moons", 2),
    "circles": Cell("circles", 2),
    "three rings": Cell("rings", 3),
    "two spirals": Cell("spirals", 2),
    "moons, 70 % and 30 %": Cell("moons", 2, weights=(0.7, 0.3)),
    "digits": Cell("digits", 10),
    "MNIST, 10,000 images": Cell("mnist", 10, rows=10_000),
}
SLOW = "mnist"  # the data set with fewer seeds on a laptop
SLOW_SEEDS = 2
FULL = "full"
VARIANTS = (
    FULL,
    "no density",
    "density frozen after step 1",
    "two encoders",
    "no DAM",
    "with L_NF",
    "no neighbours",
    "Sinkhorn instead of the prior",
    "random heads only",
    "starts alone",
    "no step 1",
)
BASELINES = ("kmeans", UNTRAINED)


def table_parts(request: Request) -> Outcome:
    """Every variant on every data set that is there."""
    budget = request.budget
    present = {info.name for info in known_datasets() if info.present}
    data = [name for name, cell in DATA.items() if cell.dataset in present]
    rows = [(name, row) for name in data for row in (*VARIANTS, *BASELINES, RANDOM)]
    return tabulate(
        request,
        "table-parts",
        "The parts of GEDI: the default settings with one change each",
        parts=("data", "variant"),
        cells={(name, row): cells_of(budget, name, row) for name, row in rows if row != RANDOM},
        chance={(name, RANDOM): (name, FULL) for name in data},
        rows=rows,
        columns={
            "data": of_row(lambda name, row: name),
            "variant": _variant,
            **means("nmi", "ami", *DENSITY),
            "seconds a fit": seconds(),
            "seeds": lambda results, row: str(results.groups[row]["n"]),
        },
        notes=[
            spread_note(budget, seeds="the seeds"),
            "'full' is the default for the data's shape; every other variant changes one part of it. '(as full)': the "
            "default for this data lacks the part already, so the variant is the same fit.",
            "no density: no generative term, no step 1 and no walks, so nothing of log p. no DAM: no walks, neither as "
            "views nor as a start; views are augmented as before. no neighbours: both views are of the row itself, and "
            "the cut of the neighbours' graph does not compete; what competes is still judged by pairs of neighbours, "
            "too.",
            "density frozen after step 1: it has its own encoder, because step 2 would change one that it shared; so "
            "'two encoders', where it goes on learning, is the row to compare it with.",
            "with L_NF: the default has none; Eqs. 6-7 with weight 1, as means over samples and dimensions. Sinkhorn "
            "instead of the prior: equal cluster sizes in every batch, with prototypes on a projector's sphere.",
            "random heads only: no start competes, as in the paper. starts alone: no head begins at random. no step "
            "1: the density begins to learn in step 2.",
            NOTE_CHANCE,
            NOTE_AUROC,
            "Toys are scored on 1,000 fresh points, MNIST on its test set. Digits have one split: all images are "
            "trained on and scored.",
            *(
                f"{name} is left out: the data set is not on this machine; gedi datasets says where it is looked for."
                for name in DATA
                if name not in data
            ),
        ],
    )


def cells_of(budget: Budget, name: str, row: str) -> list[Cell]:
    """The cells of one row, a variant or a baseline; one per seed."""
    cell = DATA[name]
    few = budget.scale == "laptop" and not budget.gives_seeds and cell.dataset == SLOW
    cell = replace(cell, rows=budget.rows or cell.rows)
    if row in BASELINES:
        cell = replace(cell, method=row)
    else:
        cell = replace(cell, variant=row)
    if row != "kmeans":
        cell = replace(cell, preset=budget.preset, iterations=budget.iterations)
    return [replace(cell, seed=seed) for seed in (budget.seeds[:SLOW_SEEDS] if few else budget.seeds)]


def _variant(results: Results, row: Entry) -> str:
    name, variant = row
    same = variant in VARIANTS and variant != FULL
    same = same and results.cells[row][0].settings() == results.cells[name, FULL][0].settings()
    return f"{variant} (as full)" if same else NAMES.get(variant, variant)
