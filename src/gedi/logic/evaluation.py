"""Circuits on tensors: upward for log-probabilities, downward for gradients, marginals, samples and best models.

Node values are [nodes, batch]: a layer gathers whole rows, adds them (products), and reduces (sums).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from gedi.logic.circuit import Circuit

Reduce = Callable[[torch.Tensor], torch.Tensor]  # [nodes, products, batch] -> [nodes, batch]
Share = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # terms and their reduction -> each term's share


class Layer(NamedTuple):
    """Which rows each product multiplies, [nodes * products] for each factor."""

    factors: list[torch.Tensor]
    nodes: int
    products: int


Layers = Sequence[Layer]


def layers_on(circuit: Circuit, device: torch.device) -> Layers:
    """The circuit's index arrays on a device."""
    return [
        Layer([torch.from_numpy(factor.ravel()).to(device) for factor in layer], *layer.shape[1:])
        for layer in circuit.layers
    ]


def logsumexp(terms: torch.Tensor) -> torch.Tensor:
    """log sum exp over products; -inf, not NaN, where all are -inf."""
    largest = terms.amax(dim=1, keepdim=True).clamp_min(torch.finfo(terms.dtype).min)
    return (terms - largest).exp_().sum(dim=1).log_() + largest[:, 0]


def largest(terms: torch.Tensor) -> torch.Tensor:
    """The best product's log-probability: what most likely models maximise."""
    return terms.amax(dim=1)


def softmax_share(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """d logsumexp / d term; zero, not NaN, where the sum has no mass."""
    return (terms - total.clamp_min(torch.finfo(terms.dtype).min)[:, None]).exp_()


def best_share(terms: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """All to the first largest term."""
    return torch.zeros_like(terms).scatter_(1, terms.argmax(dim=1, keepdim=True), 1.0)


def random_share(generator: torch.Generator) -> Share:
    """All to one term, drawn with its probability (the largest after adding Gumbel noise)."""

    def share(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        uniform = torch.rand(terms.shape, generator=generator, device=terms.device, dtype=terms.dtype)
        tiny = torch.finfo(terms.dtype).tiny
        return best_share(terms - (-uniform.clamp_min(tiny).log()).clamp_min(tiny).log(), total)

    return share


def upward(layers: Layers, literals: torch.Tensor, reduce: Reduce = logsumexp) -> torch.Tensor:
    """Values of all nodes, the root's last, from the literals' [literals, batch]."""
    count, batch = literals.shape
    values = literals.new_empty(count + 2 + sum(layer.nodes for layer in layers), batch)
    values[:count] = literals
    values[count], values[count + 1] = 0.0, -torch.inf  # ONE and ZERO
    end = count + 2
    for layer in layers:
        start, end = end, end + layer.nodes
        values[start:end] = reduce(_terms(layer, values))
    return values


def downward(layers: Layers, values: torch.Tensor, weight: torch.Tensor, share: Share = softmax_share) -> torch.Tensor:
    """The root's ``weight`` [batch] handed down to the literals, each sum dividing its own among its products."""
    weights = torch.zeros_like(values)
    weights[-1] = weight
    end = len(values)
    for layer in reversed(layers):
        start = end - layer.nodes
        given = share(_terms(layer, values), values[start:end]) * weights[start:end, None]
        for factor in layer.factors:
            weights.index_add_(0, factor, given.flatten(0, 1))
        end = start
    return weights[: end - 2]


def _terms(layer: Layer, values: torch.Tensor) -> torch.Tensor:
    terms = values.index_select(0, layer.factors[0])
    for factor in layer.factors[1:]:
        terms += values.index_select(0, factor)
    return terms.view(layer.nodes, layer.products, values.shape[1])


class _LogProb(torch.autograd.Function):
    """Two passes written out: autograd would keep every layer's intermediate results and start a kernel for each."""

    @staticmethod
    def forward(ctx: Any, literals: torch.Tensor, layers: Layers) -> torch.Tensor:  # type: ignore[override]
        values = upward(layers, literals)
        ctx.save_for_backward(literals, values)
        ctx.layers = layers
        return values[-1].clone()

    @staticmethod
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        literals, values = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody will differentiate this gradient
            root = _differentiable(ctx.layers, literals)
            return torch.autograd.grad(root, literals, weight, create_graph=True)[0], None
        return downward(ctx.layers, values, weight), None


def log_prob(layers: Layers, literals: torch.Tensor) -> torch.Tensor:
    """log P(root) [batch]; differentiable any number of times. Rows without a possible model: -inf, zero gradient."""
    return _LogProb.apply(literals, layers)  # type: ignore[return-value]


def _differentiable(layers: Layers, literals: torch.Tensor) -> torch.Tensor:
    """The root's value by operations autograd knows: slower, needed for second derivatives only."""
    ends = literals.new_tensor([[0.0], [-torch.inf]]).expand(-1, literals.shape[1])
    values = torch.cat([literals, ends])
    for layer in layers:
        terms = torch.stack([values[factor] for factor in layer.factors]).sum(0)
        terms = terms.view(layer.nodes, layer.products, -1)
        highest = terms.detach().amax(dim=1, keepdim=True).clamp_min(torch.finfo(terms.dtype).min)
        total = (terms - highest).exp().sum(dim=1)
        some = total > 0
        sums = torch.where(some, torch.where(some, total, 1.0).log() + highest[:, 0], -torch.inf)
        values = torch.cat([values, sums])
    return values[-1]
