"""How good a model is: clusters against labels, features, samples, and out-of-distribution scores."""

from gedi.evaluation.agreement import accuracy, ami, ari, clustering_scores, label_scores, nmi, nmi_batch64
from gedi.evaluation.features import knn_accuracy, linear_probe, sgd_probe
from gedi.evaluation.fid import feature_frechet, frechet_distance, inception_fid
from gedi.evaluation.ood import auroc, density_scores, foreign_rows, ood_scores, outlier_scores, tail_scores, typicality
from gedi.evaluation.small_net import Recogniser, sample_scores, train_recogniser
