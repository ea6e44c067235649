"""Adam: the same numbers as torch's, without its import of the compiler."""

import subprocess
import sys
import textwrap

import pytest
import torch

from gedi.training.adam import Adam
from gedi.training.world import has_accelerator


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


FITS = """
    import sys
    import numpy as np
    from gedi import GEDI
    from gedi.cli import main
    from gedi.runs.layout import shape_of_net
    from gedi.training.presets import preset

    shape_of_net(preset("rows", n_features=9), 9, 2)
    shape_of_net(preset("images", n_features=3072), 3072, 2, (32, 32, 3))
    rows, run = sys.argv[1:]
    x = np.random.default_rng(0).normal(size=(60, 2))
    np.save(rows, x)
    assert main(["fit", rows, "--n-clusters", "2", "--preset", "smoke", "--out", run]) == 0
    GEDI(n_clusters=2, preset="smoke", random_state=0).fit(x)
    GEDI.load(run).predict(x)
    sys.exit("torch._dynamo" in sys.modules)
"""


@pytest.mark.skipif(has_accelerator(), reason="Fabric, which connects to the device, imports the compiler")
def test_no_fit_imports_the_compiler(tmp_path):
    words = [textwrap.dedent(FITS), str(tmp_path / "rows.npy"), str(tmp_path / "run")]
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", *words], check=False).returncode == 0
