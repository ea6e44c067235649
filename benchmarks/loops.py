"""Inner loops compared with other ways to do the same work: autograd, torchebm, and the bare matrix products."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import literal
import torch
from machine import alternating, sgemm_peak
from sklearn.datasets import make_moons
from torch.utils.flop_counter import FlopCounterMode

from gedi.nets import GediNet, MLPEncoder, ResNet8, score
from gedi.nets.gedinet import energy_density
from gedi.sampling import Box, dam, sgld
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.presets import configure

STEPS, WALK = 8, 10
Skipped = list[str]


def measure(repeats: int, skipped: Skipped) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    return [*langevin(repeats, skipped), *walks(repeats), resnet(repeats), *literal_algorithm(repeats)]


def against(what: str, times: dict[str, float]) -> list[dict[str, Any]]:
    """One line per peer: their time as a multiple of ours."""
    ours = times.pop("ours")
    return [
        {"what": what, "beside": name, "their time / ours": theirs / ours, "ours, ms": ours, "theirs, ms": theirs}
        for name, theirs in times.items()
    ]


def toy_net() -> GediNet:
    encoder = MLPEncoder(2, (100, 100), 8, frequency=3.0)
    sizes = {"representation": 8, "embedding": 8, "projector_hidden": 16, "n_clusters": 2}
    return GediNet(encoder, head="projector", density=energy_density, **sizes)


def langevin(repeats: int, skipped: Skipped) -> list[dict[str, Any]]:
    net, x = toy_net(), torch.randn(400, 2)
    box, generator = Box.around(x, 0.5), torch.Generator().manual_seed(0)
    chain = {"steps": STEPS, "noise": 0.2, "final_noise": 0.05, "box": box, "generator": generator}
    limit = float(x.abs().max()) + 0.5
    plain = {"steps": STEPS, "step": 0.02, "noise": 0.2, "limit": limit}
    functions: dict[str, Callable[[], object]] = {
        "ours": lambda: sgld(net.score, x, **chain),
        "our sampler on autograd": lambda: sgld(partial(score, net.log_density), x, **chain),
        "a literal loop on autograd": lambda: literal.sgld(net.log_density, x, **plain),
        "bare matrix products": lambda: products(net, x),
    }
    try:
        functions["torchebm"] = torchebm_chain(net, x, limit)
    except ImportError as error:
        skipped.append(f"torchebm's Langevin sampler: {error} (pip install 'gedi-ssl[peers]')")
    return against(f"{STEPS} Langevin steps, batch 400, 2-100-100-8", alternating(functions, repeats))


def torchebm_chain(net: GediNet, x: torch.Tensor, limit: float) -> Callable[[], object]:
    from torchebm.core import BaseModel
    from torchebm.samplers import LangevinDynamics

    class Energy(BaseModel):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return -net.log_density(x)

    sampler = LangevinDynamics(Energy(), step_size=0.02, noise_scale=1.0, clamp=(-limit, limit))
    return lambda: sampler.sample(x=x, n_steps=STEPS)


@torch.no_grad()
def products(net: GediNet, x: torch.Tensor) -> None:
    """The matrix products of the steps, without anything between them."""
    first, second = (linear.weight for linear in net.encoder.linears)  # type: ignore[union-attr]
    h = torch.randn(len(x), len(second))
    for _ in range(STEPS):
        x @ first.T
        h @ second.T
        h @ second
        h @ first


def walks(repeats: int) -> list[dict[str, Any]]:
    net, x, generator = toy_net(), torch.randn(400, 2), torch.Generator().manual_seed(0)
    walk = {"radius": 0.06, "steps": WALK, "generator": generator, "max_drop": 3.0}
    functions: dict[str, Callable[[], object]] = {
        "ours": lambda: dam(net.log_density, x, gradient=net.score, **walk),
        "a literal loop on autograd": lambda: literal.dam(net.log_density, x, steps=WALK, radius=0.06),
    }
    return against(f"DAM, {WALK} steps, batch 400, 2-100-100-8", alternating(functions, repeats))


def resnet(repeats: int) -> dict[str, Any]:
    """A gradient with respect to images, as a share of the fastest matrix product."""
    net, x = ResNet8(3, 128), torch.randn(64, 3, 32, 32)

    def step() -> None:
        score(lambda images: net(images).sum(1), x)

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        net(x)
    few = max(2, repeats // 20)
    peak = sgemm_peak(few)
    ours = alternating({"ours": step}, few)["ours"]
    at_peak = 2 * counter.get_total_flops() / peak / 1e6  # a gradient takes as many flops as the convolution
    return against(
        "input gradient of ResNet-8, F = 128, batch 64", {"ours": ours, "the same flops at sgemm peak": at_peak}
    )[0]


def literal_algorithm(repeats: int) -> list[dict[str, Any]]:
    """An iteration of each step, with the paper's settings for 2-D data."""
    x = make_moons(2000, noise=0.05, random_state=0)[0]
    config = configure("paper", "gedi", n_features=2)
    theirs = literal.Training(
        torch.as_tensor(x, dtype=torch.float32), sgld_steps=config.sampler.steps, dam_steps=config.dam.steps
    )
    lines = []
    for step, iteration in (("step1", theirs.step1), ("step2", theirs.step2)):
        ours = partial(our_iterations, x, step)
        found: dict[str, list[float]] = {"ours": [], "literal": []}
        for _ in range(3):
            found["ours"].append((ours(10 + repeats) - ours(10)) / repeats)
            found["literal"].append(alternating({"literal": iteration}, repeats)["literal"])
        times = {
            "ours": statistics.median(found["ours"]),
            "Algorithm 2 in plain PyTorch": statistics.median(found["literal"]),
        }
        lines += against(f"an iteration of {step}, the paper's settings", times)
    return lines


def our_iterations(x: Any, step: str, iterations: int) -> float:
    """Milliseconds of a fit of this many iterations of one step."""
    none = {"step1.iterations": 0, "step2.iterations": 0, "objective.generative.gradient": 0.0}
    config = configure("paper", "gedi", none | {f"{step}.iterations": iterations}, n_features=2)
    ready = prepare(x, config, 2)
    began = time.perf_counter()
    fit_prepared(ready, seed=0)
    return 1000 * (time.perf_counter() - began)
