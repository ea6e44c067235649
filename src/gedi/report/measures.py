"""Everything measured without labels, for the verdict, the tables and the comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from scipy.stats import entropy

from gedi.data.table_rows import categories
from gedi.evaluation import auroc, foreign_rows
from gedi.files.reading import mapping, shown
from gedi.report.gaps import MeasuredClusters, compare_rivals
from gedi.report.look import finite_number
from gedi.training.model import TrainedModel
from gedi.training.moves import walk

MOST_CANDIDATES = 20  # shown
UNSURE = 0.75  # a row whose best cluster has a lower probability lies between clusters
LATE = 0.25  # the last share of the history, which shows how training ended
BEYOND = 0.1  # a sample is outside the data if a column exceeds the data's range by this share of the range


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model says about rows; each answer is computed when it is first used."""

    model: TrainedModel
    rows: np.ndarray

    @cached_property
    def scaled(self) -> np.ndarray:
        """The rows in the network's units, with their gaps filled."""
        return self.model.scaled(self.rows)

    @cached_property
    def probability(self) -> np.ndarray:
        """[n, clusters]."""
        return self.model.predict_proba(self.rows)

    @cached_property
    def embedding(self) -> np.ndarray:
        """[n, h]."""
        return self.model.transform(self.rows)

    @cached_property
    def log_density(self) -> np.ndarray:
        return self.model.score_samples(self.rows)

    @cached_property
    def ood_score(self) -> np.ndarray:
        return self.model.ood_score(self.rows)

    @cached_property
    def cluster(self) -> np.ndarray:
        return self.probability.argmax(1)

    @cached_property
    def confidence(self) -> np.ndarray:
        return self.probability.max(1)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows per cluster, [clusters]."""
        return np.bincount(self.cluster, minlength=self.probability.shape[1])

    @cached_property
    def foreign(self) -> dict[str, Answers]:
        """Answers for rows that are not data, made from these rows."""
        return {name: Answers(self.model, rows) for name, rows in foreign_rows(self.rows).items()}

    @cached_property
    def on_map(self) -> np.ndarray:
        """Where the rows are on a map, [n, 2]: rows of two features as they are, others along two main directions."""
        return self.rows if self.model.n_features == 2 else two_directions(self.embedding)

    def typical(self, k: int, most: int) -> np.ndarray:
        """The most typical rows of a cluster: the highest log p in its more certain half.

        Without a density, the rows with the highest probability.
        """
        mine = np.flatnonzero(self.cluster == k)
        certain = self.confidence[mine]
        surer = mine[certain >= np.median(certain)] if len(mine) else mine
        score = self.log_density if self.model.has_density else self.confidence
        return surer[np.argsort(-score[surer], kind="stable")[:most]]


@dataclass(frozen=True)
class Measures:
    """All measures of a run; None for anything that it does not have or that could not be measured."""

    n_clusters: int = 1
    has_clusters: bool = False
    has_density: bool = False
    has_images: bool = False
    iterations: int | None = None  # of the longest stage, as planned
    diverged: str | None = None
    rollbacks: int = 0
    warnings: list[tuple[str, str]] = field(default_factory=list)  # of the guard: what it saw, and the remedy
    sizes: list[int] = field(default_factory=list)  # rows per cluster
    entropy: float | None = None  # of the cluster sizes; 1 if they are equal
    confidence: float | None = None  # mean probability of a row's own cluster
    unsure: float | None = None  # share of rows below `UNSURE`
    keeps_noise: float | None = None  # share of rows that stay in their cluster under a little noise
    keeps_walk: float | None = None  # ... at the end of a DAM walk
    own: MeasuredClusters | None = None  # the clusters of the rows shown, and whether gaps set them apart
    rivals: dict[str, MeasuredClusters] = field(default_factory=dict)  # other clusterings of these rows
    effective_rank: float | None = None  # number of directions that the embedding uses
    spread: float | None = None  # 0: all rows are embedded at one point
    dimensions: int | None = None  # of the embedding
    noise_auroc: float | None = None  # probability that log p is higher for a row than for noise
    shuffled_auroc: float | None = None  # ... than for a row of shuffled columns
    sample_test: float | None = None  # how reliably nearest neighbours tell samples from rows; 0.5 is chance
    outside: float | None = None  # share of samples outside the range of the data
    energy_gap: float | None = None  # mean |log p of samples - log p of data| late in training
    energy_spread: float | None = None  # standard deviation of log p over the data
    candidates: dict[str, float] = field(default_factory=dict)  # clusterings that competed, and their scores
    winner: str | None = None  # the candidate that the clusters come from

    @property
    def empty(self) -> int:
        return sum(size == 0 for size in self.sizes)

    @property
    def ranking(self) -> list[tuple[str, float]]:
        """The candidates, best first; those that are equally good stay in their order."""
        return sorted(self.candidates.items(), key=lambda item: item[1])

    @property
    def unexplained(self) -> float | None:
        """The share of the clusters' entropy that neighbours and walks leave unexplained in the winner.

        None for a head without rivals, which was judged only by its own loss.
        """
        return None if self.winner is None or len(self.candidates) == 1 else self.candidates[self.winner]

    @property
    def best_rival(self) -> tuple[str, MeasuredClusters] | None:
        """The rival whose clusters are set apart best; None if there is none to compare with."""
        known = [(rival.crowding, name) for name, rival in self.rivals.items() if rival.crowding is not None]
        return (name := min(known)[1], self.rivals[name]) if known else None

    @property
    def crowding(self) -> float | None:
        return None if self.own is None else self.own.crowding

    @property
    def largest_share(self) -> float | None:
        return max(self.sizes) / sum(self.sizes) if self.sizes else None


def measure(
    model: TrainedModel | None,
    answers: Answers | None,
    samples: np.ndarray | None,
    results: dict[str, Any],
    history: list[dict[str, Any]],
) -> Measures:
    """All measures of a run; those that need rows are None without them."""
    events = guard_events(results)
    told = {
        "rollbacks": sum(str(event.get("action", "")).startswith("rolled back") for event in events),
        "warnings": [(f"{e.get('seen')}.", str(e.get("remedy"))) for e in events if e.get("action") == "warned"],
        "diverged": str(results["diverged"]) if "diverged" in results else None,
        "energy_gap": late_gap(history),
        "candidates": (compared := candidates(results)),
        "winner": winner if (winner := shown(str(results.get("winner")), 60)) in compared else None,
    }
    if model is None:
        return Measures(**told)
    told |= {
        "n_clusters": model.n_clusters,
        "has_clusters": model.has_clusters and model.n_clusters > 1,
        "has_density": model.has_density,
        "has_images": model.image_shape is not None,
        "iterations": max(model.config.step1.iterations, model.config.step2.iterations),
    }
    if answers is None:
        return Measures(**told)
    told |= embedding_measures(answers.embedding) if model.has_clusters else {}
    if told["has_clusters"]:
        images, words = model.image_shape is not None, model.words
        if words is None:
            words = categories(answers.rows, model.table, images=images)
        rivals = compare_rivals(answers.scaled, answers.cluster, model.n_clusters, images=images, words=words)
        told["own"], told["rivals"] = rivals
        told |= {"sizes": answers.sizes.tolist(), "entropy": size_entropy(answers.sizes)}
        told["confidence"] = float(answers.confidence.mean())
        told["unsure"] = float((answers.confidence < UNSURE).mean())
        told |= kept_clusters(answers)
    if model.has_density:
        told["energy_spread"] = float(answers.log_density.std())
        told["noise_auroc"] = auroc(answers.log_density, answers.foreign["uniform noise"].log_density)
        if model.n_features > 1:
            told["shuffled_auroc"] = auroc(answers.log_density, answers.foreign["shuffled columns"].log_density)
        if samples is not None:
            drawn = model.scaler.transform(samples if model.table is None else model.table.nearest_words(samples))
            told["sample_test"] = two_sample_test(answers.scaled, drawn)
            told["outside"] = outside_share(answers.scaled, drawn)
    return Measures(**told)


def spread_evenly(count: int, most: int) -> np.ndarray:
    """Indices of at most ``most`` of ``count`` rows, evenly spaced: the same ones every time."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(int)


def guard_events(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The guard's events, from an untrusted file."""
    events = results.get("guard")
    return [event for event in events if isinstance(event, dict)] if isinstance(events, list) else []


def candidates(results: dict[str, Any]) -> dict[str, float]:
    """The clusterings that competed and their scores, from an untrusted file."""
    found = list(mapping(results, "candidates").items())[:MOST_CANDIDATES]
    return {shown(str(name), 60): judged for name, value in found if (judged := finite_number(value)) is not None}


def size_entropy(sizes: np.ndarray) -> float:
    """Entropy of the cluster sizes, divided by that of equal sizes.

    >>> size_entropy(np.array([5, 5]))
    1.0
    """
    return float(entropy(sizes)) / math.log(max(2, len(sizes)))


def embedding_measures(embedding: np.ndarray) -> dict[str, Any]:
    """How many directions the embedding uses, and how far it is from a single point; both are independent of scale."""
    size = float((embedding**2).sum(1).mean())
    return {
        "effective_rank": effective_rank(spectrum(embedding)),
        "spread": float(embedding.var(0).sum()) / size if size > 0 else 0.0,
        "dimensions": embedding.shape[1],
    }


def spectrum(embedding: np.ndarray) -> np.ndarray:
    """Singular values of the centred embedding, as shares of their sum, largest first."""
    values = np.linalg.svd(embedding - embedding.mean(0), compute_uv=False)
    return values / values.sum() if values.sum() > 0 else values


def two_directions(embedding: np.ndarray) -> np.ndarray:
    """The embedding along its two main directions (PCA), with signs fixed so that the picture never flips."""
    from sklearn.utils.extmath import svd_flip

    centred = embedding - embedding.mean(0)
    left, _, directions = np.linalg.svd(centred, full_matrices=False)
    _, directions = svd_flip(left, directions, u_based_decision=False)
    points = centred @ directions[:2].T
    return np.pad(points, ((0, 0), (0, 2 - points.shape[1])))


def effective_rank(shares: np.ndarray) -> float:
    """exp of the entropy of the singular values (Roy and Vetterli 2007): k equal ones give k."""
    return math.exp(entropy(shares)) if shares.any() else 1.0


def kept_clusters(answers: Answers) -> dict[str, Any]:
    """Share of rows that keep their cluster when moved a little: by noise, and by a walk along the density."""
    model = answers.model
    scaled = torch.from_numpy(answers.scaled)
    generator = torch.Generator().manual_seed(0)
    noise = model.config.augment.noise or 0.0
    moved = {"keeps_noise": scaled + noise * torch.randn(scaled.shape, generator=generator)}
    if can_walk(model):
        moved["keeps_walk"], _ = walk(model.net, scaled, model.config.dam, generator)
    return {
        name: float((model.predict(model.scaler.inverse(x.numpy(), dtype=np.float64)) == answers.cluster).mean())
        for name, x in moved.items()
    }


def can_walk(model: TrainedModel) -> bool:
    """Whether DAM walks are possible: they need a density, steps and a radius."""
    return bool(model.has_density and model.config.dam.steps and model.config.dam.radius)


def walk_paths(model: TrainedModel, x: np.ndarray, *, n: int, seed: int = 0) -> np.ndarray:
    """DAM walks from ``n`` of the points, [n, T + 1, d], in the user's units."""
    rows = np.random.default_rng(seed).choice(len(x), n, replace=False)
    start, generator = torch.from_numpy(model.scaled(x[rows])), torch.Generator().manual_seed(seed)
    _, about = walk(model.net, start, model.config.dam, generator, keep_path=True)
    assert about.path is not None
    return np.stack([model.scaler.inverse(p.numpy(), dtype=np.float64) for p in about.path.unbind(1)], axis=1)


def two_sample_test(rows: np.ndarray, samples: np.ndarray) -> float:
    """How reliably nearest neighbours tell samples from rows: 0.5 is chance, 1 is always.

    If the two are alike, half of the rows and half of the samples have a nearest neighbour of the other kind. Blurred
    samples are nearest to rows, and copies are nearest to the row they copy. Both show up because rows and samples are
    counted separately.
    """
    from sklearn.neighbors import NearestNeighbors

    count = min(len(rows), len(samples))
    if count < 2:
        return math.nan
    both = np.concatenate([rows[spread_evenly(len(rows), count)], samples[:count]])
    kind = np.repeat([0, 1], count)
    nearest = NearestNeighbors(n_neighbors=1).fit(both).kneighbors(return_distance=False)[:, 0]
    own = kind[nearest] == kind
    return float(0.5 + np.mean([abs(own[kind == k].mean() - 0.5) for k in (0, 1)]))


def outside_share(rows: np.ndarray, samples: np.ndarray) -> float:
    """Share of samples with a column clearly beyond the range of the data."""
    low, high = rows.min(0), rows.max(0)
    # In columns that hardly vary, such as dark image corners, a little noise is not outside the data.
    margin = BEYOND * np.maximum(high - low, np.median(high - low))
    return float(((samples < low - margin) | (samples > high + margin)).any(1).mean())


def late_gap(history: list[dict[str, Any]]) -> float | None:
    """Mean absolute energy gap at the end of training."""
    gaps = [abs(value) for line in history if (value := finite_number(line.get("generative"))) is not None]
    late = gaps[-max(1, math.ceil(LATE * len(gaps))) :] if gaps else []
    return float(np.mean(late)) if late else None
