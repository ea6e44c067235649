"""Algorithm 2: changing weights, chains that count, when clusters are chosen, and no labels."""

import inspect
import math

import pytest
import torch

from gedi.objectives.generative import restraint, settled
from gedi.training import choice, recipe
from gedi.training.engine import Engine
from gedi.training.fit import fit_prepared
from gedi.training.recipe import train


@pytest.mark.parametrize(
    "function", [fit_prepared, train, Engine.__init__, Engine.stage, choice.choose_clusters, choice.compare]
)
def test_training_takes_no_labels(function):
    names = {name.lower() for name in inspect.signature(function).parameters}
    assert not names & {"y", "labels", "label", "target", "targets", "y_true"}


# ---- weights ----


def test_the_anchor_fades_linearly_from_the_choice_on(make_engine, tiny):
    run = make_engine(tiny(step2__iterations=100, heads__choose=0.5, heads__fade=0.4, heads__anchor=2.0))
    batch = next(run.stage("step2", run.config.step2))
    run.state.labels, run.state.competing = torch.arange(80) % 2, False

    def weights(*iterations):
        found = []
        for run.state.iteration in iterations:
            losses = run.config.objective["clustering"].losses(run.views(batch, batch.x, batch.x))
            found.append(losses["anchor"].weight if "anchor" in losses else 0.0)
        return found

    assert weights(50, 60) == [0.0, 0.0]  # labels alone, as those of k-means, are not a start
    run.state.marginals = torch.full((2,), 0.5)
    assert weights(50, 55, 60, 69, 70, 99) == pytest.approx([2.0, 1.5, 1.0, 0.1, 0.0, 0.0])


def test_the_anchor_is_the_cross_entropy_with_the_starts_labels(make_engine, tiny):
    run = make_engine(tiny(objective__clustering__tau=0.7))
    batch = next(run.stage("step2", run.config.step2))
    run.state.labels, run.state.marginals, run.state.competing = torch.arange(80) // 40, torch.full((2,), 0.5), False
    run.state.iteration = 3
    views = run.views(batch, batch.x, batch.x)
    loss = run.config.objective["clustering"].losses(views)["anchor"].value
    expected = torch.nn.functional.cross_entropy(run.state.net.scores(batch.x) / 0.7, batch.rows // 40)
    torch.testing.assert_close(loss, expected)


def test_the_density_waits_while_its_samples_lag():
    found = [1 / restraint(torch.tensor(gap), 3.0) for gap in (0.0, 1.0, 3.0, 10.0, 1e6)]
    assert found[0] == 1.0 and found == sorted(found, reverse=True) and found[-1] < 1e-12
    assert found[2] == pytest.approx(1 / math.cosh(1.0) ** 2)
    assert restraint(torch.tensor(-3.0), 3.0) == restraint(torch.tensor(3.0), 3.0)


def test_the_papers_density_never_waits():
    assert restraint(torch.tensor(1e6), None) == 1.0


def test_losses_come_with_the_weights_of_their_settings(make_engine, tiny):
    weights = dict(dam=0.25, weight=0.5, neutral=3.0)
    run = make_engine(tiny(step1__iterations=0, **{f"objective__clustering__{k}": v for k, v in weights.items()}))
    losses = recipe.all_losses(run, next(run.stage("step2", run.config.step2)))
    assert (losses["clustering_augment"].weight, losses["clustering_dam"].weight) == (0.5, 0.25)
    assert (losses["neutral_clustering_augment"].weight, losses["neutral_clustering_dam"].weight) == (1.5, 0.75)
    judging = {name: loss.judges for name, loss in losses.items() if loss.judges is not None}
    assert set(judging) == {"clustering_augment", "clustering_dam"}
    assert all(judged.shape == (4,) and not judged.requires_grad for judged in judging.values())


# ---- chains on their way ----


def test_chains_far_below_the_data_do_not_count():
    data, sampled = torch.tensor([0.0, 2.0]), torch.tensor([1.0, -4.9, -5.1, -100.0])
    assert settled(data, sampled, 5.0).tolist() == [True, True, False, False]


def test_all_chains_count_if_none_has_arrived_or_no_burn_in_is_asked():
    data, sampled = torch.tensor([0.0]), torch.tensor([-50.0, -60.0])
    assert settled(data, sampled, 5.0).all()
    assert settled(data, torch.tensor([0.0, -60.0]), None).all()


# ---- stages ----


def places_of_choices(run) -> list[tuple[str, int]]:
    """Train, and note the place of every choice."""
    when = []

    def choose(run):
        assert run.state.competing
        when.append((run.state.stage, run.state.iteration))
        choice.choose_clusters(run)

    train(run, choose=choose)
    return when


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"heads__choose": 0.5}, ("step2", 3)),
        ({"heads__choose": 0.4}, ("step2", 3)),  # 2.4 of 6 iterations
        ({"heads__choose": 0.0}, ("step2", 0)),
    ],
)
def test_clusters_are_chosen_once_and_after_their_share_of_step_2(make_engine, tiny, settings, expected):
    run = make_engine(tiny(**settings))
    assert places_of_choices(run) == [expected] and not run.state.competing


def test_without_step_2_nothing_is_chosen(make_engine, tiny):
    assert places_of_choices(make_engine(tiny(step2__iterations=0))) == []


def test_heads_compete_and_then_one_goes_on_alone(make_engine, tiny):
    run = make_engine(tiny(heads__choose=0.5, heads__starts=()))
    moved = []
    for batch in run.stage("step2", run.config.step2):
        if run.state.iteration == 3:
            choice.choose_clusters(run)
            # Adam goes on with momentum; without it, what has no gradient stays.
            run.state.optimiser.moments.clear()
        before = run.state.net.clusters.weight.clone(), run.state.net.neutral.weight.clone()
        run.descend(recipe.all_losses(run, batch))
        heads = (run.state.net.clusters.weight != before[0]).flatten(1).any(1)
        moved.append((heads.tolist(), not torch.equal(run.state.net.neutral.weight, before[1])))
    alone = [i == int(run.state.net.clusters.chosen) for i in range(4)]
    assert moved == [([True] * 4, True)] * 3 + [(alone, False)] * 3


def test_walks_can_be_left_to_every_few_iterations(make_engine, tiny):
    run = make_engine(tiny(dam__every=3, step1__iterations=0))
    walked = []
    for batch in run.stage("step2", run.config.step2):
        walked.append("clustering_dam" in (losses := recipe.all_losses(run, batch)))
        run.descend(losses)
    assert walked == [True, False, False, True, False, False]
