"""The symbolic term rewards what satisfies the constraint."""

import pytest
import torch

from gedi.logic import Categorical, Constraint
from gedi.objectives.symbolic import symbolic_loss

a, b, c = (Categorical(n, 10) for n in "abc")
ADDITION = Constraint(a + b == c)


def loss(scores: torch.Tensor) -> torch.Tensor:
    """Of the scores [triplets, 3, 10]."""
    log_probs = scores.log_softmax(2)
    return symbolic_loss(ADDITION.log_prob({n: log_probs[:, i] for i, n in enumerate("abc")}))


def test_it_is_minus_the_mean_log_probability():
    assert float(loss(torch.zeros(4, 3, 10))) == pytest.approx(-torch.tensor(0.055).log().item())


def test_it_vanishes_where_the_constraint_holds_for_certain():
    scores = 1e3 * torch.nn.functional.one_hot(torch.tensor([[2, 3, 5], [0, 0, 0]]), 10).float()
    assert float(loss(scores)) == 0


def test_following_its_gradient_satisfies_the_constraint():
    scores = torch.randn(8, 3, 10, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimiser = torch.optim.Adam([scores], lr=0.3)
    for _ in range(100):
        optimiser.zero_grad()
        loss(scores).backward()
        optimiser.step()
    chosen = scores.argmax(2)
    assert torch.equal(chosen[:, 0] + chosen[:, 1], chosen[:, 2])
