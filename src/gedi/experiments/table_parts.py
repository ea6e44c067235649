"""What each part of GEDI contributes: the default settings with one thing left out, added or replaced."""

from __future__ import annotations

from dataclasses import replace

from gedi.data import known_datasets
from gedi.experiments import Budget, Outcome, Request
from gedi.experiments.cells import UNTRAINED, Cell, cells_of
from gedi.experiments.tabulate import DENSITY, METHOD_NAMES, Entry, Results, count, means, number, part, tabulate

DATA: dict[str, Cell] = {
    "moons": Cell("moons", 2),
    "circles": Cell("circles", 2),
    "three rings": Cell("rings", 3),
    "two spirals": Cell("spirals", 2),
    "moons, 70 % and 30 %": Cell("moons", 2, weights=(0.7, 0.3)),
    "digits": Cell("digits", 10),
    "MNIST, 10,000 images": Cell("mnist", 10, rows=10_000),
}
LAPTOP_SEEDS = {"mnist": 1}  # of data sets with fewer seeds at the laptop scale
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
UNTAUGHT = ("kmeans", UNTRAINED)  # rows to compare with


def table_parts(request: Request) -> Outcome:
    """Every variant on every data set that is present."""
    present = {info.name for info in known_datasets() if info.present}
    data = [title for title, cell in DATA.items() if cell.dataset in present]
    missing = [title for title in DATA if title not in data]
    return tabulate(
        request,
        "The parts of GEDI: the default settings with one change each",
        parts=("data", "variant"),
        cells={(d, row): part_cells(request.budget, d, row) for d in data for row in (*VARIANTS, *UNTAUGHT)},
        chance=FULL,
        columns={
            "data": part(0),
            "variant": _variant,
            **means("nmi", "ami", *DENSITY),
            "seconds a fit": number("seconds", form=".0f"),
            "seeds": count(),
        },
        notes=[
            "'full' is the default for the data's shape; every other variant changes one part of it. '(as full)' means "
            "that this default already lacks the part, so the variant is the same fit.",
            "no density: no generative term, no step 1 and no walks, so there is no log p. no DAM: no walks, neither "
            "as views nor as a start; augmentation is unchanged. no neighbours: both views are of the row itself, and "
            "the cut of the neighbour graph does not compete; candidates are still judged by pairs of neighbours.",
            "density frozen after step 1: the density has its own encoder, because step 2 would change a shared one. "
            "Compare it with 'two encoders', where the density keeps learning.",
            "with L_NF: Eqs. 6-7 with weight 1, as means over samples and dimensions; the default has no L_NF. "
            "Sinkhorn instead of the prior: equal cluster sizes in every batch, with prototypes on a projector's "
            "sphere.",
            "random heads only: no start competes, as in the paper. starts alone: no head begins at random. no step "
            "1: the density starts to learn in step 2.",
            "Toys are scored on 1,000 fresh points, MNIST on its test set. Digits have one split: all images are used "
            "for training and for scoring.",
            *(
                f"{title} is left out: the data set was not found; gedi datasets shows where to put it."
                for title in missing
            ),
        ],
    )


def part_cells(budget: Budget, title: str, row: str) -> list[Cell]:
    """The cells of one row, a variant or a method to compare with; one per seed."""
    cell = replace(DATA[title], **({"method": row} if row in UNTAUGHT else {"variant": row}))
    return cells_of(budget, cell, laptop_seeds=LAPTOP_SEEDS.get(cell.dataset))


def _variant(results: Results, row: Entry) -> str:
    data, variant = row
    same = variant in VARIANTS and variant != FULL
    same = same and results.cells[row][0].settings() == results.cells[data, FULL][0].settings()
    return f"{variant} (as full)" if same else METHOD_NAMES.get(variant, variant)
