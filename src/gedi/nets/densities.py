"""The interface of all models of p_Psi(x) (Eq. 8 takes any likelihood-based one), and the energy-based models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from gedi.nets.mixture import Mixture

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows

Function = Callable[[torch.Tensor], torch.Tensor]
Support = tuple[torch.Tensor, torch.Tensor]  # lowest and highest corner of the box a density was learned in
WALL = 0.1  # width of the walls around it, in units of the scaled data


def score(log_density: Function, x: torch.Tensor) -> torch.Tensor:
    """d log p / dx by autograd, one row per sample.

    Works under ``no_grad``, and leaves parameter gradients untouched.
    """
    with torch.enable_grad():
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad(log_density(x).sum(), x)[0]


class Density(nn.Module, ABC):
    """A model of p(x): samplers and DAM use ``log_density`` and ``score``.

    ``reads_heads`` is true for densities built from the projector or the prototypes, which have batch norm. GediNet
    evaluates them in eval mode even during training: otherwise log p of a point would depend on the rest of its batch,
    and the sampler's chains would shift the running statistics. Gradients still reach the weights. Other densities have
    no batch norm, so their mode does not matter.
    """

    reads_heads: ClassVar[bool] = False
    n_parts = 1  # how many terms add up to log p

    @abstractmethod
    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """log p(x) up to a constant, one value per sample: a function of x alone, not of the rest of its batch."""

    def parts(self, x: torch.Tensor) -> torch.Tensor:
        """The terms that add up to log p, [n, n_parts]."""
        return self.log_density(x)[:, None]

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p / dx, one row per sample."""
        return score(self.log_density, x)

    def loss(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """CE(p, p_Psi) of Eq. 8 or a bound on it, averaged over the rows of ``x``; for models that can compute it."""
        raise NotImplementedError(f"{type(self).__name__} knows log p up to a constant only: its term has the loss.")

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor | None:
        """``n`` exact draws from the model, or None if sampling needs Langevin dynamics."""
        return None

    def first_draws(self, n: int, generator: torch.Generator) -> torch.Tensor | None:
        """``n`` data-like starting points for chains, or None if the density knows only its box."""
        return None

    def refresh(self, x: Rows) -> None:
        """Recompute what the density stores from the data, after the weights have changed."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.log_density(x)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch all of ``module`` to eval mode, then restore the mode of each part."""
    were_training = [part for part in module.modules() if part.training]
    try:
        for part in were_training:
            part.training = False
        yield
    finally:
        for part in were_training:
            part.training = True


class UnnormalisedDensity(Density):
    """log p(x) = f(x) + const, optionally plus a mixture of Gaussians, with walls around the support.

    exp f need not be integrable over the whole space: cosines are bounded and waves repeat. So beyond ``support`` log p
    falls off like a Gaussian of width `WALL`. Without a support (the paper) log p is f everywhere, and a density only
    inside the sampler's box.
    """

    low: torch.Tensor | None
    high: torch.Tensor | None

    def __init__(self, support: Support | None, base: Mixture | None = None) -> None:
        super().__init__()
        self.base = base
        self.n_parts = 1 if base is None else 2
        self.register_buffer("low", None if support is None else support[0].clone())
        self.register_buffer("high", None if support is None else support[1].clone())

    def first_draws(self, n: int, generator: torch.Generator) -> torch.Tensor | None:
        return None if self.base is None else self.base.sample(n, generator)

    @abstractmethod
    def inside(self, x: torch.Tensor) -> torch.Tensor:
        """f(x), one value per sample."""

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """f(x) plus the mixture, minus the walls."""
        return self.framed(x, self.inside(x))

    def framed(self, x: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Add the mixture to ``value``, which is f(x), and subtract the walls."""
        if self.base is not None:
            value = value + self.base(x)
        if self.low is not None:
            value = value - self._outside(x).flatten(1).square().sum(1) / (2 * WALL**2)
        return value

    def parts(self, x: torch.Tensor) -> torch.Tensor:
        """log p, or f with the walls and the mixture apart."""
        log_p = self.log_density(x)
        if self.base is None:
            return log_p[:, None]
        base = self.base(x)
        return torch.stack([log_p - base, base], dim=1)

    def live_score(self, x: torch.Tensor, apply: Callable[[Function, torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """d log p / dx with its gradient for the weights; ``apply`` computes networks in the run's precision."""
        x = x.requires_grad_()
        gradient = torch.autograd.grad(apply(self.inside, x).sum(), x, create_graph=True)[0]
        return self.framed_gradient(x.detach(), gradient)  # only f has weights to learn

    def framed_gradient(self, x: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """Add the gradients of the mixture and the walls to ``gradient``, which is that of f."""
        if self.base is not None:
            gradient = gradient + self.base.gradient(x)
        return gradient if self.low is None else gradient.sub(self._outside(x), alpha=1 / WALL**2)

    def _outside(self, x: torch.Tensor) -> torch.Tensor:
        """Signed distance of each coordinate from the support; 0 inside it."""
        assert self.low is not None and self.high is not None
        return x - torch.clamp(x, self.low, self.high)


class EnergyDensity(UnnormalisedDensity):
    """log p(x) = f(x) + const, with the paper's f(x) = u^T enc(x) (Sec. 3.1) or any other scalar function.

    ``energy`` is f, and ``gradient`` is its derivative, if there is a closed form. A module passed as ``energy``
    becomes a submodule; a bound method, such as GediNet's own, is only called.
    """

    def __init__(
        self,
        energy: Function,
        *,
        gradient: Function | None = None,
        support: Support | None = None,
        base: Mixture | None = None,
    ) -> None:
        super().__init__(support, base)
        self.energy = energy
        self.gradient = gradient

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return self.energy(x)

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p / dx, in closed form if there is one."""
        return super().score(x) if self.gradient is None else self.framed_gradient(x, self.gradient(x))


class ContrastiveDensity(UnnormalisedDensity):
    """The energy that a contrastive model implies: log p(x) = log sum_j exp(sim(g(x), z_j) / tau) + const (Eq. 9).

    ``embed`` is g, and ``bank`` holds the z_j = g(x_j), which change only in ``refresh``; ``marginal`` computes log p
    from embeddings and a bank. In Eq. 9 the z_j depend on Theta, so `log_density_by` takes a bank that carries
    gradients. EBCLR uses the other view of the batch as the bank and ``negative_squared_distance`` as the similarity,
    without normalising the embeddings.
    """

    reads_heads = True
    bank: torch.Tensor

    def __init__(
        self,
        embed: Function,
        bank: torch.Tensor,
        *,
        marginal: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
        support: Support | None = None,
    ) -> None:
        super().__init__(support)
        self.embed = embed
        self.marginal = marginal
        self.register_buffer("bank", bank.detach().clone())

    @torch.no_grad()
    def refresh(self, x: Rows) -> None:
        """Fill the bank with g at rows spaced evenly over the data, the same rows every time."""
        size = len(self.bank)
        self.bank.copy_(self.embed(x[torch.arange(size, device=x.device) * len(x) // size]))

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return self.marginal(self.embed(x), self.bank)

    def log_density_by(self, x: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
        """log p(x) with ``bank`` in place of the stored embeddings; gradients flow through it."""
        return self.framed(x, self.marginal(self.embed(x), bank))


class ClusterDensity(UnnormalisedDensity):
    """JEM's density of a cluster head: log p(x) = log sum_y exp(score_y(x) / tau) + const.

    ``scorer`` returns one score per cluster, and softmax(score / tau) is p(y|x) under the joint exp(score_y(x) / tau).
    With cosine scores log p spans at most 2 / tau.
    """

    reads_heads = True

    def __init__(self, scorer: Function, *, tau: float, support: Support | None = None) -> None:
        super().__init__(support)
        self.scorer = scorer
        self.tau = tau

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.scorer(x)  # half precision is too coarse for a small tau
        return torch.logsumexp(scores.to(torch.promote_types(scores.dtype, torch.float32)) / self.tau, dim=1)
