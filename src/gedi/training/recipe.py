"""Algorithm 2 of the paper: first the density, then everything together."""

from __future__ import annotations

from collections.abc import Callable

from gedi.objectives.generative import Generative, density_of
from gedi.objectives.term import Loss, Objective, active, trains_clusters, uses_walks
from gedi.training.choice import choose_clusters, choose_head, find_starts, place_clusters, relabel
from gedi.training.engine import Batch, Engine

Losses = dict[str, Loss]


def train(run: Engine, *, choose: Callable[[Engine], None] = choose_clusters) -> None:
    """GEDI training (Alg. 2). Other methods run the same code with other terms or iterations.

    ``choose`` ends the competition of candidates for the clusters.
    """
    config, state = run.config, run.state

    # Step 1: fit the density, -CE(p, p_Psi).
    for batch in run.stage("step1", config.step1, turn=config.step1.decay_from):
        run.descend(density_losses(run, batch))

    # Step 2: maximise all of Eq. 10. Candidates for the clusters compete; labels are never seen.
    if config.step2.iterations and run.is_before("step2"):
        run.journal.progress("looking for clusters to start from")
        find_starts(run)
    for batch in run.stage("step2", config.step2, turn=config.heads.choose):
        if state.competing and state.iteration >= config.heads.choose * state.length:
            choose(run)
        run.descend(all_losses(run, batch))
    if state.competing:
        choose_head(run)

    state.net.eval()
    state.net.refresh_density(run.x)
    if config.step2.iterations and not trains_clusters(config.objective):
        place_clusters(run)


def density_losses(run: Engine, batch: Batch) -> Losses:
    """The generative term alone."""
    density, samples = density_of(run.config.objective), run.samples(len(batch.x))
    return density.losses(run.views(batch, batch.x, batch.x, samples=samples)) if density else {}


def all_losses(run: Engine, batch: Batch) -> Losses:
    """All terms of Eq. 10 on a batch: two augmented views x, x' and the end of a walk x''."""
    terms, iteration = due_terms(run), run.state.iteration
    walks = iteration % run.config.dam.every == 0 and uses_walks(terms)
    walked = run.walk(batch.x) if walks else None
    samples = run.samples(len(batch.x)) if density_of(terms) else None
    if any(term.relabels(iteration) for term in terms.values()):
        relabel(run)
    views = run.views(batch, *run.augment(batch), walked, samples)
    losses: Losses = {}
    for term in terms.values():
        losses |= term.losses(views)
    return losses


def due_terms(run: Engine) -> Objective:
    """The terms of this iteration, the density last: the order in which noise is drawn and losses are summed."""
    due = {f: term for f, term in active(run.config.objective).items() if term.is_due(run.state.iteration)}
    return dict(sorted(due.items(), key=lambda entry: (entry[0] == Generative.family, entry[0])))
