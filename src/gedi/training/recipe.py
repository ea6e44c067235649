"""Algorithm 2 of the paper: first the density, then everything together."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F

from gedi.training.engine import Batch, Engine
from gedi.training.naming import grounded, grounds, rename_clusters
from gedi.training.objective import Objective, active
from gedi.training.start import Start, cut_graph, kmeans, neighbour_space
from gedi.training.terms.clustering import Clustering
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
    if state.start_labels is not None and grounds(run):
        rename_clusters(run)
    state.net.refresh_density(run.x)
    if config.embedding.iterations and not any(term.trains_prototypes for term in config.objective.values()):
        place_prototypes(run)


@torch.no_grad()
def place_prototypes(run: Engine) -> None:
    """Clusters for methods that train none: k-means of the embeddings, its centres as prototypes."""
    z = torch.cat([run.state.net.embed(x) for x in run.blocks()])
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


@torch.no_grad()
def find_start(run: Engine, seed: int) -> Start | None:
    """A cut of a graph, or k-means in a space that shows the clusters; with a constraint, its values for them."""
    c = run.config.start
    if c.kind == "none":
        return None
    if c.kind == "walks":
        ends = [run.walk(run.x, alone=True)[0].cpu().numpy() for _ in range(c.walks)]
        start = cut_graph(run.x.cpu().numpy(), ends, run.n_clusters, nodes=c.nodes, seed=seed, fewest=c.fewest)
        return start._replace(labels=grounded(run, [start.labels])) if grounds(run) else start
    z = start_space(run)
    if not grounds(run):
        return Start(kmeans(z, run.n_clusters, seed, n_init=c.repeats)[0], crossing=None)
    finer = max(run.n_clusters, min(c.nodes, len(z) // c.node_rows))
    several = (kmeans(z, finer, seed + i, n_init=c.repeats)[0] for i in range(c.tries))
    return Start(grounded(run, several), crossing=None)


def start_space(run: Engine) -> np.ndarray:
    """Where the start's k-means looks at the rows: in the graph of their neighbours, or as L_NF has shaped them."""
    if run.config.start.kind == "neighbours":
        return neighbour_space(run.x.cpu().numpy())
    average = run.state.average
    features = [average.nf_projector(average.encoder(x)) for x in run.blocks()]
    return F.normalize(torch.cat(features)).cpu().numpy()
