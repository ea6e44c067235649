"""The fits behind the paper's tables on SVHN, CIFAR-10 and CIFAR-100: all five tables are about the same ones."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from gedi import runs
from gedi.data import known_datasets, load
from gedi.data.augment import PAPER
from gedi.evaluation.fid import inception_metric
from gedi.experiments import cells, summary
from gedi.experiments.cells import CELLS, MODELS, Cell, Measured, cell_data, read_cells, run_cells
from gedi.experiments.equal_compute import hold_to, passes
from gedi.experiments.image_scores import DATA, INCEPTION, SCORES, drawn, of_image_fit, of_samples
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.training.config import TrainingConfig

SHAPE = (32, 32, 3)
LAPTOP = "images"  # the preset of that scale
LONGER = 1_600  # iterations of L_NF in its tables, in place of those that the preset asks of a user
TITLES = {"svhn": "SVHN", "cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}


class Row(NamedTuple):
    """A line of the paper's tables: a method, or GEDI with something left out."""

    title: str
    method: str
    variant: str = "full"


ROWS = {
    "jem": Row("JEM", "jem"),
    "barlow": Row("Barlow", "barlow"),
    "swav": Row("SwAV", "swav"),
    "no-nf-2-encoders": Row("no NF, 2 encoders", "gedi", "no NF, 2 encoders"),
    "no-nf": Row("no NF", "gedi", "no NF"),
    "gedi": Row("GEDI", "gedi"),
}
METHODS = ("jem", "barlow", "swav", "gedi")
ABLATIONS = ("no-nf-2-encoders", "no-nf", "gedi")

QUEUE = 3_840  # SwAV's own
EPOCHS = 100  # of every method in the paper: its 'Iters' are about as many at a batch of 64
FROZEN = {"smoke": 5, LAPTOP: 150}  # iterations in which SwAV's prototypes wait: an epoch of 10,000 images


@dataclass(frozen=True)
class ImageCell(Cell):
    """One fit on images of 32 x 32 pixels, by a preset that is named."""

    asks_cost = True

    def image_shape(self) -> tuple[int, ...]:
        return SHAPE

    def config(self) -> TrainingConfig:
        config = super().config()
        if self.preset == LAPTOP:
            config.augment.flip = PAPER[self.dataset].flip
            if (self.method, self.variant) != ("gedi", "full"):
                hold_to(config, passes(replace(self, method="gedi", variant="full").config()))
            else:
                config.embedding.iterations = min(LONGER, self.iterations or LONGER)
        if self.preset == f"paper-{self.dataset}" and self.method in ("barlow", "swav"):
            # The methods hand a baseline the iterations of both of GEDI's steps; the paper gives it those of one.
            config.embedding.iterations //= 2
            config.step2.iterations //= 2
        if self.method == "swav":
            clustering = config.objective["clustering"]
            frozen = FROZEN.get(self.preset or "", config.step2.iterations // EPOCHS)
            config.objective["clustering"] = replace(clustering, queue=clustering.queue or QUEUE, frozen=frozen)
        return config

    @property
    def row(self) -> str:
        """Its name in `ROWS`."""
        return next(name for name, row in ROWS.items() if row[1:] == (self.method, self.variant))

    def picture(self, out: Path) -> Path:
        """Where its samples are drawn."""
        return out / f"samples-{self.dataset}-{self.row}-s{self.seed}.png"


def cells_of(data: str, row: str, budget: Budget) -> list[ImageCell]:
    """The cells of one row on one data set, one a seed."""
    preset = {"smoke": "smoke", "laptop": LAPTOP}.get(budget.scale, f"paper-{data}")
    _, method, variant = ROWS[row]
    first = ImageCell(data, DATA[data], 0, method, preset, variant, rows=budget.rows, iterations=budget.iterations)
    return [replace(first, seed=seed) for seed in budget.seeds]


def measure(cell: Cell, models: Path | None = None, *, out: Path | None = None) -> Measured:
    """Fit, and ask all that any of the tables shows; samples of a density that was trained are drawn in ``out``.

    The model is kept there too. One that was kept before is not fitted again, and only asked for its samples.
    """
    assert isinstance(cell, ImageCell)
    if out is not None:
        models = models or out / MODELS
        before = read_cells(out / CELLS).get(cell.key)
        if before is not None and (models / cell.key).is_dir():
            data = cell_data(cell)
            return before | of_samples(cell, drawn(cell, runs.load(models / cell.key), data), data)
    picture = None if out is None or "generative" not in cell.config().objective else cell.picture(out)
    more = functools.partial(of_image_fit, picture=picture)
    return cells.measure(cell, models, more=more)


Lines = Callable[[str, str, dict[str, Any]], list[list[str]]]


def lay_out(
    name: str,
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    lines: Lines,
    notes: Sequence[str],
    budget: Budget,
    out: Path,
    jobs: int,
    say: Say,
    *,
    samples: bool = False,
) -> Outcome:
    """Fit what is missing, and list the rows on every data set: ``lines(data, row, scores)`` is what each is shown as.

    Lines begin after the data set's and the row's own name. ``samples``: it is about them, so their pictures are part
    of the outcome, and fits without FID are asked for it if there are weights for it.
    """
    check_present()
    table = {(data, row): cells_of(data, row, budget) for data in DATA for row in rows}
    wanted = [cell for group in table.values() for cell in group]
    lacks = lacks_fid if samples and os.environ.get(INCEPTION) else lambda measured: False
    found = run_cells(wanted, out, jobs, say, measure=functools.partial(measure, out=out), lacks=lacks)
    scores = (*summary.SCORES, *SCORES)
    groups = {place: summary.summary([found[cell] for cell in group], scores) for place, group in table.items()}
    listed = [
        [TITLES[data], ROWS[row].title, *line]
        for (data, row), group in groups.items()
        for line in lines(data, row, group)
    ]
    said = [spread_note(budget), *notes, *summary.divergence_notes(found)]
    files = [path for cell in wanted if samples and (path := cell.picture(out)).is_file()]
    outcome = Outcome(title, ["data set", "method", *columns], listed, said, files)
    means = [{"dataset": data, "row": row, **group} for (data, row), group in groups.items()]
    summary.write_json(name, outcome, budget, out, found, means)
    return outcome


def check_present() -> None:
    """Refuse before the first fit what every fit needs: test images of all data sets, and weights that are named."""
    weights = os.environ.get(INCEPTION)
    if weights:
        inception_metric(weights)
    for info in known_datasets():
        if info.name in DATA and not info.present:
            load(info.name)  # says where it was looked for, and what to do


def lacks_fid(measured: Measured) -> bool:
    """Whether a fit was not asked for its FID: there were no weights then."""
    return "diverged" not in measured and "fid_fresh" not in measured


def spread_note(budget: Budget) -> str:
    """What the numbers are means of."""
    n = len(budget.seeds)
    note = f"Mean ± standard deviation (n - 1) over {n} seeds." if n > 1 else "One seed, hence no deviation."
    return note + (
        " Scale 'smoke' only shows that all runs: its numbers mean nothing." if budget.scale == "smoke" else ""
    )


NOTE_CLUSTERS = (
    "Clusters: 10, 10 and 100. SwAV and GEDI have their own; Barlow has none, and gets those of k-means on its "
    "embeddings; JEM has no embedding either, and gets those of k-means on enc(x)."
)
NOTE_BATCHES = (
    "'NMI, batches of 64' is the mean NMI of batches of 64 test images, for comparison with the paper only, whose "
    "numbers look like it: in so small a batch even random labels agree (about 0.3 for 10 classes, 0.9 for 100)."
)
NOTE_COMPUTE = (
    "All methods have the same net, views and batches. Scale 'laptop': every method, and GEDI with something left out, "
    "trains for as many iterations as cost what GEDI's cost, counted in passes of images through the encoder, with "
    "those of SGLD and DAM among them. Scale 'paper': Barlow and SwAV train for one step's iterations, the paper's 100 "
    "epochs, and JEM is GEDI's step 1."
)
