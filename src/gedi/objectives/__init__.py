"""Objectives: pure functions of tensors, one file a family, each naming its equation."""

from gedi.objectives.bounds import elbo_ebm, infonce_bound, log_partition, nwj_bound, tuba_bound, uba_bound
from gedi.objectives.clustering import cluster_log_probs, clustering_loss, sinkhorn, swapped_loss
from gedi.objectives.generative import contrastive_divergence
from gedi.objectives.negative_free import negative_free_loss

__all__ = [
    "cluster_log_probs",
    "clustering_loss",
    "contrastive_divergence",
    "elbo_ebm",
    "infonce_bound",
    "log_partition",
    "negative_free_loss",
    "nwj_bound",
    "sinkhorn",
    "swapped_loss",
    "tuba_bound",
    "uba_bound",
]
