"""Runs that are stopped, killed or rolled back across the choice of clusters."""

import pytest
import torch
from sklearn.metrics import adjusted_rand_score

from gedi.runs import Checkpoints
from gedi.training import choice, recipe
from gedi.training.build import prepare
from gedi.training.fit import fit_prepared
from gedi.training.guard import GuardWarning
from gedi.training.journal import Hooks
from gedi.training.recipe import train
from gedi.training.recovery import StoppedError
from gedi.training.state import pack

CHOICES = {
    "a start": {"heads__starts": ("kmeans", "walks")},
    "a head": {"heads__starts": ()},
    "with learned neighbours": {"heads__starts": (), "augment__learned": True, "augment__neighbours": 3},
    "at the end": {"heads__starts": (), "heads__neutral": 0, "heads__choose": 1.0},
}


@pytest.mark.parametrize("name", CHOICES)
def test_stopped_before_or_after_the_choice_a_run_ends_the_same(blobs, tiny, tmp_path, name):
    config = tiny(**({"heads__choose": 0.5, "heads__random": 3} | CHOICES[name]))
    whole = fit_prepared(prepare(blobs, config, 2), seed=0)
    for after in range(config.step1.iterations + 1, config.step1.iterations + config.step2.iterations + 2):
        left, folder = [after], tmp_path / str(after)
        folder.mkdir()

        def stop(left=left):
            left[0] -= 1
            return left[0] < 0

        def fit(folder=folder, **options):
            hooks = Hooks(checkpoints=Checkpoints(folder), **options)
            return fit_prepared(prepare(blobs, config, 2), seed=0, hooks=hooks)

        with pytest.raises(StoppedError):
            fit(should_stop=stop)
        model = fit()
        mine, theirs = model.net.state_dict(), whole.net.state_dict()
        assert all(torch.equal(mine[key], theirs[key]) for key in theirs), after
        assert torch.equal(model.chains, whole.chains) and model.history == whole.history
        assert model.results["candidates"] == whole.results["candidates"]
        assert model.results["objective"] == whole.results["objective"]


def test_a_checkpoint_holds_what_the_choice_left(blobs, tiny, tmp_path):
    left = [4 + 4]

    def stop():
        left[0] -= 1
        return left[0] < 0

    config = tiny(heads__choose=0.5, heads__starts=("kmeans",), heads__random=0)
    with pytest.raises(StoppedError):
        fit_prepared(
            prepare(blobs, config, 2), seed=0, hooks=Hooks(checkpoints=Checkpoints(tmp_path), should_stop=stop)
        )
    tensors, counters = Checkpoints(tmp_path).load()
    assert counters["competing"] is False and counters["guard"]["good"]["competing"] is True
    assert adjusted_rand_score(tensors["labels"], [0] * 40 + [1] * 40) == 1 and tensors["marginals"].shape == (2,)
    assert tensors["objective"].shape == (1,)
    assert "labels" not in {name.removeprefix("good/") for name in tensors if name.startswith("good/")}


def test_a_run_that_diverges_after_the_choice_goes_back_before_it_and_chooses_again(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(heads__choose=0.5, step2__iterations=8, guard__every=3, heads__starts=("kmeans",)))
    chosen, states, calls = [], [], [0]
    losses = recipe.all_losses

    def choose(run):
        states.append(pack(run.state)[0])
        choice.choose_clusters(run)
        chosen.append(run.state.iteration)

    def failing(run, batch):
        calls[0] += 1
        found = losses(run, batch)
        if calls[0] == 6:  # iteration 5: one after the choice
            found |= {name: loss._replace(value=loss.value * float("nan")) for name, loss in found.items()}
        else:
            assert (run.state.objective is None) or len(run.state.objective) == (4 if run.state.competing else 1)
        return found

    monkeypatch.setattr(recipe, "all_losses", failing)
    with pytest.warns(GuardWarning, match="rolled back to iteration 3"):
        train(run, choose=choose)
    assert chosen == [4, 4]
    before = [{key: state[key] for key in state if key.endswith("clusters.chosen")} for state in states]
    assert before[0] == before[1] and all(int(value) == 0 for value in before[0].values())
    assert "labels" not in states[1] and "marginals" not in states[1]  # forgotten, not kept from the first choice
    assert states[1]["objective"].shape == (4,)
    assert not run.state.competing and run.state.stage == "after step2"
