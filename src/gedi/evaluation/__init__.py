"""How good a model is: clusters against labels, own data against foreign data."""

from gedi.evaluation.clustering import accuracy, ari, clustering_scores, nmi, nmi_batch64
from gedi.evaluation.ood import auroc, ood_scores

__all__ = ["accuracy", "ari", "auroc", "clustering_scores", "nmi", "nmi_batch64", "ood_scores"]
