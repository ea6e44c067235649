"""Cluster-based terms: L_DI and where its assignments come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch
from torch.nn import functional as F

from gedi.errors import ConfigError
from gedi.nets.densities import evaluating
from gedi.objectives import cluster_log_probs, clustering_loss, kmeans, prior_clustering_loss, sinkhorn, swapped_loss
from gedi.training.objective import Term, positive

if TYPE_CHECKING:
    from gedi.training.engine import Engine
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
    frozen: int = 0  # first iterations of step 2 in which the prototypes do not move (SwAV: an epoch)
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
                pool = torch.cat([pool, state.net.prototypes(views.run.world.gather(state.queue))])
        q = sinkhorn(
            pool, epsilon=self.epsilon, iterations=self.iterations, marginals=state.marginals, firmness=self.firmness
        )
        return q[: len(views.scores)]

    def remember(self, views: Views) -> None:
        """Put the embeddings of x at the head of the queue; every process keeps those of its own rows."""
        if self.queue:
            state, world = views.run.state, views.run.world
            own = world.part(views.z[: views.n].detach())
            state.queue = torch.cat([own, state.queue])[: self.queue // world.size]

    def holds_prototypes(self, iteration: int) -> bool:
        return iteration < self.frozen

    def check(self) -> None:
        super().check()
        positive(epsilon=self.epsilon, iterations=self.iterations)
        if not 0 < self.firmness <= 1:
            raise ConfigError(f"firmness must lie in (0, 1], got {self.firmness}")
        for name in ("queue", "frozen"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")


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


@dataclass
class KMeans(Clustering):
    """L_DI with hard assignments: k-means of all embeddings every so often, its centres as prototypes (DeepCluster).

    There is no loss along walks, since k-means sees the rows alone, and no anchor: its labels take the start's place.
    """

    kind: str = "kmeans"
    dam: float = 0.0  # has to be 0
    anchor: float = 0.0  # has to be 0
    marginals: Literal["uniform", "start"] = "uniform"  # not asked for: k-means' clusters have the sizes they have
    every: int = 50  # iterations from one k-means to the next
    equation: ClassVar[str] = "Eqs. 3-4 with q by k-means"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        run = views.run
        if run.state.iteration % self.every == 0 or run.state.start_labels is None:
            self.assign(run)
        labels = run.state.start_labels
        assert labels is not None
        q = F.one_hot(labels[run.world.gather(views.batch.rows)], run.n_clusters).to(views.scores.dtype)
        s, s_aug = views.pair(views.scores)
        return {"clustering_augment": swapped_loss(s, s_aug, q, q, self.tau)}

    @torch.no_grad()
    def assign(self, run: Engine) -> None:
        """Labels for every row, by k-means from the present prototypes, which then move to its centres."""
        net = run.state.net
        with evaluating(net):
            z = run.of_all(lambda x: run.apply(net.embed, x))
        found = run.world.from_main(lambda: kmeans(z.cpu(), run.n_clusters, start=net.prototypes.centres.cpu()))
        run.state.start_labels = found.assignments.argmax(1).to(z.device)
        net.prototypes.directions.copy_(F.normalize(found.centres, dim=1))

    def anchored(self, views: Views) -> dict[str, torch.Tensor]:
        return {}

    def check(self) -> None:
        super().check()
        positive(every=self.every)
        if self.dam or self.anchor:
            raise ConfigError("dam and anchor must be 0 with assignments by k-means")
