"""Methods and ablations are configurations of one recipe, and change only what they claim to."""

import copy
from dataclasses import fields

import numpy as np
import pytest

from gedi.data import load
from gedi.errors import ConfigError
from gedi.experiments.variants import VARIANT_CHANGES, ablate
from gedi.objectives.negative_free import Gaussian
from gedi.runs.layout import check_sizes
from gedi.training import fit as fit_module
from gedi.training import moves as moves_module
from gedi.training.build import prepare
from gedi.training.config import check, get, override, paths
from gedi.training.engine import Engine
from gedi.training.fit import fit_prepared
from gedi.training.methods import METHODS, with_method
from gedi.training.presets import PRESETS, configure, preset
from gedi.training.recipe import density_losses


def changes(before, after) -> dict:
    return {path: get(after, path) for path in paths(before) if get(before, path) != get(after, path)}


def ablated(config, name):
    config = copy.deepcopy(config)
    ablate(config, name)
    return config


@pytest.fixture
def calls(monkeypatch):
    """How often each sampler was called."""
    count = {"sgld": 0, "dam": 0}
    for name in count:
        original = getattr(moves_module, name)

        def spy(*args, _name=name, _original=original, **kwargs):
            count[_name] += 1
            return _original(*args, **kwargs)

        monkeypatch.setattr(moves_module, name, spy)
    return count


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_and_a_fresh_object(name):
    first = check(preset(name, n_features=2))
    first.step1.iterations = -7
    assert preset(name, n_features=2).step1.iterations >= 0


@pytest.mark.parametrize(
    ("features", "shape", "expected"),
    [(2, None, "toy"), (8, None, "toy"), (9, None, "rows"), (64, (8, 8, 1), "digits")],
)
def test_the_default_is_chosen_by_the_shape_of_the_data(features, shape, expected):
    assert preset(None, n_features=features, image_shape=shape) == preset(expected, n_features=64, image_shape=shape)


@pytest.mark.parametrize(("side", "expected"), [(32, 10_000), (320, 218), (1000, 64)])
def test_the_buffer_holds_fewer_of_larger_images_and_a_batch_at_least(side, expected):
    shape = (side, side, 3)
    config = preset("paper-cifar10", n_features=3 * side * side, image_shape=shape)
    assert config.sampler.buffer_size == expected >= config.step1.batch_size
    check_sizes(config, 3 * side * side, 10, shape)


def test_the_papers_toys_have_the_conventions_of_the_code_it_builds_on():
    config = preset("paper", n_features=2)
    x = load("paper-circles", n=400).x
    run = Engine(prepare(x, config, 2), seed=0)
    assert (run.state.buffer.chains.abs() <= 1).all() and np.abs(x).max() > 3
    batch = next(run.stage("step1", config.step1))
    assert len(batch.x) == 400 and len(set(batch.rows.tolist())) == 400
    run.state.net.energy_head.weight.data *= 1e4  # chains are thrown far, and nothing holds them
    samples = run.samples(400)
    assert samples is not None and samples.abs().max() > 2 * run.state.buffer.box.high.max()
    run.descend(density_losses(run, batch))
    assert run.recovery.symptom is not None  # the guard sees it


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"'toyy'.*\btoy\b"):
        preset("toyy", n_features=2)
    with pytest.raises(ConfigError, match=r"'swaw'.*\bswav\b"):
        with_method(preset("toy", n_features=2), "swaw")


def test_jem_is_step_1_alone(blobs, tiny, calls):
    config = with_method(tiny(), "jem")
    assert list(config.objective) == ["generative"] and config.step2.iterations == 0
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    assert calls == {"sgld": config.step1.iterations, "dam": 0}
    assert {line["stage"] for line in model.history} == {"step1"}
    assert set(model.predict(blobs)) == {0}


@pytest.mark.parametrize("name", ["smoke", "rows"])
def test_swav_has_no_energy_no_walks_and_no_start(blobs, calls, name):
    config = with_method(preset(name, n_features=2), "swav")
    config.step2.iterations = 4
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    assert calls == {"sgld": 0, "dam": 0}
    assert {line["stage"] for line in model.history} == {"step2"}
    assert not {"generative", "negative_free", "clustering_dam", "anchor"} & set(model.history[-1])
    assert (config.objective["clustering"].kind, config.net.head, config.heads.starts) == ("sinkhorn", "projector", ())
    assert set(model.results["candidates"]) == {"a head"}


def test_swav_gets_the_iterations_of_all_stages(tiny):
    assert with_method(tiny(), "swav").step2.iterations == 4 + 6


def test_gedi_is_the_config_itself_in_a_copy(tiny):
    config = tiny()
    same = with_method(config, "gedi")
    assert same == config and same is not config


WITH_NF = {"objective__negative_free__kind": "gaussian"}  # as in the paper
NO_NF = {f"objective.negative_free.{field.name}": None for field in fields(Gaussian)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("full", {}),
        ("no NF", NO_NF),
        ("no NF + no step 1", NO_NF | {"step1.iterations": 0}),
        ("no NF + two encoders", NO_NF | {"net.two_encoders": True}),
        ("random heads only", {"heads.starts": ()}),
    ],
)
def test_an_ablation_changes_what_it_says(tiny, name, expected):
    config = tiny(**WITH_NF)
    assert changes(config, ablated(config, name)) == expected


@pytest.mark.parametrize(
    ("method", "name", "family"),
    [
        ("simclr", "no DAM", "clustering"),
        ("simclr", "no density", "clustering"),
        ("simclr", "Sinkhorn instead of the prior", "clustering"),
        ("swav", "one encoder", "generative"),
        ("swav", "density frozen after step 1", "generative"),
    ],
)
def test_an_ablation_of_a_missing_term_is_refused(tiny, method, name, family):
    with pytest.raises(ConfigError, match=f"changes the {family} term, but the objective has none"):
        ablated(with_method(tiny(), method), name)


def test_two_encoders_share_no_weights(blobs, tiny):
    net = fit_prepared(prepare(blobs, ablated(tiny(), "no NF + two encoders"), 2), seed=0).net
    own = {id(p) for p in net.energy_encoder.parameters()}
    assert own and own.isdisjoint(id(p) for p in net.encoder.parameters())


@pytest.mark.parametrize("name", [*METHODS, *VARIANT_CHANGES])
def test_all_run_through_the_same_recipe(blobs, tiny, monkeypatch, name):
    seen = []
    original = fit_module.train
    monkeypatch.setattr(fit_module, "train", lambda run: (seen.append(run), original(run)))
    config = with_method(tiny(), name) if name in METHODS else ablated(tiny(**WITH_NF), name)
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    assert len(seen) == 1 and model.net is seen[0].state.net
    assert model.predict_proba(blobs).shape == (80, 2)


@pytest.mark.parametrize("name", ["barlow", "vicreg", "w-mse", "simclr", "protocpc"])
def test_methods_without_a_density_train_their_term_alone_and_find_clear_clusters(blobs, tiny, calls, name):
    config = with_method(tiny(step2__iterations=60), name)
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    assert calls == {"sgld": 0, "dam": 0}
    assert {line["stage"] for line in model.history} == {"step2"} and config.step2.iterations == 4 + 60
    labels = model.predict(blobs)
    right = (labels == np.repeat([0, 1], 40)).mean()
    assert max(right, 1 - right) >= (0.8 if name == "protocpc" else 1.0)  # its teacher needs more iterations
    assert np.allclose(np.linalg.norm(model.transform(blobs), axis=1), 1)


def test_methods_without_a_density_beside_their_clusters_have_one_encoder():
    asked = override(preset("toy", n_features=2), {"net.two_encoders": True})
    for name in METHODS:
        config = with_method(asked, name)
        reads_encoder = getattr(config.objective.get("generative"), "reads_encoder", False)
        assert config.net.two_encoders == (reads_encoder and "clustering" in config.objective and name != "jem"), name


def test_a_misspelt_name_gets_a_suggestion_in_python_too():
    with pytest.raises(ConfigError, match=r"There is no preset 'toyy': did you mean 'toy'\?"):
        configure("toyy", "gedi", n_features=2)
    with pytest.raises(ConfigError, match=r"There is no method 'swaw': did you mean 'swav'\?"):
        configure(None, "swaw", n_features=2)
    with pytest.raises(ConfigError, match="There is no method 'x': choose from gedi, gedi-1"):
        configure(None, "x", n_features=2)
