"""Contrastive terms: each row against all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import torch

from gedi.objectives import info_nce_loss, nt_xent_loss, protocpc_loss, teacher_marginal, teacher_probabilities
from gedi.training.objective import Term, positive

if TYPE_CHECKING:
    from gedi.training.views import Views


@dataclass
class Contrastive(Term):
    """A loss of two views' embeddings against those of all others."""

    tau: float = 0.1  # temperature
    similarity: Literal["dot", "cosine", "negative_squared_distance"] = "cosine"  # of two embeddings

    def names(self) -> tuple[str, ...]:
        return ("contrastive",)

    def check(self) -> None:
        super().check()
        positive(tau=self.tau)


@dataclass
class InfoNce(Contrastive):
    """-L_CT, both views taking turns."""

    kind: str = "infonce"
    equation: ClassVar[str] = "Eqs. 1-2"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        z, z_view = views.pair(views.z)
        return {"contrastive": info_nce_loss(z, z_view, tau=self.tau, similarity=self.similarity)}


@dataclass
class NtXent(Contrastive):
    """NT-Xent, SimCLR's loss."""

    kind: str = "nt-xent"
    tau: float = 0.5  # temperature
    equation: ClassVar[str] = "Eq. 2 over both views"

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        z, z_view = views.pair(views.z)
        return {"contrastive": nt_xent_loss(z, z_view, tau=self.tau, similarity=self.similarity)}


@dataclass
class ProtoCpc(Contrastive):
    """ProtoCPC: the averaged weights are the teacher, and the batch's mean is its prior."""

    kind: str = "protocpc"
    sharpness: float = 0.04  # temperature of the teacher; below tau it sharpens
    equation: ClassVar[str] = "App. D"
    trains_prototypes: ClassVar[bool] = True

    def losses(self, views: Views) -> dict[str, torch.Tensor]:
        scores, scores_view = views.pair(views.scores)
        teacher, teacher_view = teacher_probabilities(views.teacher_scores, tau=self.sharpness).chunk(2)
        marginal = teacher_marginal(torch.cat([teacher, teacher_view]))
        one = protocpc_loss(scores, teacher_view, marginal, tau=self.tau)
        two = protocpc_loss(scores_view, teacher, marginal, tau=self.tau)
        return {"contrastive": (one + two) / 2}
