"""How good a model is: clusters against labels, features, samples, own data against foreign data."""

from gedi.evaluation.clustering import accuracy, ari, clustering_scores, nmi, nmi_batch64
from gedi.evaluation.fid import feature_frechet, frechet_distance, inception_fid
from gedi.evaluation.knn import knn_accuracy
from gedi.evaluation.linear_probe import linear_probe
from gedi.evaluation.ood import auroc, gradient_score, ood_auroc, ood_scores

__all__ = [
    "accuracy",
    "ari",
    "auroc",
    "clustering_scores",
    "feature_frechet",
    "frechet_distance",
    "gradient_score",
    "inception_fid",
    "knn_accuracy",
    "linear_probe",
    "nmi",
    "nmi_batch64",
    "ood_auroc",
    "ood_scores",
]
