"""The values of a constraint as names of clusters: at the start of step 2, and once more at its end."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from gedi.objectives import cluster_log_probs
from gedi.training.engine import Engine
from gedi.training.grounding import Grounding, ground
from gedi.training.objective import temperature
from gedi.training.terms.symbolic import Symbolic


def grounds(run: Engine) -> bool:
    """Whether there is a constraint to take names from."""
    return run.groups is not None and run.config.start.ground > 0


def grounded(run: Engine, clusterings: Iterable[np.ndarray]) -> np.ndarray:
    """The constraint's values of the rows, in place of clusters whose numbers mean nothing.

    Of several clusterings, those of which it explains most are asked, the better half, and the mean is taken: namings
    that are right agree, and others err each in its own way.
    """
    found = [_ground(run, torch.as_tensor(labels, dtype=torch.long)) for labels in clusterings]
    best = sorted(found, key=lambda grounding: grounding.gain, reverse=True)[: (len(found) + 1) // 2]
    return torch.stack([grounding.values for grounding in best]).mean(0).argmax(1).numpy()


@torch.no_grad()
def rename_clusters(run: Engine) -> None:
    """Ask the constraint once more which cluster is which of its values, now that they are trained.

    The start's clusters are coarse, and where rows are few its names can be wrong throughout. Other names are taken
    only if the constraint is more probable under them.
    """
    net = run.state.net
    scores = torch.cat([net.scores(x) for x in run.blocks()])
    log_p = cluster_log_probs(scores, temperature(run.config.objective)).cpu()
    order = torch.as_tensor(run.world.from_main(lambda: _best_order(run, log_p)), device=scores.device)
    net.prototypes.directions.copy_(net.prototypes.directions[order])


def _best_order(run: Engine, log_p: torch.Tensor) -> list[int]:
    """The cluster that each value should be: as they are, or as EM names them if the rule is then more probable."""
    labels, k = log_p.argmax(1), run.n_clusters
    rows_of = torch.zeros(k, k, dtype=torch.float64).index_add_(0, labels, _ground(run, labels).values)
    order = linear_sum_assignment(rows_of.T.numpy(), maximize=True)[1].tolist()
    now, then = (_log_prob(run, log_p[:, columns]) for columns in (list(range(k)), order))
    return order if then > now else list(range(k))


def _log_prob(run: Engine, log_p: torch.Tensor) -> float:
    """The constraint's mean log-probability over all groups."""
    assert run.groups is not None
    constraint = _term(run).constraint
    by_variable = log_p[run.groups].unbind(1)
    return float(constraint.log_prob(dict(zip(constraint.inputs, by_variable, strict=True)), check=False).mean())


def _ground(run: Engine, labels: torch.Tensor) -> Grounding:
    assert run.groups is not None
    return ground(
        labels,
        run.groups,
        _term(run).constraint,
        restarts=run.config.start.ground,
        generator=torch.Generator().manual_seed(run.seed),
    )


def _term(run: Engine) -> Symbolic:
    (term,) = (term for term in run.config.objective.values() if isinstance(term, Symbolic))
    return term
