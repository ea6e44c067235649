"""Methods side by side: on handwritten digits, on MNIST, all methods on both, and GEDI in one step and in two."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

from gedi.experiments import Outcome, Request
from gedi.experiments.cell_fits import measure_cell, of_representation
from gedi.experiments.cells import BASELINES, SMALL_SETS, UNTRAINED, Cell, cells_of
from gedi.experiments.tabulate import (
    DENSITY,
    METHOD_NAMES,
    SECONDS,
    Entry,
    Results,
    count,
    means,
    number,
    part,
    tabulate,
)
from gedi.objectives.term import trains_clusters
from gedi.training.config import TrainingConfig
from gedi.training.methods import METHODS, with_method

NOTE_PROBES = (
    "probe: logistic regression on standardised enc(x), trained to convergence; kNN: 20 neighbours by cosine. Both use "
    "labels, but only after training."
)
NOTE_EQUAL = (
    "Training uses no labels. Every method has the same net, views and batches, and as many iterations as both of "
    "GEDI's steps together"
)
NOTE_HEADS = (
    "swav has as many random cluster heads as gedi, with the same neutral head, and chooses between them by the same "
    "rule; as in its paper, they are prototypes on a projector's sphere, and no start competes with them."
)
# How the tables with probes are measured.
PROBED: dict[str, Any] = {"measure": functools.partial(measure_cell, more=of_representation), "needs": "probe"}


def table_digits(request: Request) -> Outcome:
    """scikit-learn's 1,797 handwritten digits: GEDI compared with k-means, spectral clustering and Ward."""
    return tabulate(
        request,
        "Handwritten digits (1,797 images of 8x8), 10 clusters",
        parts=("method",),
        cells={(m,): Cell("digits", 10, method=m) for m in ("gedi", *BASELINES, UNTRAINED)},
        chance="gedi",
        varies="the fit changes",
        columns={
            "method": part(0, METHOD_NAMES),
            **means("nmi", "ami"),
            "lowest NMI": number("nmi", of="min"),
            **means("accuracy", "ari", *DENSITY),
            "seconds a fit": number("seconds", form=".1f"),
        },
        notes=[
            "All methods see all images without labels and are scored on the same images: there is no test split. So "
            "AUROC is computed on training images.",
            "k-means, spectral (10 nearest neighbours) and Ward see the pixels as a plain list; GEDI also knows where "
            "they are in the image, through its augmentation.",
            "The paper has no numbers on this data set.",
        ],
    )


def table_mnist(request: Request) -> Outcome:
    """MNIST as a whole, without labels and without a constraint: 60,000 images to train on, 10,000 to test."""
    return tabulate(
        request,
        "MNIST (60,000 images to train on, 10,000 to test), 10 clusters",
        parts=("method",),
        cells={(m,): Cell("mnist", 10, method=m) for m in ("gedi", "swav", "barlow", "kmeans", UNTRAINED)},
        chance="gedi",
        varies="the fit changes",
        columns={
            "method": part(0, METHOD_NAMES | {"kmeans": "k-means of pixels"}),
            **means("nmi", "ami", "accuracy", "ari", "probe", "knn", *DENSITY),
            **SECONDS,
        },
        notes=[
            f"{NOTE_EQUAL}, by the defaults for grey images of this size. {NOTE_HEADS} Barlow has no cluster heads: "
            "its clusters come from k-means on its embeddings.",
            f"{NOTE_PROBES} For k-means, both use the pixels.",
            "k-means uses 10,000 of the training images.",
            "In the paper, MNIST appears only with a constraint (table-nesy).",
        ],
        **PROBED,
    )


def table_methods(request: Request) -> Outcome:
    """Every named method with the same nets, data and number of iterations."""
    budget = request.budget
    data = [Cell("digits", 10)] if budget.scale == "smoke" else [Cell("digits", 10), Cell("mnist", 10, rows=10_000)]
    return tabulate(
        request,
        "All methods on handwritten digits (1,797 of 8x8) and on MNIST (10,000 of 28x28)",
        parts=("dataset", "method"),
        cells={
            (c.dataset, m): cells_of(budget, replace(c, method=m), laptop_seeds=1 if c.dataset == "mnist" else None)
            for c in data
            for m in (*METHODS, "kmeans", UNTRAINED)
        },
        chance="gedi",
        columns={
            "data set": part(0),
            "method": part(1),
            **means("nmi", "ami", "ari", "accuracy", "nmi_of_representation", "probe", "knn", *DENSITY),
            **SECONDS,
            "seeds": count(),
        },
        notes=[
            f"{NOTE_EQUAL}, by the preset {budget.preset or 'digits (grey for MNIST)'}, which was tuned for gedi. "
            f"Only gedi-1 has fewer iterations: those of step 2 and half of step 1's. {NOTE_HEADS}",
            "NMI, AMI and accuracy (best matching) score the method's own clusters. Methods without cluster heads "
            f"({', '.join(filter(_has_no_heads, METHODS))}) use k-means on the embedding; protocpc has one head of "
            "prototypes; jem has one cluster.",
            f"NMI of enc: k-means on the representation, for all methods alike. {NOTE_PROBES}",
            "MNIST: trained on 10,000 training images, tested on the 10,000 test images. Digits have one split: "
            "clusters and log p are scored on all images; probe and kNN learn from every other image and are scored on "
            "the rest.",
        ],
        **PROBED,
    )


def _has_no_heads(method: str) -> bool:
    """Whether a method has a step 2 that trains no cluster heads."""
    config = with_method(TrainingConfig(), method)
    return config.step2.iterations > 0 and not trains_clusters(config.objective)


def table_one_step(request: Request) -> Outcome:
    """One-step training (the paper's future work) compared with two steps: quality, iterations, gradients, seconds."""
    return tabulate(
        request,
        "GEDI in one step and in two",
        parts=("dataset", "method"),
        cells={
            (data, method): Cell(data, n_clusters, method=method)
            for data, n_clusters in SMALL_SETS.items()
            for method in ("gedi", "gedi-1")
        },
        columns={
            "data set": part(0),
            "method": part(1),
            **means("nmi", "ami", "ari"),
            "lowest NMI": number("nmi", of="min"),
            **means(*DENSITY),
            "iterations": _iterations,
            "gradient evaluations": _evaluations,
            "seconds": number("seconds", form=".0f"),
        },
        notes=[
            "gedi-1 has no step 1, updates the density every other iteration, and walks at most 3 steps. Its step 2 "
            "gets half of the missing step's iterations.",
            "Gradient evaluations: evaluations of d log p / dx per row, in SGLD and DAM; in brackets, relative to "
            "gedi.",
            "Moons and circles are scored on 1,000 fresh points; digits have one split.",
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
