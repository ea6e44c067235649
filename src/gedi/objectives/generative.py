"""Generative terms: CE(p, p_Psi), for any likelihood-based p_Psi (Eqs. 8 and 12)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import torch

from gedi.nets import ClusterDensity, ContrastiveDensity, Density, FlowDensity, GediNet, VaeDensity
from gedi.nets.densities import UnnormalisedDensity, evaluating
from gedi.nets.gedinet import energy_density
from gedi.nets.mixture import Mixture
from gedi.objectives.contrastive import Similarity, contrastive_log_density
from gedi.objectives.term import Loss, Objective, Term, active
from gedi.settings import Count, Layers, Natural, NotNegative, Positive

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows
    from gedi.nets.densities import Support
    from gedi.objectives.views import Views

MOST_NUMBERS = 2**17  # most values in a batch for score matching: the gradient of a gradient takes time and memory


def contrastive_divergence(log_p_data: torch.Tensor, log_p_samples: torch.Tensor) -> torch.Tensor:
    """Surrogate whose gradient is that of CE(p, p_Psi) per sample (Eq. 12).

    ``log_p_*`` are unnormalised log densities u^T enc(x) at data and at samples of p_Psi. The normaliser's gradient is
    minus the expectation over p_Psi; the paper's Eq. 12 prints that term without its minus sign.

    The value is the energy gap, not a likelihood: it is near zero for a well-fitted model.
    """
    return log_p_samples.mean() - log_p_data.mean()


def denoising_error(
    score: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, sigma: float, generator: torch.Generator
) -> torch.Tensor:
    """Denoising score matching (Vincent 2011), per dimension: the error of the score in predicting noise on the data.

    It is 1 for a flat density. The lowest possible value depends on the data, and is above 0.
    """
    noise = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    return (sigma * score(x + sigma * noise) + noise).square().mean()


def settled(data: torch.Tensor, sampled: torch.Tensor, burn_in: float | None) -> torch.Tensor:
    """Which chains count as samples of p_Psi, by their log p: not those just restarted where p_Psi is tiny.

    A few of these would dominate the mean, and the energy would grow without bound to push them away. If no chain has
    settled, all of them count.
    """
    if burn_in is None:
        return torch.ones_like(sampled, dtype=torch.bool)
    arrived = sampled > data.detach().min() - burn_in
    return arrived if bool(arrived.any()) else torch.ones_like(arrived)


def half_squared_slope(log_density: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """||d log p / dx||^2 / 2 at every row of ``x``, differentiable in the parameters."""
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        (slope,) = torch.autograd.grad(log_density(x).sum(), x, create_graph=True)
    return slope.flatten(1).square().sum(1) / 2


@dataclass
class Generative(Term, family="generative"):
    """Base of the generative terms: which model p_Psi is, and its loss CE(p, p_Psi)."""

    needs_samples: ClassVar[bool] = False  # it learns from samples of p_Psi, drawn by SGLD
    denoises: ClassVar[bool] = False  # it learns to tell noise from data, so it can remove that of its samples
    every: Natural = 1  # in step 2, update the density once in this many iterations; 0: train it in step 1 only
    reads_encoder: ClassVar[bool] = False  # the density is a function of enc(x)

    @abstractmethod
    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        """Build p_Psi, from the net's own parts or with networks of its own; ``support`` is the sampler's box."""

    def fit_base(self, x: Rows, blur: float) -> Mixture | None:
        """The part of p_Psi with a closed form, fitted to the data with noise of size ``blur`` before training."""
        return None

    def is_due(self, iteration: int) -> bool:
        return bool(self.every) and iteration % self.every == 0


def density_of(objective: Objective) -> Generative | None:
    """The term that is used and trains p_Psi; None if there is no density."""
    return cast("Generative | None", active(objective).get(Generative.family))


@dataclass
class ContrastiveDivergence(Generative):
    """For a log p that is known up to a constant: learns from samples of the model."""

    needs_samples: ClassVar[bool] = True
    size: NotNegative = 1e-3  # weight of the mean square of log p on data and samples: fixes its constant (paper: 0)
    gradient: NotNegative = 0.0  # weight of the mean of ||d log p / dx||^2 / 2 on data: keeps the energy smooth there

    def losses(self, views: Views) -> dict[str, Loss]:
        """Eq. 12 and the size of the energy, in one forward pass."""
        assert views.samples is not None
        shown = torch.cat([views.blurred(), views.samples])
        values = views.apply(lambda rows: self.log_density(views, rows), shown)
        data, sampled = (views.gather(part) for part in values.split(len(views.x)))
        gap = contrastive_divergence(data, sampled[settled(data, sampled, views.burn_in)])
        size = torch.cat([data, sampled]).square().mean()
        losses = {
            "generative": Loss(gap, self.weight / restraint(gap, views.max_gap)),
            "energy_size": Loss(size, self.size),
        }
        if self.gradient:
            slopes = half_squared_slope(lambda rows: views.apply(lambda x: self.log_density(views, x), rows), views.x)
            losses["energy_gradient"] = Loss(views.gather(slopes).mean(), self.gradient)
        return losses

    def log_density(self, views: Views, rows: torch.Tensor) -> torch.Tensor:
        """log p_Psi of data and samples; gradients reach the weights."""
        return views.net.log_density(rows)


def restraint(gap: torch.Tensor, max_gap: float | None) -> float:
    """The divisor of the density's weight: it grows as samples lag further behind the data.

    A large gap reflects the sampler, not the density, and following it makes energy-based training blow up.
    """
    if max_gap is None:
        return 1.0
    return math.cosh(min(abs(float(gap.detach()) / max_gap), 20.0)) ** 2


@dataclass
class Energy(ContrastiveDivergence):
    """CE(p, p_Psi) by contrastive divergence, with log p = u^T enc(x)."""

    kind: str = "energy"
    reads_encoder: ClassVar[bool] = True
    equation: ClassVar[str] = "Eqs. 8, 12"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return energy_density(net, support)


@dataclass
class Denoising(Generative):
    """log p = u^T enc(x) on top of a mixture of Gaussians, by denoising score matching.

    It learns to tell noise from data. Its optimum is that of CE(p, p_Psi) for data blurred by ``sampler.data_noise``
    (Vincent 2011), and it takes one backward pass through a gradient instead of chains of gradient steps.
    """

    kind: str = "denoising"
    denoises: ClassVar[bool] = True
    reads_encoder: ClassVar[bool] = True
    base: Natural = 50  # number of principal directions in the mixture of Gaussians; 0: no mixture
    components: Count = 8  # most components of the mixture; more would also explain small groups of outliers
    equation: ClassVar[str] = "Eq. 8, by its score"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return energy_density(net, support, self._new_base(n_features))

    def fit_base(self, x: Rows, blur: float) -> Mixture | None:
        if (base := self._new_base(x.shape[1])) is not None:
            base.fit(x, blur)
        return base

    def _new_base(self, n_features: int) -> Mixture | None:
        return Mixture(n_features, self.base, self.components) if self.base else None

    def losses(self, views: Views) -> dict[str, Loss]:
        density, x = views.net.density, self.some_rows(views)
        assert isinstance(density, UnnormalisedDensity)
        error = denoising_error(lambda x: density.live_score(x, views.apply), x, views.data_noise, views.noise)
        return {"denoising": Loss(views.gather(error.reshape(1)).mean(), self.weight)}

    def some_rows(self, views: Views) -> torch.Tensor:
        """As many rows of the batch as one update takes."""
        return views.x[: max(1, MOST_NUMBERS // (views.x.shape[1] * views.processes))]


@dataclass
class ContrastiveEnergy(ContrastiveDivergence):
    """The density a contrastive model implies, log p = log sum_j exp(sim(g(x), g(x_j)) / tau), as in EBCLR.

    While it learns, the x_j are the other views of the batch; everywhere else they are `bank` rows of the data.
    """

    kind: str = "contrastive"
    tau: Positive = 0.1  # temperature; log p spans at most 4 / tau where similarities are distances on the unit sphere
    similarity: Similarity = "negative_squared_distance"  # similarity of two embeddings
    bank: Count = 256  # number of data rows x_j in the sum
    equation: ClassVar[str] = "Eq. 9"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        weights = next(net.clusters.parameters())  # [heads, c, size of the embedding]
        bank = torch.zeros(self.bank, weights.shape[2], device=weights.device)
        marginal = partial(contrastive_log_density, tau=self.tau, similarity=self.similarity)
        return ContrastiveDensity(net.embed, bank, marginal=marginal, support=support)

    def log_density(self, views: Views, rows: torch.Tensor) -> torch.Tensor:
        net, density = views.net, views.net.density
        assert isinstance(density, ContrastiveDensity)
        with evaluating(net):
            return density.log_density_by(rows, views.gather(net.embed(views.inputs[1])))


@dataclass
class LogSumExp(ContrastiveDivergence):
    """JEM's density of a cluster head: log p = log sum_y exp(score_y(x) / tau)."""

    kind: str = "logsumexp"
    tau: Positive = 0.1  # temperature; log p spans at most 2 / tau
    equation: ClassVar[str] = "Sec. 3.1, JEM"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return ClusterDensity(net.scores, tau=self.tau, support=support)


@dataclass
class Likelihood(Generative):
    """A model with its own likelihood, or a bound on it, and its own sampler: it learns without SGLD."""

    hidden: Layers = (64, 64)  # hidden layers of its networks

    def losses(self, views: Views) -> dict[str, Loss]:
        with evaluating(views.net):
            loss = views.net.density.loss(views.blurred(), generator=views.noise)
        return {"negative_log_likelihood": Loss(views.gather(loss.reshape(1)).mean(), self.weight)}


@dataclass
class Flow(Likelihood):
    """A normalising flow: log p and its samples are exact. Needs zuko."""

    kind: str = "flow"
    flow: Literal["nsf", "maf"] = "nsf"  # rational-quadratic splines, or affine
    transforms: Count = 3  # number of transforms in sequence
    passes: Count | None = None  # passes for sampling; None: one per feature (autoregressive), 2: a coupling flow
    equation: ClassVar[str] = "Eq. 8"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return FlowDensity(
            n_features, kind=self.flow, transforms=self.transforms, hidden=self.hidden, passes=self.passes
        )


@dataclass
class Vae(Likelihood):
    """A variational autoencoder: its loss is a bound on log p, and its samples are exact."""

    kind: str = "vae"
    latent: Count = 8  # size of z
    importance: Count = 64  # number of noise draws in the estimate of log p
    equation: ClassVar[str] = "Eq. 8, by its bound"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return VaeDensity(n_features, latent=self.latent, hidden=self.hidden, importance=self.importance)
