"""Circuits on tensors: upward for log-probabilities, downward for gradients, marginals, samples and best models.

Node values are [nodes, batch]: a layer gathers whole rows, adds them (products), and reduces (sums).

For the most likely values and the entropy of a program's inputs, the program's own facts must be summed out. A circuit
cannot maximise over some variables after summing over others, so these two list the joint values of the inputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gedi.errors import LogicError, did_you_mean
from gedi.logic.circuit import Circuit
from gedi.logic.expressions import Categorical

MOST_JOINT_VALUES = 10_000  # joint values of a program's inputs
JOINT_VALUES_AT_ONCE = 256  # evaluated together, since a circuit has many nodes

Reduce = Callable[[torch.Tensor], torch.Tensor]  # [nodes, products, batch] -> [nodes, batch]
ShareOf = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # terms and their reduction -> each term's share


class Layer(NamedTuple):
    """The rows that each product multiplies, [nodes * products] for each factor."""

    factors: list[torch.Tensor]
    nodes: int
    products: int


LayersOf = Sequence[Layer]


def layers_on(circuit: Circuit, device: torch.device) -> LayersOf:
    """The circuit's index arrays on a device."""
    return [
        Layer([torch.from_numpy(factor.ravel()).to(device) for factor in layer], *layer.shape[1:])
        for layer in circuit.layers
    ]


def logsumexp(terms: torch.Tensor) -> torch.Tensor:
    """log sum exp over products; -inf, not NaN, where all are -inf."""
    largest = terms.amax(dim=1, keepdim=True).clamp_min(torch.finfo(terms.dtype).min)
    return (terms - largest).exp_().sum(dim=1).log_() + largest[:, 0]


def softmax_share(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """d logsumexp / d term; 0, not NaN, where the sum is 0."""
    return (terms - total.clamp_min(torch.finfo(terms.dtype).min)[:, None]).exp_()


def best_share(terms: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    """All weight to the largest term (the first, if there are several)."""
    return torch.zeros_like(terms).scatter_(1, terms.argmax(dim=1, keepdim=True), 1.0)


def random_share(generator: torch.Generator) -> ShareOf:
    """All weight to one term, drawn with its probability: the largest after adding Gumbel noise."""

    def share(terms: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
        uniform = torch.rand(terms.shape, generator=generator, device=terms.device, dtype=terms.dtype)
        tiny = torch.finfo(terms.dtype).tiny
        return best_share(terms - (-uniform.clamp_min(tiny).log()).clamp_min(tiny).log(), total)

    return share


def upward(layers: LayersOf, literals: torch.Tensor, reduce: Reduce = logsumexp) -> torch.Tensor:
    """The values of all nodes, the root last, from those of the literals [literals, batch]."""
    count, batch = literals.shape
    values = literals.new_empty(count + 2 + sum(layer.nodes for layer in layers), batch)
    values[:count] = literals
    values[count], values[count + 1] = 0.0, -torch.inf  # ONE and ZERO
    end = count + 2
    for layer in layers:
        start, end = end, end + layer.nodes
        values[start:end] = reduce(_terms(layer, values))
    return values


def downward(
    layers: LayersOf, values: torch.Tensor, weight: torch.Tensor, share: ShareOf = softmax_share
) -> torch.Tensor:
    """Pass the root's ``weight`` [batch] down to the literals; each sum divides its weight among its products."""
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
    """Two explicit passes: autograd would store every intermediate result and launch a kernel for each."""

    @staticmethod
    def forward(ctx: Any, literals: torch.Tensor, layers: LayersOf) -> torch.Tensor:  # type: ignore[override]
        values = upward(layers, literals)
        ctx.save_for_backward(literals, values)
        ctx.layers = layers
        return values[-1].clone()

    @staticmethod
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[torch.Tensor, None]:  # type: ignore[override]
        literals, values = ctx.saved_tensors
        if torch.is_grad_enabled():  # this gradient may be differentiated again
            root = _differentiable(ctx.layers, literals)
            return torch.autograd.grad(root, literals, weight, create_graph=True)[0], None
        return downward(ctx.layers, values, weight), None


def log_prob(layers: LayersOf, literals: torch.Tensor) -> torch.Tensor:
    """log P(root) [batch], differentiable any number of times; -inf with zero gradient where no model is possible."""
    return _LogProb.apply(literals, layers)  # type: ignore[return-value]


def _differentiable(layers: LayersOf, literals: torch.Tensor) -> torch.Tensor:
    """The root's value in operations that autograd knows: slower, and only needed for second derivatives."""
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


class Listed(NamedTuple):
    """Joint values of the inputs, and the log-probability that the program's facts then make the rule hold."""

    names: list[str]
    rows: torch.Tensor  # [rows, inputs] of value indices
    log_weights: torch.Tensor  # [rows]

    def log_joint(self, log_probs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        """log P(inputs = row, rule), [batch, rows]."""
        device = log_probs[self.names[0]].device
        joint = self.log_weights.to(device, dtype)
        for name, column in zip(self.names, self.rows.to(device).unbind(1), strict=True):
            joint = joint + log_probs[name].to(dtype)[:, column]
        return joint


def list_inputs(layers: LayersOf, variables: Sequence[Categorical], fixed: Mapping[str, torch.Tensor]) -> Listed:
    """All joint values of the variables that are not ``fixed``; ``layers`` are on the CPU."""
    inputs = [v for v in variables if v.name not in fixed]
    count = math.prod(v.size for v in inputs)
    if count > MOST_JOINT_VALUES:
        raise LogicError(
            f"The program has facts of its own, and its inputs have {count:,} joint values: most_likely and entropy "
            f"can sum the facts out for at most {MOST_JOINT_VALUES:,}. Use marginals or sample instead."
        )
    rows = torch.tensor(list(itertools.product(*(range(v.size) for v in inputs))))
    columns = {v.name: rows[:, i] for i, v in enumerate(inputs)}
    parts = [
        fixed[v.name].expand(count, -1)
        if v.name in fixed
        else torch.nn.functional.one_hot(columns[v.name], v.size).double().log()
        for v in variables
    ]
    pieces = torch.cat(parts, dim=1).T.split(JOINT_VALUES_AT_ONCE, dim=1)
    weights = torch.cat([upward(layers, piece)[-1] for piece in pieces])
    some = ~weights.isneginf()
    return Listed([v.name for v in inputs], rows[some], weights[some])


def joint_entropy(log_joint: torch.Tensor) -> torch.Tensor:
    """The entropy in nats of each row's normalised distribution, [batch]; values of probability 0 add nothing."""
    log_given = log_joint.log_softmax(1)
    return -(log_given.exp() * torch.where(log_given.isneginf(), 0.0, log_given)).sum(1)


# -- checks of the log-probabilities given; each error says in one sentence what is wrong ------------------------------

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2}  # of a distribution's sum, for rounding errors
DEFAULT_TOLERANCE = 1e-3


def check_shapes(log_probs: Mapping[str, torch.Tensor], variables: Sequence[Categorical]) -> None:
    """Require exactly one floating-point tensor [batch, size] for each variable."""
    names = [v.name for v in variables]
    for name in log_probs:
        if name not in names:
            hint = did_you_mean(name, names, f": its variables are {', '.join(map(repr, names))}.")
            raise LogicError(f"log_probs has {name!r}, which is not a variable of the constraint{hint}")
    for v in variables:
        if v.name not in log_probs:
            raise LogicError(f"log_probs has no entry for {v.name!r}: pass its log-probabilities [batch, {v.size}].")
        given = log_probs[v.name]
        if not isinstance(given, torch.Tensor) or not given.is_floating_point():
            kind = given.dtype if isinstance(given, torch.Tensor) else type(given).__name__
            raise LogicError(f"log_probs[{v.name!r}] is {kind}, not a floating-point tensor: pass log_softmax(...).")
        if given.ndim != 2 or given.shape[1] != v.size:
            raise LogicError(
                f"log_probs[{v.name!r}] has shape {tuple(given.shape)}, but {v.name!r} has {v.size} values: "
                f"pass a tensor of shape [batch, {v.size}]."
            )
        first = log_probs[names[0]]  # already checked
        if given.device != first.device:
            raise LogicError(
                f"log_probs[{v.name!r}] is on {given.device} and log_probs[{names[0]!r}] is on {first.device}: "
                "move them to one device."
            )
        if len(given) != len(first):
            raise LogicError(
                f"log_probs[{v.name!r}] has {len(given)} rows and log_probs[{names[0]!r}] has {len(first)}: "
                "pass the same number of rows for every variable."
            )


def check_normalised(
    literals: torch.Tensor, log_probs: Mapping[str, torch.Tensor], variables: Sequence[Categorical]
) -> None:
    """Require every row of every variable to be a distribution; if all are, the device is synchronised only once."""
    probabilities = literals.detach().exp().split([v.size for v in variables])
    sums = torch.stack([p.sum(0) for p in probabilities])
    loosest = max(TOLERANCE.get(log_probs[v.name].dtype, DEFAULT_TOLERANCE) for v in variables)
    fits = (sums - 1).abs() <= loosest  # false for NaN
    if bool(fits.all()):
        return
    place, row = torch.nonzero(~fits)[0].tolist()
    name = variables[place].name
    given = log_probs[name].detach()[row]
    where = f"log_probs[{name!r}], row {row},"
    if bool(given.isnan().any()):
        raise LogicError(f"{where} contains NaN: check the network that produced it, and its learning rate.")
    if bool((given >= 0).all()) and abs(float(given.sum()) - 1) < loosest:
        raise LogicError(f"{where} contains probabilities, not their logarithms: pass log_softmax(scores, dim=1).")
    raise LogicError(
        f"{where} has probabilities that sum to {float(sums[place, row]):.4g}, not 1: pass log_softmax(scores, dim=1)."
    )


def check_possible(log_prob: torch.Tensor) -> None:
    """Require every row to allow at least one model; otherwise there is nothing to condition on."""
    impossible = torch.isneginf(log_prob)
    if bool(impossible.any()):
        row = int(torch.nonzero(impossible)[0])
        raise LogicError(
            f"Row {row} gives the constraint probability 0, so no values can satisfy it: "
            "omit the row, or give every value some probability."
        )
