"""Any likelihood-based model can be p_Psi: each kind trains, walks, scores, samples, is saved and resumed."""

import copy

import numpy as np
import pytest
import torch

from gedi import GEDI
from gedi.errors import ConfigError
from gedi.nets.likelihoods import zuko_flow
from gedi.objectives.term import kinds
from gedi.training import recipe
from gedi.training.build import prepare
from gedi.training.config import TrainingConfig, check_outliers, override, read_objective
from gedi.training.fit import fit_prepared
from gedi.training.moves import walk

GENERATIVE = list(kinds()["generative"])
SMALL = {"flow": {"hidden": [16], "transforms": 2}, "vae": {"hidden": [16], "latent": 2}, "contrastive": {"bank": 32}}


def has_zuko() -> bool:
    try:
        zuko_flow("nsf")
    except ConfigError:
        return False
    return True


@pytest.fixture(params=GENERATIVE)
def kind(request):
    if request.param == "flow" and not has_zuko():
        pytest.skip("zuko is not installed")
    return request.param


def with_kind(config: TrainingConfig, kind: str, **settings) -> TrainingConfig:
    return override(config, {"objective.generative": {"kind": kind} | SMALL.get(kind, {}) | settings})


def test_each_kind_trains_and_is_saved_whole(blobs, tiny, kind, tmp_path):
    changes = {"objective.generative": {"kind": kind} | SMALL.get(kind, {})}
    model = GEDI(n_clusters=2, preset="smoke", training=changes, random_state=0).fit(blobs)
    scores = model.score_samples(blobs)
    assert np.isfinite(scores).all() and scores.std() > 0
    assert np.isfinite(model.ood_score(blobs)).all()
    samples = model.sample(40)
    assert samples.shape == (40, 2) and np.isfinite(samples).all() and len(np.unique(samples, axis=0)) > 30
    model.save(tmp_path / "run")
    again = GEDI.load(tmp_path / "run")
    np.testing.assert_array_equal(again.score_samples(blobs), scores)
    np.testing.assert_array_equal(again.predict_proba(blobs), model.predict_proba(blobs))
    np.testing.assert_array_equal(again.sample(40), samples)


def test_only_contrastive_divergence_takes_samples(make_engine, tiny, kind):
    run = make_engine(with_kind(tiny(), kind))
    drawn = run.samples(8)
    assert (drawn is None) == (kind in ("denoising", "flow", "vae"))


def test_step_1_finds_data_likelier_than_the_gap_between_them(blobs, tiny, kind):
    """The density alone, without clusters. A VAE starts with one blob and takes longer to split it."""
    longer = {"step1__iterations": 400, "step1__learning_rate": 5e-3} if kind == "vae" else {"step1__iterations": 60}
    settings = {"hidden": [32, 32]} if kind == "vae" else {}
    config = with_kind(tiny(step2__iterations=0, **longer), kind, **settings)
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    between = np.zeros((50, 2)) + np.random.default_rng(0).normal(0, 0.1, (50, 2)) + blobs.mean(0)
    assert np.median(model.score_samples(blobs)) > np.median(model.score_samples(between))


def test_dam_walks_on_each_and_stays_where_data_are(make_engine, tiny, kind):
    run = make_engine(with_kind(tiny(step1__iterations=40, step2__iterations=0), kind))
    recipe.train(run)
    run.state.average.refresh_density(run.x)
    walked, info = walk(run.state.average, run.x[:20], run.config.dam, run.state.noise)
    assert torch.isfinite(walked).all() and float(info.distance.mean()) > 0
    assert float(info.log_density_change.min()) > -3.01  # dam.max_drop


def test_a_copy_of_a_net_is_on_its_own(make_engine, tiny, kind):
    """A density calls methods of its own net, so a copy must call those of the copy."""
    net = make_engine(with_kind(tiny(), kind)).state.net.eval()
    other = copy.deepcopy(net)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1)
    x = torch.linspace(-1, 1, 20).view(10, 2)
    before = other.log_density(x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert torch.equal(other.log_density(x), before)
    names = list(net.state_dict())
    assert len({value.data_ptr() for value in net.state_dict().values() if value.numel()}) == sum(
        net.state_dict()[name].numel() > 0 for name in names
    )


def test_the_bank_of_a_contrastive_density_is_of_the_trained_net(blobs, tiny):
    model = fit_prepared(prepare(blobs, with_kind(tiny(), "contrastive"), 2), seed=0)
    rows = torch.from_numpy(model.scaler.transform(blobs))
    chosen = rows[torch.arange(32) * len(rows) // 32]
    with torch.no_grad():
        assert torch.allclose(model.net.density.bank, model.net.embed(chosen), atol=1e-6)


def test_a_density_updated_every_third_iteration_costs_a_third(make_engine, tiny):
    run = make_engine(tiny(objective__generative__every=3, step2__iterations=0))
    due = []
    for run.state.iteration in range(6):
        due.append("generative" in recipe.due_terms(run))
    assert due == [True, False, False, True, False, False]


def test_a_density_of_step_1_only_is_as_step_1_left_it(make_engine, tiny):
    run = make_engine(tiny(objective__generative__every=0, net__two_encoders=True))
    for batch in run.stage("step1", run.config.step1):
        run.descend(recipe.density_losses(run, batch))
    after_step1 = {name: value.clone() for name, value in run.state.average.state_dict().items()}
    recipe.train(run)
    now = run.state.net.state_dict()
    own = [name for name in now if name.startswith(("own_energy_encoder.", "energy_head."))]
    assert own and all(torch.equal(now[name], after_step1[name]) for name in own)
    assert not torch.equal(now["clusters.weight"], after_step1["clusters.weight"])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"step1__iterations": 0, "net__two_encoders": True}, "set training.step1.iterations"),
        ({}, "set training.net.two_encoders"),
    ],
)
def test_a_density_of_step_1_only_has_to_learn_there_and_to_last(tiny, changes, expected):
    with pytest.raises(ConfigError, match=expected):
        tiny(objective__generative__every=0, **changes)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kind": "energy", "every": -1}, "every must not be negative"),
        ({"kind": "contrastive", "bank": 0}, "bank must be positive"),
        ({"kind": "logsumexp", "tau": -1.0}, "tau must be positive"),
        ({"kind": "flow", "passes": 0}, "passes must be positive"),
        ({"kind": "flow", "flow": "glow"}, "flow"),
        ({"kind": "vae", "hidden": []}, "hidden must list"),
    ],
)
def test_settings_that_cannot_work_are_named(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        read_objective(generative=settings)


@pytest.mark.parametrize("kind", ["energy", "denoising"])
def test_a_density_of_weight_zero_is_no_density(blobs, tiny, kind):
    without = override(tiny(step1__iterations=0), {"objective.generative": None})
    zero = override(tiny(step1__iterations=0), {"objective.generative": {"kind": kind, "weight": 0.0}})
    plain, same = (fit_prepared(prepare(blobs, config, 2), seed=0) for config in (without, zero))
    assert not same.has_density and "denoising_error" not in same.history[-1]
    weights, others = plain.net.state_dict(), same.net.state_dict()
    assert weights.keys() == others.keys() and all(torch.equal(weights[name], others[name]) for name in weights)
    with pytest.raises(ConfigError, match="this method trains none"):
        check_outliers(0.2, zero)
