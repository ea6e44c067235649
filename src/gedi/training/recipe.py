"""Algorithm 2 of the paper: first the density, then everything together."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch.nn import functional as F

from gedi.training.engine import Batch, Engine
from gedi.training.grounding import ground
from gedi.training.objective import Objective, active
from gedi.training.start import Start, cut_graph, kmeans, neighbour_space
from gedi.training.terms.clustering import Clustering
from gedi.training.terms.symbolic import Symbolic
from gedi.training.views import Views

Losses = dict[str, torch.Tensor]


def train(run: Engine) -> None:
    """GEDI training (Alg. 2). Other methods are the same lines with other terms or iterations."""
    config, state = run.config, run.state

    # Step 1: fit the density, -CE(p, p_Psi).
    for batch in run.stage("step1", config.step1):
        run.descend(losses := density_losses(run, batch), weights(run, losses))

    # Step 2: maximise the whole of Eq. 10, from `n_init` starts; keep the lowest objective, never look at labels.
    for attempt in run.attempts():
        for batch in run.stage("embedding", config.embedding):
            run.descend(losses := embedding_losses(run, batch), weights(run, losses))
        if config.step2.iterations and run.is_before("step2"):
            set_start(run, seed=attempt)
        for batch in run.stage("step2", config.step2):
            run.descend(losses := all_losses(run, batch), weights(run, losses))
    if state.kept.weights:
        state.load_weights(state.kept.weights)
    state.net.eval()
    state.net.refresh_density(run.x)
    if config.embedding.iterations and not any(term.trains_prototypes for term in config.objective.values()):
        place_prototypes(run)


@torch.no_grad()
def place_prototypes(run: Engine) -> None:
    """Clusters for methods that train none: k-means of the embeddings, its centres as prototypes."""
    z = run.of_all(run.state.net.embed)
    found = run.world.from_main(lambda: kmeans(z.cpu().numpy(), run.n_clusters, 0, n_init=run.config.start.repeats)[1])
    directions = run.state.net.prototypes.directions
    directions[: len(found)] = torch.as_tensor(found).to(directions)


def density_losses(run: Engine, batch: Batch) -> Losses:
    """The generative term alone."""
    samples = run.samples(len(batch.x))
    return run.config.objective["generative"].losses(Views(run, batch, batch.x, batch.x, samples=samples))


def embedding_losses(run: Engine, batch: Batch) -> Losses:
    """The terms that need no clusters, on two augmented views."""
    terms = {family: term for family, term in due_terms(run).items() if not term.has_clusters}
    views = Views(run, batch, run.augment(batch), run.augment(batch))
    losses: Losses = {}
    for family in sorted(terms, key=_generative_last):
        if family == "generative":
            views.samples = run.samples(len(batch.x))
        losses |= terms[family].losses(views)
    return losses


def all_losses(run: Engine, batch: Batch) -> Losses:
    """All terms of Eq. 10 on a batch: x, its augmented view x' and the end of its walk x''."""
    terms = due_terms(run)
    walks = run.state.iteration % run.config.dam.every == 0
    walks &= any(term.weights().get("clustering_dam") for term in terms.values())
    walked = run.walk(batch.x)[0] if walks else None
    samples = run.samples(len(batch.x)) if "generative" in terms else None
    views = Views(run, batch, batch.x, run.augment(batch), walked, samples)
    losses: Losses = {}
    for family in sorted(terms, key=_generative_last):
        losses |= terms[family].losses(views)
    for term in terms.values():
        if isinstance(term, Clustering):
            losses |= term.anchored(views)
    return losses


def due_terms(run: Engine) -> Objective:
    """The terms that count in this iteration."""
    return {f: term for f, term in active(run.config.objective).items() if term.is_due(run.state.iteration)}


def _generative_last(family: str) -> tuple[bool, str]:
    """One order whatever the settings' order is: noise is drawn in it, and sums are taken in it."""
    return family == "generative", family


def weights(run: Engine, losses: Losses) -> dict[str, float]:
    """Weights of this iteration: those of the terms, with two that change.

    The anchor fades linearly to zero. The generative weight falls while the samples lag behind: their energy gap then
    tells of the sampler, not of the density, and following it is how energy-based training blows up.
    """
    config = run.config
    found: dict[str, float] = {}
    for term in config.objective.values():
        found |= term.weights()
    if "anchor" in found:
        gone = run.state.iteration / max(1.0, config.start.fade * config.step2.iterations)
        found["anchor"] *= max(0.0, 1.0 - gone)
    if config.sampler.max_gap is not None and "generative" in losses:
        lag = float(losses["generative"].detach()) / config.sampler.max_gap
        found["generative"] /= math.cosh(min(abs(lag), 20.0)) ** 2
    return found


def set_start(run: Engine, seed: int) -> None:
    """Labels that step 2 starts from, and the cluster sizes they imply."""
    state = run.state
    if "clustering" not in run.config.objective:  # nothing that would look at them
        return
    start = run.world.from_main(lambda: find_start(run, seed))
    if start is None:
        return
    run.walk_crossing = start.crossing
    state.start_labels = torch.as_tensor(start.labels, dtype=torch.long, device=run.x.device)
    if run.config.objective["clustering"].marginals == "start":
        counts = torch.bincount(state.start_labels, minlength=run.n_clusters).float() + 1.0
        state.marginals = counts / counts.sum()
    if run.config.start.heads and start.centres is not None:
        set_heads(run, start.centres)


@torch.no_grad()
def set_heads(run: Engine, centres: np.ndarray) -> None:
    """Let step 2 begin with the start's clusters: few iterations are not enough to learn many of them anew."""
    for net in (run.state.net, run.state.average):
        net.projector.load_state_dict(net.nf_projector.state_dict())
        directions = net.prototypes.directions
        directions[: len(centres)] = torch.as_tensor(centres).to(directions)


@torch.no_grad()
def find_start(run: Engine, seed: int) -> Start | None:
    """A cut of a graph, or k-means in a space that shows the clusters; with a constraint, its values for them."""
    c, grounds = run.config.start, run.groups is not None and run.config.start.ground > 0
    if c.kind == "none":
        return None
    if c.kind == "walks":
        everything = run.x[:]
        ends = [run.walk(everything, alone=True)[0].cpu().numpy() for _ in range(c.walks)]
        start = cut_graph(everything.cpu().numpy(), ends, run.n_clusters, nodes=c.nodes, seed=seed, fewest=c.fewest)
        return start._replace(labels=grounded(run, [start.labels])) if grounds else start
    z = start_space(run)
    if not grounds:
        labels, centres = kmeans(z, run.n_clusters, seed, n_init=c.repeats)
        return Start(labels, crossing=None, centres=centres if c.kind == "kmeans" else None)
    finer = max(run.n_clusters, min(c.nodes, len(z) // c.node_rows))
    several = (kmeans(z, finer, seed + i, n_init=c.repeats)[0] for i in range(c.tries))
    return Start(grounded(run, several), crossing=None)


def start_space(run: Engine) -> np.ndarray:
    """Where the start's k-means looks at the rows: in the graph of their neighbours, or as L_NF has shaped them."""
    if run.config.start.kind == "neighbours":
        return neighbour_space(run.x.to(torch.device("cpu")))
    average = run.state.average
    return F.normalize(run.of_all(lambda x: average.nf_projector(average.encoder(x)))).cpu().numpy()


def grounded(run: Engine, clusterings: Iterable[np.ndarray]) -> np.ndarray:
    """The constraint's values of the rows, in place of clusters whose numbers mean nothing.

    Of several clusterings, those of which it explains most are asked, the better half, and the mean is taken: namings
    that are right agree, and others err each in its own way.
    """
    assert run.groups is not None
    (term,) = (term for term in run.config.objective.values() if isinstance(term, Symbolic))
    found = [
        ground(
            torch.as_tensor(labels, dtype=torch.long),
            run.groups,
            term.constraint,
            restarts=run.config.start.ground,
            generator=torch.Generator().manual_seed(run.seed),
        )
        for labels in clusterings
    ]
    best = sorted(found, key=lambda grounding: grounding.gain, reverse=True)[: (len(found) + 1) // 2]
    return torch.stack([grounding.values for grounding in best]).mean(0).argmax(1).numpy()
