"""The paper's five tables on SVHN, CIFAR-10 and CIFAR-100, all made from the same fits."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from gedi.data import known_datasets, load
from gedi.evaluation.fid import FEATURE_FRECHET, inception_metric
from gedi.experiments import Outcome, Request, paper
from gedi.experiments.cells import UNTRAINED
from gedi.experiments.image_cells import (
    ABLATIONS,
    BASELINES,
    METHODS,
    ROWS,
    TITLES,
    ImageCell,
    cells_of,
    lacks_fid,
    measure,
    printed_as,
)
from gedi.experiments.scores import CHAINS, CLASSES, FRESH, IMAGE_SCORES, INCEPTION, LONGEST, MOST
from gedi.experiments.tabulate import (
    DENSITY,
    HEADINGS,
    NOTE_AUROC,
    NOTE_CHANCE,
    RANDOM,
    SCORES,
    Entry,
    Results,
    Text,
    mean,
    mean_std,
    means,
    of_row,
    seconds,
    spread_note,
    summary,
    tabulate,
)

NOTE_CLUSTERS = (
    "Clusters: 10, 10 and 100. SwAV and GEDI have their own. Barlow has none and gets those of k-means on its "
    "embeddings; JEM has no embedding either and gets those of k-means on enc(x)."
)
NOTE_BATCHES = (
    "'NMI, batches of 64' is the mean NMI over batches of 64 test images. In so small a batch even random labels agree "
    "(see their rows). The paper does not say how NMI was averaged."
)
NOTE_COMPUTE = (
    "All methods have the same net, views and batches; SwAV has as many random cluster heads as GEDI, as prototypes on "
    "a projector's sphere. At the laptop scale, every method and every ablation trains for as many iterations as cost "
    "what GEDI costs, counted in passes of images through the encoder, including those of SGLD and DAM. At the paper "
    "scale, Barlow and SwAV train for the iterations of one step, the paper's 100 epochs, and JEM is GEDI's step 1."
)
NOTE_ROWS = (
    "'with L_NF' is the paper's GEDI: one encoder, and L_NF, which our default does not have. 'no NF': without it. '2 "
    "encoders': the energy also has a separate encoder."
)
PAPER_ROWS = ("jem", "barlow", "swav", *ABLATIONS)  # of Appendix J


def table2(request: Request) -> Outcome:
    """Table 2: clusters compared with the classes."""
    notes = [
        "The paper prints the best of 10 experiments.",
        NOTE_CLUSTERS,
        NOTE_BATCHES,
        NOTE_CHANCE,
        NOTE_COMPUTE,
        "GEDI has the settings of the scale's preset. The paper's has L_NF; that of the laptop scale has not.",
        "NMI of enc: k-means on enc(x), the same for all methods.",
    ]
    title = "Clusters on SVHN, CIFAR-10 and CIFAR-100: agreement with the classes of the test set"
    return _table(request, "table2", title, METHODS, _cluster_columns(paper.TABLE2), notes, chance="gedi")


def table3(request: Request) -> Outcome:
    """Table 3: the paper's ablation."""
    notes = [
        NOTE_ROWS,
        NOTE_BATCHES,
        NOTE_CHANCE.replace("GEDI's clusters", "the clusters of 'with L_NF'"),
        NOTE_COMPUTE,
    ]
    title = "Ablation of GEDI on SVHN, CIFAR-10 and CIFAR-100: agreement with the classes of the test set"
    return _table(request, "table3", title, ABLATIONS, _cluster_columns(paper.TABLE3), notes, chance="with-nf")


def table_probe(request: Request) -> Outcome:
    """Linear probes and neighbours on enc(x) (Appendix J)."""
    columns = {
        "linear probe": mean("probe"),
        "probe by SGD": mean("sgd_probe"),
        "probe in the paper": _printed(paper.LINEAR_PROBE),
        "kNN": mean("knn"),
    }
    notes = [
        "Accuracy on the test set of linear classifiers on enc(x). Linear probe: logistic regression on standardised "
        "features, trained to convergence. By SGD, with the paper's settings: momentum, learning rate 1e-3, batches of "
        "100, 100 epochs, on features divided by one number, their standard deviation; it need not converge.",
        "kNN: 20 neighbours by cosine. All see the training labels, after training.",
        NOTE_ROWS,
        "'untrained encoder' is GEDI's net as it starts.",
    ]
    title = "Linear probe on SVHN, CIFAR-10 and CIFAR-100: accuracy on the test set"
    return _table(request, "table-probe", title, (*PAPER_ROWS, UNTRAINED), columns, notes)


def table_fid(request: Request) -> Outcome:
    """How close samples are to images (Appendix J): FID if Inception's weights are given, and a distance of our own."""
    columns = {
        "own, buffer": mean("frechet_buffer", digits=3),
        "own, fresh chains": mean("frechet_fresh", digits=3),
        "own, training images": mean("frechet_real", digits=3),
        "own, noise": mean("frechet_noise", digits=3),
        "FID, buffer": mean("fid_buffer", digits=0),
        "FID, fresh chains": mean("fid_fresh", digits=0),
        "FID in the paper": _printed(paper.FID),
    }
    notes = [
        f"'own': {FEATURE_FRECHET}, which are those of an untrained ResNet-8, the same for all methods. Lower is "
        "better; training images and noise show the range.",
        f"FID is computed by torchmetrics if the variable {INCEPTION} names the file of Inception weights "
        "(torch-fidelity's weights-inception-2015-12-05-6726825d.pth). Fits made without it are then measured again, "
        "or repeated if their models were not kept.",
        f"Samples: up to {CHAINS:,} chains of the buffer as training left them, and {FRESH} chains from uniform noise, "
        f"moved by up to {LONGEST} Langevin steps; all against the test images. Few samples make distances larger.",
        "Barlow and SwAV train no density: their chains follow an untrained energy head.",
        NOTE_ROWS,
        "Pictures: samples from the buffer, samples by fresh chains, and images of the test set.",
    ]
    title = "Samples on SVHN, CIFAR-10 and CIFAR-100: Fréchet distances to the test set"
    return _table(request, "table-fid", title, PAPER_ROWS, columns, notes, samples=True)


def table_ood(request: Request) -> Outcome:
    """Telling test images from those of other data sets (the three OOD tables of Appendix J)."""

    def score(kind: str) -> Text:
        def text(results: Results, row: Entry) -> str:
            data, method, other = row
            return mean_std(results.groups[data, method], f"ood_{kind}_{other}")

        return text

    columns = {
        "against": of_row(lambda data, row, other: TITLES[other]),
        "AUROC": score("gradient"),
        "AUROC in the paper": of_row(lambda data, row, other: paper.OOD[data][other][printed_as(row)]),
        "AUROC by log p": score("log_density"),
        **{HEADINGS[name]: _of_entry(name) for name in DENSITY},
    }
    notes = [
        "AUROC: the chance that a test image of the data trained on scores higher than one of the other data, by s(x) "
        f"= -||d log p / dx||, the paper's criterion, and by log p. At most {MOST:,} images of each.",
        "Barlow and SwAV train no density: theirs is an untrained energy head on a trained encoder.",
        NOTE_ROWS,
        NOTE_AUROC,
    ]
    title = "Foreign images: trained on SVHN, CIFAR-10 or CIFAR-100, shown the two others"
    rows = [(data, row, other) for data in CLASSES for row in PAPER_ROWS for other in paper.OOD[data]]
    return _table(request, "table-ood", title, PAPER_ROWS, columns, notes, rows=rows)


def _of_entry(score: str) -> Text:
    """A score that does not depend on the other data set."""
    return lambda results, row: mean_std(results.groups[row[:2]], score)


def _cluster_columns(printed: dict[str, paper.Printed]) -> dict[str, Text]:
    return {
        **means("nmi", "ami"),
        "NMI, batches of 64": mean("nmi_batch64"),
        "NMI in the paper": _printed(printed),
        **means("accuracy", "ari", "nmi_of_representation"),
        "seconds a fit": seconds(),
    }


def _printed(numbers: dict[str, paper.Printed]) -> Text:
    return of_row(lambda data, row: numbers[data].get(printed_as(row), "–"))


def _table(
    request: Request,
    name: str,
    title: str,
    methods: Iterable[str],
    columns: dict[str, Text],
    notes: list[str],
    *,
    rows: list[Entry] | None = None,
    samples: bool = False,
    chance: str | None = None,
) -> Outcome:
    """A table of methods on every data set.

    ``chance`` is the row at whose cluster sizes random labels are drawn; then there are the baselines' rows, too.

    ``samples``: the table is about samples. Their pictures belong to it, and fits without FID are measured again if
    there are weights for it.
    """
    check_present()
    shown = [*methods, *(BASELINES if chance else ())]
    fits: dict[Entry, list[ImageCell]] = {
        (data, row): cells_of(request.budget, data, row) for data in CLASSES for row in shown
    }
    if chance:
        rows = [(data, row) for data in CLASSES for row in (*shown, RANDOM)]
    fitting: dict[str, Any] = {"lacks": lacks_fid} if samples and os.environ.get(INCEPTION) else {}
    return tabulate(
        request,
        name,
        title,
        parts=("dataset", "row"),
        cells=fits,
        chance={(data, RANDOM): (data, chance) for data in CLASSES} if chance else None,
        columns={
            "data set": of_row(lambda data, *_: TITLES[data]),
            "method": of_row(lambda data, row, *_: RANDOM if row == RANDOM else (ROWS | BASELINES)[row].title),
            **columns,
        },
        notes=[spread_note(request.budget, varies="the fit changes"), *notes],
        rows=rows,
        summarise=functools.partial(summary, scores=(*SCORES, *IMAGE_SCORES)),
        pictures=[cell.picture(request.out) for group in fits.values() for cell in group if samples],
        measure=functools.partial(measure, out=request.out),
        **fitting,
    )


def check_present() -> None:
    """Check before the first fit what every fit needs: all data sets, and the Inception weights if they are named."""
    if weights := os.environ.get(INCEPTION):
        inception_metric(weights)
    for info in known_datasets():
        if info.name in CLASSES and not info.present:
            load(info.name)  # raises an error that says where it was looked for, and what to do
