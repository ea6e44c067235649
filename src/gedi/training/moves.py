"""How rows move with a run's settings: chains by SGLD, and walks along the density by DAM."""

from __future__ import annotations

import torch

from gedi.nets import GediNet
from gedi.sampling import Box, DamInfo, dam, sgld
from gedi.training.config import DamConfig, SamplerConfig


def langevin(
    net: GediNet, chains: torch.Tensor, c: SamplerConfig, box: Box, generator: torch.Generator, *, steps: int
) -> torch.Tensor:
    """Chains after ``steps`` Langevin steps on p_Psi (Sec. 3.1)."""
    assert c.noise is not None
    return sgld(
        net.score,
        chains,
        steps=steps,
        noise=c.noise,
        final_noise=c.final_noise,
        step=c.step,
        max_drift=c.max_drift,
        box=box,
        generator=generator,
    )


def langevin_in_blocks(
    net: GediNet, chains: torch.Tensor, c: SamplerConfig, box: Box, generator: torch.Generator, *, steps: int
) -> torch.Tensor:
    """The same for any number of chains: those of images are moved in blocks that fit into a forward pass."""
    at_once = len(chains) if net.encoder.is_exact else net.encoder.rows_at_once
    return torch.cat([langevin(net, some, c, box, generator, steps=steps) for some in chains.split(at_once)])


def walk(
    net: GediNet, x: torch.Tensor, c: DamConfig, generator: torch.Generator, *, keep_path: bool = False
) -> tuple[torch.Tensor, DamInfo]:
    """Where DAM walks (Alg. 1) from rows x end, in blocks that fit into a forward pass."""
    assert c.radius is not None
    parts = [
        dam(
            net.log_density,
            part,
            radius=c.radius,
            steps=c.steps,
            generator=generator,
            max_drop=c.max_drop,
            gradient=net.score,
            keep_path=keep_path,
        )
        for part in x.split(net.encoder.rows_at_once)
    ]
    columns = zip(*(info for _, info in parts), strict=True)
    distance, change, *path = (torch.cat(column) for column in columns if column[0] is not None)
    return torch.cat([end for end, _ in parts]), DamInfo(distance, change, *path)
