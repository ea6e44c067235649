"""Algorithm 2 of the paper in plain PyTorch, line by line: what an iteration costs without any optimisation.

Sizes, weights and constants are those of the paper (Appendix G); beta, the temperatures and the iterations of Sinkhorn,
which it does not give, are those of our preset `paper`. It is here to be timed, not for its results.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

LogDensity = Callable[[torch.Tensor], torch.Tensor]


def projector() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2), nn.BatchNorm1d(2))


class Model(nn.Module):
    def __init__(self, n_clusters: int) -> None:
        super().__init__()
        hidden = [nn.Linear(2, 100), nn.LeakyReLU(0.2), nn.Linear(100, 100), nn.LeakyReLU(0.2)]
        self.enc = nn.Sequential(*hidden, nn.Linear(100, 2))
        self.proj, self.proj_nf = projector(), projector()
        self.u = nn.Parameter(torch.randn(2))
        self.U = nn.Parameter(torch.randn(n_clusters, 2))

    def log_p(self, x: torch.Tensor) -> torch.Tensor:
        """log p_Psi(x) + const = u^T enc(x)."""
        return self.enc(x) @ self.u


def gradient(log_p: LogDensity, x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(log_p(x).sum(), x)[0]


def sgld(log_p: LogDensity, x: torch.Tensor, *, steps: int, step: float, noise: float, limit: float) -> torch.Tensor:
    for _ in range(steps):
        x = x + step * gradient(log_p, x) + noise * torch.randn_like(x)
        x = x.clamp(-limit, limit)
    return x.detach()


def dam(log_p: LogDensity, x: torch.Tensor, *, steps: int, radius: float) -> torch.Tensor:
    """Algorithm 1; the gradient of log p is parallel to that of p."""
    delta = F.normalize(torch.randn_like(x), dim=1) * radius * torch.rand(len(x), 1) ** (1 / x.shape[1])
    for _ in range(steps):
        g = gradient(log_p, x + delta)
        x = x + delta - (g * delta).sum(1, keepdim=True) / g.square().sum(1, keepdim=True).clamp_min(1e-20) * g
    return x.detach()


def sinkhorn(scores: torch.Tensor, *, epsilon: float = 0.05, iterations: int = 3) -> torch.Tensor:
    """SwAV's: q(y|x) with clusters of equal size."""
    q = torch.exp((scores.detach() - scores.detach().max()) / epsilon).T
    q = q / q.sum()
    for _ in range(iterations):
        q = q / q.sum(1, keepdim=True) / q.shape[0]
        q = q / q.sum(0, keepdim=True) / q.shape[1]
    return (q * q.shape[1]).T


class Training:
    """The two steps of Algorithm 2, an iteration per call."""

    def __init__(
        self, x: torch.Tensor, *, n_clusters: int = 2, batch: int = 400, sgld_steps: int, dam_steps: int
    ) -> None:
        torch.manual_seed(0)
        self.x, self.batch, self.sgld_steps, self.dam_steps = x, batch, sgld_steps, dam_steps
        self.model = Model(n_clusters)
        self.adam = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.limit = float(x.abs().max()) + 0.5
        self.buffer = self.limit * (2 * torch.rand(10_000, 2) - 1)

    def step1(self) -> None:
        x = self.rows()
        self.descend(self.generative(x, self.samples()))

    def step2(self) -> None:
        x, m = self.rows(), self.model
        walked = dam(m.log_p, x, steps=self.dam_steps, radius=0.03)
        view = x + 0.03 * torch.randn_like(x)
        samples = self.samples()
        clusters = self.discriminative(x, view) + 0.5 * self.discriminative(x, walked)
        self.descend(self.generative(x, samples) + self.negative_free(x, view) / len(x) + 1000 * clusters)

    def rows(self) -> torch.Tensor:
        return self.x[torch.randperm(len(self.x))[: self.batch]]

    def samples(self) -> torch.Tensor:
        places = torch.randint(len(self.buffer), (self.batch,))
        fresh = torch.rand(self.batch, 1) < 0.05
        start = torch.where(fresh, self.limit * (2 * torch.rand(self.batch, 2) - 1), self.buffer[places])
        self.buffer[places] = found = sgld(
            self.model.log_p, start, steps=self.sgld_steps, step=1.0, noise=0.01, limit=self.limit
        )
        return found

    def generative(self, x: torch.Tensor, samples: torch.Tensor) -> torch.Tensor:
        """CE(p, p_Psi), by its gradient (Eq. 12)."""
        return self.model.log_p(samples).mean() - self.model.log_p(x).mean()

    def negative_free(self, x: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        """-L_NF (Eq. 7)."""
        h, h_view = (self.model.enc(v) for v in (x, view))
        z = self.model.proj_nf(h)
        centred = z - z.mean(0)
        sigma = centred.T @ centred + 0.001 * torch.eye(z.shape[1])
        return (sigma.trace() - torch.logdet(sigma)) / 2 + (h - h_view).square().sum() / 2

    def discriminative(self, x: torch.Tensor, view: torch.Tensor) -> torch.Tensor:
        """-L_DI (Eq. 4) with q by Sinkhorn."""
        U = F.normalize(self.model.U, dim=1)
        scores, of_view = (F.normalize(self.model.proj(self.model.enc(v)), dim=1) @ U.T for v in (x, view))
        return -(sinkhorn(of_view) * F.log_softmax(scores / 0.1, dim=1)).sum(1).mean()

    def descend(self, loss: torch.Tensor) -> None:
        self.adam.zero_grad()
        loss.backward()
        self.adam.step()
