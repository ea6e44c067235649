"""Log-probabilities that do not fit the constraint are refused in one sentence."""

from __future__ import annotations

import pytest
import torch

from gedi.errors import LogicError
from gedi.logic import Categorical, Constraint

a, b = Categorical("alpha", 3), Categorical("beta", 4)
RULE = Constraint(a < b)


def good() -> dict[str, torch.Tensor]:
    return {"alpha": torch.randn(5, 3).log_softmax(1), "beta": torch.randn(5, 4).log_softmax(1)}


def spoilt(name, change):
    log_probs = good()
    log_probs[name] = change(log_probs[name])
    return log_probs


def with_nan(x):
    x = x.clone()
    x[2, 1] = torch.nan
    return x


@pytest.mark.parametrize(
    ("log_probs", "says"),
    [
        ({"alpha": good()["alpha"]}, "no entry for 'beta'"),
        (good() | {"alpa": torch.zeros(5, 3)}, "did you mean 'alpha'"),
        (good() | {"x": torch.zeros(5, 3)}, "its variables are 'alpha', 'beta'"),
        (spoilt("beta", lambda x: x[:, :3]), r"shape \(5, 3\), but 'beta' has 4 values"),
        (spoilt("beta", lambda x: x[0]), r"shape \(4,\)"),
        (spoilt("beta", lambda x: x[:4]), "has 4 rows and log_probs\\['alpha'\\] has 5"),
        (spoilt("beta", lambda x: x.to("meta")), "'beta'\\] is on meta and log_probs\\['alpha'\\] is on cpu"),
        (spoilt("beta", lambda x: x.long()), "torch.int64"),
        (spoilt("beta", lambda x: x.tolist()), "list"),
        (spoilt("beta", with_nan), "'beta'\\], row 2, contains NaN"),
        (spoilt("beta", lambda x: x.exp()), "probabilities, not their logarithms"),
        (spoilt("alpha", lambda x: x + 1), "sum to 2.718, not 1"),
        (spoilt("alpha", lambda x: torch.full_like(x, -torch.inf)), "sum to 0, not 1"),
        (spoilt("alpha", lambda x: torch.full_like(x, torch.inf)), "sum to inf, not 1"),
    ],
)
@pytest.mark.parametrize("question", ["log_prob", "marginals", "entropy", "most_likely"])
def test_errors_name_the_wrong_input(question, log_probs, says):
    with pytest.raises(LogicError, match=says) as caught:
        getattr(RULE, question)(log_probs)
    assert "\n" not in str(caught.value)


def test_the_check_of_values_can_be_skipped_but_not_that_of_shapes():
    normalised = good()
    shifted = normalised | {"alpha": normalised["alpha"] + 1}
    torch.testing.assert_close(RULE.log_prob(shifted, check=False), RULE.log_prob(normalised) + 1)
    with pytest.raises(LogicError, match="no entry for 'beta'"):
        RULE.log_prob({"alpha": normalised["alpha"]}, check=False)


@pytest.mark.parametrize("question", ["marginals", "entropy", "most_likely", "sample"])
def test_conditioning_on_an_impossible_constraint_is_an_error(question):
    log_probs = {"alpha": torch.tensor([[0.2, 0.3, 0.5], [0, 0, 1.0]]).log(), "beta": torch.eye(4)[[3, 0]].log()}
    options = {"generator": torch.Generator()} if question == "sample" else {}
    with pytest.raises(LogicError, match="Row 1 gives the constraint probability 0"):
        getattr(RULE, question)(log_probs, **options)
