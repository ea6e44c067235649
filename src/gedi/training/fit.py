"""A fit: from rows to a trained model."""

from __future__ import annotations

import torch

from gedi.data.scaled_rows import Rows, joined
from gedi.nets import GediNet
from gedi.objectives.generative import density_of, settled
from gedi.sampling import Box
from gedi.training.build import Prepared
from gedi.training.config import TrainingConfig, to_dict
from gedi.training.encoder_registry import threads_for
from gedi.training.engine import Engine
from gedi.training.journal import Hooks
from gedi.training.model import TrainedModel
from gedi.training.moves import langevin_in_blocks
from gedi.training.recipe import train
from gedi.training.world import World

SETTLING = 20  # Langevin steps from a first draw to a sample


def fit_prepared(ready: Prepared, *, seed: int, world: World | None = None, hooks: Hooks | None = None) -> TrainedModel:
    """Train on prepared rows; resumes from the checkpoints of ``hooks``, if they hold any."""
    with threads_for(ready.config.net):
        run = Engine(ready, seed=seed, world=world, hooks=hooks)
        train(run)
        state, config = run.state, ready.config
        results = {
            "objective": None if state.objective is None else float(state.objective.min()),
            "candidates": state.candidates,
            "winner": state.winner,
            "stages": run.journal.stages,
            "gradient_evaluations": state.gradient_evaluations,
            "seconds": run.journal.elapsed(),
            "seed": seed,
            "n_clusters": ready.n_clusters,
            "trained_rows": len(ready.rows),
            "config": to_dict(config),
            "cost": run.journal.seconds,
            "guard": run.guard.events,
        }
        chains = run.world.gather(state.buffer.chains).cpu()
        net, box = state.net.cpu(), state.buffer.box.cpu()
        model = TrainedModel(
            net=net,
            scaler=ready.scaler,
            config=config,
            n_clusters=ready.n_clusters,
            seed=seed,
            chains=arrived_chains(net, ready.rows, chains, box, config),
            box=box,
            image_shape=ready.image_shape,
            table=ready.table,
            words=ready.words,
            typical=ready.typical,
            results=results,
            history=run.journal.history,
        )
        if model.has_density:
            model.set_typical_parts(ready.plain)
        return model


@torch.no_grad()
def arrived_chains(net: GediNet, x: Rows, chains: torch.Tensor, box: Box, config: TrainingConfig) -> torch.Tensor:
    """Chains that count as samples of p_Psi: those that have settled, or new ones if training used no chains."""
    trained, generator = density_of(config.objective), torch.Generator().manual_seed(0)
    if trained is not None and not trained.needs_samples:  # training never moved the chains
        density, n = net.eval().density, len(chains)
        drawn = density.sample(n, generator)
        if drawn is not None:
            return drawn
        starts = density.first_draws(n, generator)
        starts = x[torch.randint(len(x), (n,), generator=generator)] if starts is None else starts
        return langevin_in_blocks(net, starts, config.sampler, box, generator, steps=SETTLING)
    if config.sampler.burn_in is None:
        return chains
    size = net.encoder.rows_at_once
    data, sampled = (joined(map(net.eval().log_density, rows.split(size)), len(rows)) for rows in (x, chains))
    return chains[settled(data, sampled, config.sampler.burn_in)]
