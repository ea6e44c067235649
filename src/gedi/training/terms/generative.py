"""Generative terms: the density p_Psi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from gedi.errors import ConfigError
from gedi.objectives import contrastive_divergence
from gedi.training.objective import Term

if TYPE_CHECKING:
    from gedi.training.engine import Engine
    from gedi.training.views import Views


@dataclass
class Energy(Term):
    """CE(p, p_Psi) by contrastive divergence, with log p = u^T enc(x)."""

    kind: str = "energy"
    size: float = 1e-3  # weight of the mean square of log p at data and samples: pins its free constant (the paper: 0)
    equation: ClassVar[str] = "Eqs. 8, 12"

    def names(self) -> tuple[str, ...]:
        return ("generative", "energy_size")

    def weights(self) -> dict[str, float]:
        return {"generative": self.weight, "energy_size": self.size if self.weight else 0.0}

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        assert views.samples is not None
        return self.divergence(views.run, views.batch.x, views.samples)

    def divergence(self, run: Engine, x: torch.Tensor, samples: torch.Tensor) -> dict[str, torch.Tensor]:
        """Eq. 12 and the size of the energy, in one pass."""
        values = run.apply(run.state.net.log_density, torch.cat([run.with_data_noise(x), samples]))
        data, sampled = (run.world.gather(part) for part in values.split(len(x)))
        arrived = sampled[settled(data, sampled, run.config.sampler.burn_in)]
        size = torch.cat([data, sampled]).square().mean()
        return {"generative": contrastive_divergence(data, arrived), "energy_size": size}

    def check(self) -> None:
        super().check()
        if not self.size >= 0:
            raise ConfigError(f"size must not be negative, got {self.size}")


def settled(data: torch.Tensor, sampled: torch.Tensor, burn_in: float | None) -> torch.Tensor:
    """Which chains stand for p_Psi: not those just restarted where p_Psi is next to nothing.

    Counted, a few of them outweigh all others in the mean, and the energy's walls grow without end to push them on.
    """
    if burn_in is None:
        return torch.ones_like(sampled, dtype=torch.bool)
    here = sampled > data.detach().min() - burn_in
    return here if bool(here.any()) else torch.ones_like(here)
