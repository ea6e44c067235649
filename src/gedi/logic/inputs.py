"""Checks of the log-probabilities given to a constraint: each error says in one sentence what is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

import torch

from gedi.errors import LogicError
from gedi.logic.expressions import Categorical

TOLERANCE = {torch.float16: 2e-2, torch.bfloat16: 5e-2}  # of a distribution's sum, for rounding errors
DEFAULT_TOLERANCE = 1e-3


def check_shapes(log_probs: Mapping[str, torch.Tensor], variables: Sequence[Categorical]) -> None:
    """Require exactly one floating-point tensor [batch, size] for each variable."""
    names = [v.name for v in variables]
    for name in log_probs:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"its variables are {', '.join(map(repr, names))}."
            raise LogicError(f"log_probs has {name!r}, which is not a variable of the constraint: {hint}")
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
