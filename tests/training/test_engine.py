"""The engine: learning rates, averages, batches, history, the smoothed objective, and no values that are not finite."""

import math

import pytest
import torch

from gedi.objectives.term import Loss
from gedi.training import engine
from gedi.training.adam import rate
from gedi.training.config import StageConfig
from gedi.training.engine import has_settled
from gedi.training.guard import DivergedError
from gedi.training.journal import Hooks
from gedi.training.recipe import train


def drive(run, losses, stage="step2"):
    """Run a stage with given losses, one per iteration, as the clustering term."""
    config = getattr(run.config, stage)
    for _, loss in zip(run.stage(stage, config), losses, strict=True):
        anything = sum(p.sum() for p in run.state.net.parameters())
        run.descend({"clustering_augment": Loss(0 * anything + loss, 1.0, judges=torch.tensor([loss]))})


def windows(run):
    """The lines of history about windows of iterations, without events of the guard."""
    return [line for line in run.journal.history if "seen" not in line]


# ---- learning rate ----


def test_the_rate_warms_up_stays_and_falls():
    config = StageConfig(iterations=1000, warmup=50, decay_from=0.5, final_rate=0.1)
    assert rate(0, config) == pytest.approx(1 / 50)
    assert rate(24, config) == pytest.approx(0.5)
    assert rate(49, config) == rate(499, config) == 1.0
    assert rate(625, config) == pytest.approx(0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2)
    assert rate(750, config) == pytest.approx((1 + 0.1) / 2)
    assert rate(1000, config) == pytest.approx(0.1)
    after = [rate(i, config) for i in range(500, 1000)]
    assert after == sorted(after, reverse=True)


def test_warm_up_is_at_most_a_tenth_of_a_short_stage():
    config = StageConfig(iterations=20, warmup=100, decay_from=1.0)
    assert [rate(i, config) for i in range(3)] == [0.5, 1.0, 1.0]


def test_without_warm_up_and_decay_the_rate_is_constant():
    config = StageConfig(iterations=50, warmup=0, decay_from=1.0)
    assert {rate(i, config) for i in range(50)} == {1.0}


def test_the_optimiser_follows_the_schedule(make_engine, tiny):
    run = make_engine(tiny(step1__iterations=20, step1__learning_rate=0.5))
    seen = [run.state.optimiser.learning_rate for _ in run.stage("step1", run.config.step1)]
    assert seen == pytest.approx([0.5 * rate(i, run.config.step1) for i in range(20)])


# ---- stages that end early ----


@pytest.mark.parametrize(
    ("curve", "settled"),
    [
        ([], False),
        ([0.5] * 3, False),
        ([0.5] * 4, True),
        ([0.9, 0.5, 0.4, 0.3], False),
        ([0.9, 0.5, 0.495, 0.497, 0.492], True),
        ([0.3, 0.9, 0.9, 0.9], True),
        ([0.9, 0.3, 0.9, 0.9, 0.28], False),
    ],
)
def test_a_curve_has_settled_when_three_looks_in_a_row_bring_nothing(curve, settled):
    assert has_settled(curve, 0.01) is settled


def settling(make_engine, tiny, **changes):
    return make_engine(tiny(step2__iterations=1000, step2__batch_size=4, **({"step2__settle": 0.01} | changes)))


def test_a_stage_whose_curve_has_settled_gets_the_rest_of_its_schedule(make_engine, tiny):
    run = settling(make_engine, tiny, step2__decay_from=0.5)
    rates = []
    for _ in run.stage("step2", run.config.step2, turn=0.5):
        rates.append(run.state.optimiser.learning_rate)
        anything = sum(p.sum() for p in run.state.net.parameters())
        run.descend({"clustering_augment": Loss(0 * anything + 0.3, 1.0, judges=torch.tensor([0.3]))})
    assert len(rates) == 400  # four looks, 50 iterations apart, and as many again
    assert [line["iteration"] for line in windows(run)] == list(range(50, 401, 50))
    assert rates[199] == max(rates) and rates[-1] < 0.05 * max(rates)


@pytest.mark.parametrize(
    ("changes", "curve"),
    [({"step2__settle": 0.0}, lambda i: 0.3), ({}, lambda i: 1 - i / 1000)],
    ids=["not asked for", "still falling"],
)
def test_other_stages_last_as_long_as_planned(make_engine, tiny, changes, curve):
    run, n = settling(make_engine, tiny, **changes), 0
    for _ in run.stage("step2", run.config.step2, turn=0.5):
        anything = sum(p.sum() for p in run.state.net.parameters())
        run.descend({"clustering_augment": Loss(0 * anything + curve(n), 1.0, judges=torch.tensor([curve(n)]))})
        n += 1
    assert n == 1000


# ---- averaged weights ----


def test_averaged_weights_follow_their_recurrence(make_engine, tiny):
    run = make_engine(tiny(step1__iterations=30, step1__average=0.6))
    name = "energy_head.weight"
    expected = run.state.average.state_dict()[name].clone()
    for i, _ in enumerate(run.stage("step1", run.config.step1), start=1):
        with torch.no_grad():
            run.state.net.energy_head.weight.add_(1.0)
        decay = min(0.6, i / (i + 10))
        expected = decay * expected + (1 - decay) * run.state.net.energy_head.weight.detach()
    torch.testing.assert_close(run.state.average.state_dict()[name], expected)
    torch.testing.assert_close(run.state.net.state_dict()[name], expected)  # the stage hands on its average


def test_without_averaging_the_last_weights_are_handed_on(make_engine, tiny):
    run = make_engine(tiny(step1__average=0.0))
    for _ in run.stage("step1", run.config.step1):
        with torch.no_grad():
            last = run.state.net.energy_head.weight.add_(1.0).clone()
    assert torch.equal(run.state.net.energy_head.weight, last)


# ---- batches ----


def test_a_batch_repeats_no_row_and_knows_its_places(make_engine, tiny):
    run = make_engine(tiny(step1__batch_size=50))
    for batch in run.stage("step1", run.config.step1):
        assert len(batch.rows) == 50 == len(set(batch.rows.tolist()))
        assert torch.equal(batch.x, run.x[batch.rows])


def test_a_batch_is_never_larger_than_the_data(make_engine, tiny):
    run = make_engine(tiny(step1__batch_size=1000))
    batch = next(run.stage("step1", run.config.step1))
    assert sorted(batch.rows.tolist()) == list(range(80))


# ---- values that are not finite ----


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_stops_the_run_before_the_step(make_engine, tiny, loss):
    run = make_engine(tiny())
    before = {k: v.clone() for k, v in run.state.net.state_dict().items()}
    with pytest.raises(
        DivergedError, match=r"step2 at iteration 0 after 3 rollbacks: clustering_augment is -?(nan|inf)"
    ):
        drive(run, [loss] * 6)
    assert all(torch.equal(before[k], v) for k, v in run.state.net.state_dict().items())


def test_a_run_that_diverges_raises_and_does_not_go_on(make_engine, tiny):
    run = make_engine(tiny(step1__iterations=10, step1__learning_rate=1e30))
    with pytest.raises(DivergedError, match="learning_rate"):
        train(run)
    assert run.state.stage == "step1" and run.state.iteration < 10


# ---- history, progress and the objective ----


def test_history_has_one_line_per_window_and_one_at_the_end(make_engine, tiny, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 4)
    run = make_engine(tiny(step1__iterations=10, step2__iterations=3))
    train(run)
    lines = [(line["stage"], line["iteration"]) for line in windows(run)]
    assert lines == [("step1", 4), ("step1", 8), ("step1", 10), ("step2", 3)]
    assert {"generative", "energy_size", "gradient_norm"} <= set(windows(run)[0])
    terms = {"clustering_augment", "clustering_dam", "neutral_clustering_augment", "generative", "objective"}
    assert terms <= set(windows(run)[-1])


def test_history_of_a_stage_holds_no_values_of_another(make_engine, tiny):
    run = make_engine(tiny(objective__generative__every=0, net__two_encoders=True))
    train(run)
    step1, step2 = windows(run)
    assert "generative" in step1 and "clustering_augment" not in step1 and "objective" not in step1
    assert "clustering_augment" in step2 and "generative" not in step2


def test_progress_follows_every_iteration_in_words(make_engine, tiny):
    seen = []
    run = make_engine(tiny(), hooks=Hooks(progress=seen.append))
    train(run)
    assert seen[:4] == [("fitting the density", i, 4) for i in range(1, 5)]
    assert seen[4] == ("looking for clusters to start from", 0, 0)
    assert seen[5:] == [("finding clusters", i, 6) for i in range(1, 7)]


def test_the_objective_is_smoothed_for_every_head_and_its_lowest_is_told(make_engine, tiny, monkeypatch):
    monkeypatch.setattr(engine, "WINDOW", 1)
    monkeypatch.setattr(engine, "SMOOTHING", 0.5)
    run = make_engine(tiny())
    judged = torch.tensor([[3.0, 1.0], [1.0, 2.0], [2.0, 2.0], [0.0, 9.0], [9.0, 0.0], [1.0, 1.0]])
    smooth, expected = None, []
    for i, _ in enumerate(run.stage("step2", run.config.step2)):
        anything = sum(p.sum() for p in run.state.net.parameters())
        run.descend({"clustering_augment": Loss(0 * anything, 1.0, judges=judged[i])})
        smooth = judged[i] if smooth is None else 0.5 * smooth + 0.5 * judged[i]
        torch.testing.assert_close(run.state.objective, smooth)
        expected.append(float(smooth.min()))
    assert [line["objective"] for line in windows(run)] == pytest.approx(expected)


def test_losses_that_judge_count_alike_and_keep_counting_while_they_rest(make_engine, tiny):
    run = make_engine(tiny())
    stage = run.stage("step2", run.config.step2)
    anything = sum(p.sum() for p in run.state.net.parameters())

    def loss(value, judges):
        return Loss(0 * anything + value, 5.0, judges=None if judges is None else torch.tensor(judges))

    next(stage)
    run.descend({"a": loss(1.0, [4.0, 0.0]), "b": loss(1.0, [0.0, 2.0]), "c": loss(99.0, None)})
    torch.testing.assert_close(run.state.objective, torch.tensor([2.0, 1.0]))
    next(stage)
    anything = sum(p.sum() for p in run.state.net.parameters())
    run.descend({"a": loss(1.0, [8.0, 0.0])})  # b is not of every iteration
    torch.testing.assert_close(run.state.objective, torch.tensor([0.98 * 2.0 + 0.02 * 4.0, 1.0]))


def test_the_objective_is_that_of_step_2(make_engine, tiny):
    run = make_engine(tiny())
    for _ in run.stage("step1", run.config.step1):
        anything = sum(p.sum() for p in run.state.net.parameters())
        run.descend({"generative": Loss(0 * anything, 1.0, judges=torch.tensor([1.0]))})
    assert run.state.objective is None and "objective" not in windows(run)[-1]


def test_the_same_seed_gives_the_same_weights(make_engine, tiny):
    runs = [make_engine(tiny(), seed=seed) for seed in (5, 5, 6)]
    for run in runs:
        train(run)
    one, same, other = (run.state.net.state_dict() for run in runs)
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert not torch.equal(one["energy_head.weight"], other["energy_head.weight"])
