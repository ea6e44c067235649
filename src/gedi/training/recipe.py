"""Algorithm 2 of the paper: first the density, then everything together."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from gedi.objectives import (
    cluster_log_probs,
    clustering_loss,
    contrastive_divergence,
    negative_free_loss,
    swapped_loss,
)
from gedi.training.engine import Batch, Engine
from gedi.training.start import Start, cut_graph, kmeans


def train(run: Engine) -> None:
    """GEDI training (Alg. 2). The baselines are the same lines with some weights or iterations at zero."""
    config, state = run.config, run.state

    # Step 1: fit the density, -CE(p, p_Psi).
    for batch in run.stage("step1", config.step1):
        samples = run.langevin(len(batch.x))
        terms = generative_terms(run, batch.x, samples)
        run.descend(terms, term_weights(run, terms))

    # Step 2: maximise the whole of Eq. 10, from `n_init` starts; keep the lowest objective, never look at labels.
    for attempt in run.attempts():
        for batch in run.stage("embedding", config.embedding):
            terms = embedding_terms(run, batch)
            run.descend(terms, term_weights(run, terms))
        if run.is_before("step2"):
            set_start(run, seed=attempt)
        for batch in run.stage("step2", config.step2):
            walked = run.walk(batch.x)[0] if config.weights.clustering_dam else None
            samples = run.langevin(len(batch.x)) if config.weights.generative else None
            terms = gedi_terms(run, batch, walked, samples)
            run.descend(terms, term_weights(run, terms))
    if state.kept.weights:
        state.load_weights(state.kept.weights)
    state.net.eval()


def embedding_terms(run: Engine, batch: Batch) -> dict[str, torch.Tensor]:
    """The terms of Eq. 10 that need no clusters."""
    h = run.encode(run.augment(batch), run.augment(batch))
    terms = {"negative_free": negative_free_term(run, h)}
    if run.config.weights.generative:
        terms |= generative_terms(run, batch.x, run.langevin(len(batch.x)))
    return terms


def gedi_terms(
    run: Engine, batch: Batch, walked: torch.Tensor | None, samples: torch.Tensor | None
) -> dict[str, torch.Tensor]:
    """The terms of Eq. 10 on one batch; the views share one pass through the encoder."""
    net, c, weights = run.state.net, run.config.clustering, run.config.weights
    views = [batch.x, run.augment(batch)] + ([walked] if walked is not None else [])
    h = run.encode(*views)
    n = len(h) // len(views)
    z = run.apply(net.projector, h)
    scores = net.prototypes(z)
    assigned = run.assign(scores)
    run.remember(z[:n])
    (s, s_aug, *s_walk), (q, q_aug, *q_walk) = scores.split(n), assigned.split(n)

    terms = {"clustering_augment": swapped_loss(s, s_aug, q, q_aug, c.tau)}
    if walked is not None:
        terms["clustering_dam"] = swapped_loss(s, s_walk[0], q, q_walk[0], c.tau)
    if weights.negative_free:
        terms["negative_free"] = negative_free_term(run, h[: 2 * n])
    if samples is not None:
        terms |= generative_terms(run, batch.x, samples)
    if run.state.start_labels is not None:
        labels = F.one_hot(run.state.start_labels[run.world.gather(batch.rows)], run.n_clusters).to(s.dtype)
        terms["anchor"] = clustering_loss(labels, cluster_log_probs(s, c.tau))
    return terms


def negative_free_term(run: Engine, h: torch.Tensor) -> torch.Tensor:
    """-L_NF (Eq. 7) of the representations of x and x', stacked; weighed by 1/batch as in the paper's table."""
    c = run.config.negative_free
    n = len(h) // 2
    z = run.apply(run.state.net.nf_projector, h)
    if c.per_sample:
        # The same term of z / sqrt(n), symmetric in the views and divided by the dimension: its size does not change
        # with batch or width, and neither does the meaning of its weight.
        z = z / math.sqrt(n)
        both = [
            negative_free_loss(a, b, beta=c.beta, invariance=c.invariance) for a, b in (z.split(n), z.split(n)[::-1])
        ]
        return (both[0] + both[1]) / (2 * z.shape[1])
    return negative_free_loss(z[:n], z[n:], beta=c.beta, invariance=c.invariance) / n


def generative_terms(run: Engine, x: torch.Tensor, samples: torch.Tensor) -> dict[str, torch.Tensor]:
    """CE(p, p_Psi) by contrastive divergence (Eq. 12), and the size of the energy, in one pass."""
    values = run.apply(run.state.net.log_density, torch.cat([run.with_data_noise(x), samples]))
    data, sampled = (run.world.gather(part) for part in values.split(len(x)))
    arrived = sampled[settled(data, sampled, run.config.sampler.burn_in)]
    size = torch.cat([data, sampled]).square().mean()
    return {"generative": contrastive_divergence(data, arrived), "energy_size": size}


def settled(data: torch.Tensor, sampled: torch.Tensor, burn_in: float | None) -> torch.Tensor:
    """Which chains stand for p_Psi: not those just restarted where p_Psi is next to nothing.

    Counted, a few of them outweigh all others in the mean, and the energy's walls grow without end to push them on.
    """
    if burn_in is None:
        return torch.ones_like(sampled, dtype=torch.bool)
    here = sampled > data.detach().min() - burn_in
    return here if bool(here.any()) else torch.ones_like(here)


def term_weights(run: Engine, terms: dict[str, torch.Tensor]) -> dict[str, float]:
    """Weights of this iteration: those of the config, with two that change.

    The anchor fades linearly to zero. The generative weight falls while the samples lag behind: their energy gap then
    tells of the sampler, not of the density, and following it is how energy-based training blows up.
    """
    config = run.config
    weights = dict(vars(config.weights))
    gone = run.state.iteration / max(1.0, config.start.fade * config.step2.iterations)
    weights["anchor"] *= max(0.0, 1.0 - gone)
    if config.sampler.max_gap is not None and "generative" in terms:
        lag = float(terms["generative"].detach()) / config.sampler.max_gap
        weights["generative"] /= math.cosh(min(abs(lag), 20.0)) ** 2
    return weights


def set_start(run: Engine, seed: int) -> None:
    """Labels that step 2 starts from, and the cluster sizes they imply."""
    state = run.state
    start = run.world.from_main(lambda: find_start(run, seed))
    if start is None:
        return
    run.walk_crossing = start.crossing
    state.start_labels = torch.as_tensor(start.labels, dtype=torch.long, device=run.x.device)
    if run.config.clustering.marginals == "start":
        counts = torch.bincount(state.start_labels, minlength=run.n_clusters).float() + 1.0
        state.marginals = counts / counts.sum()


@torch.no_grad()
def find_start(run: Engine, seed: int) -> Start | None:
    """A cut of the graph of walks, or k-means in the space L_NF has shaped."""
    c, average = run.config.start, run.state.average
    if c.kind == "none":
        return None
    if c.kind == "walks":
        ends = [run.walk(run.x)[0].cpu().numpy() for _ in range(c.walks)]
        return cut_graph(run.x.cpu().numpy(), ends, run.n_clusters, nodes=c.nodes, seed=seed, fewest=c.fewest)
    z = F.normalize(average.nf_projector(average.encoder(run.x))).cpu().numpy()
    return Start(kmeans(z, run.n_clusters, seed, n_init=c.repeats)[0], crossing=None)
