"""A trained model: what fit returns, what a RUN folder holds, what estimator and command line ask."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gedi.data import Scaler
from gedi.data.augment import Augment, row_augmentation
from gedi.data.pixels import usual_ends, values_of_bytes
from gedi.data.scaled_rows import Rows, joined, scaled
from gedi.errors import DataError
from gedi.nets import GediNet, MLPEncoder
from gedi.objectives import cluster_log_probs
from gedi.sampling import Box, sgld
from gedi.training.build import fill_from_data
from gedi.training.config import TrainingConfig, check, to_dict
from gedi.training.engine import Engine
from gedi.training.journal import Checkpoints, Log, Progress
from gedi.training.objective import temperature
from gedi.training.recipe import train
from gedi.training.terms.generative import settled
from gedi.training.world import World

CHUNK = 4096  # rows a forward pass at prediction time
IMAGE_CHUNK = 256  # images a forward and backward pass


@dataclass
class TrainedModel:
    """Networks, scaling and settings, in one place; all methods take and give the user's units."""

    net: GediNet
    scaler: Scaler
    config: TrainingConfig
    n_clusters: int
    seed: int
    chains: torch.Tensor  # the replay buffer at the end of training: where `sample` starts
    box: Box
    image_shape: tuple[int, ...] | None = None
    results: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Double precision: a row's answer must not depend on which rows share its batch, and BLAS rounds by batch size.
        # Convolutions would take twice the time for it: an image's answer is the same up to rounding.
        self._type = torch.float64 if self.config.net.encoder == "mlp" else torch.float32
        self._exact = copy.deepcopy(self.net).to(self._type).eval().requires_grad_(False)

    def __repr__(self) -> str:
        weights = sum(value.numel() for value in self.net.parameters())
        what = "x".join(map(str, self.image_shape)) if self.image_shape else f"{self.n_features} features"
        return f"TrainedModel({what}, {self.n_clusters} clusters, {weights:,} weights, seed {self.seed})"

    @property
    def n_features(self) -> int:
        return len(self.box.low)

    @property
    def columns(self) -> list[str] | None:
        """Names of the features, if the table that it was trained on had them; the results may come from a stranger."""
        names = self.results.get("columns")
        if not isinstance(names, list) or len(names) != self.n_features:
            return None
        return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else None

    @property
    def reading(self) -> dict[str, Any]:
        """How `gedi.data.load` is to read new data: columns by name, images in the size, channels and values known."""
        if self.image_shape is None or self.image_shape[2] not in (1, 3):
            return {"columns": self.columns, "drop": None}
        size, channels = self.image_shape[:2], self.image_shape[2]
        return {"drop": None, "size": size, "channels": channels, "as_values": self.values_of_bytes}

    def values_of_bytes(self, pixels: np.ndarray) -> np.ndarray:
        """Pixels 0 .. 255 in the values that the run was trained on."""
        return values_of_bytes(pixels, *self.black_and_white)

    @property
    def black_and_white(self) -> tuple[float, float]:
        """Which values the run's images have for black and white, by the values it was trained on."""
        margin = self.config.sampler.box_margin
        low, high = (self.box.low + margin).numpy()[None], (self.box.high - margin).numpy()[None]
        if self.config.scaling == "pixels":
            low, high = np.full_like(low, -1.0), np.full_like(high, 1.0)
        return usual_ends(float(self.scaler.inverse(low).min()), float(self.scaler.inverse(high).max()))

    @property
    def has_clusters(self) -> bool:
        """Purely generative methods (JEM) have no cluster head: every row is of cluster 0."""
        return self.config.embedding.iterations + self.config.step2.iterations > 0

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """p(y|x) (Eq. 3), [n, n_clusters]."""
        if not self.has_clusters:
            return np.eye(self.n_clusters)[np.zeros(len(x), dtype=int)]
        tau = temperature(self.config.objective)
        return self._chunks(x, lambda rows: cluster_log_probs(self._exact.scores(rows), tau).exp())

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Cluster of every row."""
        return self.predict_proba(x).argmax(1)

    def transform(self, x: np.ndarray) -> np.ndarray:
        """g(x), the embedding on the unit sphere."""
        return self._chunks(x, self._exact.embed)

    def represent(self, x: np.ndarray) -> np.ndarray:
        """enc(x), the representation under all heads: what a linear probe reads."""
        return self._chunks(x, self._exact.encoder)

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        """Unnormalised log density, higher is more typical."""
        return self._chunks(x, self._exact.log_density)

    def ood_score(self, x: np.ndarray) -> np.ndarray:
        """-||d log p / dx||, the paper's criterion (Appendix J), in scaled units; higher is more in-distribution."""
        return self._chunks(x, lambda rows: -self._exact.score(rows).norm(dim=1))

    def sample(self, n: int, *, seed: int = 0, steps: int = 100, fresh: bool = False) -> np.ndarray:
        """``n`` samples of p_Psi: its own draws, or the training's chains moved on by ``steps`` Langevin steps.

        With ``fresh``, chains start anew instead, uniformly in the box.
        """
        if n < 1:
            raise DataError(f"The number of samples must be at least 1, got {n}.")
        c = self.config.sampler
        noise = c.noise
        assert noise is not None
        generator = torch.Generator().manual_seed(seed)
        drawn = self.net.eval().density.sample(n, generator)
        if drawn is not None:
            return self.scaler.inverse(drawn.numpy(), dtype=np.float64)
        if fresh:
            starts = self.box.uniform(n, generator)
        else:
            starts = self.chains[torch.randint(len(self.chains), (n,), generator=generator)]

        def move(chains: torch.Tensor) -> torch.Tensor:
            return sgld(
                self.net.eval().log_density,
                chains,
                steps=steps,
                noise=noise,
                final_noise=c.final_noise,
                step=c.step,
                max_drift=math.inf if c.max_drift is None else c.max_drift,
                box=self.box,
                generator=generator,
            )[0]

        at_once = n if self.config.net.encoder == "mlp" else IMAGE_CHUNK
        moved = torch.cat([move(some) for some in starts.split(at_once)])
        return self.scaler.inverse(moved.numpy(), dtype=np.float64)

    def _chunks(self, x: np.ndarray, function: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
        size = CHUNK if self.config.net.encoder == "mlp" else IMAGE_CHUNK
        starts = range(0, len(x), size)
        blocks = (torch.from_numpy(self.scaler.transform(x[i : i + size])).to(self._type) for i in starts)
        with torch.no_grad():
            return joined((function(rows) for rows in blocks), len(x)).double().numpy()


@torch.no_grad()
def arrived_chains(net: GediNet, x: Rows, chains: torch.Tensor, burn_in: float | None) -> torch.Tensor:
    """The persistent chains that stand for p_Psi; those restarted last are still on their way."""
    if not net.density.needs_samples:  # the chains have not moved since they were made
        return net.eval().density.sample(len(chains), torch.Generator().manual_seed(0))  # type: ignore[return-value]
    if burn_in is None:
        return chains
    size = CHUNK if isinstance(net.encoder, MLPEncoder) else IMAGE_CHUNK
    data, sampled = (joined(map(net.eval().log_density, rows.split(size)), len(rows)) for rows in (x, chains))
    return chains[settled(data, sampled, burn_in)]


@dataclass(frozen=True)
class Prepared:
    """What a fit computes from its rows before anything is trained."""

    config: TrainingConfig  # with all lengths filled in
    scaler: Scaler
    rows: Rows  # scaled
    augment: Augment


def prepare(x: np.ndarray, config: TrainingConfig, image_shape: tuple[int, ...] | None = None) -> Prepared:
    """Scale checked rows [n, d], and look up their scale and neighbours."""
    scaler = Scaler().fit(x, mode=config.scaling)
    rows = scaled(x, scaler)
    config = fill_from_data(config, rows)
    box = (-1.0, 1.0) if config.scaling == "pixels" else None
    return Prepared(config, scaler, rows, row_augmentation(config.augment, rows, image_shape, box=box))


def fit_rows(
    x: np.ndarray,
    *,
    n_clusters: int,
    config: TrainingConfig,
    seed: int,
    image_shape: tuple[int, ...] | None = None,
    prepared: Prepared | None = None,
    groups: np.ndarray | None = None,
    world: World | None = None,
    on_progress: Callable[[Progress], None] | None = None,
    log: Log | None = None,
    checkpoints: Checkpoints | None = None,
    save_every: float = 30.0,
    should_stop: Callable[[], bool] = lambda: False,
) -> TrainedModel:
    """Train on checked rows [n, d] in the user's units; goes on from ``checkpoints`` if they hold any.

    ``prepared`` is what `prepare` gave for the same rows and settings, if somebody has paid for it already.
    ``groups`` [g, k] are the places of rows a constraint speaks of together; None: those that follow each other.
    """
    check(config)
    ready = prepare(x, config, image_shape) if prepared is None else prepared
    config, rows = ready.config, ready.rows
    engine = Engine(
        config,
        rows,
        n_clusters,
        seed=seed,
        augment=ready.augment,
        image_shape=image_shape,
        groups=groups,
        world=world,
        log=log,
        on_progress=on_progress,
        checkpoints=checkpoints,
        save_every=save_every,
        should_stop=should_stop,
    )
    train(engine)
    state = engine.state
    results = {
        "objective": state.kept.objective,
        "best_iteration": state.kept.iteration,
        "walk_crossing": engine.walk_crossing,
        "gradient_evaluations": state.gradient_evaluations,
        "seconds": engine.journal.elapsed(),
        "seed": seed,
        "n_clusters": n_clusters,
        "config": to_dict(config),
        "cost": engine.journal.seconds,
        "guard": engine.guard.events,
    }
    chains = engine.world.gather(state.buffer.chains).cpu()
    net, box = state.net.cpu(), Box(state.buffer.box.low.cpu(), state.buffer.box.high.cpu())
    return TrainedModel(
        net=net,
        scaler=ready.scaler,
        config=config,
        n_clusters=n_clusters,
        seed=seed,
        chains=arrived_chains(net, rows, chains, config.sampler.burn_in),
        box=box,
        image_shape=image_shape,
        results=results,
        history=engine.journal.history,
    )
