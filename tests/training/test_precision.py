"""bf16-mixed: the networks run in bfloat16; samples, assignments, losses and weights stay in float32."""

import pytest
import torch

from gedi.objectives import clustering as clustering_module
from gedi.training import moves as moves_module
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.recipe import train
from gedi.training.world import Hardware, World


@pytest.fixture(scope="module")
def mixed():
    return World(Hardware(precision="bf16-mixed"))


def test_networks_are_computed_in_bfloat16_and_handed_on_in_float32(make_engine, tiny, mixed):
    run = make_engine(tiny(), world=mixed)
    exact, rounded = run.state.net.encoder(run.x), run.apply(run.state.net.encoder, run.x)
    assert rounded.dtype == torch.float32
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(rounded, exact, atol=0.05, rtol=0.05)


def test_sampling_and_sinkhorn_see_float32_outside_autocast(make_engine, tiny, mixed, monkeypatch):
    seen = {}

    def watch(module, name):
        original = getattr(module, name)

        def spy(first, *args, **options):
            inputs = first if isinstance(first, torch.Tensor) else args[0]
            seen[name] = (inputs.dtype, torch.is_autocast_enabled("cpu"))
            return original(first, *args, **options)

        monkeypatch.setattr(module, name, spy)

    for module, name in ((moves_module, "sgld"), (moves_module, "dam"), (clustering_module, "sinkhorn")):
        watch(module, name)
    run = make_engine(tiny(objective__clustering__kind="sinkhorn"), world=mixed)
    train(run)
    assert seen == dict.fromkeys(("sgld", "dam", "sinkhorn"), (torch.float32, False))
    assert {value.dtype for value in run.state.net.parameters()} == {torch.float32}
    assert run.state.buffer.chains.dtype == torch.float32


def test_clusters_are_those_of_full_precision(blobs, tiny, mixed):
    config = tiny(step1__iterations=40, step2__iterations=40)
    full, half = (fit_prepared(prepare(blobs, config, 2), seed=0, world=world) for world in (None, mixed))
    agree = (full.predict(blobs) == half.predict(blobs)).mean()
    assert max(agree, 1 - agree) == 1.0
