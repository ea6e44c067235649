"""The choice of clusters: heads that compete, starts that compete with them, and who trains the encoder meanwhile."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, mutual_info_score
from sklearn.neighbors import NearestNeighbors

from gedi.data.neighbours import neighbour_table
from gedi.nets import LinearHeads
from gedi.training import choice, recipe, start
from gedi.training.build import prepare
from gedi.training.choice import (
    HEAD,
    best_of,
    choose_clusters,
    compare,
    find_starts,
    over_kinds,
    place_clusters,
    unexplained,
)
from gedi.training.config import override
from gedi.training.engine import Engine
from gedi.training.fit import fit_prepared
from gedi.training.guard import GuardWarning
from gedi.training.recipe import train

TRUTH = np.repeat([0, 1], 40)


def alike(labels, truth=TRUTH):
    """Whether two clusterings are the same, whatever their numbers."""
    pairs = {tuple(pair) for pair in np.stack([labels, truth], 1).tolist()}
    return len(pairs) == len(set(labels)) == len(set(truth))


def solving(net, x, head):
    """Give one head the right clusters: of the nearest of the two groups' mean representations."""
    with torch.no_grad():
        h = net.encoder(x)
        means = torch.stack([h[:40].mean(0), h[40:].mean(0)])
        net.clusters.weight[head] = 2 * means
        net.clusters.bias[head] = -means.square().sum(1)


# ---- who trains what ----


def gradients(run, competing):
    """Which parts of the net feel the cluster losses alone, and which the neutral ones."""
    run.state.competing = competing
    batch = next(run.stage("step2", run.config.step2))
    losses = run.config.objective["clustering"].losses(run.views(batch, *run.augment(batch), batch.x + 0.01))
    found = {}
    for part in ("clustering", "neutral"):
        values = [loss.value for name, loss in losses.items() if name.startswith(part)]
        if not values:
            continue
        run.state.net.zero_grad()
        torch.stack(values).sum().backward(retain_graph=True)
        found[part] = {
            name
            for name in ("encoder", "clusters", "neutral")
            if (module := getattr(run.state.net, name)) is not None
            if any(p.grad is not None and p.grad.abs().max() > 0 for p in module.parameters())
        }
    return found


@pytest.mark.parametrize("kind", ["prior", "sinkhorn"])
def test_while_heads_compete_the_neutral_head_alone_trains_the_encoder(make_engine, tiny, kind):
    run = make_engine(tiny(objective__clustering__kind=kind))
    assert gradients(run, True) == {"clustering": {"clusters"}, "neutral": {"encoder", "neutral"}}
    assert gradients(run, False) == {"clustering": {"encoder", "clusters"}}


def test_without_a_neutral_head_they_train_the_encoder_themselves(make_engine, tiny):
    run = make_engine(tiny(heads__neutral=0))
    assert gradients(run, True) == gradients(run, False) == {"clustering": {"encoder", "clusters"}}


def test_a_constraint_is_no_way_around_it(make_engine, tiny):
    run = make_engine(override(tiny(), {"objective.symbolic": {"kind": "constraint", "rule": "a, b : 2\na != b"}}))
    for competing in (True, False):
        run.state.competing = competing
        batch = next(run.stage("step2", run.config.step2))
        run.state.net.zero_grad()
        run.config.objective["symbolic"].losses(run.views(batch, *run.augment(batch)))["symbolic"].value.backward()
        encoder = [p.grad for p in run.state.net.encoder.parameters() if p.grad is not None]
        assert any(g.abs().max() > 0 for g in encoder) != competing


def test_views_score_all_heads_and_then_the_chosen_one(make_engine, tiny):
    run = make_engine(tiny())
    batch = next(run.stage("step2", run.config.step2))
    run.state.net.clusters.chosen.fill_(2)
    views = run.views(batch, batch.x, batch.x + 0.1, batch.x + 0.2)
    assert views.scores.shape == (4, 3 * 32, 2) and len(views.scores_by_view) == 3
    run.state.competing = False
    after = run.views(batch, batch.x, batch.x + 0.1, batch.x + 0.2)
    assert after.scores.shape == (1, 3 * 32, 2) and after.neutral_scores_by_view is None
    torch.testing.assert_close(after.scores[0], views.scores[2])
    torch.testing.assert_close(after.scores_by_view[1][0], run.state.net.scores(batch.x + 0.1))


# ---- the judgement of pairs ----


def test_one_kind_of_pairs_that_separates_clusters_cleanly_is_enough():
    assert over_kinds({"rings": [0.0, 0.3], "cuts": [0.1, 0.2]}) == {"rings": 0.0, "cuts": pytest.approx(0.15)}
    assert over_kinds({"rings": [0.3, 0.0], "cuts": [0.2, 0.1]}) == {"rings": 0.0, "cuts": pytest.approx(0.15)}


def test_a_kind_of_pairs_by_which_all_clusterings_are_clean_does_not_replace_the_other():
    shares = {"right": [0.02, 0.0], "wrong": [0.3, 0.0]}  # walks that end where they began
    assert over_kinds(shares) == {"right": pytest.approx(0.01), "wrong": pytest.approx(0.15)}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clusters", [2, 5])
def test_what_pairs_leave_unexplained_equals_one_less_the_share_of_mutual_information(seed, clusters):
    random = np.random.default_rng(seed)
    labels = random.choice(clusters, 60, p=random.dirichlet(np.ones(clusters)))
    pairs = random.integers(60, size=(60, 4))
    one, two = np.repeat(labels, 4), labels[pairs].ravel()
    both = np.concatenate([one, two]), np.concatenate([two, one])  # a pair counts in both directions
    entropy = mutual_info_score(both[0], both[0])
    expected = 1 - mutual_info_score(*both) / entropy if entropy > 0 else 1.0
    assert unexplained(labels, pairs) == pytest.approx(expected, abs=1e-12)


def test_pairs_within_clusters_leave_nothing_and_one_cluster_all():
    labels = np.repeat([3, 7, 8], [5, 30, 10])  # numbers may have gaps, sizes may differ
    within = np.stack([np.random.default_rng(i).choice(np.flatnonzero(labels == labels[i]), 4) for i in range(45)])
    assert unexplained(labels, within) == pytest.approx(0.0, abs=1e-12)
    assert unexplained(np.zeros(45, dtype=int), within) == 1.0
    unrelated = np.random.default_rng(0).integers(4500, size=(4500, 4))
    assert unexplained(np.arange(4500) % 3, unrelated) == pytest.approx(1.0, abs=0.01)
    assert unexplained(np.array([2, 0, 1])[np.arange(4500) % 3], unrelated) == unexplained(
        np.arange(4500) % 3, unrelated
    )


def test_pairs_are_the_nearest_rows_and_the_ends_of_walks(make_engine, tiny):
    run = make_engine(tiny(start__walks=3, dam__radius=0.0))
    expected = NearestNeighbors(n_neighbors=10).fit(run.x).kneighbors(return_distance=False)
    assert np.array_equal(choice.neighbour_pairs(run), expected)
    walked = choice.walked_pairs(run)
    assert walked.shape == (80, 3) and (walked == np.arange(80)[:, None]).all()  # a walk of no length ends at home


def test_the_neighbours_of_a_start_and_of_the_judge_are_searched_once(make_engine, tiny, monkeypatch):
    searched, original = [], start.nearest_neighbours
    monkeypatch.setattr(start, "nearest_neighbours", lambda x, k: searched.append(len(x)) or original(x, k))
    run = make_engine(tiny(heads__starts=("neighbours", "kmeans")))
    choice.find_starts(run)
    choice.compare(run)
    assert searched == [80]


# ---- what is chosen ----


@pytest.fixture
def at_the_choice(make_engine, tiny):
    """A function: a run in step 2 whose heads have these objectives, about to choose."""

    def make(objective=(0.9, 0.2, 0.7, 0.8), **changes) -> Engine:
        run = make_engine(tiny(**changes))
        next(run.stage("step2", run.config.step2))
        run.state.objective = torch.tensor(objective)
        run.state.judged = {"clustering_augment": torch.tensor(objective)}
        return run

    return make


def test_without_starts_the_head_with_the_lowest_objective_wins(at_the_choice):
    run = at_the_choice(heads__starts=())
    choose_clusters(run)
    state = run.state
    assert not state.competing and state.labels is None and state.marginals is None
    assert int(state.net.clusters.chosen) == int(state.average.clusters.chosen) == 1
    assert state.objective.tolist() == pytest.approx([0.2]) and state.judged == {}
    assert run.state.candidates == {HEAD: pytest.approx(0.2)}


def test_of_equally_good_heads_the_one_that_most_resemble_wins(at_the_choice):
    run = at_the_choice(objective=(0.2, 0.202, 0.203, 0.8), heads__starts=())
    for net in (run.state.net, run.state.average):
        for head in (1, 2):
            solving(net, run.x, head)
        with torch.no_grad():  # the first puts all rows into one cluster
            net.clusters.weight[0] = 0.0
            net.clusters.bias[0] = torch.tensor([1.0, 0.0])
    choose_clusters(run)
    assert int(run.state.net.clusters.chosen) == 1 and run.state.candidates == {HEAD: pytest.approx(0.202)}


@pytest.mark.parametrize("kind", ["walks", "neighbours", "kmeans", "mixture"])
def test_a_start_that_solves_the_data_beats_heads_that_do_not(at_the_choice, kind):
    run = at_the_choice(heads__starts=(kind,))
    for net in (run.state.net, run.state.average):
        with torch.no_grad():
            net.clusters.weight.zero_()
            net.clusters.bias[:] = torch.tensor([1.0, 0.0])  # all rows in one cluster
    choose_clusters(run)
    state = run.state
    assert alike(state.labels.numpy()) and state.labels.dtype == torch.int64
    assert run.state.candidates[kind] < 0.1 and run.state.candidates[HEAD] == pytest.approx(1.0)
    torch.testing.assert_close(state.marginals, torch.tensor([0.5, 0.5]))
    assert state.objective is None and not state.competing


def test_the_sizes_of_a_start_that_won_are_expected_from_then_on(at_the_choice, monkeypatch):
    run = at_the_choice(heads__starts=("kmeans",))
    labels = np.zeros(80, dtype=np.int64)
    labels[:9] = 1
    monkeypatch.setattr(choice, "compare", lambda run: ("kmeans", labels, {"kmeans": 0.1}))
    choose_clusters(run)
    torch.testing.assert_close(run.state.marginals, torch.tensor([72 / 82, 10 / 82]))
    assert run.state.labels.tolist() == labels.tolist() and run.state.candidates == {"kmeans": 0.1}
    batch = next(run.stage("step2", run.config.step2))
    assert run.views(batch, batch.x, batch.x).marginals is run.state.marginals


@pytest.mark.parametrize(("share", "winner"), [(0.05, "half"), (0.07, "few")])
def test_a_cut_that_only_separates_outliers_loses_to_one_that_says_more(share, winner):
    """Cutting off two outliers leaves nothing unexplained, but says little; a large difference counts for more."""
    said = {"few": 0.1, "half": 0.7}
    assert best_of({"few": 0.0, "half": share}, {"few": 0.0, "half": 0.0}, said) == winner


@pytest.mark.parametrize(("nats", "winner"), [(0.05, "valley"), (0.1, "gaussian")])
def test_pairs_decide_unless_held_out_rows_are_clearly_more_likely(nats, winner):
    """Twice the share (log 2) counts as much as 0.07 nats a value."""
    said = dict.fromkeys(["valley", "gaussian"], 0.7)
    assert best_of({"valley": 0.19, "gaussian": 0.39}, {"valley": 0.0, "gaussian": nats}, said) == winner


def test_clusters_that_no_pair_connects_win_although_gaussians_fit_a_ring_better_in_pieces():
    said = {"components": 0.28, "pieces": 1.08}
    assert best_of({"components": 0.0, "pieces": 0.08}, {"components": -1.41, "pieces": -1.16}, said) == "components"


@pytest.mark.parametrize(("share", "winner"), [(0.16, "kmeans"), (0.14, "neighbours")])
def test_where_neighbours_judge_a_cut_of_them_has_to_be_clearly_better(at_the_choice, monkeypatch, share, winner):
    changes = {"heads__random": 0, "objective__clustering__dam": 0.0, "heads__starts": ("kmeans", "neighbours")}
    run = at_the_choice(objective=(), **changes)
    run.state.starts = torch.as_tensor(np.stack([TRUTH, np.arange(80) < 30]))
    judgements = {40: 0.2, 30: share}
    monkeypatch.setattr(choice, "unexplained", lambda labels, pairs: judgements[int(min(np.bincount(labels)))])
    monkeypatch.setattr(choice, "held_out_log_likelihood", lambda x, labels, words: 0.0)
    assert compare(run)[0] == winner


def test_a_tie_goes_to_the_head(at_the_choice):
    run = at_the_choice(heads__starts=("kmeans", "mixture"))
    for net in (run.state.net, run.state.average):
        solving(net, run.x, head=1)
    choose_clusters(run)
    assert len(set(run.state.candidates.values())) == 1 and set(run.state.candidates) == {HEAD, "kmeans", "mixture"}
    assert run.state.labels is None and run.state.marginals is None
    assert int(run.state.net.clusters.chosen) == 1 and run.state.objective.tolist() == pytest.approx([0.2])


def test_of_several_starts_the_best_wins(at_the_choice, monkeypatch):
    run = at_the_choice(heads__starts=("walks", "kmeans", "mixture"), heads__random=0, objective=(0.1,))
    bad = np.arange(80) % 2
    found = {"walks": bad, "kmeans": TRUTH, "mixture": np.where(np.arange(80) < 30, 0, 1)}
    monkeypatch.setattr(choice, "find_start", lambda run, kind: found[kind])
    winner, labels, judged = compare(run)
    assert winner == "kmeans" and np.array_equal(labels, TRUTH)
    assert judged["kmeans"] < judged["mixture"] < judged["walks"]


def test_without_random_heads_a_start_is_chosen_and_the_first_head_learns_it(make_engine, tiny):
    run = make_engine(tiny(heads__random=0, heads__starts=("kmeans",), step2__iterations=60, heads__choose=0.2))
    train(run)
    assert run.state.net.clusters.n_heads == 1 and HEAD not in run.state.candidates
    assert alike(run.state.labels.numpy())
    assert torch.equal(run.state.net.scores(run.x).argmax(1), run.state.labels)


def test_without_random_heads_and_starts_there_is_one_head(make_engine, tiny):
    run = make_engine(tiny(heads__random=0, heads__starts=()))
    train(run)
    assert run.state.net.clusters.n_heads == 1 and not run.state.competing
    assert run.state.candidates == {} and run.state.labels is None


def test_a_choice_at_once_has_no_heads_to_judge(make_engine, tiny):
    run = make_engine(tiny(heads__choose=0.0, heads__starts=("kmeans",)))
    train(run)
    assert HEAD not in run.state.candidates and alike(run.state.labels.numpy())


def test_labels_that_break_a_constraint_count_against_a_candidate(make_engine, tiny, monkeypatch):
    rule = {"objective.symbolic": {"kind": "constraint", "rule": "a, b : 2\na < b"}}
    run = make_engine(override(tiny(heads__starts=("kmeans", "mixture")), rule))
    run.groups = torch.arange(80).view(2, 40).T  # the first of each group is of the first blob
    assert choice.broken(run, TRUTH) == pytest.approx(0.0, abs=1e-4)
    assert choice.broken(run, 1 - TRUTH) == pytest.approx(1.0, abs=1e-4)
    half = np.where(np.arange(80) % 40 < 20, TRUTH, 1 - TRUTH)
    assert choice.broken(run, half) == pytest.approx(0.5, abs=1e-4)
    found = {"kmeans": 1 - TRUTH, "mixture": TRUTH}  # for pairs of rows alone, both are as good
    monkeypatch.setattr(choice, "find_start", lambda run, kind: found[kind])
    winner, _, judged = compare(run)
    assert winner == "mixture" and judged["kmeans"] == pytest.approx(judged["mixture"] + 1, abs=1e-3)


def test_results_say_what_competed(blobs, tiny):
    model = fit_prepared(prepare(blobs, tiny(), 2), seed=0)
    assert set(model.results["candidates"]) == {HEAD, "walks", "neighbours", "kmeans", "mixture"}
    assert all(0 <= value <= 1.001 for value in model.results["candidates"].values())


# ---- clusters of methods that train none ----


@pytest.mark.parametrize("head", ["linear", "projector", "nf_projector"])
def test_clusters_can_be_placed_at_the_centres_of_k_means(make_engine, tiny, head):
    run = make_engine(tiny(net__head=head, heads__random=2))
    run.state.net.eval()
    z = run.state.net.embed(run.x).detach()
    expected = KMeans(2, n_init=10, random_state=0).fit_predict(z.numpy())
    place_clusters(run)
    for net in (run.state.net, run.state.average):  # their weights are still the same
        for scores in net.clusters.all_scores(z):
            same = (scores.argmax(1).numpy() == expected).mean()
            assert max(same, 1 - same) > (0.99 if head == "linear" else 0.9)  # prototypes know directions alone
    assert isinstance(run.state.net.clusters, LinearHeads) == (head == "linear")


def test_a_cluster_term_without_weight_leaves_the_clusters_to_k_means(blobs, tiny, monkeypatch):
    placed = []
    monkeypatch.setattr(recipe, "place_clusters", placed.append)
    changes = {f"objective__clustering__{name}": 0.0 for name in ("weight", "dam")}
    fit_prepared(prepare(blobs, tiny(**changes, heads__starts=()), 2), seed=0)
    assert len(placed) == 1


def test_neighbours_are_searched_again_in_the_representation(at_the_choice):
    run = at_the_choice(heads__starts=(), augment__learned=True, augment__neighbours=3, augment__noise=0.0)
    choose_clusters(run)
    h = torch.nn.functional.normalize(run.state.average.encoder(run.x))
    assert torch.equal(run.state.neighbours, neighbour_table(h, 3))
    batch = next(run.stage("step2", run.config.step2))
    _, second = run.augment(batch)
    places = (second[:, None] == run.x).all(2).int().argmax(1)
    assert all(place in run.state.neighbours[row] for row, place in zip(batch.rows, places, strict=True))


def test_without_step_1_candidates_are_found_and_judged_at_the_choice(make_engine, tiny):
    """There is no density before step 2, so walks along it would mean nothing."""
    late, early = (make_engine(tiny(step1__iterations=n)) for n in (0, 3))
    for run in (late, early):
        find_starts(run)
    assert late.state.starts is None and late.state.pairs is None
    assert early.state.starts is not None and early.state.pairs.shape == (80, early.config.start.walks)


def test_clear_groups_are_found(blobs, tiny):
    config = tiny(step1__iterations=40, step2__iterations=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)
        model = fit_prepared(prepare(blobs, config, 2), seed=0)
    assert alike(model.predict(blobs))


@pytest.mark.parametrize("used", [1, 2, 5])
def test_the_agreement_of_heads_is_the_adjusted_rand_index(used):
    rng = np.random.default_rng(used)
    mine, theirs = rng.integers(0, used, (2, 300))
    assert choice.adjusted_rand_index(mine, theirs, 5) == pytest.approx(adjusted_rand_score(mine, theirs))
    assert choice.adjusted_rand_index(mine, mine, 5) == 1.0
