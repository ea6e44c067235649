"""What the terms see in one iteration: views of a batch, each encoded once, however many terms use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from gedi.nets import GediNet
    from gedi.nets.densities import Function


@dataclass
class Views:
    """Two views of every row of a batch, the end of its walk if there is one, and what terms need to know of the run.

    ``x``, ``inputs``, ``rows`` and ``samples`` are this process's part of the batch. Representations, embeddings,
    scores and labels are those of the global batch, so that a loss means the same on one process as on many. They hold
    the views one after the other; `pair` and `scores_by_view` split them.

    While cluster heads compete next to a neutral one, they see detached embeddings: heads that trained one encoder
    together would all end in the same optimum.
    """

    net: GediNet
    average: GediNet  # the averaged weights of ``net``
    x: torch.Tensor
    rows: torch.Tensor  # the indices of ``x`` in the data
    inputs: list[torch.Tensor]  # x or a view of it, its view x', and x'' if there are walks
    samples: torch.Tensor | None  # of p_Psi, if it learns from them
    all_labels: torch.Tensor | None  # the label of every row of the data, from k-means or a start, if there are any
    anchor: float  # weight of agreement with these labels in this iteration
    marginals: torch.Tensor | None  # expected cluster sizes, [c]; None: equal
    competing: bool  # whether no head has been chosen yet
    tau: float  # temperature of p(y|x)
    data_noise: float  # size of the noise on the density's data
    burn_in: float | None  # samples this far below the least likely data do not count
    max_gap: float | None  # the density slows down when samples lag this far behind the data
    noise: torch.Generator
    encode: Callable[..., torch.Tensor]  # representations of the global batch, from one pass through the encoder
    apply: Callable[[Function, torch.Tensor], torch.Tensor]  # a network's output in the run's precision, as float32
    gather: Function  # the parts of all processes, one after the other
    processes: int  # how many share the global batch

    @cached_property
    def h(self) -> torch.Tensor:
        """Representations, from one pass through the encoder."""
        return self.encode(*self.inputs)

    @property
    def n(self) -> int:
        """Rows of the global batch."""
        return len(self.h) // len(self.inputs)

    @cached_property
    def z(self) -> torch.Tensor:
        """Embeddings."""
        return self.apply(self.net.embedding_of, self.h)

    @cached_property
    def scores(self) -> torch.Tensor:
        """Cluster scores, [heads, rows, c]: of all heads while they compete, then of the chosen one."""
        if not self.competing:
            return self.net.clusters(self.z)[None]
        z = self.z if self.net.neutral is None else self.z.detach()
        return self.net.clusters.all_scores(z)

    @cached_property
    def scores_by_view(self) -> tuple[torch.Tensor, ...]:
        """The scores of x, x' and, if there are walks, x''."""
        return self.scores.split(self.n, dim=1)

    @cached_property
    def neutral_scores_by_view(self) -> tuple[torch.Tensor, ...] | None:
        """The same for the neutral head, while heads compete; None otherwise."""
        if self.net.neutral is None or not self.competing:
            return None
        return self.net.neutral.all_scores(self.z).split(self.n, dim=1)

    @cached_property
    def features(self) -> torch.Tensor:
        """Embeddings of x and x' by L_NF's own projector, not normalised."""
        return self.apply(self.net.nf_projector, self.h[: 2 * self.n])

    @property
    def contrasted(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What contrastive terms compare: embeddings, or `features` if linear heads have no projector."""
        return self.pair(self.features if self.net.head == "linear" else self.z)

    @cached_property
    @torch.no_grad()
    def teacher_scores(self) -> torch.Tensor:
        """Scores of x and x' by the averaged weights, without gradient."""
        return torch.cat([self.gather(self.apply(self.average.scores, view)) for view in self.inputs[:2]])

    def one_hot_labels(self) -> torch.Tensor:
        """The labels of the batch, [n, c]."""
        assert self.all_labels is not None
        labels = self.all_labels[self.gather(self.rows)]
        return torch.nn.functional.one_hot(labels, self.net.clusters.n_clusters).to(self.scores.dtype)

    def blurred(self) -> torch.Tensor:
        """x as the density sees it: with noise."""
        x = self.x
        return x + self.data_noise * torch.randn(x.shape, generator=self.noise, dtype=x.dtype, device=x.device)

    def pair(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The parts of ``values`` that belong to x and x'."""
        return values[: self.n], values[self.n : 2 * self.n]
