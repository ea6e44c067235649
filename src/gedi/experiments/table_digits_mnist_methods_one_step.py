"""Methods side by side: on handwritten digits, on MNIST, all of them on both, and GEDI in one step and in two."""

from __future__ import annotations

import functools
from typing import Any

from gedi.experiments import Outcome, Request
from gedi.experiments.cells import BASELINES, UNTRAINED, Cell, cells_of, measure
from gedi.experiments.scores import lacks_probes, of_representation
from gedi.experiments.tabulate import (
    DENSITY,
    NAMES,
    NOTE_AUROC,
    NOTE_CHANCE,
    RANDOM,
    Entry,
    Results,
    lowest,
    means,
    of_row,
    seconds,
    spread_note,
    tabulate,
)
from gedi.training.methods import METHODS

ALL_METHODS = (*METHODS, "kmeans", UNTRAINED)
MNIST_METHODS = ("gedi", "swav", "barlow", "kmeans", UNTRAINED)
MNIST_ROWS = 10_000  # of table-methods
ONE_STEP_DATA = {"moons": 2, "circles": 2, "digits": 10}  # and their clusters

DATA_SET, METHOD = of_row(lambda data, method: data), of_row(lambda data, method: method)
NOTE_PROBES = (
    "probe: logistic regression on standardised enc(x), trained to convergence; kNN: 20 neighbours by cosine. Both see "
    "labels, after training"
)
NOTE_EQUAL = (
    "No label is seen in training. Every method has the same net, views, batches and total number of iterations, "
    "those of both of GEDI's steps"
)
NOTE_HEADS = (
    "swav has as many random cluster heads as gedi, with the same neutral head and the same rule for which of them is "
    "kept; as in its paper, they are prototypes on a projector's sphere, and no start competes with them"
)
# How the tables with probes are measured.
PROBED: dict[str, Any] = {"measure": functools.partial(measure, more=of_representation), "lacks": lacks_probes}


def table_digits(request: Request) -> Outcome:
    """scikit-learn's 1,797 handwritten digits: GEDI with its preset beside k-means, spectral clustering and Ward."""
    return tabulate(
        request,
        "table-digits",
        "Handwritten digits (1,797 images of 8x8), 10 clusters",
        parts=("method",),
        cells={(m,): cells_of(request.budget, "digits", 10, m) for m in ("gedi", *BASELINES, UNTRAINED)},
        chance={(RANDOM,): ("gedi",)},
        columns={
            "method": of_row(lambda method: NAMES.get(method, method)),
            **means("nmi", "ami"),
            "lowest NMI": lowest(),
            **means("accuracy", "ari", *DENSITY),
            "seconds a fit": seconds(digits=1),
        },
        notes=[
            spread_note(request.budget, varies="the fit changes"),
            "All methods see all images without labels, and are scored on the same images: clustering has no test "
            "split. So AUROC is of images that were trained on.",
            "k-means, spectral (10 nearest neighbours) and Ward take the pixels as they are; GEDI also knows where "
            "they are in the image, through its augmentation.",
            NOTE_CHANCE,
            NOTE_AUROC,
            "The paper has no numbers on this data set.",
        ],
    )


def table_mnist(request: Request) -> Outcome:
    """MNIST as a whole, without labels and without a constraint: 60,000 images to train on, 10,000 to test."""
    names = NAMES | {"kmeans": "k-means of pixels"}
    return tabulate(
        request,
        "table-mnist",
        "MNIST (60,000 images to train on, 10,000 to test), 10 clusters",
        parts=("method",),
        cells={(m,): cells_of(request.budget, "mnist", 10, m) for m in MNIST_METHODS},
        chance={(RANDOM,): ("gedi",)},
        columns={
            "method": of_row(lambda method: names.get(method, method)),
            **means("nmi", "ami", "accuracy", "ari", "probe", "knn", *DENSITY),
            "seconds a fit": seconds(),
        },
        notes=[
            spread_note(request.budget, varies="the fit changes"),
            f"{NOTE_EQUAL}, which are the defaults for grey images of this size. {NOTE_HEADS}. Barlow has no cluster "
            "heads: its clusters are those of k-means on its embeddings.",
            f"{NOTE_PROBES}. For k-means they are of pixels.",
            f"{NOTE_CHANCE} k-means looks at 10,000 of the training images.",
            NOTE_AUROC,
            "The paper has MNIST with a constraint only (table-nesy).",
        ],
        **PROBED,
    )


def table_methods(request: Request) -> Outcome:
    """Every named method with the same nets, data and number of iterations."""
    budget = request.budget
    is_smoke = budget.scale == "smoke"
    datasets = ["digits"] if is_smoke else ["digits", "mnist"]

    def fits(data: str, method: str) -> list[Cell]:
        changes = {} if method in BASELINES else {"preset": "smoke" if is_smoke else None}
        rows = budget.rows or (MNIST_ROWS if data == "mnist" else None)
        return cells_of(budget, data, 10, method, rows=rows, **changes)

    return tabulate(
        request,
        "table-methods",
        "All methods on handwritten digits (1,797 of 8x8) and on MNIST (10,000 of 28x28)",
        parts=("dataset", "method"),
        cells={(data, m): fits(data, m) for data in datasets for m in ALL_METHODS},
        chance={(data, RANDOM): (data, "gedi") for data in datasets},
        rows=[(data, m) for data in datasets for m in (*ALL_METHODS, RANDOM)],
        columns={
            "data set": DATA_SET,
            "method": METHOD,
            **means("nmi", "ami", "accuracy", "nmi_of_representation", "probe", "knn", *DENSITY),
            "seconds a fit": seconds(),
        },
        notes=[
            spread_note(budget),
            f"{NOTE_EQUAL}, all of the preset '{'smoke' if is_smoke else 'digits'}', which was tuned for gedi. Only "
            f"gedi-1 has fewer iterations: those of step 2 and half of step 1's. {NOTE_HEADS}.",
            "NMI, AMI and accuracy (best matching) are of the method's own clusters. Methods without cluster heads "
            "(barlow, vicreg, w-mse, simclr, ebclr) get those of k-means on the embedding; protocpc has one head of "
            "prototypes; jem has one cluster.",
            f"NMI of enc: k-means on the representation, the same for all methods. {NOTE_PROBES}.",
            NOTE_CHANCE,
            NOTE_AUROC,
            "MNIST: trained on 10,000 images of the training set, tested on the 10,000 of the test set. Digits have "
            "one split: clusters and log p are scored on all images; probe and kNN learn from every other image and "
            "are scored on the rest.",
        ],
        **PROBED,
    )


def table_one_step(request: Request) -> Outcome:
    """One-step training (the paper's future work) beside two steps: quality, iterations, gradients, seconds."""
    return tabulate(
        request,
        "table-one-step",
        "GEDI in one step and in two",
        parts=("dataset", "method"),
        cells={
            (data, method): cells_of(request.budget, data, n_clusters, method)
            for data, n_clusters in ONE_STEP_DATA.items()
            for method in ("gedi", "gedi-1")
        },
        columns={
            "data set": DATA_SET,
            "method": METHOD,
            **means("nmi", "ami"),
            "lowest NMI": lowest(),
            **means(*DENSITY),
            "iterations": _iterations,
            "gradient evaluations": _evaluations,
            "seconds": seconds(),
        },
        notes=[
            spread_note(request.budget),
            "gedi-1 has no step 1, updates the density every other iteration, and walks at most 3 steps; its step 2 is "
            "longer by half of the step it lacks.",
            "Gradient evaluations: of d log p / dx, counted per row, in SGLD and DAM; in brackets, relative to gedi.",
            NOTE_AUROC,
            "Scores on moons and circles are on 1,000 fresh points; digits have one split.",
        ],
    )


def _iterations(results: Results, row: Entry) -> str:
    """Optimiser steps of all stages."""
    config = results.cells[row][0].config()
    return f"{config.step1.iterations + config.step2.iterations:,}"


def _evaluations(results: Results, row: Entry) -> str:
    data, method = row
    paid, whole = (results.groups[data, m].get("gradient_evaluations", {"mean": 0.0})["mean"] for m in (method, "gedi"))
    return f"{paid / 1e6:.2f} M ({paid / max(whole, 1.0):.0%})"
