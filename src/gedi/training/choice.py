"""Choose the clusters that a run continues with: the best cluster head, or a start. No labels are involved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.metrics import pairwise_distances_argmin
from torch.nn import functional as F

from gedi.data.neighbours import neighbour_table
from gedi.nets import Prototypes
from gedi.nets.densities import evaluating
from gedi.objectives.term import constraint_of, uses_walks
from gedi.training.evidence import held_out_log_likelihood
from gedi.training.start import find_start, kmeans_from, neighbour_pairs, some_places, tightest_kmeans, walks_from

if TYPE_CHECKING:
    from gedi.training.engine import Engine

NEGLIGIBLE, MORE = 0.06, 1.5  # below this unexplained share, candidates with this many times the entropy are preferred
CLEAN = 0.01  # one kind of pairs that leaves no more than this unexplained is evidence enough
ROUNDING = 0.002  # unexplained shares that differ by less count as about the same
PER_NAT = 10.0  # a nat of held-out likelihood per value counts as much as a factor e^10 in the unexplained share
CLEARLY = 0.75  # if only neighbours judge, a cut of their graph must win by this factor: it optimises just that
NEARLY, HARDLY = 1.03, 0.002  # a head counts as good as the best if its objective is at most NEARLY x best + HARDLY
HEAD = "a head"  # the name of the best head among the candidates


@torch.no_grad()
def find_starts(run: Engine) -> None:
    """Find starts, and the walks that judge candidates, on the density of step 1, before step 2 changes its encoder.

    Without step 1 there is no density yet, so `compare` finds both. It also finds the starts of a constraint, which
    need a trained representation.
    """
    kinds = run.config.heads.starts
    if not kinds or not run.config.step1.iterations:
        return
    if uses_walks(run.config.objective):
        pairs = run.world.from_main(lambda: walked_pairs(run))
        run.state.pairs = torch.as_tensor(pairs, dtype=torch.long, device=run.x.device)
    if run.groups is None:
        found = run.world.from_main(lambda: np.stack([find_start(run, kind) for kind in kinds]))
        run.state.starts = torch.as_tensor(found, dtype=torch.long, device=run.x.device)


@torch.no_grad()
def choose_head(run: Engine) -> None:
    """Keep the best head, if any have trained."""
    state = run.state
    state.competing, state.judged = False, {}
    if not run.config.heads.random or state.objective is None:
        return
    heads = near_best(state.objective)
    best = run.world.from_main(lambda: most_typical(run, heads))
    for net in (state.net, state.average):
        net.clusters.chosen.fill_(best)
    state.candidates, state.winner = {HEAD: float(state.objective[best])}, HEAD
    state.objective = state.objective[best : best + 1]


def near_best(objective: torch.Tensor) -> list[int]:
    """The heads whose smoothed objective is the lowest, or nearly so; best first."""
    order = objective.argsort(stable=True).tolist()
    return [head for head in order if objective[head] <= NEARLY * objective[order[0]] + HARDLY]


def most_typical(run: Engine, heads: list[int]) -> int:
    """Of equally good heads, the one that agrees best with the others: good clusterings resemble each other.

    A wrong clustering may have as low an objective, but wrong heads are rarely wrong in the same way.
    """
    if len(heads) < 3:
        return heads[0]
    average = run.state.average
    places = torch.from_numpy(some_places(len(run.x), 0)).to(run.x.device).split(average.encoder.rows_at_once)
    scores = [average.clusters.all_scores(average.embed(run.x[some])) for some in places]
    labels = torch.cat(scores, dim=1)[heads].argmax(2).cpu().numpy()
    agreement = [sum(adjusted_rand_index(mine, theirs, run.n_clusters) for theirs in labels) for mine in labels]
    return heads[int(np.argmax(agreement))]


def adjusted_rand_index(mine: np.ndarray, theirs: np.ndarray, n_clusters: int) -> float:
    """Agreement of two clusterings, corrected for chance; a tenth of the time that scikit-learn's takes."""
    joint = np.bincount(mine * n_clusters + theirs, minlength=n_clusters**2).reshape(n_clusters, n_clusters)
    together, of_mine, of_theirs = (_pairs(counts) for counts in (joint, joint.sum(1), joint.sum(0)))
    chance, most = of_mine * of_theirs / _pairs(np.array([len(mine)])), (of_mine + of_theirs) / 2
    return 1.0 if most == chance else (together - chance) / (most - chance)


def _pairs(counts: np.ndarray) -> float:
    """Pairs within groups of these sizes."""
    return float((counts * (counts - 1) / 2).sum())


@torch.no_grad()
def choose_clusters(run: Engine) -> None:
    """End the competition: choose the best head by its smoothed objective, then compare it with the starts.

    If the head wins, it continues as it is. If a start wins, the head has to learn it.
    """
    choose_head(run)
    state = run.state
    if run.config.augment.learned and run.config.augment.neighbours:
        state.neighbours = run.world.from_main(lambda: learned_neighbours(run))
    if not run.config.heads.starts:
        return
    state.winner, labels, state.candidates = run.world.from_main(lambda: compare(run))
    state.starts = state.pairs = None
    if state.winner == HEAD:
        return
    state.objective = None
    state.labels = torch.as_tensor(labels, dtype=torch.long, device=run.x.device)
    counts = torch.bincount(state.labels, minlength=run.n_clusters).float() + 1.0
    state.marginals = counts / counts.sum()


def learned_neighbours(run: Engine) -> torch.Tensor:
    """Neighbours of every row in the embedding, where rows of other clusters are further away, [rows, k]."""
    average = run.state.average
    h = F.normalize(run.of_all(lambda x: run.apply(average.embed, x)))
    return neighbour_table(h, run.config.augment.neighbours).to(run.x.device)


def compare(run: Engine) -> tuple[str, np.ndarray, dict[str, float]]:
    """The best candidate, its labels of all rows, and the judgement of each candidate: 0 is best, 1 is chance."""
    candidates = {}
    if run.state.winner == HEAD:  # `choose_head` found one
        scores = run.state.average.scores
        candidates[HEAD] = run.of_all(lambda x: run.apply(scores, x).argmax(1)).cpu().numpy()
    for i, kind in enumerate(run.config.heads.starts):
        candidates[kind] = find_start(run, kind) if run.state.starts is None else run.state.starts[i].cpu().numpy()
    if len(candidates) == 1:
        return (*next(iter(candidates.items())), {})
    places, walks = some_places(len(run.x), 0), uses_walks(run.config.objective)
    pairs = [neighbour_pairs(run)]
    if walks:
        pairs += [walked_pairs(run) if run.state.pairs is None else run.state.pairs.cpu().numpy()]
    shares = {name: [unexplained(labels[places], each) for each in pairs] for name, labels in candidates.items()}
    judged = {name: share + broken(run, candidates[name]) for name, share in over_kinds(shares).items()}
    own = None if walks else "neighbours"
    compared = {name: share / CLEARLY if name == own else share for name, share in judged.items()}
    likely = dict.fromkeys(candidates, 0.0)
    if run.groups is None:  # otherwise the constraint says more
        x = run.directions[places]
        # Per column: summed over many, small errors of the Gaussians would outweigh the pairs.
        columns = x.shape[1] - sum(len(features) - 1 for features in run.words)
        likely = {name: held_out_log_likelihood(x, y[places], run.words) / columns for name, y in candidates.items()}
    # How much the clusters say about a row: little, if a cut only separates a few outliers.
    said = {name: entropy_of(np.bincount(labels[places]) / len(places)) for name, labels in candidates.items()}
    return (winner := best_of(compared, likely, said)), candidates[winner], judged


def best_of(unexplained: dict[str, float], likely: dict[str, float], said: dict[str, float]) -> str:
    """The candidate with the lowest unexplained share, unless another has a clearly higher held-out likelihood.

    Pairs detect valleys between clusters of any shape. Where clusters touch there is no valley, and pairs prefer any
    short border; there the held-out likelihood decides. A cut that only separates a few outliers leaves nothing
    unexplained, either, so candidates that leave hardly more and have a much higher entropy are preferred to it.
    """
    score = {name: np.log(unexplained[name] + ROUNDING) - PER_NAT * likely[name] for name in unexplained}
    winner = min(score, key=lambda name: score[name])
    if unexplained[winner] > NEGLIGIBLE:
        return winner
    richer = [name for name in score if unexplained[name] <= NEGLIGIBLE and said[name] > MORE * said[winner]]
    return min(richer or [winner], key=lambda name: score[name])


def walked_pairs(run: Engine) -> np.ndarray:
    """For the rows `some_places`, those among them nearest to the ends of their walks, [rows, walks]."""
    some, ends = walks_from(run, some_places(len(run.x), 0))
    return np.stack([pairwise_distances_argmin(end, some) for end in ends], axis=1)


def unexplained(labels: np.ndarray, pairs: np.ndarray) -> float:
    """H(y'|y) / H(y) for the labels of rows and of their partners ``pairs`` [rows, k]; see `unexplained_share`."""
    _, labels = np.unique(labels, return_inverse=True)
    joint = np.zeros((labels.max() + 1,) * 2)
    np.add.at(joint, (labels[:, None], labels[pairs]), 1.0)
    joint = (joint + joint.T) / (2 * pairs.size)
    alone, both = entropy_of(joint.sum(1)), entropy_of(joint)
    return (both - alone) / alone if alone > 0 else 1.0


def over_kinds(shares: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The unexplained shares of every candidate, by each kind of pair, in one number.

    It is their mean, unless one kind hardly ever crosses a border of the candidate. Pairs cross valleys that they are
    too coarse to see at random, as walks do between narrow rings, but do not separate wrong clusters cleanly. A kind by
    which all candidates are clean, such as walks that end where they began, says nothing.
    """
    telling = [max(kind) > NEGLIGIBLE for kind in zip(*shares.values(), strict=True)]
    clean = {
        name: [share for share, tells in zip(mine, telling, strict=True) if tells and share <= CLEAN]
        for name, mine in shares.items()
    }
    return {name: min(clean[name], default=float(np.mean(mine))) for name, mine in shares.items()}


def entropy_of(p: np.ndarray) -> float:
    """H(p) in nats."""
    return float(-(p[p > 0] * np.log(p[p > 0])).sum())


def broken(run: Engine, labels: np.ndarray) -> float:
    """The share of groups whose labels violate the constraint; 0 if there is none."""
    constraint = constraint_of(run.config.objective)
    if run.groups is None or constraint is None:
        return 0.0
    sure = F.one_hot(torch.as_tensor(labels)[run.groups], run.n_clusters).float().clamp(1e-6, 1.0).log()
    log_p = dict(zip(constraint.inputs, sure.log_softmax(-1).unbind(1), strict=True))
    return 1.0 - float(constraint.log_prob(log_p, check=False).exp().mean())


@torch.no_grad()
def place_clusters(run: Engine) -> None:
    """Set the clusters of methods that train none, by k-means of the embeddings."""
    z = run.of_all(run.state.net.embed)
    repeats = run.config.start.repeats
    centres = run.world.from_main(lambda: tightest_kmeans(z.cpu().numpy(), run.n_clusters, 0, n_init=repeats)[1])
    for net in (run.state.net, run.state.average):
        net.clusters.place(torch.as_tensor(centres).to(z))


@torch.no_grad()
def relabel(run: Engine) -> None:
    """Relabel all rows by k-means from the current prototypes, which then move to its centres (DeepCluster)."""
    net = run.state.net
    with evaluating(net):
        z = run.of_all(lambda x: run.apply(net.embed, x))
    assert isinstance(net.clusters, Prototypes)  # the settings of this term require them
    start = net.clusters.centres[0].cpu().numpy()
    labels, centres = run.world.from_main(lambda: kmeans_from(z.cpu().numpy(), start))
    run.state.labels = torch.as_tensor(labels, dtype=torch.long, device=z.device)
    net.clusters.place(F.normalize(torch.as_tensor(centres).to(z), dim=1))
