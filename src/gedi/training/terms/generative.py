"""Generative terms: the density p_Psi, of any likelihood-based kind (Eq. 8)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from gedi.errors import ConfigError
from gedi.nets import ClusterDensity, ContrastiveDensity, Density, FlowDensity, GediNet, VaeDensity
from gedi.nets.densities import evaluating
from gedi.nets.gedinet import energy_density
from gedi.nets.walls import Support
from gedi.objectives import SIMILARITIES, contrastive_divergence
from gedi.training.objective import Term, positive

if TYPE_CHECKING:
    from gedi.training.views import Views


@dataclass
class Generative(Term):
    """CE(p, p_Psi): what kind of model p_Psi is, and its loss."""

    every: int = 1  # iterations between updates of the density where other terms train too; 0: it learns in step 1 only
    reads_heads: ClassVar[bool] = False  # the density is made of the projector or the prototypes

    @abstractmethod
    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        """p_Psi, out of the net's own parts or beside them; ``support`` is the sampler's box."""

    def is_due(self, iteration: int) -> bool:
        return bool(self.every) and iteration % self.every == 0

    def check(self) -> None:
        super().check()
        if self.every < 0:
            raise ConfigError(f"every must not be negative, got {self.every}")


@dataclass
class EnergyBased(Generative):
    """Contrastive divergence against samples of the model: for log p known up to a constant."""

    size: float = 1e-3  # weight of the mean square of log p at data and samples: pins its free constant (the paper: 0)

    def names(self) -> tuple[str, ...]:
        return ("generative", "energy_size")

    def weights(self) -> dict[str, float]:
        return {"generative": self.weight, "energy_size": self.size if self.weight else 0.0}

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        """Eq. 12 and the size of the energy, in one pass."""
        assert views.samples is not None
        run, x = views.run, views.batch.x
        shown = torch.cat([run.with_data_noise(x), views.samples])
        values = run.apply(lambda rows: self.log_density(views, rows), shown)
        data, sampled = (run.world.gather(part) for part in values.split(len(x)))
        arrived = sampled[settled(data, sampled, run.config.sampler.burn_in)]
        size = torch.cat([data, sampled]).square().mean()
        return {"generative": contrastive_divergence(data, arrived), "energy_size": size}

    def log_density(self, views: Views, rows: torch.Tensor) -> torch.Tensor:
        """log p_Psi of data and samples, with its gradient."""
        return views.run.state.net.log_density(rows)

    def check(self) -> None:
        super().check()
        if not self.size >= 0:
            raise ConfigError(f"size must not be negative, got {self.size}")


@dataclass
class Energy(EnergyBased):
    """CE(p, p_Psi) by contrastive divergence, with log p = u^T enc(x)."""

    kind: str = "energy"
    equation: ClassVar[str] = "Eqs. 8, 12"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return energy_density(net, support)


@dataclass
class Contrastive(EnergyBased):
    """The density a contrastive model implies, log p = log sum_j exp(sim(g(x), g(x_j)) / tau), as in EBCLR.

    The x_j are the batch's other views while it learns, and `bank` rows of the data everywhere else.
    """

    kind: str = "contrastive"
    tau: float = 0.1  # temperature; log p spans at most 4 / tau where similarities are distances on the unit sphere
    similarity: Literal["dot", "cosine", "negative_squared_distance"] = "negative_squared_distance"  # of embeddings
    bank: int = 256  # rows of the data that the density is a sum over
    equation: ClassVar[str] = "Eq. 9"
    reads_heads: ClassVar[bool] = True

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        directions = net.prototypes.directions
        bank = torch.zeros(self.bank, directions.shape[1], device=directions.device)
        similarity = SIMILARITIES[self.similarity]
        return ContrastiveDensity(net.embed, bank, similarity=similarity, tau=self.tau, support=support)

    def log_density(self, views: Views, rows: torch.Tensor) -> torch.Tensor:
        run, net = views.run, views.run.state.net
        density = net.density
        assert isinstance(density, ContrastiveDensity)
        with evaluating(net):
            return density.log_density_by(rows, run.world.gather(density.embedding(views.second)))

    def check(self) -> None:
        super().check()
        positive(tau=self.tau, bank=self.bank)


@dataclass
class LogSumExp(EnergyBased):
    """JEM's density of a cluster head: log p = log sum_y exp(score_y(x) / tau)."""

    kind: str = "logsumexp"
    tau: float = 0.1  # temperature; log p spans at most 2 / tau
    equation: ClassVar[str] = "Sec. 3.1, JEM"
    reads_heads: ClassVar[bool] = True

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return ClusterDensity(net.scores, tau=self.tau, support=support)

    def check(self) -> None:
        super().check()
        positive(tau=self.tau)


@dataclass
class Likelihood(Generative):
    """A model that knows its own likelihood, or a bound on it, and draws its own samples: no SGLD while it learns."""

    hidden: tuple[int, ...] = (64, 64)  # hidden layers of its networks

    def names(self) -> tuple[str, ...]:
        return ("negative_log_likelihood",)

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        run = views.run
        with evaluating(run.state.net):
            loss = run.state.net.density.loss(run.with_data_noise(views.batch.x), generator=run.state.noise)
        return {"negative_log_likelihood": run.world.gather(loss.reshape(1)).mean()}

    def check(self) -> None:
        super().check()
        if not self.hidden or min(self.hidden) < 1:
            raise ConfigError(f"hidden must name at least one layer of neurons, got {self.hidden}")


@dataclass
class Flow(Likelihood):
    """A normalising flow: log p and its samples are exact. Needs zuko."""

    kind: str = "flow"
    flow: Literal["nsf", "maf"] = "nsf"  # rational-quadratic splines, or affine
    transforms: int = 3  # how many, one after the other
    passes: int | None = None  # to sample; None: one a feature (autoregressive), 2: a coupling flow
    equation: ClassVar[str] = "Eq. 8"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return FlowDensity(
            (n_features,), kind=self.flow, transforms=self.transforms, hidden=self.hidden, passes=self.passes
        )

    def check(self) -> None:
        super().check()
        positive(transforms=self.transforms, passes=1 if self.passes is None else self.passes)


@dataclass
class Vae(Likelihood):
    """A variational autoencoder: its loss is a bound on log p, and its samples are exact."""

    kind: str = "vae"
    latent: int = 8  # size of z
    importance: int = 64  # noises in the estimate of log p
    equation: ClassVar[str] = "Eq. 8, by its bound"

    def density(self, net: GediNet, n_features: int, support: Support | None) -> Density:
        return VaeDensity((n_features,), latent=self.latent, hidden=self.hidden, importance=self.importance)

    def check(self) -> None:
        super().check()
        positive(latent=self.latent, importance=self.importance)


def settled(data: torch.Tensor, sampled: torch.Tensor, burn_in: float | None) -> torch.Tensor:
    """Which chains stand for p_Psi: not those just restarted where p_Psi is next to nothing.

    Counted, a few of them outweigh all others in the mean, and the energy's walls grow without end to push them on.
    """
    if burn_in is None:
        return torch.ones_like(sampled, dtype=torch.bool)
    here = sampled > data.detach().min() - burn_in
    return here if bool(here.any()) else torch.ones_like(here)
