"""What do the paper's settings for images cost on a GPU, and how does training with them begin?

    python benchmarks/paper_scale.py                        # counts floating-point operations: a minute
    python benchmarks/paper_scale.py --first 200 --data svhn    # also trains the first iterations at full width

On one core of a laptop, each of the first iterations takes about 16 seconds. Writes results/laptop/paper-scale.json,
whose history has what the guard saw.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from machine import RESULTS, arguments, origin, write
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from gedi import data as gedi_data
from gedi.experiments.image_cells import CLASSES, SHAPE
from gedi.training.build import prepare
from gedi.training.config import TrainingConfig
from gedi.training.engine import Engine
from gedi.training.fit import fit_prepared
from gedi.training.presets import configure
from gedi.training.recipe import all_losses, density_losses

FEW = 4  # images in a batch whose operations are counted: they grow in proportion to the batch
SUSTAINED = 10e12  # operations per second: about half of the float32 peak of a data-centre GPU of 2020
STEPS = {"step1": density_losses, "step2": all_losses}


class Counter(TorchDispatchMode):
    """Counts operations; torch's own counter follows modules too, which gradients of inputs break."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if formula := flop_registry.get(func.overloadpacket):
            self.count += formula(*args, **(kwargs or {}), out_val=found)
        return found


def settings(data: str, **changes: Any) -> TrainingConfig:
    return configure(f"paper-{data}", "gedi", changes, n_features=math.prod(SHAPE), image_shape=SHAPE)


def operations(data: str) -> dict[str, float]:
    """Floating-point operations of one iteration of each step."""
    batch = settings(data).step1.batch_size
    few = {f"{step}.{name}": value for step in STEPS for name, value in (("iterations", 1), ("batch_size", FEW))}
    x = np.random.default_rng(0).integers(0, 256, (8 * FEW, math.prod(SHAPE)), dtype=np.uint8)
    run = Engine(prepare(x, settings(data, **few), CLASSES[data], image_shape=SHAPE), seed=0)
    found = {}
    for step, losses in STEPS.items():
        for rows in run.stage(step, getattr(run.config, step)):
            with Counter() as counter:
                run.descend(losses(run, rows))
            found[step] = counter.count * batch / FEW
    return found


def cost(data: str) -> dict[str, Any]:
    each, config = operations(data), settings(data)
    whole = sum(each[step] * getattr(config, step).iterations for step in STEPS)
    return {
        "iterations": {step: getattr(config, step).iterations for step in STEPS},
        "operations per iteration": each,
        "GPU hours": whole / SUSTAINED / 3600,
    }


def beginning(data: str, iterations: int) -> dict[str, Any]:
    """The first iterations at full width: losses, and what the guard saw."""
    short = {"step1.iterations": iterations, "step2.iterations": 0}
    loaded = gedi_data.load(data)
    x = loaded.x.reshape(len(loaded.x), -1)
    model = fit_prepared(prepare(x, settings(data, **short), CLASSES[data], image_shape=SHAPE), seed=0)
    return {"iterations": iterations, "seconds": model.results["seconds"], "history": model.history}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--data", choices=CLASSES, help="the set whose first iterations are trained (default: all)")
    args = parser.parse_args()
    numbers: dict[str, Any] = {name: cost(name) for name in CLASSES}
    for name in [args.data] if args.data else CLASSES:
        if args.first:
            numbers[name]["beginning"] = beginning(name, args.first)
    content = {"sets": numbers, "sustained operations per second": SUSTAINED, "provenance": origin(3)}
    write(content, RESULTS / "paper-scale.json")
    for name, found in numbers.items():
        print(f"{name}: about {found['GPU hours']:.0f} hours at {SUSTAINED / 1e12:.0f} TFlop/s")


if __name__ == "__main__":
    main()
