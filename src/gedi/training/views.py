"""What the terms of one step look at: views of a batch, each encoded once, however many terms ask."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gedi.training.engine import Batch, Engine


class Views:
    """Two views of every row of the global batch, and the end of its walk if there is one.

    Representations, embeddings and scores hold the views one after the other; `pair` and `first` pick from them.
    """

    def __init__(
        self,
        run: Engine,
        batch: Batch,
        first: torch.Tensor,
        second: torch.Tensor,
        walked: torch.Tensor | None = None,
        samples: torch.Tensor | None = None,
    ) -> None:
        self.run, self.batch, self.samples = run, batch, samples
        self._views = [first, second] + ([walked] if walked is not None else [])

    @property
    def second(self) -> torch.Tensor:
        """x', this process's part: the second view of the batch."""
        return self._views[1]

    @cached_property
    def h(self) -> torch.Tensor:
        """Representations, from one pass through the encoder."""
        return self.run.encode(*self._views)

    @property
    def n(self) -> int:
        """Rows of the global batch."""
        return len(self.h) // len(self._views)

    @cached_property
    def z(self) -> torch.Tensor:
        """Embeddings on the unit sphere."""
        return self.run.apply(self.run.state.net.projector, self.h)

    @cached_property
    def scores(self) -> torch.Tensor:
        """Cosine scores U^T g(x)."""
        return self.run.state.net.prototypes(self.z)

    @cached_property
    def scores_by_view(self) -> tuple[torch.Tensor, ...]:
        """The scores of x, x' and, if there are walks, x''."""
        return self.scores.split(self.n)

    @cached_property
    def features(self) -> torch.Tensor:
        """Of the pair alone: embeddings by L_NF's own projector, not normalised."""
        return self.run.apply(self.run.state.net.nf_projector, self.h[: 2 * self.n])

    @cached_property
    def teacher_scores(self) -> torch.Tensor:
        """Of the pair alone: scores by the averaged weights, without gradient."""
        run = self.run
        with torch.no_grad():
            parts = [run.world.gather(run.apply(run.state.average.scores, view)) for view in self._views[:2]]
        return torch.cat(parts)

    def pair(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parts of the two views."""
        return values[: self.n], values[self.n : 2 * self.n]
