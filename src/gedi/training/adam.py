"""Adam (Kingma & Ba, 2015) by torch's fused kernel, and the learning rate of a stage.

torch.optim would import torch's compiler. That takes more than a second in every process, and nothing here is compiled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch

from gedi.training.config import StageConfig

EPSILON = 1e-8  # added to the root of the second moment, as in torch.optim.Adam
Moments = dict[str, torch.Tensor]


def rate(iteration: int, config: StageConfig, length: int | None = None) -> float:
    """Learning rate relative to its peak: linear warm-up, plateau, cosine decay to ``final_rate``.

    ``length`` is the number of iterations of the stage, if it is lower than in its settings.
    """
    n = config.iterations if length is None else length
    warm = min(1.0, (iteration + 1) / max(1, min(config.warmup, config.iterations // 10)))
    decay_from = config.decay_from * n
    if iteration < decay_from:
        return warm
    share = (iteration - decay_from) / max(1.0, n - decay_from)
    return warm * (config.final_rate + (1 - config.final_rate) * (1 + math.cos(math.pi * share)) / 2)


class Adam:
    """Updates parameters in place; names of the moments, and arithmetic, are those of torch.optim.Adam."""

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], *, learning_rate: float, betas: tuple[float, float]
    ) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.betas = betas
        self.moments: dict[int, Moments] = {}  # by place in `parameters`, once a parameter has had a gradient

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter that has a gradient."""
        gradients = {place: p.grad for place, p in enumerate(self.parameters) if p.grad is not None}
        if not gradients:
            return
        moments = [self._moments(place) for place in gradients]
        steps = [one["step"] for one in moments]
        torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
        torch._fused_adam_(  # pyright: ignore[reportPrivateImportUsage]
            [self.parameters[place] for place in gradients],
            list(gradients.values()),
            [one["exp_avg"] for one in moments],
            [one["exp_avg_sq"] for one in moments],
            [],
            steps,
            lr=self.learning_rate,
            beta1=self.betas[0],
            beta2=self.betas[1],
            weight_decay=0.0,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _moments(self, place: int) -> Moments:
        if place not in self.moments:
            parameter = self.parameters[place]
            self.moments[place] = {
                "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
                "exp_avg": torch.zeros_like(parameter, memory_format=torch.preserve_format),
                "exp_avg_sq": torch.zeros_like(parameter, memory_format=torch.preserve_format),
            }
        return self.moments[place]
