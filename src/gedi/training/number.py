"""Find the number of clusters, by how well halves of the rows agree on them, without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigvalsh
from scipy.special import logsumexp
from sklearn.metrics import adjusted_rand_score

from gedi.data import Scaler, TableRecipe
from gedi.data.neighbours import main_directions, nearest_neighbours
from gedi.data.table_rows import fill_gaps
from gedi.errors import ConfigError
from gedi.progress import Progress
from gedi.training.config import StartConfig, TrainingConfig
from gedi.training.evidence import best_mixture, explained
from gedi.training.start import NEIGHBOURS, Graph, gaussian_mixture, graph_of

ROWS_TRIED = 1_500  # if there are more, a random subset of this size is used
ROWS_EACH = 20  # rows that a cluster needs on average
EVERY = 10  # all numbers up to this are tried
MOST_TRIED = 45  # above it, up to this, the three with the largest gaps
HALVINGS = 3  # random splits into halves
PER_LOG = 0.07  # bonus for a number e times as large: merged clusters are stable, too
PER_GAP = 0.15  # bonus for a gap e times as large
# With categories: bonus for each nat by which clusters of one half explain a row of the other better.
BONUS_PER_NAT = 0.5
TRIES = 2  # with categories: runs of EM
FLOOR = 0.01  # eigenvalues closer to 1 than this count as about 1

STABLE, CLEAR = 0.6, 0.9  # lowest agreement of stable clusters, and of clear ones
TIE = 0.02  # with categories: a runner-up whose score is closer than this might as well be right
UNCLEAR = "no clear clusters"
DOING = "looking for the number of clusters"  # in progress lines

Report = Callable[[Progress], None]
Halves = list[tuple[tuple[np.ndarray, np.ndarray], list[Graph]]]  # per split, both halves and their graphs


class Evidence(NamedTuple):
    """The evidence for a number of clusters."""

    agreement: float  # between clusterings of halves (ARI; 1: perfect, 0: chance), for the better kind
    bonus: float  # from all other evidence

    def score(self, k: int) -> float:
        return self.agreement + PER_LOG * float(np.log(k)) + self.bonus


@dataclass(frozen=True)
class Number:
    """The number of clusters that was found, and why."""

    chosen: int
    runner_up: int | None
    sure: str
    agreement: float
    curve: dict[int, float]

    def plain(self) -> dict[str, Any]:
        """Ready for JSON."""
        curve = {str(k): round(score, 4) for k, score in sorted(self.curve.items())}
        told = {"chosen": self.chosen, "runner_up": self.runner_up, "sure": self.sure}
        return told | {"agreement": round(self.agreement, 4), "curve": curve}

    def in_words(self) -> str:
        """One sentence for the user."""
        second = "" if self.runner_up is None else f"; the runner-up is {self.runner_up}"
        halves = f"{self.agreement:.0%} agreement between two halves of the data"
        if self.sure == UNCLEAR:
            return f"found no clear clusters; using {self.chosen} ({halves}){second}"
        return f"found {self.chosen} clusters ({self.sure}: {halves}){second}"


def find_number(
    x: np.ndarray,
    config: TrainingConfig,
    seed: int,
    *,
    words: Sequence[Sequence[int]] = (),
    table: TableRecipe | None = None,
    scaler: Scaler | None = None,
    report: Report | None = None,
) -> Number:
    """The number of clusters of checked rows [n, d]; the same rows and seed give the same number.

    *Stability* (Lange et al., 2004) decides first: both halves of the rows are clustered, and the clusters are extended
    to all rows. Real clusters are found in both halves; others depend on which rows were drawn. ``words`` are the
    feature indices of every category: see `evidence_of_table` for what else decides with them, and `evidence_of_graph`
    without. ``table`` says which numbers stand for gaps. ``scaler`` is that of the rows, if it is known; ``report`` is
    told how far the search has come.
    """
    if "symbolic" in config.objective:
        raise ConfigError("A constraint's variables have a fixed number of values: give n_clusters instead of auto.")
    rng = np.random.default_rng(seed)
    some = np.sort(rng.choice(len(x), min(len(x), ROWS_TRIED), replace=False))
    scaler = scaler or Scaler().fit(x, mode=config.scaling, together=words)
    x = np.asarray(x[some])
    rows = scaler.transform(x) if table is None else fill_gaps(scaler.transform(x), table.gaps(x))
    if len(rows) < 2 * ROWS_EACH:
        return Number(min(2, len(rows)), None, UNCLEAR, 0.0, {})
    most = min(MOST_TRIED, len(rows) // ROWS_EACH)
    if words:
        return best_number(evidence_of_table(rows.astype(np.float64), words, min(EVERY, most), rng, report), TIE)
    return best_number(evidence_of_graph(main_directions(rows).astype(np.float64), most, rng, report))


def evidence_of_graph(
    rows: np.ndarray, most: int, rng: np.random.Generator, report: Report | None
) -> dict[int, Evidence]:
    """Cuts of the graph of neighbours and Gaussian mixtures of both halves; and the *eigengap* (von Luxburg, 2007).

    If k clusters are nearly separate in the graph of neighbours, k of its eigenvalues are near 1, and the next is
    smaller.
    """
    gaps, halves = eigengaps(rows, most), split_in_halves(rows, most, rng)
    many = sorted((k for k in gaps if k > EVERY), key=lambda k: -gaps[k])[:3]
    tried = [k for k in gaps if k <= EVERY or k in many]
    told = _told(tried, report)
    return {k: Evidence(agreement_of_halves(rows, halves, k), PER_GAP * float(np.log(gaps[k]))) for k in told}


def evidence_of_table(
    x: np.ndarray, words: Sequence[Sequence[int]], most: int, rng: np.random.Generator, report: Report | None
) -> dict[int, Evidence]:
    """Mixtures of Gaussians and frequencies of words, fitted to each half and judged by the *likelihood* of the other.

    Combinations of words look like clusters with wide gaps between them, to a graph and to Gaussians alike. In these
    mixtures the words of a cluster are independent, so a combination is only a cluster if several columns agree on it.
    A single cluster has no agreement to show, so it only wins if nothing explains the other half better.
    """
    rows, found = explained(x, words), {}
    halves = [rng.permutation(len(x)) % 2 == 0 for _ in range(HALVINGS)]
    for k in _told(range(1, most + 1), report):
        agreed, likely = [], []
        for half in halves:
            joints = [best_mixture(rows.at(some), x[some], k, tries=TRIES).log_joint(rows) for some in (half, ~half)]
            agreed.append(adjusted_rand_score(*(joint.argmax(1) for joint in joints)) if k > 1 else 0.0)
            likely += [
                logsumexp(joint[other], axis=1).mean() for joint, other in zip(joints, (~half, half), strict=True)
            ]
        found[k] = Evidence(float(np.mean(agreed)), BONUS_PER_NAT * float(np.mean(likely)))
    single = found.pop(1)
    return {k: Evidence(one.agreement, one.bonus - single.bonus) for k, one in found.items()}


def _told(numbers: Iterable[int], report: Report | None) -> Iterator[int]:
    """The numbers to try, one by one. Each takes longer than those before it, in proportion to its size."""
    tried = list(numbers)
    for i, k in enumerate(tried):
        if report is not None:
            report(Progress(DOING, sum(tried[:i]), sum(tried)))
        yield k


def best_number(found: dict[int, Evidence], margin: float = 0.0) -> Number:
    """The number with the best score; clusters that are unstable, or explain less than a single one, do not count."""
    curve = {k: evidence.score(k) for k, evidence in found.items()}
    ranked = sorted(curve, key=lambda k: -curve[k])
    stable = [k for k in ranked if found[k].agreement >= STABLE and found[k].bonus >= 0]
    chosen = stable[0] if stable else min(ranked)
    runner_up = next((k for k in [*stable, *ranked] if k != chosen), None) if stable else None
    close = runner_up is not None and curve[chosen] - curve[runner_up] < margin
    sure = UNCLEAR if not stable else "unsure" if close or found[chosen].agreement < CLEAR else "clear"
    return Number(chosen, runner_up, sure, found[chosen].agreement, curve)


def eigengaps(rows: np.ndarray, most: int) -> dict[int, float]:
    """For every number from 2 to ``most``, how many times further from 1 the next eigenvalue of the graph is."""
    n = len(rows)
    near = nearest_neighbours(rows, NEIGHBOURS).places
    edges = np.zeros((n, n))
    np.add.at(edges, (np.repeat(np.arange(n), near.shape[1]), near.ravel()), 1.0)
    edges += edges.T
    root = np.sqrt(edges.sum(1))
    # Not by Lanczos: separate components share the eigenvalue 1, which it finds only once.
    values = eigvalsh(edges / np.outer(root, root), subset_by_index=(n - most - 1, n - 1))
    away = np.maximum(1.0 - np.sort(values)[::-1], 0.0) + FLOOR
    return {k: float(away[k] / away[k - 1]) for k in range(2, most + 1)}


def agreement_of_halves(rows: np.ndarray, halves: Halves, k: int) -> float:
    """How well clusterings of halves agree on all rows, for the kind of clustering that agrees better."""
    cuts = [[graph.cut(k, 0).labels(rows) for graph in graphs] for _, graphs in halves]
    mixtures = [[gaussian_mixture(half, k, 0).predict(rows) for half in both] for both, _ in halves]
    return max(float(np.mean([adjusted_rand_score(*labels) for labels in kind])) for kind in (cuts, mixtures))


def split_in_halves(rows: np.ndarray, most: int, rng: np.random.Generator) -> Halves:
    """Both halves of the rows, and their graphs of neighbours, for several random splits."""
    found: Halves = []
    for _ in range(HALVINGS):
        half = rng.permutation(len(rows)) % 2 == 0
        both = (rows[half], rows[~half])
        found.append((both, [_graph(some, most) for some in both]))
    return found


def _graph(rows: np.ndarray, most: int) -> Graph:
    near = nearest_neighbours(rows, NEIGHBOURS).places
    return graph_of(
        rows, [rows[nearest] for nearest in near.T], most, nodes=StartConfig.nodes, seed=0, fewest=StartConfig.fewest
    )
