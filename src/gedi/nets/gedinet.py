"""GediNet: every network of the method in one module (the whole-model figure of Appendix F)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional as F

from gedi.nets.densities import Density, EnergyDensity, Support, evaluating
from gedi.nets.encoders import Encoder
from gedi.nets.heads import LinearHeads, Projector, Prototypes
from gedi.nets.mixture import Mixture

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows


class GediNet(nn.Module):
    """One encoder shared by all heads: energy u, cluster heads, the neutral head, and the projector of L_NF.

    ``density`` builds p_Psi, from the net's own parts or with networks of its own. ``support`` is the sampler's box.
    Nothing is learned outside it, and an encoder of waves repeats there, so log p falls off like a Gaussian and distant
    points become improbable. Without a support (the paper) log p is u^T enc(x) everywhere.

    ``head`` says what the embedding is, and with it the clusters. ``linear``: the embedding is enc(x), and cluster
    heads are linear layers on it. ``projector`` (the paper): proj(enc(x)) on the unit sphere, with prototypes.
    ``nf_projector``: the same with L_NF's projector, for methods that train only L_NF's relatives. ``neutral`` is the
    number of clusters of the neutral head (0: none), which has many more than the others and trains the encoder while
    they compete. The energy and the clusters share one encoder unless ``energy_encoder`` is given (the ablation
    'no NF, 2 enc.').
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        representation: int,
        embedding: int,
        projector_hidden: int,
        n_clusters: int,
        head: str,
        n_heads: int = 1,
        neutral: int = 0,
        density: Callable[[GediNet, Support | None], Density],
        energy_encoder: Encoder | None = None,
        support: Support | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.own_energy_encoder = energy_encoder
        self.energy_head = nn.Linear(representation, 1, bias=False)
        self.nf_projector = Projector(representation, projector_hidden, embedding, normalise=False)
        self.projector, self.clusters = nn.Identity(), LinearHeads(n_heads, n_clusters, representation)
        if head != "linear":
            self.projector = Projector(representation, projector_hidden, embedding, normalise=True)
            self.clusters = Prototypes(n_heads, n_clusters, embedding)
        size = representation if head == "linear" else embedding
        self.neutral = LinearHeads(1, neutral, size) if neutral else None
        self.density = density(self, support)

    @property
    def energy_encoder(self) -> Encoder:
        """The encoder of the energy; shared with the clusters unless there are two."""
        return self.encoder if self.own_energy_encoder is None else self.own_energy_encoder

    def slow_waves(self, ratio: float) -> None:
        """Slow down some of the waves of every encoder, the slowest by ``ratio``."""
        for encoder in {self.encoder, self.energy_encoder}:
            encoder.slow_waves(ratio)

    def energy(self, x: torch.Tensor) -> torch.Tensor:
        """u^T enc(x), one value per sample (Sec. 3.1)."""
        return self.energy_head(self.energy_encoder(x)).squeeze(1)

    def energy_gradient(self, x: torch.Tensor) -> torch.Tensor:
        """d u^T enc(x) / dx, in closed form, for encoders that have one."""
        encoder = self.energy_encoder
        assert encoder.input_gradient is not None
        return encoder.input_gradient(x, self.energy_head.weight[0])

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """log p_Psi(x), for most densities up to a constant; one value per sample."""
        with self._as_density():
            return self.density.log_density(x)

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p_Psi / dx."""
        with self._as_density():
            return self.density.score(x)

    def refresh_density(self, x: Rows) -> None:
        """Recompute what the density stores from the data, with the current weights."""
        with self._as_density():
            self.density.refresh(x)

    def _as_density(self) -> AbstractContextManager[None]:
        """Eval mode, if the density reads heads with batch norm."""
        return evaluating(self) if self.density.reads_heads else nullcontext()

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        """g(x), the embedding: enc(x) with linear heads, otherwise proj(enc(x)) on the unit sphere."""
        return self.embedding_of(self.encoder(x))

    def embedding_of(self, h: torch.Tensor) -> torch.Tensor:
        """The embedding of representations."""
        return F.normalize(self.nf_projector(h), dim=1) if self.head == "nf_projector" else self.projector(h)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Cluster scores of the chosen head."""
        return self.clusters(self.embed(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(x)


def energy_density(net: GediNet, support: Support | None, base: Mixture | None = None) -> EnergyDensity:
    """The paper's log p(x) = u^T enc(x) + const, on the net's own encoder; added to ``base`` if there is one."""
    gradient = None if net.energy_encoder.input_gradient is None else net.energy_gradient
    return EnergyDensity(net.energy, gradient=gradient, support=support, base=base)
