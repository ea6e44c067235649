"""The paper's ablation on moons and circles: its four variants against T, and one of ours."""

from __future__ import annotations

from pathlib import Path

from gedi.experiments.curves import gedi_curve, run_curves
from gedi.experiments.outcome import Budget, Outcome, Say
from gedi.experiments.table1 import DATASETS
from gedi.training.presets import ABLATIONS


def run(budget: Budget, out: Path, jobs: int, say: Say) -> Outcome:
    """Fit, draw and list."""
    curves = [
        gedi_curve(budget, data, "GEDI" if variant == "full" else variant, data, variant=variant)
        for data in DATASETS
        for variant in ABLATIONS
    ]
    notes = [
        "The variants change our default settings: without L_NF ('no NF'), and besides without step 1 ('no step 1') "
        "or with an encoder of its own for the energy ('2 encoders'). 'random start' is not in the paper's figure: all "
        "terms, but clusters that start at random rather than from the cut of the walks.",
        "The paper prints this figure without numbers. It finds that DAM helps more with larger T, that it needs step "
        "1, and that one encoder does better than two on circles.",
    ]
    title = "Ablation on moons and circles: NMI against T"
    return run_curves("fig-ablation", title, curves, budget, out, jobs, say, notes=notes)
