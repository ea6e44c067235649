"""Cluster-based terms: L_DI and where its assignments come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch.nn import functional as F

from gedi.errors import ConfigError
from gedi.objectives import cluster_log_probs, clustering_loss, prior_clustering_loss, sinkhorn, swapped_loss
from gedi.training.objective import Term, positive

if TYPE_CHECKING:
    from gedi.training.views import Views


@dataclass
class Clustering(Term):
    """What cluster-based terms share: L_DI(Theta; T), L_DI(Theta; p_Psi) and fidelity to the start."""

    dam: float = 1.0  # weight of the loss between x and the end of its walk; `weight` is that between x and x'
    anchor: float = 1.0  # weight of fidelity to the start's labels; fades to zero at `start.fade`
    tau: float = 0.1  # temperature of p(y|x)
    marginals: Literal["uniform", "start"] = "start"  # cluster sizes asked for: equal, or those of the start
    has_clusters: ClassVar[bool] = True
    trains_prototypes: ClassVar[bool] = True

    def names(self) -> tuple[str, ...]:
        return ("clustering_augment", "clustering_dam", "anchor")

    def weights(self) -> dict[str, float]:
        return {"clustering_augment": self.weight, "clustering_dam": self.dam, "anchor": self.anchor}

    def anchored(self, views: Views) -> dict[str, torch.Tensor]:
        """How far x is from its label at the start; nothing if there was no start."""
        run = views.run
        if run.state.start_labels is None:
            return {}
        labels = run.state.start_labels[run.world.gather(views.batch.rows)]
        one_hot = F.one_hot(labels, run.n_clusters).to(views.scores.dtype)
        return {"anchor": clustering_loss(one_hot, cluster_log_probs(views.scores_by_view[0], self.tau))}

    def check(self) -> None:
        super().check()
        positive(tau=self.tau)
        for name in ("dam", "anchor"):
            if not getattr(self, name) >= 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")


@dataclass
class Sinkhorn(Clustering):
    """L_DI with assignments by Sinkhorn-Knopp, as in SwAV."""

    kind: str = "sinkhorn"
    epsilon: float = 0.05  # entropy of the assignment
    iterations: int = 3  # of Sinkhorn-Knopp
    firmness: float = 0.8  # how strictly a batch must meet the marginals: 1 exactly (SwAV), towards 0 not at all
    queue: int = 0  # past embeddings that join the assignment, as SwAV's queue (0: none)
    equation: ClassVar[str] = "Eqs. 3-5"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        assigned = self.assign(views).split(views.n)
        self.remember(views)
        (s, s_aug, *s_walk), (q, q_aug, *q_walk) = views.scores_by_view, assigned
        losses = {"clustering_augment": swapped_loss(s, s_aug, q, q_aug, self.tau)}
        if s_walk:
            losses["clustering_dam"] = swapped_loss(s, s_walk[0], q, q_walk[0], self.tau)
        return losses

    def assign(self, views: Views) -> torch.Tensor:
        """q(y|x) of all views, with the queue's past embeddings beside them."""
        state, pool = views.run.state, views.scores
        if len(state.queue):
            with torch.no_grad():
                pool = torch.cat([pool, state.net.prototypes(state.queue)])
        q = sinkhorn(
            pool, epsilon=self.epsilon, iterations=self.iterations, marginals=state.marginals, firmness=self.firmness
        )
        return q[: len(views.scores)]

    def remember(self, views: Views) -> None:
        """Put the embeddings of x at the head of the queue."""
        if self.queue:
            state = views.run.state
            state.queue = torch.cat([views.z[: views.n].detach(), state.queue])[: self.queue]

    def check(self) -> None:
        super().check()
        positive(epsilon=self.epsilon, iterations=self.iterations)
        if not 0 < self.firmness <= 1:
            raise ConfigError(f"firmness must lie in (0, 1], got {self.firmness}")
        if self.queue < 0:
            raise ConfigError(f"queue must not be negative, got {self.queue}")


@dataclass
class Prior(Clustering):
    """L_DI with each view's prediction as the other's target, and a prior on cluster sizes in place of Sinkhorn."""

    kind: str = "prior"
    prior: float = 1.0  # weight of the cluster sizes against the views' agreement
    equation: ClassVar[str] = "Eqs. 3-4 with a prior on p(y)"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        log_p, log_p_aug, *log_p_walk = cluster_log_probs(views.scores, self.tau).split(views.n)
        marginals = views.run.state.marginals
        losses = {"clustering_augment": prior_clustering_loss(log_p, log_p_aug, prior=self.prior, marginals=marginals)}
        if log_p_walk:
            losses["clustering_dam"] = prior_clustering_loss(
                log_p, log_p_walk[0], prior=self.prior, marginals=marginals
            )
        return losses
