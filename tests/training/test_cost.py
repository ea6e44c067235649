"""The cost estimate before a fit."""

import copy
import time

import numpy as np
import pytest
import torch

from gedi.errors import ConfigError
from gedi.nets.mixture import Mixture
from gedi.training import choice, cost, recipe
from gedi.training.build import prepare
from gedi.training.config import override
from gedi.training.fit import fit_prepared
from gedi.training.methods import with_method
from gedi.training.presets import preset

LOOK = 70.0  # seconds to go through all rows, in the last iteration of step 2
COUNTS = {"step1": 300, "step2": 500}
PRICE = {"step1": 1.0, "step2": 4.0}
ALIKE = {"step1": [""], "step2": [""]}  # all iterations of a stage are of one kind


def marks(iterations, counts):
    """Time marks of a trial with known prices: building takes 10 s, the step to step 2 takes 500 s, the end 20 s."""
    now, found = 10.0, [("start", 0.0)]
    for stage, each in PRICE.items():
        now += 500.0 if stage == "step2" else 0.0
        for _ in range(min(iterations, counts[stage])):
            found.append((stage, now := now + each))
        if stage == "step2":
            found[-1] = (stage, now := now + LOOK)
        found.append((f"after {stage}", now))
    return [*found, ("end", now + 20.0)]


@pytest.mark.parametrize("trial", [3, 6])
@pytest.mark.parametrize("counts", [COUNTS, COUNTS | {"step1": 0}])
def test_every_stage_is_counted_and_the_work_between_them_once(trial, counts):
    expected = 30 + counts["step1"] + 500 + LOOK + 4 * counts["step2"]
    total, each = cost.whole_time(marks(trial, counts), counts, ALIKE)
    assert total == pytest.approx(expected)
    assert each == pytest.approx({name: PRICE[name] * (counts[name] > 0) for name in PRICE})


def test_a_density_that_is_due_every_few_iterations_is_counted_as_often_as_it_is_due():
    """Every fourth takes 9 s, the others 1 s, and one of them is interrupted; the first takes 6 s more."""
    now, found = 0.0, [("start", 0.0)]
    for i in range(10):
        found.append(("step1", now := now + (9.0 if i % 4 == 0 else 1.0) + 6.0 * (i == 0) + 50.0 * (i == 5)))
    found += [("after step1", now), ("end", now)]
    counts = {"step1": 400, "step2": 0}
    rounds = ALIKE | {"step1": ["density", "", "", ""]}
    total, each = cost.whole_time(found, counts, rounds)
    assert total == pytest.approx(3 * 400 + 6) and each["step1"] == pytest.approx(3)


def test_a_budget_of_time_scales_both_steps_alike():
    config = preset("images", n_features=2)
    config.step1.iterations, config.step2.iterations = 100, 400
    whole = cost.Cost(30.0 + 100 * 1.0 + 400 * 2.0, {"step1": 1.0, "step2": 2.0}, None)
    for minutes, expected in ((30 / 60 + 7.5, (50, 200)), (30 / 60 + 30, (200, 800)), (1e5, (1000, 4000))):
        iterations, scaled = whole.within(minutes, config)
        assert iterations == expected and scaled.seconds == pytest.approx(30 + expected[0] + 2 * expected[1])
    with pytest.raises(ConfigError, match=r"even 5% of 100 \+ 400 .* takes about 75 s\. Use --minutes 1\.4 or more"):
        whole.within(1, config)
    assert whole.within(1.4, config)
    config.step1.iterations = 0
    assert cost.Cost(800.0, {"step1": 0.0, "step2": 2.0}, None).within(800 / 60 / 4, config)[0] == (0, 100)


def test_a_trial_shorter_than_a_round_knows_which_iterations_it_saw():
    """Density every 4, walks every 3: a trial of 6 sees each alone, but never both, which occurs once in 12."""
    config = preset("images", n_features=2)
    config.objective["generative"].every, config.objective["clustering"].dam, config.dam.every = 4, 1.0, 3
    kinds = cost.round_of(config, "step2")
    price = {"": 1.0, "walks": 3.0, "density": 9.0, "density walks": 11.0}
    now, found = 0.0, [("start", 0.0)]
    for i in range(8):
        found.append(("step2", now := now + price[kinds[i]]))
    found += [("after step2", now), ("end", now)]
    total, _ = cost.whole_time(found, {"step1": 0, "step2": 120}, ALIKE | {"step2": kinds})
    # Both at once is not seen after the first iteration, so its price is the median of those seen.
    assert total == pytest.approx(10 * (6 * 1.0 + 3 * 3.0 + 2 * 9.0 + 1 * 2.0), rel=0.1)


def test_rounds_are_those_of_the_terms_that_are_due():
    config = preset("images", n_features=2)
    config.objective["generative"].every, config.objective["clustering"].dam, config.dam.every = 4, 1.0, 2
    assert cost.round_of(config, "step1") == ["density walks"]
    assert cost.round_of(config, "step2") == ["density walks", "", "walks", ""]
    assert cost.round_of(with_method(config, "swav"), "step2") == ["density walks"]
    config.objective["generative"].every = 0
    assert cost.round_of(config, "step1") == ["density walks"]
    assert cost.round_of(config, "step2") == ["walks", ""]


def test_a_trial_goes_through_both_stages_without_looking_for_starts(blobs, tiny, monkeypatch):
    def refuse(*_):
        raise AssertionError("a trial neither looks for starts nor chooses")

    for room, name in ((choice, "find_start"), (choice, "compare"), (choice, "choose_head"), (recipe, "choose_head")):
        monkeypatch.setattr(room, name, refuse)
    ready = prepare(blobs, tiny(step1__iterations=50, step2__iterations=50), 2)
    stages = [stage for stage, _ in cost._trial(ready, None, 4, 4)]
    assert [stages.count(stage) for stage in ("step1", "step2")] == [4, 4]
    assert stages.index("step1") < stages.index("after step1") < stages.index("step2") < stages.index("after step2")


@pytest.mark.parametrize(("cheap", "iterations"), [(-1.0, 3), (1e9, 6)])
def test_a_stage_is_timed_for_longer_if_its_iterations_are_cheap(blobs, tiny, monkeypatch, cheap, iterations):
    monkeypatch.setattr(cost, "CHEAP", cheap)
    stages = [stage for stage, _ in cost._trial(prepare(blobs, tiny(step2__iterations=50), 2), None, 3, 6)]
    assert stages.count("step2") == iterations


def test_a_trial_times_competing_heads_and_then_one(blobs, tiny, monkeypatch):
    seen, original = [], recipe.all_losses
    monkeypatch.setattr(
        recipe, "all_losses", lambda run, batch: seen.append(run.state.competing) or original(run, batch)
    )
    cost._trial(prepare(blobs, tiny(step2__iterations=50, heads__choose=0.5), 2), None, 4, 4)
    assert seen == [True, True, False, False]


def test_a_trial_leaves_the_random_state_alone(blobs, tiny):
    ready = prepare(blobs, tiny(), 2)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    cost.estimate(ready)
    assert torch.equal(torch.get_rng_state(), before) and (np.random.get_state()[1] == numpy_before).all()


def test_the_estimate_is_of_the_size_of_the_real_time(blobs, tiny):
    config = tiny(step1__iterations=60, step2__iterations=60)
    fit_prepared(prepare(blobs, tiny(), 2), seed=0)  # the first call pays for imports
    found = cost.estimate(prepare(blobs, config, 2))
    began = time.monotonic()
    fit_prepared(prepare(blobs, config, 2), seed=0)
    measured = time.monotonic() - began
    assert measured / 5 < found.seconds < measured * 5  # allow for a busy machine
    assert found.memory is not None and 1e7 < found.memory < 1e11


def test_the_cost_in_words_says_what_each_iteration_takes():
    config = preset("images", n_features=2)
    config.step1.iterations, config.step2.iterations = 200, 90_000
    found = cost.Cost(43_210.0, {"step1": 0.1234, "step2": 0.479}, 1_234_000_000)
    assert (
        found.in_words(config) == "about 12 h to train, 1,234 MB of memory (200 + 90,000 iterations of 0.12 + 0.48 s)"
    )


def test_the_trial_and_the_run_start_from_the_same_mixture(blobs, tiny, monkeypatch):
    """It takes seconds on images, so it is fitted once, and neither changes it."""
    fits, original = [], Mixture.fit
    monkeypatch.setattr(Mixture, "fit", lambda self, *args: fits.append(args) or original(self, *args))
    ready = prepare(blobs, override(tiny(), {"objective.generative.kind": "denoising"}), 2)
    found = copy.deepcopy(ready.base.state_dict())
    cost.estimate(ready)
    model = fit_prepared(ready, seed=0)
    assert len(fits) == 1
    for name, values in found.items():
        assert torch.equal(ready.base.state_dict()[name], values)
        assert torch.equal(model.net.density.base.state_dict()[name], values)


def test_the_estimate_leaves_the_settings_alone(blobs, tiny):
    config = tiny()
    ready = prepare(blobs, config, 2)
    filled = copy.deepcopy(ready.config)
    cost.estimate(ready)
    assert config == tiny() and ready.config == filled
