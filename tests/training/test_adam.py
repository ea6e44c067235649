"""Adam: the same numbers as torch's, without its import of the compiler."""

import subprocess
import sys

import pytest
import torch

from gedi.training.adam import Adam


@pytest.mark.parametrize("betas", [(0.9, 0.999), (0.0, 0.9)])
def test_the_same_weights_and_moments_as_torch(betas):
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(3, 4, generator=generator), torch.randn(4, generator=generator), torch.randn(2)]
    mine, theirs = ([torch.nn.Parameter(value.clone()) for value in start] for _ in range(2))
    ours = Adam(mine, learning_rate=0.01, betas=betas)
    reference = torch.optim.Adam(theirs, lr=0.01, betas=betas, fused=True)
    for step in range(5):
        ours.learning_rate = reference.param_groups[0]["lr"] = 0.01 / (step + 1)
        ours.zero_grad()
        reference.zero_grad()
        for parameters in (mine, theirs):
            # The second parameter joins late, the third never has a gradient.
            loss = parameters[0].square().sum() + (parameters[1].sin().sum() if step > 1 else 0)
            loss.backward()
        ours.step()
        reference.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))
    assert list(ours.moments) == [0, 1]
    for place, moments in reference.state_dict()["state"].items():
        assert all(torch.equal(ours.moments[place][name], value) for name, value in moments.items())


def test_a_fit_does_not_import_the_compiler():
    code = (
        "import sys, numpy as np; from gedi import GEDI;"
        "GEDI(n_clusters=2, preset='smoke', random_state=0).fit(np.random.default_rng(0).normal(size=(60, 2)));"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=False).returncode == 0
