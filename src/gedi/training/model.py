"""A trained model: what a fit returns and a RUN folder holds; it predicts for new rows."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from gedi.data import Scaler, TableRecipe
from gedi.data.pictures import usual_ends, values_of_bytes
from gedi.data.scaled_rows import Rows, joined
from gedi.data.table_rows import fill_gaps
from gedi.errors import DataError, RunError
from gedi.files.reading import nested
from gedi.nets import GediNet
from gedi.objectives.clustering import cluster_log_probs
from gedi.objectives.generative import density_of
from gedi.objectives.term import temperature
from gedi.sampling import Box
from gedi.training.config import TrainingConfig
from gedi.training.encoder_registry import threads_for, width_of
from gedi.training.moves import langevin_in_blocks
from gedi.training.state import TRAINED

MOST_TYPICAL = 10_000  # rows that `TrainedModel.set_typical_parts` looks at


@dataclass
class TrainedModel:
    """Networks, scaling and settings in one place; all methods take and return the user's units."""

    net: GediNet  # put in evaluation mode; its weights take no gradients
    scaler: Scaler
    config: TrainingConfig
    n_clusters: int
    seed: int
    chains: torch.Tensor  # the replay buffer at the end of training: where `sample` starts
    box: Box
    image_shape: tuple[int, ...] | None = None
    table: TableRecipe | None = None  # how rows are made from a table's columns; None for arrays and images
    words: Sequence[Sequence[int]] | None = None  # feature indices of every category; None: not recorded (old runs)
    typical: torch.Tensor | None = None  # scaled rows that gaps of a table are filled from, if it had any
    typical_parts: torch.Tensor | None = None  # of `set_typical_parts`; None: no density, or an old run
    results: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.net.eval().requires_grad_(False)

    def __repr__(self) -> str:
        weights = sum(value.numel() for value in self.net.parameters())
        what = "x".join(map(str, self.image_shape)) if self.image_shape else f"{self.n_features} features"
        return f"TrainedModel({what}, {self.n_clusters} clusters, {weights:,} weights, seed {self.seed})"

    @property
    def n_features(self) -> int:
        return len(self.box.low)

    @property
    def n_embedding(self) -> int:
        """The number of columns that `transform` returns."""
        net = self.config.net
        return net.embedding if net.head != "linear" else width_of(net)

    @property
    def columns(self) -> list[str] | None:
        """Feature names, if the training table had them; checked, as the results file is untrusted."""
        if self.table is not None:
            return self.table.features
        names = self.results.get("columns")
        if not isinstance(names, list) or len(names) != self.n_features:
            return None
        return names if all(isinstance(name, str) for name in names) and len(set(names)) == len(names) else None

    @property
    def reading(self) -> dict[str, Any]:
        """How `gedi.data.load` must read new data: tables by recipe or name, images in the known size and values."""
        if self.table is not None:
            return {"table": self.table, "drop": None}
        if self.image_shape is None or self.image_shape[2] not in (1, 3):
            return {"columns": self.columns, "drop": None}
        size, channels = self.image_shape[:2], self.image_shape[2]
        return {"drop": None, "size": size, "channels": channels, "as_values": self.values_of_bytes}

    def values_of_bytes(self, pixels: np.ndarray) -> np.ndarray:
        """Pixels 0 .. 255, converted to the values that the run was trained on."""
        return values_of_bytes(pixels, *self.black_and_white)

    @property
    def black_and_white(self) -> tuple[float, float]:
        """The values of black and white in the run's images, inferred from the range it was trained on."""
        margin = self.config.sampler.box_margin
        low, high = (self.box.low + margin).numpy()[None], (self.box.high - margin).numpy()[None]
        if self.config.scaling == "pixels":
            low, high = np.full_like(low, -1.0), np.full_like(high, 1.0)
        return usual_ends(float(self.scaler.inverse(low).min()), float(self.scaler.inverse(high).max()))

    @property
    def iterations(self) -> int:
        """Iterations of both steps: those taken or, if the results (an untrusted file) do not say, their limits."""
        total = 0
        for name in TRAINED:
            taken = nested(self.results, "stages", name, "iterations")
            total += taken if type(taken) is int else getattr(self.config, name).iterations
        return total

    @property
    def has_clusters(self) -> bool:
        """Whether clusters were trained; purely generative methods (JEM) put every row in cluster 0."""
        return self.config.step2.iterations > 0

    @property
    def has_density(self) -> bool:
        """Whether log p was trained at all; without it, its scores and `sample` mean nothing."""
        return density_of(self.config.objective) is not None

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """p(y|x) (Eq. 3), [n, n_clusters]."""
        if not self.has_clusters:
            return np.eye(self.n_clusters)[np.zeros(len(x), dtype=int)]
        tau = temperature(self.config.objective)
        return self._chunks(x, lambda rows: cluster_log_probs(self.net.scores(rows).double(), tau).exp())

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Cluster of every row."""
        return self.predict_proba(x).argmax(1)

    def assign(self, x: np.ndarray) -> np.ndarray:
        """Cluster of every row, or -1 for rows that `set_outliers` leaves outside."""
        clusters = self.predict(x)
        return clusters if self.least_log_density is None else self.leave_out(clusters, self.score_samples(x))

    def leave_out(self, clusters: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """``clusters`` of rows, with -1 for rows that `set_outliers` leaves outside."""
        least = self.least_log_density
        return clusters if least is None else np.where(log_density < least, -1, clusters)

    @property
    def least_log_density(self) -> float | None:
        """Rows with a lower log p are in no cluster; None: all are. Checked, as the results file is untrusted."""
        least = nested(self.results, "outliers", "least_log_density")
        return least if self.has_density and type(least) is float and math.isfinite(least) else None

    def set_outliers(self, x: np.ndarray, share: float) -> None:
        """Leave this share of the rows x, those with the lowest log p, outside all clusters.

        New rows with a log p that low are then left outside, too.
        """
        least = float(np.quantile(self.score_samples(x), share))
        self.results["outliers"] = {"share": share, "least_log_density": least}

    def transform(self, x: np.ndarray) -> np.ndarray:
        """g(x), the embedding."""
        return self._chunks(x, self.net.embed)

    def represent(self, x: np.ndarray) -> np.ndarray:
        """enc(x), the representation under all heads: what a linear probe reads."""
        return self._chunks(x, self.net.encoder)

    def score_samples(self, x: np.ndarray) -> np.ndarray:
        """Unnormalised log density; higher is more likely."""
        return self._chunks(x, self.net.log_density)

    def log_density_parts(self, x: np.ndarray) -> np.ndarray:
        """The terms that add up to log p, [n, terms]: the energy and the mixture under it, or log p alone."""
        return self._chunks(x, self.net.density.parts)

    def typicality(self, x: np.ndarray) -> np.ndarray:
        """How near the terms of log p are to those of the training rows; higher is more typical, and 0 is the highest.

        Foreign images may be too likely to be data, and a term of log p that is too low may be offset by one that is
        too high. So each term counts by its distance from its median, in standard deviations.
        """
        if self.typical_parts is None:
            if not self.has_density:
                raise RunError("This model was trained without a density, so it has no typicality.")
            raise RunError("This model was saved by an older version of gedi, without typicality: fit it again.")
        median, deviation = self.typical_parts.numpy()
        return -np.linalg.norm((self.log_density_parts(x) - median) / deviation, axis=1)

    def set_typical_parts(self, rows: Rows) -> None:
        """Measure the median and the standard deviation of each term of log p, [2, terms], over scaled rows."""
        n = min(MOST_TYPICAL, len(rows))
        places = torch.arange(n) * len(rows) // n
        parts = self._blocks(lambda some: rows[places[some]], n, self.net.density.parts)
        parts = parts[np.isfinite(parts).all(axis=1)]
        found = np.stack([np.median(parts, axis=0), np.maximum(parts.std(axis=0), 1e-12)])
        self.typical_parts = torch.from_numpy(found)

    def ood_score(self, x: np.ndarray) -> np.ndarray:
        """-||d log p / dx||, the paper's criterion (Appendix J), in scaled units; higher is more in-distribution."""
        return self._chunks(x, lambda rows: -self.net.score(rows).norm(dim=1))

    def sample(self, n: int, *, seed: int = 0, steps: int = 100, fresh: bool = False) -> np.ndarray:
        """``n`` samples of p_Psi: exact draws if it has them, or chains after ``steps`` Langevin steps.

        Chains continue those of training. If training used none, or with ``fresh``, new ones start from the density's
        mixture; without a mixture, those of ``fresh`` start uniformly in the box.
        """
        if not isinstance(n, numbers.Integral) or n < 1:
            raise DataError(f"The number of samples must be a whole number of at least 1, got {n!r}.")
        generator = torch.Generator().manual_seed(seed)
        drawn = self.net.density.sample(n, generator)
        if drawn is not None:
            return self.scaler.inverse(drawn.numpy(), dtype=np.float64)
        return self.rows_of(self._move(self._starts(n, generator, fresh), steps, generator))

    def sample_paths(self, n: int, *, frames: int, seed: int = 0, steps: int = 100, fresh: bool = False) -> np.ndarray:
        """The paths of ``n`` chains, [n, frames, d]: where they start, and where they are at equal intervals."""
        if self.net.density.sample(1, torch.Generator()) is not None:
            raise DataError("This density draws samples directly, without chains, so there are no paths to show.")
        generator = torch.Generator().manual_seed(seed)
        states = [self._starts(n, generator, fresh)]
        ends = [round(steps * k / (frames - 1)) for k in range(frames)]
        for start, end in pairwise(ends):
            states.append(self._move(states[-1], end - start, generator))
        return np.stack([self.rows_of(state) for state in states], axis=1)

    def _starts(self, n: int, generator: torch.Generator, fresh: bool) -> torch.Tensor:
        trained = density_of(self.config.objective)
        if fresh or (trained is not None and not trained.needs_samples):
            drawn = self.net.density.first_draws(n, generator)
            if drawn is not None:
                return drawn
        if fresh:
            return self.box.uniform(n, generator)
        return self.chains[torch.randint(len(self.chains), (n,), generator=generator)]

    def _move(self, chains: torch.Tensor, steps: int, generator: torch.Generator) -> torch.Tensor:
        with threads_for(self.config.net):
            return langevin_in_blocks(self.net, chains, self.config.sampler, self.box, generator, steps=steps)

    @torch.no_grad()
    def rows_of(self, chains: torch.Tensor) -> np.ndarray:
        """Chains in the user's units.

        A density that learned from blurred data draws blurred samples. If it learned to tell the noise from the data,
        it can remove it: the mean of x given x + noise is x + noise + sigma^2 d log p / dx (Tweedie's formula). What
        then lies beyond the range of the data, such as a negative count, is moved to its end.
        """
        density, blur = density_of(self.config.objective), self.config.sampler.data_noise
        if density is not None and density.denoises and blur:
            with threads_for(self.config.net):
                parts = [some + blur**2 * self.net.score(some) for some in chains.split(self.net.encoder.rows_at_once)]
            margin = self.config.sampler.box_margin
            chains = Box(self.box.low + margin, self.box.high - margin).clamp(torch.cat(parts))
        return self.scaler.inverse(chains.numpy(), dtype=np.float64)

    def scaled(self, x: np.ndarray) -> np.ndarray:
        """Rows in the network's units; gaps of a table are filled from similar rows."""
        rows = self.scaler.transform(x)
        if self.table is None or self.typical is None:
            return rows
        return fill_gaps(rows, self.table.gaps(x), self.typical.numpy())

    def _chunks(self, x: np.ndarray, function: Callable[[torch.Tensor], torch.Tensor]) -> np.ndarray:
        """Apply a function to all rows, scaled, in blocks."""
        return self._blocks(lambda some: torch.from_numpy(self.scaled(x[some])), len(x), function)

    def _blocks(
        self, read: Callable[[slice], torch.Tensor], n: int, function: Callable[[torch.Tensor], torch.Tensor]
    ) -> np.ndarray:
        """Apply a function to n scaled rows, read in blocks.

        BLAS rounds differently for different batch sizes. With blocks of one size, the last one padded, a row's answer
        does not depend on the rows around it.
        """
        encoder = self.net.encoder
        size = encoder.rows_at_once

        def answer(start: int) -> torch.Tensor:
            rows = read(slice(start, start + size))
            missing = size - len(rows) if encoder.is_exact else 0
            return function(F.pad(rows, (0, 0, 0, missing)) if missing else rows)[: len(rows)]

        with torch.no_grad(), threads_for(self.config.net):
            return joined(map(answer, range(0, n, size)), n).double().numpy()
