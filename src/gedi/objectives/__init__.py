"""Objectives: pure functions of tensors, one file a family, each naming its equation."""

from gedi.objectives.bounds import elbo_ebm, infonce_bound, log_partition, nwj_bound, tuba_bound, uba_bound
from gedi.objectives.clustering import (
    cluster_log_probs,
    clustering_loss,
    kmeans,
    prior_clustering_loss,
    sinkhorn,
    swapped_loss,
)
from gedi.objectives.contrastive import (
    SIMILARITIES,
    contrastive_log_density,
    contrastive_log_likelihood,
    info_nce_loss,
    nt_xent_loss,
    protocpc_loss,
    teacher_marginal,
    teacher_probabilities,
)
from gedi.objectives.generative import contrastive_divergence
from gedi.objectives.negative_free import (
    barlow_twins_loss,
    corinfomax_loss,
    mec_loss,
    negative_free_loss,
    vicreg_loss,
    w_mse_loss,
)
from gedi.objectives.symbolic import symbolic_loss

__all__ = [
    "SIMILARITIES",
    "barlow_twins_loss",
    "cluster_log_probs",
    "clustering_loss",
    "contrastive_divergence",
    "contrastive_log_density",
    "contrastive_log_likelihood",
    "corinfomax_loss",
    "elbo_ebm",
    "info_nce_loss",
    "infonce_bound",
    "kmeans",
    "log_partition",
    "mec_loss",
    "negative_free_loss",
    "nt_xent_loss",
    "nwj_bound",
    "prior_clustering_loss",
    "protocpc_loss",
    "sinkhorn",
    "swapped_loss",
    "symbolic_loss",
    "teacher_marginal",
    "teacher_probabilities",
    "tuba_bound",
    "uba_bound",
    "vicreg_loss",
    "w_mse_loss",
]
