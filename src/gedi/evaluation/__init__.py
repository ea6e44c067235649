"""How good a model is: clusters against labels, features, samples, and out-of-distribution scores."""

from gedi.evaluation.agreement import (
    accuracy,
    ami,
    ari,
    clustering_scores,
    knn_accuracy,
    label_scores,
    linear_probe,
    nmi,
    nmi_batch64,
    sgd_probe,
)
from gedi.evaluation.ood import auroc, density_scores, foreign_rows, ood_scores, outlier_scores, tail_scores
from gedi.evaluation.samples import (
    Recogniser,
    feature_frechet,
    frechet_distance,
    inception_fid,
    sample_scores,
    train_recogniser,
)
