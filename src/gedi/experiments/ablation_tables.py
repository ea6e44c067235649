"""GEDI's defaults put to the test: with one part left out, added or replaced, and on data beyond Table 1."""

from __future__ import annotations

from dataclasses import replace

from matplotlib.figure import Figure

from gedi.data import known_datasets
from gedi.experiments import Budget, Outcome, Request, plots
from gedi.experiments.cells import THIN, UNTRAINED, Cell, cells_of
from gedi.experiments.tabulate import (
    DENSITY,
    METHOD_NAMES,
    SECONDS,
    Entry,
    Results,
    Text,
    count,
    mean,
    means,
    number,
    part,
    tabulate,
)
from gedi.report.look import marker

DATA: dict[str, Cell] = {
    "moons": Cell("moons", 2),
    "circles": Cell("circles", 2),
    "three rings": Cell("rings", 3),
    "two spirals": Cell("spirals", 2),
    "moons, 70 % and 30 %": Cell("moons", 2, weights=(0.7, 0.3)),
    "digits": Cell("digits", 10),
    "MNIST, 10,000 images": Cell("mnist", 10, rows=10_000),
}
FULL = "full"
VARIANTS = (
    FULL,
    "no density",
    "density frozen after step 1",
    "two encoders",
    "no DAM",
    "with DAM",
    "with L_NF",
    "no neighbours",
    "Sinkhorn instead of the prior",
    "prior on a sphere",
    "half the prior",
    "no neutral head",
    "no learned neighbours",
    "random heads only",
    "starts alone",
    "no anchor",
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
            **means("nmi", "ami", "ari", *DENSITY),
            **SECONDS,
            "seeds": count(),
        },
        notes=[
            "'full' is the default for the data's shape; every other variant changes one part of it. '(as full)' means "
            "that this default already lacks the part, so the variant is the same fit.",
            "no density: no generative term, no step 1 and no walks, so there is no log p. no DAM: no walks, neither "
            "as views nor as a start; augmentation is unchanged. with DAM: the ends of walks are views and judge "
            "candidates, also where the default has none. no neighbours: both views are of the row itself, and "
            "the cut of the neighbour graph does not compete; candidates are still judged by pairs of neighbours.",
            "density frozen after step 1: the density has its own encoder, because step 2 would change a shared one. "
            "Compare it with 'two encoders', where the density keeps learning.",
            "with L_NF: Eqs. 6-7 with weight 1, as means over samples and dimensions; the default has no L_NF. "
            "Sinkhorn instead of the prior: equal cluster sizes in every batch, with prototypes on a projector's "
            "sphere. prior on a sphere: the default's loss on those prototypes, at their temperature of 0.1. half the "
            "prior: weight 1 instead of 2.",
            "no neutral head: cluster heads train the encoder while they compete. no learned neighbours: views use "
            "neighbours of the input to the end.",
            "random heads only: no start competes, as in the paper. starts alone: no head begins at random. no "
            "anchor: a start that wins is not learned, except for its cluster sizes. no step 1: the density starts to "
            "learn in step 2.",
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
    return cells_of(budget, cell)


def _variant(results: Results, row: Entry) -> str:
    data, variant = row
    same = variant in VARIANTS and variant != FULL
    same = same and results.cells[row][0].settings() == results.cells[data, FULL][0].settings()
    return f"{variant} (as full)" if same else METHOD_NAMES.get(variant, variant)


# ---- robustness: other seeds, noise, rotations, shapes and cluster sizes ----

FIRST_SEED = 10  # the defaults were tuned on lower seeds
# Printed under the table: success on shapes used for tuning does not show that the recipe generalises.
SEEN_EARLIER = (
    "we tuned the defaults with labels, on other seeds of moons and circles (also at noise 0.08 and in 10 columns), "
    "moons at 70 % and 30 %, three rings and two spirals"
)
METHODS_SHOWN = ("gedi", "kmeans", "spectral")
CONDITIONS: dict[str, Cell] = {
    "moons": Cell("moons", 2),
    "circles": Cell("circles", 2),
    "moons, noise 0.03": Cell("moons", 2, noise=0.03),
    "moons, noise 0.08": Cell("moons", 2, noise=0.08),
    "circles, noise 0.03": Cell("circles", 2, noise=0.03),
    "circles, noise 0.08": Cell("circles", 2, noise=0.08),
    "moons, turned by 30°": Cell("moons", 2, rotate=30.0),
    "moons, turned by 45°": Cell("moons", 2, rotate=45.0),
    "moons, 70 % and 30 %": Cell("moons", 2, weights=(0.7, 0.3)),
    "three rings": Cell("rings", 3),
    "two spirals": Cell("spirals", 2),
    "linked rings (3-D)": Cell("links", 2),
    "smile": Cell("smile", 4),
    "five blobs": Cell("blobs", 5),
    "moons in 10 columns": Cell("moons", 2, columns=10),
    "moons in 20 columns": Cell("moons", 2, columns=20),
    "circles in 10 columns": Cell("circles", 2, columns=10),
    "circles in 20 columns": Cell("circles", 2, columns=20),
    "moons, 70 % and 30 %, in 10 columns": Cell("moons", 2, weights=(0.7, 0.3), columns=10),
    "three rings in 10 columns": Cell("rings", 3, columns=10),
    "three rings in 20 columns": Cell("rings", 3, columns=20),
    "two spirals in 10 columns": Cell("spirals", 2, columns=10),
    "two spirals in 20 columns": Cell("spirals", 2, columns=20),
    "smile in 20 columns": Cell("smile", 4, columns=20),
    "five blobs in 20 columns": Cell("blobs", 5, columns=20),
}
BASE = {"moons": 5, "circles": 5}  # conditions with more seeds at the laptop scale


def table_robustness(request: Request) -> Outcome:
    """One set of defaults under every condition, compared with k-means and spectral clustering."""

    def fits(condition: str, method: str) -> list[Cell]:
        cell = replace(CONDITIONS[condition], method=method, seed=FIRST_SEED)
        return cells_of(request.budget, cell, laptop_seeds=BASE.get(condition))

    return tabulate(
        request,
        "NMI of the same defaults beyond Table 1",
        parts=("condition", "method"),
        cells={(c, m): fits(c, m) for c in CONDITIONS for m in METHODS_SHOWN},
        rows=[(condition,) for condition in CONDITIONS],
        columns={
            "data": part(),
            "seeds": count("gedi"),
            **_agreement("gedi"),
            "GEDI, lowest seed": number("nmi", "gedi", of="min"),
            **_agreement("kmeans"),
            **_agreement("spectral"),
            "AUROC, noise": mean("auroc_uniform", "gedi"),
            "AUROC, shuffled": mean("auroc_shuffled", "gedi"),
            "seconds": number("seconds", "gedi", form=".0f"),
        },
        notes=[
            "Columns without AMI or ARI in their heading are NMI. AUROC and seconds are GEDI's.",
            f"In 10 or 20 columns: columns of noise with standard deviation {THIN:g} are added to the toy's own, and "
            "all are rotated at random, depending on the seed. These rows use the preset for tables, the others the "
            "preset for toys.",
            f"Apart from that, all rows use the same defaults. Seeds start at {FIRST_SEED}. Not every row is a new "
            f"kind of data: {SEEN_EARLIER}.",
            "Spectral clustering cannot label new points: a test point gets the label of its nearest training point.",
            "Rotated circles are left out, since a rotated circle is the same circle.",
        ],
        draw=_draw,
    )


def _agreement(method: str) -> dict[str, Text]:
    """NMI, AMI and ARI of a method."""
    endings = {"": "nmi", ", AMI": "ami", ", ARI": "ari"}
    return {f"{METHOD_NAMES[method]}{ending}": mean(score, method) for ending, score in endings.items()}


def _draw(results: Results) -> Figure:
    """One point per seed, because a mean hides one bad seed in five."""
    made, grid = plots.figure(1, 1, width=7.5, height=0.36 * len(CONDITIONS) + 1.4)
    axes = grid[0, 0]
    for k, method in enumerate(METHODS_SHOWN):
        style = {"s": 30, "color": plots.colour(k), "marker": marker(k), "alpha": 0.8, "zorder": 3}
        for i, condition in enumerate(CONDITIONS):
            scores = [results.found[cell]["nmi"] for cell in results.cells[condition, method]]
            height = [i + 0.22 * (k - 1)] * len(scores)
            axes.scatter(scores, height, label=METHOD_NAMES[method] if i == 0 else None, **style)
    axes.set_yticks(range(len(CONDITIONS)), list(CONDITIONS))
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("NMI on test points, one mark per seed")
    plots.quiet(axes)
    axes.grid(axis="y", visible=False)
    for i in range(1, len(CONDITIONS)):
        axes.axhline(i - 0.5, color="#dddddd", linewidth=0.8)
    made.legend(loc="outside lower center", ncols=3, frameon=False)
    return made
