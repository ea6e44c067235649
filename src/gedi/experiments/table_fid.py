"""How near samples come to images (Appendix J): FID if Inception's weights are at hand, and a distance of our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gedi.evaluation.fid import FEATURE_FRECHET
from gedi.experiments import paper
from gedi.experiments.image_cells import ROWS, lay_out
from gedi.experiments.image_scores import CHAINS, FRESH, INCEPTION, LONGEST
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.summary import mean_std

SCORES = {"buffer": "own, buffer", "fresh": "own, fresh chains", "real": "own, training images", "noise": "own, noise"}
FIDS = {"buffer": "FID, buffer", "fresh": "FID, fresh chains"}
COLUMNS = (*SCORES.values(), *FIDS.values(), "FID in the paper")


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, and lay out our numbers beside the paper's."""
    notes = [
        f"'own': {FEATURE_FRECHET}, which are those of an untrained ResNet-8, the same for all methods. Lower is "
        "better; training images and noise show between what it lies.",
        f"FID is by torchmetrics, where the variable {INCEPTION} names the file of Inception weights (torch-fidelity's "
        "weights-inception-2015-12-05-6726825d.pth); fits that were not asked for it before are asked then, or "
        "repeated if their models were not kept.",
        f"Samples: up to {CHAINS:,} chains of the buffer as training left them, and {FRESH} chains from uniform noise, "
        f"moved by up to {LONGEST} Langevin steps; all against the test images. Few samples make distances larger.",
        "Barlow and SwAV train no density: their chains follow an energy head as it was made.",
        "Pictures: samples from the buffer, by fresh chains, and images of the test set.",
    ]
    title = "Samples on SVHN, CIFAR-10 and CIFAR-100: Fréchet distances to the test set"
    return lay_out("table-fid", title, tuple(ROWS), COLUMNS, _lines, notes, budget, out, jobs, say, samples=True)


def _lines(data: str, row: str, group: dict[str, Any]) -> list[list[str]]:
    own = [mean_std(group, f"frechet_{name}", digits=3) for name in SCORES]
    fids = [mean_std(group, f"fid_{name}", digits=0) for name in FIDS]
    return [[*own, *fids, str(paper.FID[data][row])]]
