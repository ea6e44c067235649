"""Objectives: pure functions of tensors, one file a family, each naming its equation."""

from gedi.objectives.clustering import cluster_log_probs, clustering_loss, sinkhorn, swapped_loss
from gedi.objectives.generative import contrastive_divergence
from gedi.objectives.negative_free import negative_free_loss
from gedi.objectives.symbolic import symbolic_loss

__all__ = [
    "cluster_log_probs",
    "clustering_loss",
    "contrastive_divergence",
    "negative_free_loss",
    "sinkhorn",
    "swapped_loss",
    "symbolic_loss",
]
