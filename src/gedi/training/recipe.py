"""Algorithm 2 of the paper: first the density, then everything together."""

from __future__ import annotations

from gedi.objectives.term import Loss, Objective, active
from gedi.training.engine import Batch, Engine
from gedi.training.start import place_prototypes, relabel, set_start

Losses = dict[str, Loss]


def train(run: Engine) -> None:
    """GEDI training (Alg. 2). Other methods are the same lines with other terms or iterations."""
    config, state = run.config, run.state

    # Step 1: fit the density, -CE(p, p_Psi).
    for batch in run.stage("step1", config.step1):
        run.descend(density_losses(run, batch))

    # Step 2: maximise the whole of Eq. 10, from `n_init` starts; keep the lowest objective, never look at labels.
    for attempt in run.attempts():
        for batch in run.stage("embedding", config.embedding):
            run.descend(embedding_losses(run, batch))
        if config.step2.iterations and run.is_before("step2"):
            set_start(run, seed=attempt)
        for batch in run.stage("step2", config.step2):
            run.descend(all_losses(run, batch))
    if state.kept.weights:
        state.load_weights(state.kept.weights)
    state.net.eval()
    state.net.refresh_density(run.x)
    if config.embedding.iterations and not any(term.trains_prototypes for term in config.objective.values()):
        place_prototypes(run)


def density_losses(run: Engine, batch: Batch) -> Losses:
    """The generative term alone."""
    samples = run.samples(len(batch.x))
    return run.config.objective["generative"].losses(run.views(batch, batch.x, batch.x, samples=samples))


def embedding_losses(run: Engine, batch: Batch) -> Losses:
    """The terms that need no clusters, on two augmented views."""
    terms = {family: term for family, term in due_terms(run).items() if not term.has_clusters}
    views = run.views(batch, run.augment(batch), run.augment(batch))
    losses: Losses = {}
    for family, term in terms.items():
        if family == "generative":
            views.samples = run.samples(len(batch.x))
        losses |= term.losses(views)
    return losses


def all_losses(run: Engine, batch: Batch) -> Losses:
    """All terms of Eq. 10 on a batch: x, its augmented view x' and the end of its walk x''."""
    terms, iteration = due_terms(run), run.state.iteration
    walks = iteration % run.config.dam.every == 0 and any(term.walks for term in terms.values())
    walked = run.walk(batch.x)[0] if walks else None
    samples = run.samples(len(batch.x)) if "generative" in terms else None
    augmented = run.augment(batch)
    if any(term.relabels(iteration) for term in terms.values()):
        relabel(run)
    views = run.views(batch, batch.x, augmented, walked, samples)
    losses: Losses = {}
    for term in terms.values():
        losses |= term.losses(views)
    for term in terms.values():
        losses |= term.anchored(views)
    run.remember(views)
    return losses


def due_terms(run: Engine) -> Objective:
    """The terms of this iteration, the density last: in this order noise is drawn, and sums are taken."""
    due = {f: term for f, term in active(run.config.objective).items() if term.is_due(run.state.iteration)}
    return dict(sorted(due.items(), key=lambda entry: (entry[0] == "generative", entry[0])))
