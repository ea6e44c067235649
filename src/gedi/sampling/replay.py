"""Persistent chains: samples survive from one iteration to the next (Sec. 3.1, JEM's replay buffer)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from gedi.sampling.sgld import Box

if TYPE_CHECKING:
    from gedi.data.scaled_rows import Rows


MANY_MORE = 32  # if there are this many times more numbers than draws, sorting the draws is faster than shuffling all


class ReplayBuffer:
    """Chains kept between iterations; ``draw`` restarts a share of them, ``put`` writes the moved ones back.

    ``restart`` is the paper's re-initialisation frequency: that share of the drawn chains restarts uniformly in the
    box, or in ``restarts`` if it is given. The share ``from_data`` restarts from data instead. This keeps the share of
    chains in each component close to the data's; Langevin noise alone moves chains across a valley only slowly. These
    restarts are blurred by ``blur``, like the data shown to the density, which would otherwise learn the difference.
    With ``from_data=1`` all chains start from data, which is contrastive divergence.
    """

    def __init__(self, size: int, box: Box, generator: torch.Generator, restarts: Box | None = None) -> None:
        self.box, self.restarts = box, restarts or box
        self.chains = self.restarts.uniform(size, generator)

    def draw(
        self,
        n: int,
        *,
        restart: float,
        generator: torch.Generator,
        data: Rows | None = None,
        from_data: float = 0.0,
        blur: float = 0.0,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """``n`` distinct chains and their indices in the buffer."""
        device = self.chains.device
        places = distinct(len(self.chains), n, generator)
        chains = self.chains[places]
        chance = torch.rand(len(places), generator=generator, device=device).view(-1, *[1] * (chains.ndim - 1))
        chains = torch.where(chance < restart, self.restarts.uniform(len(places), generator), chains)
        if data is not None and from_data > 0:
            rows = torch.randint(len(data), (len(places),), generator=generator, device=device)
            fresh = data[rows].to(device)
            fresh = fresh + blur * torch.randn(fresh.shape, generator=generator, device=device)
            chains = torch.where((chance >= restart) & (chance < restart + from_data), fresh, chains)
        return chains, places

    def put(self, places: torch.Tensor, chains: torch.Tensor) -> None:
        """Write moved chains back to their places."""
        self.chains[places] = chains


def distinct(n: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """``size`` distinct numbers below ``n``, or all of them, in random order; O(size log size) for large ``n``.

    >>> len(set(distinct(10**12, 400, torch.Generator().manual_seed(0)).tolist()))
    400
    """
    device = generator.device
    if n < MANY_MORE * size:
        return torch.randperm(n, generator=generator, device=device)[:size]
    while True:
        # Draw more than needed, to allow for duplicates. Every set of distinct numbers is equally likely.
        drawn = torch.randint(n, (2 * size,), generator=generator, device=device).unique()
        if len(drawn) >= size:
            return drawn[torch.randperm(len(drawn), generator=generator, device=device)[:size]]
