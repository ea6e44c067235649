"""p_Psi(x) behind one interface (Eq. 8 takes any likelihood-based model), and the energy-based kinds of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import nn

from gedi.nets.walls import Support, Walled

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows

Function = Callable[[torch.Tensor], torch.Tensor]
Similarity = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Density(nn.Module, ABC):
    """A model of p(x): samplers and DAM ask for ``log_density`` and ``score``, training for ``loss``.

    ``needs_samples`` says how it learns. True: log p is known up to a constant, and ``loss`` needs samples of the model
    (Eq. 12) that somebody else draws, by Langevin steps on ``score``. False: ``loss`` is a negative log-likelihood or a
    bound on it, and the model draws its own samples.
    """

    needs_samples: ClassVar[bool]

    @abstractmethod
    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """log p(x) up to a constant, one value a sample; a function of x alone, whatever else is in its batch."""

    @abstractmethod
    def loss(
        self, x: torch.Tensor, samples: torch.Tensor | None = None, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        """CE(p, p_Psi) of Eq. 8, a bound on it, or a surrogate with its gradient, as a mean over the rows of ``x``."""

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p / dx, one row a sample; leaves the parameters' gradients alone, and works under ``no_grad``."""
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(self.log_density(x).sum(), x)[0]

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor | None:
        """``n`` exact draws from the model, None if only a Langevin sampler can draw."""
        return None

    def refresh(self, x: Rows) -> None:
        """Look at the data again, after the weights have changed: for densities that lean on some of them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.log_density(x)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Eval mode for all of ``module``, then back to what each part was in."""
    were_training = [part for part in module.modules() if part.training]
    try:
        for part in were_training:
            part.training = False
        yield
    finally:
        for part in were_training:
            part.training = True


def tempered_logsumexp(scores: torch.Tensor, tau: float) -> torch.Tensor:
    """log sum_j exp(s_j / tau) of each row, in float32 or wider: half precision would spoil a small ``tau``."""
    return torch.logsumexp(scores.to(torch.promote_types(scores.dtype, torch.float32)) / tau, dim=1)


class EnergyBased(Walled, Density):
    """log p(x) = f(x) + const, with walls around the support as in GediNet.

    f need not fall off by itself: cosines are bounded and waves repeat themselves, and exp f then has no integral over
    the whole space. Beyond ``support`` log p falls off as a Gaussian of width ``wall``. Without a support it is f
    everywhere (the paper), and a density only inside the sampler's box.

    f is evaluated in eval mode, also while training: through batch norm the energy of a point would depend on the other
    points of its batch, and chains of samples would move the running statistics. Gradients reach the weights as ever.
    Those statistics are moved by other terms of the objective that use the network, or by nobody.
    """

    needs_samples = True

    @abstractmethod
    def inside(self, x: torch.Tensor) -> torch.Tensor:
        """f(x), one value a sample: log p + const inside the support."""

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """f(x), less the walls; the constant is not known."""
        with evaluating(self):
            value = self.inside(x)
        return self.walled(x, value)

    def loss(
        self, x: torch.Tensor, samples: torch.Tensor | None = None, generator: torch.Generator | None = None
    ) -> torch.Tensor:
        """Surrogate of Eq. 12: its gradient, not its value, is that of the cross-entropy."""
        return self.log_density(required(samples)).mean() - self.log_density(x).mean()


def required(samples: torch.Tensor | None) -> torch.Tensor:
    """Samples without a gradient: Eq. 12 holds them fixed."""
    if samples is None:
        raise ValueError("an energy-based density learns from samples of itself: pass loss(x, samples)")
    return samples.detach()


class EnergyDensity(EnergyBased):
    """log p(x) = f(x) + const, for the paper's f(x) = u^T enc(x) (Sec. 3.1) or any other with one value a sample.

    ``energy`` is f and ``gradient`` its slope, where that is known in closed form. A module given as ``energy`` is part
    of this one; a method of another module, as GediNet gives its own, is used and stays there.
    """

    def __init__(
        self, energy: Function, *, gradient: Function | None = None, support: Support | None = None, wall: float = 0.1
    ) -> None:
        super().__init__(support, wall)
        self.energy = energy
        self.gradient = gradient

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return self.energy(x)

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p / dx, in closed form where it is known."""
        return super().score(x) if self.gradient is None else self.walled_gradient(x, self.gradient(x))


class ContrastiveDensity(EnergyBased):
    """The energy a contrastive model implies: log p(x) = log sum_j exp(sim(g(x), z_j) / tau) + const (Eq. 9).

    ``embed`` is g and ``bank`` holds the z_j = g(x_j), a constant between two calls of ``refresh``. In Eq. 9 they move
    with Theta: ``loss`` takes a live ``bank`` for that, with its gradient (EBCLR takes the other view of the batch).

    ``penalty`` is EBCLR's weight on ||z||^2, of data and samples, which Eq. 9 does not have. It belongs to the loss and
    does not change the density. Theirs is a sum over rows, this one a mean; on the unit sphere it does nothing.
    EBCLR's similarity is ``negative_squared_distance``, without a sphere.
    """

    bank: torch.Tensor

    def __init__(
        self,
        embed: Function,
        bank: torch.Tensor,
        *,
        similarity: Similarity,
        tau: float = 0.1,
        penalty: float = 0.0,
        support: Support | None = None,
        wall: float = 0.1,
    ) -> None:
        super().__init__(support, wall)
        self.embed = embed
        self.similarity = similarity
        self.tau = tau
        self.penalty = penalty
        self.register_buffer("bank", bank.detach().clone())

    def embedding(self, x: torch.Tensor) -> torch.Tensor:
        """g(x) as the density sees it, in eval mode and with a gradient."""
        with evaluating(self):
            return self.embed(x)

    @torch.no_grad()
    def refresh(self, x: Rows) -> None:
        """Fill the bank with g of rows spread evenly over the data, the same ones every time."""
        size = len(self.bank)
        self.bank.copy_(self.embedding(x[torch.arange(size, device=x.device) * len(x) // size]))

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return self._marginal(self.embed(x), self.bank)

    def log_density_by(self, x: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
        """log p(x) with the embeddings ``bank`` in place of the stored ones, and with their gradient."""
        return self.walled(x, self._marginal(self.embedding(x), bank))

    def _marginal(self, z: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
        # Autocast would narrow the operands of the similarity's matrix product again.
        with torch.autocast(z.device.type, enabled=False):
            wide = torch.promote_types(z.dtype, torch.float32)
            return tempered_logsumexp(self.similarity(z.to(wide), bank.to(wide)), self.tau)

    def loss(
        self,
        x: torch.Tensor,
        samples: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
        *,
        bank: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Surrogate of Eq. 12, with EBCLR's penalty on the embeddings if there is one."""
        samples = required(samples)
        bank = self.bank if bank is None else bank
        z, z_samples = self.embedding(x), self.embedding(samples)
        fake = self.walled(samples, self._marginal(z_samples, bank))
        gap = fake.mean() - self.walled(x, self._marginal(z, bank)).mean()
        if self.penalty == 0:
            return gap
        return gap + self.penalty * (z.square().sum(1).mean() + z_samples.square().sum(1).mean())


class ClusterDensity(EnergyBased):
    """JEM's energy of a cluster head: log p(x) = log sum_y exp(score_y(x) / tau) + const.

    ``scorer`` gives one score a cluster. The clusters' probabilities softmax(score / tau) are then p(y|x) of the joint
    exp(score_y(x) / tau). Cosine scores bound it: log p spans at most 2 / tau.
    """

    def __init__(
        self,
        scorer: Function,
        *,
        tau: float = 1.0,
        support: Support | None = None,
        wall: float = 0.1,
    ) -> None:
        super().__init__(support, wall)
        self.scorer = scorer
        self.tau = tau

    def inside(self, x: torch.Tensor) -> torch.Tensor:
        return tempered_logsumexp(self.scorer(x), self.tau)
