"""The paper's own numbers, as printed. No other file has any."""

from __future__ import annotations

Printed = dict[str, str]  # a number, or mean ± standard deviation, by row


def _row(names: str, numbers: str) -> Printed:
    return dict(zip(names.split(), numbers.split(), strict=True))


# Table 1: NMI on the test set, mean and standard deviation of 5 runs, T = 10.
TABLE1: dict[str, Printed] = {
    "moons": {"jem": "0.0 ± 0.0", "swav": "0.8 ± 0.2", "gedi": "0.98 ± 0.02"},
    "circles": {"jem": "0.0 ± 0.0", "swav": "0.0 ± 0.0", "gedi": "1.00 ± 0.01"},
}

# The figures on synthetic data: numbers of DAM steps T, and of clusters c (Appendix H).
FIGURE_STEPS = (1, 2, 5, 8, 10)
FIGURE_CLASSES = (2, 4, 6)

# Table 2: NMI on the test set, the best of 10 experiments (SwAV was unstable on CIFAR-100).
_TABLE2 = "jem barlow swav gedi"
TABLE2: dict[str, Printed] = {
    "svhn": _row(_TABLE2, "0.04 0.20 0.24 0.39"),
    "cifar10": _row(_TABLE2, "0.04 0.22 0.39 0.41"),
    "cifar100": _row(_TABLE2, "0.05 0.46 0.69 0.72"),
}

# Table 3: NMI of the ablation.
_TABLE3 = "no-nf-2-encoders no-nf gedi"
TABLE3: dict[str, Printed] = {
    "svhn": _row(_TABLE3, "0.21 0.31 0.39"),
    "cifar10": _row(_TABLE3, "0.38 0.40 0.41"),
    "cifar100": _row(_TABLE3, "0.75 0.76 0.72"),
}

# Table 4, MNIST addition, by the number of triplets: mean and standard deviation of 5 runs.
TABLE4_ACCURACY: dict[int, Printed] = {
    100: {"without GEDI": "0.10 ± 0.00", "without constraint": "0.08 ± 0.03", "with constraint": "0.25 ± 0.03"},
    1_000: {"without GEDI": "0.10 ± 0.00", "without constraint": "0.09 ± 0.02", "with constraint": "0.52 ± 0.26"},
    10_000: {"without GEDI": "0.10 ± 0.00", "without constraint": "0.17 ± 0.12", "with constraint": "0.98 ± 0.00"},
}
TABLE4_NMI: dict[int, Printed] = {
    100: {"without GEDI": "0.00 ± 0.00", "without constraint": "0.28 ± 0.03", "with constraint": "0.41 ± 0.03"},
    1_000: {"without GEDI": "0.00 ± 0.00", "without constraint": "0.47 ± 0.10", "with constraint": "0.86 ± 0.06"},
    10_000: {"without GEDI": "0.00 ± 0.00", "without constraint": "0.68 ± 0.09", "with constraint": "0.97 ± 0.01"},
}

# Appendix J. The columns of its tables: three methods, two variants of the ablation, and GEDI.
_APPENDIX = "jem barlow swav no-nf-2-encoders no-nf gedi"

# Accuracy of a linear probe on the test set.
LINEAR_PROBE: dict[str, Printed] = {
    "svhn": _row(_APPENDIX, "0.20 0.84 0.44 0.29 0.52 0.56"),
    "cifar10": _row(_APPENDIX, "0.23 0.63 0.53 0.48 0.50 0.51"),
    "cifar100": _row(_APPENDIX, "0.03 0.35 0.14 0.12 0.15 0.15"),
}

# Fréchet Inception distance, lower is better.
FID: dict[str, Printed] = {
    "svhn": _row(_APPENDIX, "166 454 489 158 173 208"),
    "cifar10": _row(_APPENDIX, "250 413 430 209 265 236"),
    "cifar100": _row(_APPENDIX, "240 374 399 210 237 244"),
}

# AUROC of out-of-distribution detection: trained on -> shown -> method.
OOD: dict[str, dict[str, Printed]] = {
    "svhn": {
        "cifar10": _row(_APPENDIX, "0.75 0.43 0.21 0.76 0.97 0.94"),
        "cifar100": _row(_APPENDIX, "0.75 0.50 0.28 0.75 0.94 0.93"),
    },
    "cifar10": {
        "svhn": _row(_APPENDIX, "0.43 0.31 0.24 0.43 0.31 0.31"),
        "cifar100": _row(_APPENDIX, "0.54 0.56 0.51 0.53 0.53 0.55"),
    },
    "cifar100": {
        "svhn": _row(_APPENDIX, "0.48 0.43 0.50 0.47 0.32 0.38"),
        "cifar10": _row(_APPENDIX, "0.48 0.42 0.46 0.47 0.49 0.50"),
    },
}
