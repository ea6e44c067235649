"""How good a model is: clusters against labels, features, samples, and out-of-distribution scores."""

from gedi.evaluation.agreement import accuracy, ami, ari, clustering_scores, label_scores, nmi, nmi_batch64
from gedi.evaluation.features import knn_accuracy, linear_probe, sgd_probe
from gedi.evaluation.fid import feature_frechet, frechet_distance, inception_fid
from gedi.evaluation.ood import auroc, density_scores, foreign_rows, ood_scores, outlier_scores, tail_scores, typicality
from gedi.evaluation.small_net import Recogniser, sample_scores, train_recogniser

__all__ = [
    "Recogniser",
    "accuracy",
    "ami",
    "ari",
    "auroc",
    "clustering_scores",
    "density_scores",
    "feature_frechet",
    "foreign_rows",
    "frechet_distance",
    "inception_fid",
    "knn_accuracy",
    "label_scores",
    "linear_probe",
    "nmi",
    "nmi_batch64",
    "ood_scores",
    "outlier_scores",
    "sample_scores",
    "sgd_probe",
    "tail_scores",
    "train_recogniser",
    "typicality",
]
