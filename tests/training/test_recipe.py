"""Algorithm 2: changing weights, chains that count, competing starts, and no labels."""

import inspect
import math
from types import SimpleNamespace

import pytest
import torch

from gedi.objectives.generative import restraint, settled
from gedi.objectives.term import Loss
from gedi.training import recipe
from gedi.training.engine import Engine
from gedi.training.fit import fit_rows
from gedi.training.recipe import train
from gedi.training.start import set_start


@pytest.mark.parametrize("function", [fit_rows, train, Engine.__init__, Engine.stage])
def test_training_takes_no_labels(function):
    names = {name.lower() for name in inspect.signature(function).parameters}
    assert not names & {"y", "labels", "label", "target", "targets", "y_true"}


# ---- weights ----


def test_the_anchor_fades_linearly_to_zero(make_engine, tiny):
    run = make_engine(tiny(step2__iterations=100, start__fade=0.5, objective__clustering__anchor=2.0))
    batch = next(run.stage("step1", run.config.step1))
    run.state.start_labels = torch.zeros(80, dtype=torch.long)
    found = []
    for iteration in (0, 10, 25, 49, 50, 99):
        run.state.iteration = iteration
        views = run.views(batch, batch.x, batch.x)
        found.append(run.config.objective["clustering"].anchored(views)["anchor"].weight)
    assert found == pytest.approx([2.0, 1.6, 1.0, 0.04, 0.0, 0.0])


def test_the_density_waits_while_its_samples_lag():
    found = [1 / restraint(torch.tensor(gap), 3.0) for gap in (0.0, 1.0, 3.0, 10.0, 1e6)]
    assert found[0] == 1.0 and found == sorted(found, reverse=True) and found[-1] < 1e-12
    assert found[2] == pytest.approx(1 / math.cosh(1.0) ** 2)
    assert restraint(torch.tensor(-3.0), 3.0) == restraint(torch.tensor(3.0), 3.0)


def test_the_papers_density_never_waits():
    assert restraint(torch.tensor(1e6), None) == 1.0


def test_losses_come_with_the_weights_of_their_settings(make_engine, tiny):
    run = make_engine(tiny(objective__clustering__dam=0.25, objective__negative_free__weight=0.5, step1__iterations=0))
    losses = recipe.all_losses(run, next(run.stage("step2", run.config.step2)))
    assert losses["clustering_dam"].weight == 0.25 and losses["negative_free"].weight == 0.5
    assert {name for name, loss in losses.items() if loss.judges} == {"clustering_augment", "clustering_dam"}


# ---- chains on their way ----


def test_chains_far_below_the_data_do_not_count():
    data, sampled = torch.tensor([0.0, 2.0]), torch.tensor([1.0, -4.9, -5.1, -100.0])
    assert settled(data, sampled, 5.0).tolist() == [True, True, False, False]


def test_all_chains_count_if_none_has_arrived_or_no_burn_in_is_asked():
    data, sampled = torch.tensor([0.0]), torch.tensor([-50.0, -60.0])
    assert settled(data, sampled, 5.0).all()
    assert settled(data, torch.tensor([0.0, -60.0]), None).all()


# ---- starts ----


def test_the_start_with_the_lowest_objective_is_kept(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(n_init=3, step2__iterations=3))
    levels = iter([2.0, 0.5, 1.0])
    kept = []

    def flat_losses(run, batch):
        anything = sum(p.sum() for p in run.state.net.parameters())
        return {"clustering_augment": Loss(anything - anything.detach() + level[0], 1.0, judges=True)}

    level = [0.0]
    original = run._begin_attempt

    def begin(attempt):
        if attempt:
            kept.append(run.state.best)
        level[0] = next(levels)
        original(attempt)

    monkeypatch.setattr(recipe, "all_losses", flat_losses)
    monkeypatch.setattr(run, "_begin_attempt", begin)
    train(run)
    assert [best.objective for best in kept] == pytest.approx([2.0, 0.5])
    assert run.state.kept.objective == pytest.approx(0.5)
    final = run.state.net.state_dict()
    assert all(torch.equal(final[name], value) for name, value in kept[1].weights.items())


def test_every_start_begins_from_the_weights_of_step_1_with_new_heads(make_engine, tiny):
    run = make_engine(tiny())
    weights = run.state.after_step1 = run.state.weights()
    with torch.no_grad():
        for p in run.state.net.parameters():
            p.add_(1.0)
    run._begin_attempt(1)
    now = run.state.net.state_dict()
    body = [k for k in weights if k.startswith(("encoder.", "energy_head."))]
    assert body and all(torch.equal(now[k], weights[k]) for k in body)
    for name in ("projector.layers.0.weight", "nf_projector.layers.0.weight", "prototypes.directions"):
        assert not torch.equal(now[name], weights[name])


def test_step_1_is_run_once_whatever_the_number_of_starts(make_engine, tiny):
    run = make_engine(tiny(n_init=3))
    train(run)
    stages = [(line["stage"], line["attempt"]) for line in run.journal.history if "seen" not in line]
    assert stages == [("step1", 0), ("step2", 0), ("step2", 1), ("step2", 2)]


def test_the_start_sets_labels_and_cluster_sizes(make_engine, tiny):
    run = make_engine(tiny())
    set_start(run, seed=0)
    counts = torch.bincount(run.state.start_labels, minlength=2)
    assert len(run.state.start_labels) == 80
    torch.testing.assert_close(run.state.marginals, (counts + 1.0) / (counts.sum() + 2.0))


def test_step_2_can_begin_with_the_clusters_of_k_means(make_engine, tiny):
    """... so that its predictions agree with them, with averaged weights too; otherwise its heads start at random."""
    agreed = {}
    for heads in (True, False):
        run = make_engine(tiny(start__kind="kmeans", start__heads=heads, step1__iterations=0, embedding__iterations=5))
        for batch in run.stage("embedding", run.config.embedding):
            run.descend(recipe.embedding_losses(run, batch))
        set_start(run, seed=0)
        nets = (run.state.net.eval(), run.state.average)
        agreed[heads] = [float((net.scores(run.x).argmax(1) == run.state.start_labels).float().mean()) for net in nets]
    assert min(agreed[True]) > 0.95 > max(agreed[False])


def test_equal_cluster_sizes_can_be_asked_for(make_engine, tiny):
    run = make_engine(tiny(objective__clustering__marginals="uniform"))
    set_start(run, seed=0)
    assert run.state.marginals is None


def test_the_papers_start_is_random(make_engine, tiny):
    run = make_engine(tiny(start__kind="none"))
    assert set_start(run, seed=0) is None and run.state.start_labels is None


def test_the_queue_keeps_the_newest_embeddings(make_engine, tiny):
    run = make_engine(tiny(objective__clustering__queue=3))
    for value in (1.0, 2.0):
        run.remember(SimpleNamespace(z=torch.full((4, 8), value), n=2))
    assert run.state.queue[:, 0].tolist() == [2.0, 2.0, 1.0]


def test_frozen_prototypes_wait_while_the_rest_of_the_net_moves(make_engine, tiny):
    run = make_engine(tiny(start__kind="none", objective__clustering__frozen=3))
    net, moved = run.state.net, []
    for batch in run.stage("step2", run.config.step2):
        before = net.prototypes.directions.clone(), net.projector.layers[0].weight.clone()
        run.descend(recipe.all_losses(run, batch))
        after = net.prototypes.directions, net.projector.layers[0].weight
        moved.append([not torch.equal(a, b) for a, b in zip(before, after, strict=True)])
    assert moved == [[False, True]] * 3 + [[True, True]] * 3


def test_walks_can_be_left_to_every_few_iterations(make_engine, tiny):
    run = make_engine(tiny(dam__every=3, step1__iterations=0))
    walked = []
    for batch in run.stage("step2", run.config.step2):
        walked.append("clustering_dam" in (losses := recipe.all_losses(run, batch)))
        run.descend(losses)
    assert walked == [True, False, False, True, False, False]
