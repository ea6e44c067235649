"""The paper's five tables on SVHN, CIFAR-10 and CIFAR-100, all made from the same fits."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping

from gedi.data import known_datasets, load
from gedi.evaluation.samples import SMALL_NET_FRECHET, SURE, inception_metric
from gedi.experiments import Outcome, Request, paper
from gedi.experiments.cell_fits import SCORED
from gedi.experiments.image_cells import (
    ABLATIONS,
    BASELINE_ROWS,
    CHAINS,
    CLASSES,
    COMPARED_METHODS,
    CONTROLS,
    FRESH,
    INCEPTION,
    LAPTOP_ITERATIONS,
    MOST_STEPS,
    ROWS,
    TITLES,
    image_cells,
    measure_images,
)
from gedi.experiments.tabulate import (
    DENSITY,
    HEADINGS,
    SECONDS,
    Entry,
    Text,
    mean,
    mean_std,
    means,
    of_row,
    part,
    printed,
    tabulate,
)

NOTE_BATCHES = (
    "'NMI, batches of 64' is the mean NMI over batches of 64 test images. In such small batches even random labels "
    "agree (see their rows). The paper does not say how NMI was averaged."
)
NOTE_COMPUTE = (
    "All methods have the same net, views and batches; SwAV has as many random cluster heads as GEDI, as prototypes on "
    "a projector's sphere, and SimCLR has GEDI's contrastive term alone. At the laptop scale, GEDI trains for "
    f"{LAPTOP_ITERATIONS} iterations, and every method and ablation gets as many iterations as the same total cost "
    "allows, counted in passes of images through the encoder, including those of SGLD and DAM. At the paper "
    "scale, Barlow and SwAV train for the iterations of one step, the paper's 100 epochs, and JEM is GEDI's step 1."
)
NOTE_ROWS = (
    "'with L_NF' is the paper's GEDI: one encoder, and L_NF, which our default does not have. 'no NF': without L_NF. "
    "'2 encoders': also with a separate encoder for the energy."
)
PAPER_ROWS = ("jem", "barlow", "swav", *ABLATIONS)  # of Appendix J
OF_GEDI = {"with-nf": "gedi"}  # the row that the paper calls so


def table2(request: Request) -> Outcome:
    """Table 2: clusters compared with the classes."""
    notes = [
        "The paper prints the best of 10 experiments.",
        "There are 10, 10 and 100 clusters. SwAV and GEDI have their own. Barlow has none, so k-means on its "
        "embeddings stands in; JEM has no embedding either, so k-means on enc(x) stands in.",
        NOTE_BATCHES,
        NOTE_COMPUTE,
        "GEDI uses the preset of the scale. The paper's preset has L_NF; the laptop preset does not.",
        "NMI of enc: k-means on enc(x), for all methods alike.",
    ]
    title = "Clusters on SVHN, CIFAR-10 and CIFAR-100: agreement with the classes of the test set"
    return _table(request, title, COMPARED_METHODS, _cluster_columns(paper.TABLE2), notes, chance="gedi")


def table3(request: Request) -> Outcome:
    """Table 3: the paper's ablation."""
    title = "Ablation of GEDI on SVHN, CIFAR-10 and CIFAR-100: agreement with the classes of the test set"
    notes = [
        NOTE_ROWS,
        "At the laptop scale 'no NF' is our default; 'no density' and 'no contrastive term' lack one more part of it.",
        NOTE_BATCHES,
        NOTE_COMPUTE,
    ]
    rows = (*ABLATIONS, *(CONTROLS if request.budget.scale == "laptop" else ()))
    return _table(request, title, rows, _cluster_columns(paper.TABLE3), notes, chance="with-nf")


def table_probe(request: Request) -> Outcome:
    """Linear probes and neighbours on enc(x) (Appendix J)."""
    columns = {
        "linear probe": mean("probe"),
        "probe by SGD": mean("sgd_probe"),
        "probe in the paper": printed(paper.LINEAR_PROBE, OF_GEDI),
        "kNN": mean("knn"),
    }
    notes = [
        "Test accuracy of linear classifiers on enc(x). Linear probe: logistic regression on standardised features, "
        "trained to convergence. By SGD, with the paper's settings: momentum, learning rate 1e-3, batches of 100, 100 "
        "epochs, on features divided by their overall standard deviation; it need not converge.",
        "kNN: 20 neighbours by cosine. All of these use the training labels, but only after training.",
        NOTE_ROWS,
        "'untrained encoder' is GEDI's net before training. 'k-means of pixels': probes and neighbours of the pixels.",
    ]
    title = "Linear probe on SVHN, CIFAR-10 and CIFAR-100: accuracy on the test set"
    return _table(request, title, (*PAPER_ROWS, "simclr", *BASELINE_ROWS), columns, notes, needs="probe")


def table_fid(request: Request) -> Outcome:
    """How close samples are to images (Appendix J): our own distance, and FID if Inception's weights are given."""
    columns = {
        "small net, buffer": mean("small_net_frechet_buffer"),
        "small net, fresh chains": mean("small_net_frechet_fresh"),
        "small net, training images": mean("small_net_frechet_real"),
        "small net, noise": mean("small_net_frechet_noise"),
        "recognised, fresh chains": mean("recognised_fresh"),
        "recognised, training images": mean("recognised_real"),
        "classes, fresh chains": mean("classes_fresh"),
        "FID, buffer": mean("fid_buffer", digits=0),
        "FID, fresh chains": mean("fid_fresh", digits=0),
        "FID in the paper": printed(paper.FID, OF_GEDI),
    }
    notes = [
        f"'small net': {SMALL_NET_FRECHET}; the features are those of a small net that learned the labels of the "
        "training images, the same for all methods. Lower is better; training images and noise show the range.",
        f"'recognised': the share of samples that this net is sure about (probability {SURE} or more); 'classes': the "
        "share of all classes that occur among these.",
        f"torchmetrics computes FID if the variable {INCEPTION} names the file of Inception weights (torch-fidelity's "
        "weights-inception-2015-12-05-6726825d.pth). Fits made without it are then measured again, or repeated if "
        "their models were not kept.",
        f"Samples: up to {CHAINS:,} chains of the buffer as training left them, and {FRESH} fresh chains after up to "
        f"{MOST_STEPS} Langevin steps, all compared with the test images. Fresh chains start from draws of the mixture "
        "of Gaussians, or from uniform noise if the density has none. Distances from few samples are larger.",
        "Barlow and SwAV train no density: their chains follow an untrained energy head.",
        NOTE_ROWS,
        "Pictures: samples from the buffer, samples from fresh chains, and test images.",
    ]
    title = "Samples on SVHN, CIFAR-10 and CIFAR-100: Fréchet distances to the test set"
    needs = "fid_fresh" if os.environ.get(INCEPTION) else None
    return _table(request, title, PAPER_ROWS, columns, notes, samples=True, needs=needs)


def table_ood(request: Request) -> Outcome:
    """Telling test images from those of other data sets (the three OOD tables of Appendix J)."""

    def score(form: str) -> Text:
        return lambda results, row: mean_std(results.groups[row[:2]], form.format(other=row[2]))

    columns = {
        "against": part(2, TITLES),
        "AUROC": score("ood_gradient_{other}"),
        "AUROC in the paper": of_row(lambda data, row, other: paper.OOD[data][other][OF_GEDI.get(row, str(row))]),
        "AUROC by log p": score("ood_log_density_{other}"),
        "AUROC by typicality": score("ood_typicality_{other}"),
        **{HEADINGS[key]: score(key) for key in DENSITY},
    }
    notes = [
        "AUROC: the probability that a test image of the training data's kind scores higher than one of the other data "
        "set: by s(x) = -||d log p / dx||, the paper's criterion; by log p; and by typicality, how near the terms of "
        f"log p (energy and mixture) are to their medians over the training images. At most {SCORED:,} images of each.",
        "Barlow and SwAV train no density: theirs is an untrained energy head on a trained encoder.",
        NOTE_ROWS,
    ]
    title = "Foreign images: trained on SVHN, CIFAR-10 or CIFAR-100, shown the other two"
    rows = [(data, row, other) for data in CLASSES for row in PAPER_ROWS for other in paper.OOD[data]]
    return _table(request, title, PAPER_ROWS, columns, notes, rows=rows)


def _cluster_columns(theirs: Mapping[str, paper.Printed]) -> dict[str, Text]:
    return {
        **means("nmi", "ami"),
        "NMI, batches of 64": mean("nmi_batch64"),
        "NMI in the paper": printed(theirs, OF_GEDI),
        **means("accuracy", "ari", "nmi_of_representation"),
        **SECONDS,
    }


def _table(
    request: Request,
    title: str,
    methods: Iterable[str],
    columns: dict[str, Text],
    notes: list[str],
    *,
    rows: list[Entry] | None = None,
    samples: bool = False,
    chance: str | None = None,
    needs: str | None = None,
) -> Outcome:
    """A table of methods on every data set.

    ``chance`` names the row whose cluster sizes the random labels have, and adds the baselines' rows. ``samples``: the
    table includes the pictures of samples. Fits without the number called ``needs`` are measured again.
    """
    check_present()
    shown = [*methods, *(BASELINE_ROWS if chance else ())]
    fits = {(data, row): image_cells(request.budget, data, row) for data in CLASSES for row in shown}
    titles = {row: line.title for row, line in (ROWS | BASELINE_ROWS).items()}
    return tabulate(
        request,
        title,
        parts=("dataset", "row"),
        cells=fits,
        chance=chance,
        varies="the fit changes",
        columns={"data set": part(0, TITLES), "method": part(1, titles), **columns},
        notes=notes,
        rows=rows,
        pictures=[cell.picture(request.out) for group in fits.values() for cell in group if samples],
        measure=functools.partial(measure_images, out=request.out),
        needs=needs,
    )


def check_present() -> None:
    """Check before the first fit what every fit needs: all data sets, and the Inception weights if they are named."""
    if weights := os.environ.get(INCEPTION):
        inception_metric(weights)
    for info in known_datasets():
        if info.name in CLASSES and not info.present:
            load(info.name)  # raises an error that says where the data is expected, and what to do
