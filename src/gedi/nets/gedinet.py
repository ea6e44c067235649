"""GediNet: every network of the method in one module (the whole-model figure of Appendix F)."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from gedi.nets.encoder import MLPEncoder
from gedi.nets.heads import Projector, Prototypes
from gedi.nets.walls import Support, Walled


class GediNet(Walled):
    """One encoder under four heads: energy u, projector with prototypes U, and the projector of L_NF.

    ``support`` bounds the box the sampler lives in. Inside, log p is the paper's u^T enc(x). Outside nothing was
    learned, and an encoder of waves repeats itself there: log p falls off as a Gaussian of width ``wall`` instead, so
    that foreign points are improbable. Without a support (the paper) log p is u^T enc(x) everywhere.

    ``head`` is the projector that `embed` reads: methods that train L_NF's relatives alone have trained only
    ``nf_projector``. The energy's encoder is the clusters' own unless two encoders are asked for (the ablation
    'no NF, 2 enc.').
    """

    def __init__(
        self,
        encoder: nn.Module,
        *,
        representation: int,
        embedding: int,
        projector_hidden: int,
        n_clusters: int,
        head: str = "projector",
        energy_encoder: nn.Module | None = None,
        support: Support | None = None,
        wall: float = 0.1,
    ) -> None:
        super().__init__(support, wall)
        self.encoder = encoder
        self.head = head
        self.own_energy_encoder = energy_encoder
        self.energy_head = nn.Linear(representation, 1, bias=False)
        self.projector = Projector(representation, projector_hidden, embedding, normalise=True)
        self.nf_projector = Projector(representation, projector_hidden, embedding, normalise=False)
        self.prototypes = Prototypes(n_clusters, embedding)

    @property
    def energy_encoder(self) -> nn.Module:
        """The encoder under the energy: the clusters' own, unless there are two."""
        return self.encoder if self.own_energy_encoder is None else self.own_energy_encoder

    def log_density(self, x: torch.Tensor) -> torch.Tensor:
        """Unnormalised log p_Psi(x) = u^T enc(x), one value a sample (Sec. 3.1), with walls around the support."""
        return self.walled(x, self.energy_head(self.energy_encoder(x)).squeeze(1))

    def score(self, x: torch.Tensor) -> torch.Tensor:
        """d log p_Psi / dx, in closed form where the encoder has one."""
        encoder = self.energy_encoder
        if isinstance(encoder, MLPEncoder):
            return self.walled_gradient(x, encoder.input_gradient(x, self.energy_head.weight[0]))
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            return torch.autograd.grad(self.log_density(x).sum(), x)[0]

    def embed(self, x: torch.Tensor) -> torch.Tensor:
        """g(x) = proj(enc(x)), on the unit sphere."""
        h = self.encoder(x)
        return self.projector(h) if self.head == "projector" else F.normalize(self.nf_projector(h), dim=1)

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        """Cosine scores U^T g(x)."""
        return self.prototypes(self.embed(x))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(x)
