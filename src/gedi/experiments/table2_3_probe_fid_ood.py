"""The paper's five tables on SVHN, CIFAR-10 and CIFAR-100, all made from the same fits."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable
from typing import Any

from gedi.data import known_datasets, load
from gedi.evaluation.fid import FEATURE_FRECHET, inception_metric
from gedi.experiments import Outcome, Request, paper
from gedi.experiments.image_cells import ABLATIONS, METHODS, ROWS, TITLES, ImageCell, cells_of, lacks_fid, measure
from gedi.experiments.scores import CHAINS, CLASSES, FRESH, IMAGE_SCORES, INCEPTION, LONGEST, MOST
from gedi.experiments.tabulate import (
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
    "'NMI, batches of 64' is the mean NMI over batches of 64 test images. It is given for comparison with the paper "
    "only, whose numbers look like it: in so small a batch even random labels agree (about 0.3 for 10 classes, 0.9 "
    "for 100)."
)
NOTE_COMPUTE = (
    "All methods have the same net, views and batches. At the laptop scale, every method and every ablation trains for "
    "as many iterations as cost what GEDI costs, counted in passes of images through the encoder, including those of "
    "SGLD and DAM. At the paper scale, Barlow and SwAV train for the iterations of one step, the paper's 100 epochs, "
    "and JEM is GEDI's step 1."
)


def table2(request: Request) -> Outcome:
    """Table 2: clusters compared with the classes."""
    notes = [
        "The paper prints the best of 10 experiments.",
        NOTE_CLUSTERS,
        NOTE_BATCHES,
        NOTE_COMPUTE,
        "NMI of enc: k-means on enc(x), the same for all methods.",
    ]
    title = "Clusters on SVHN, CIFAR-10 and CIFAR-100: NMI on the test set"
    return _table(request, "table2", title, METHODS, _cluster_columns(paper.TABLE2), notes)


def table3(request: Request) -> Outcome:
    """Table 3: GEDI with something left out."""
    notes = [
        NOTE_BATCHES,
        "'no NF' is GEDI without L_NF, and so without the stage that trains it alone, which the laptop scale has; "
        "'2 encoders': the energy also has a separate encoder.",
        "At the laptop scale, GEDI itself has two encoders, and 'no NF, 2 encoders' has exactly its density. Step 2 "
        "then has to do the work of L_NF's stage, and gets its iterations and learning rate.",
        NOTE_COMPUTE,
    ]
    title = "Ablation of GEDI on SVHN, CIFAR-10 and CIFAR-100: NMI on the test set"
    return _table(request, "table3", title, ABLATIONS, _cluster_columns(paper.TABLE3), notes)


def table_probe(request: Request) -> Outcome:
    """Linear probe and neighbours on enc(x) (Appendix J)."""
    columns = {
        "linear probe": mean("probe"),
        "probe in the paper": _printed(paper.LINEAR_PROBE),
        "kNN": mean("knn"),
    }
    notes = [
        "Accuracy on the test set of a linear classifier on enc(x): SGD with momentum, learning rate 1e-3, batches of "
        "100, 100 epochs, as in the paper. The features are divided by one number, their standard deviation.",
        "kNN: 20 neighbours by cosine. Both see the training labels, after training.",
    ]
    title = "Linear probe on SVHN, CIFAR-10 and CIFAR-100: accuracy on the test set"
    return _table(request, "table-probe", title, ROWS, columns, notes)


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
        "Pictures: samples from the buffer, samples by fresh chains, and images of the test set.",
    ]
    title = "Samples on SVHN, CIFAR-10 and CIFAR-100: Fréchet distances to the test set"
    return _table(request, "table-fid", title, ROWS, columns, notes, samples=True)


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
        "AUROC in the paper": of_row(lambda data, row, other: paper.OOD[data][other][row]),
        "AUROC by log p": score("log_density"),
    }
    notes = [
        "AUROC: the chance that a test image of the data trained on scores higher than one of the other data, by s(x) "
        f"= -||d log p / dx||, the paper's criterion, and by log p. At most {MOST:,} images of each.",
        "Barlow and SwAV train no density: theirs is an untrained energy head on a trained encoder.",
    ]
    title = "Foreign images: trained on SVHN, CIFAR-10 or CIFAR-100, shown the two others"
    rows = [(data, row, other) for data in CLASSES for row in ROWS for other in paper.OOD[data]]
    return _table(request, "table-ood", title, ROWS, columns, notes, rows=rows)


def _cluster_columns(printed: dict[str, dict[str, paper.Number]]) -> dict[str, Text]:
    return {
        "NMI": mean(),
        "NMI, batches of 64": mean("nmi_batch64"),
        "NMI in the paper": _printed(printed),
        **means("accuracy", "ari", "nmi_of_representation"),
        "seconds a fit": seconds(),
    }


def _printed(numbers: dict[str, dict[str, paper.Number]]) -> Text:
    return of_row(lambda data, row: numbers[data][row])


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
) -> Outcome:
    """A table of methods on every data set.

    ``samples``: the table is about samples. Their pictures belong to it, and fits without FID are measured again if
    there are weights for it.
    """
    check_present()
    fits: dict[Entry, list[ImageCell]] = {
        (data, row): cells_of(request.budget, data, row) for data in CLASSES for row in methods
    }
    fitting: dict[str, Any] = {"lacks": lacks_fid} if samples and os.environ.get(INCEPTION) else {}
    return tabulate(
        request,
        name,
        title,
        parts=("dataset", "row"),
        cells=fits,
        columns={
            "data set": of_row(lambda data, *_: TITLES[data]),
            "method": of_row(lambda data, row, *_: ROWS[row].title),
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
