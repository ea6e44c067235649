"""Adam (Kingma & Ba, 2015) by torch's fused kernel, without torch.optim, which imports torch's compiler.

That import takes more than a second of every process that trains, and nothing here is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

EPSILON = 1e-8  # added to the root of the second moment, as in torch.optim.Adam
Moments = dict[str, torch.Tensor]


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
