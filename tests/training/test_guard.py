"""The guard: what it sees, what it does about it, and that nothing is masked."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest
import torch

from gedi.cli import main
from gedi.data import load
from gedi.runs import Checkpoints
from gedi.training import engine, recipe
from gedi.training.build import prepare
from gedi.training.config import GuardConfig, SamplerConfig
from gedi.training.fit import fit_prepared
from gedi.training.guard import DivergedError, Guard, GuardWarning, Symptom, cold_sampler, divergence, is_calm, worries
from gedi.training.journal import Hooks
from gedi.training.recipe import train
from gedi.training.recovery import StoppedError
from gedi.training.state import pack

LIMITS = GuardConfig()


# ---- what it sees ----


@pytest.mark.parametrize(
    "values, named",
    [
        ({"generative": -2e3}, "max_gap"),
        ({"generative": 2e3}, "max_gap"),
        ({"energy_size": 1e8}, "max_energy"),
        ({"gradient_norm": 1e7}, "max_gradient"),
        ({"at_box": 0.6}, "max_at_box"),
        ({"negative_free": math.nan}, "negative_free is nan"),
        ({"generative": -math.inf}, "generative is -inf"),
    ],
)
def test_each_limit_is_watched_and_named_with_a_remedy(values, named):
    symptom = divergence({"clustering_augment": 0.1} | values, LIMITS)
    assert symptom is not None and named in symptom.seen and symptom.remedy
    assert symptom.is_finite == all(map(math.isfinite, values.values()))
    assert not is_calm(values, LIMITS) or "at_box" in values


def test_ordinary_numbers_are_not_a_symptom():
    ordinary = {"generative": -30.0, "energy_size": 900.0, "gradient_norm": 20.0, "at_box": 0.04}
    assert divergence(ordinary, LIMITS) is None and is_calm(ordinary, LIMITS)
    assert divergence({}, LIMITS) is None


def test_numbers_near_a_limit_are_neither_a_symptom_nor_calm():
    near = {"generative": -500.0}
    assert divergence(near, LIMITS) is None and not is_calm(near, LIMITS)


def test_a_cold_sampler_is_reported_before_the_first_iteration(make_engine, tiny):
    unbounded = {"max_drift": None}
    assert cold_sampler(SamplerConfig(noise=0.01, step=1.0, **unbounded)).seen.startswith("the sampler's temperature")
    assert cold_sampler(SamplerConfig(noise=0.01, step=1.0)) is None  # its steps have a bounded length
    assert cold_sampler(SamplerConfig(noise=0.1, **unbounded)) is None  # unset: temperature 1
    assert cold_sampler(SamplerConfig(noise=0.1, step=0.005, **unbounded)) is None
    run = make_engine(tiny(sampler__step=1.0, sampler__noise=0.01, sampler__final_noise=0.01, sampler__max_drift=None))
    with pytest.warns(GuardWarning, match="temperature"):
        next(run.stage("step1", run.config.step1))
    assert [(e["stage"], e["iteration"], e["action"]) for e in run.guard.events] == [("step1", 0, "warned")]


def test_clusters_that_do_not_form_walks_that_leave_and_empty_clusters_are_worries():
    stuck = {"clustering_augment": math.log(3), "clustering_dam": math.log(3)}
    found = worries(stuck | {"walk_log_density_change": -9.0, "empty_clusters": 1.0}, n_clusters=3, max_drop=3.0)
    assert [
        "no clusters were learned" in found[0].seen,
        "leave the density" in found[1].seen,
        "1 of 3" in found[2].seen,
    ] == [True] * 3
    fine = {"clustering_augment": 0.1, "walk_log_density_change": -1.0, "empty_clusters": 0.0}
    assert worries(fine, n_clusters=3, max_drop=3.0) == []


# ---- what it does ----


def nothing_but_nan(losses, *names):
    """The losses, those of these names made NaN."""
    return losses | {name: losses[name]._replace(value=losses[name].value * math.nan) for name in names}


def failing(run, monkeypatch, when):
    """Make the generative term NaN at the calls in ``when``."""
    calls = [0]
    original = recipe.density_losses

    def terms(*args):
        calls[0] += 1
        found = original(*args)
        return nothing_but_nan(found, "generative") if calls[0] in when else found

    monkeypatch.setattr(recipe, "density_losses", terms)
    return calls


def test_one_bad_batch_is_rolled_back_and_the_run_goes_on(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(step1__iterations=8, guard__every=3))
    failing(run, monkeypatch, {6})
    with pytest.warns(GuardWarning, match="rolled back to iteration 3"):
        train(run)
    (event,) = [e for e in run.guard.events if e["action"] != "warned"]
    assert (event["stage"], event["iteration"]) == ("step1", 5)
    assert event["seen"] == "generative is nan" and "learning rate x 0.5" in event["action"]
    assert event in run.journal.history
    assert all(torch.isfinite(value).all() for value in run.state.net.state_dict().values())


def test_a_rollback_restores_the_calm_state_and_draws_other_noise(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(step1__iterations=4, guard__every=2))
    failing(run, monkeypatch, {3})
    seen = []
    original = run._batch
    monkeypatch.setattr(run, "_batch", lambda size: seen.append((run.state.iteration, original(size))) or seen[-1][1])
    with pytest.warns(GuardWarning):
        train(run)
    first = [batch for iteration, batch in seen if iteration == 2]
    assert [iteration for iteration, _ in seen[:5]] == [0, 1, 2, 2, 3]
    assert not torch.equal(first[0].rows, first[1].rows)


def test_the_next_stage_starts_without_the_back_off(make_engine, tiny, monkeypatch):
    run = make_engine(tiny())
    failing(run, monkeypatch, {2})
    rates = {}
    original = run._batch

    def batch(size):
        rates[run.state.stage, run.state.iteration] = run.guard.rate
        return original(size)

    monkeypatch.setattr(run, "_batch", batch)
    with pytest.warns(GuardWarning):
        train(run)
    assert rates["step1", 3] == 0.5 and rates["step2", 0] == 1.0


def test_after_the_last_try_the_run_stops_and_says_what_it_saw(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(guard__tries=2))
    failing(run, monkeypatch, set(range(2, 99)))
    with (
        pytest.warns(GuardWarning),
        pytest.raises(DivergedError, match="after 2 rollbacks: generative is nan") as error,
    ):
        train(run)
    assert [event["action"].split()[0] for event in error.value.events] == ["rolled", "rolled", "stopped"]


def test_watching_says_it_once_and_goes_on(make_engine, tiny):
    run = make_engine(tiny(guard__action="watch", guard__max_energy=1e-9))
    with pytest.warns(GuardWarning, match="max_energy") as told:
        train(run)
    assert run.state.stage == "after step2"
    assert sum("step1: |log p|" in str(warning.message) for warning in told) == 1


def test_a_run_that_rolled_back_resumes_to_the_same_weights(tiny, blobs, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 1)

    def fit(limit, **options):
        config = tiny(step1__iterations=10, guard__every=2, guard__tries=1000, guard__max_gap=limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", GuardWarning)
            return fit_prepared(prepare(blobs, config, 2), seed=0, **options)

    gaps = sorted(abs(line["generative"]) for line in fit(1e6).history if "generative" in line)
    limit = gaps[-6]  # the run's own noise exceeds this limit now and then
    whole = fit(limit)
    assert sum("rolled back" in event["action"] for event in whole.results["guard"]) >= 1
    calls = itertools.count(1)
    for _ in range(100):
        try:
            hooks = Hooks(checkpoints=Checkpoints(tmp_path), should_stop=lambda: next(calls) % 3 == 0)
            found = fit(limit, hooks=hooks)
            break
        except StoppedError:
            continue
    assert next(calls) > 6  # it really was stopped
    assert found.history == whole.history and found.results["guard"] == whole.results["guard"]
    weights = zip(found.net.state_dict().values(), whole.net.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)


def test_a_state_gone_back_to_twice_is_the_same_both_times(make_engine, tiny, monkeypatch):
    """The optimiser of the first try must not change the state that the second try starts from."""
    run = make_engine(tiny(step1__iterations=8, guard__every=3))
    failing(run, monkeypatch, {6, 9})  # at iteration 5, and once more before the next calm state
    seen = []
    original = run._batch

    def batch(size):
        if run.state.iteration == 3:
            seen.append(pack(run.state)[0])
        return original(size)

    monkeypatch.setattr(run, "_batch", batch)
    with pytest.warns(GuardWarning):
        train(run)
    first, *again = seen[:3]
    assert len(again) == 2
    for state in again:
        assert all(torch.equal(state[name], value) for name, value in first.items() if name != "rng")


def test_the_guards_state_survives_packing():
    guard = Guard(LIMITS)
    guard.begin_stage(({"net/a": torch.ones(2)}, {"iteration": 0}))
    guard.back_off({"stage": "step1", "iteration": 3}, Symptom("it is hot", "cool it"))
    other = Guard(LIMITS)
    other.unpack(*guard.pack())
    assert (other.tries, other.total, other.rate, other.events) == (1, 1, 0.5, guard.events)
    assert other.good is not None and torch.equal(other.good[0]["net/a"], torch.ones(2))


# ---- settings known to diverge ----


def test_a_cold_sampler_is_caught_rolled_back_and_reported(tmp_path, capsys):
    """The paper's sampler, one Langevin step of size 1 with noise 0.01 and no clamp, at a large learning rate."""
    np.save(tmp_path / "moons.npy", load("moons", n=200).x)
    command = [
        "fit",
        str(tmp_path / "moons.npy"),
        "--n-clusters",
        "2",
        "--preset",
        "paper",
        "--out",
        str(tmp_path / "run"),
    ]
    code = main([*command, "--training.step1.learning_rate=0.03", "--training.objective.generative.gradient=0"])
    said = capsys.readouterr().err
    assert code == 3 and "results.json" in said and "rolled back" in said
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    warned, first, *_ = results["guard"]
    assert warned["iteration"] == 0 and "temperature" in warned["seen"]
    assert first["iteration"] < 500 and "max_gap" in first["seen"]
    assert [event["action"].split()[0] for event in results["guard"]] == ["warned", *["rolled"] * 3, "stopped"]
    for path in (tmp_path / "run").iterdir():
        if path.suffix in (".json", ".jsonl", ".yaml"):
            assert not any(word in path.read_text() for word in ("NaN", "Infinity", ".nan", ".inf"))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [line for line in lines if "seen" in line] == results["guard"]
    assert not (tmp_path / "run" / "model.safetensors").exists()
