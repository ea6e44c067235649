"""A constraint as a term of the objective: its loss, its grounding, and where it can come from."""

import itertools
import warnings
from argparse import Namespace
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

from gedi import GEDI, runs
from gedi.cli import main
from gedi.commands.fit import _settings
from gedi.errors import ConfigError, DataError, LogicError, RunError
from gedi.logic import Categorical, Constraint
from gedi.objectives.term import temperature
from gedi.training.build import prepare
from gedi.training.config import from_dict, override, read_objective, to_dict
from gedi.training.fit import fit_prepared
from gedi.training.presets import configure

RULE = "a, b : 2\na < b"
a, b = (Categorical(name, 2) for name in "ab")


@pytest.fixture(scope="module")
def pairs(blobs):
    """Alternating blobs: even rows come from the first, odd rows from the second."""
    return blobs.reshape(2, 40, 2).swapaxes(0, 1).reshape(80, 2)


@pytest.fixture(scope="module")
def constrained(tiny):
    """A function that makes settings with the constraint."""

    def make(rule=RULE, **changes):
        return override(tiny(**changes), {"objective.symbolic": {"kind": "constraint", "rule": rule}})

    return make


def test_the_loss_is_minus_the_log_probability_of_the_rule(make_engine, constrained):
    run = make_engine(constrained("a, b, c, d : 2\na + b + c + d == 1", objective__clustering__tau=0.3))
    batch = next(run.stage("step2", run.config.step2))
    views = run.views(batch, *run.augment(batch))
    loss = run.config.objective["symbolic"].losses(views)["symbolic"].value
    p = (views.scores_by_view[0].double() / 0.3).softmax(-1).view(4, -1, 4, 2)  # four heads, and groups of four rows
    p = p.movedim(0, 1).flatten(0, 1)
    allowed = [v for v in itertools.product((0, 1), repeat=4) if sum(v) == 1]
    by_hand = torch.stack([torch.stack([p[:, i, v[i]] for i in range(4)]).prod(0) for v in allowed]).sum(0)
    torch.testing.assert_close(loss.double(), -by_hand.log().mean(), rtol=1e-5, atol=0)  # a mean over heads


def test_the_loss_may_look_at_the_augmented_views_too(make_engine, constrained):
    run = make_engine(override(constrained(), {"objective.symbolic.views": "both"}))
    batch = next(run.stage("step2", run.config.step2))
    x, x_view = run.augment(batch)
    term = run.config.objective["symbolic"]
    run.state.net.eval()  # batch norm mixes the views of a batch
    alone = [
        replace(term, views="x").losses(run.views(batch, *pair))["symbolic"].value for pair in ((x, x), (x_view, x))
    ]
    both = term.losses(run.views(batch, x, x_view))["symbolic"].value
    torch.testing.assert_close(both, torch.stack(alone).mean())


def test_the_temperature_is_the_cluster_terms_if_there_is_one(constrained):
    objective = override(constrained(objective__clustering__tau=0.3), {"objective.symbolic.tau": 1.0}).objective
    assert temperature(objective) == 0.3
    assert temperature({"symbolic": objective["symbolic"]}) == 1.0
    assert temperature({}) == 0.1


def test_the_temperature_is_that_of_a_term_that_is_used_and_has_clusters(constrained):
    config = override(constrained(objective__clustering__tau=0.3), {"objective.symbolic.tau": 1.0})
    unused = override(config, {"objective.clustering.weight": 0.0, "objective.clustering.dam": 0.0})
    assert temperature(unused.objective) == 1.0
    kinds = {kind: read_objective(contrastive={"kind": kind, "tau": 0.7}) for kind in ("nt-xent", "protocpc")}
    assert temperature(kinds["nt-xent"]) == 0.1 and temperature(kinds["protocpc"]) == 0.7
    assert temperature(kinds["protocpc"] | unused.objective) == 1.0


def test_the_constraint_says_which_cluster_is_which(pairs, constrained):
    for rule, first in ((RULE, 0), ("a, b : 2\na > b", 1)):
        config = constrained(rule, step2__iterations=60, heads__starts=(), heads__neutral=0)
        found = fit_prepared(prepare(pairs, config, 2), seed=0).predict(pairs)
        assert (found[::2] == first).all() and (found[1::2] == 1 - first).all(), rule


def test_a_constraint_alone_trains_and_may_collapse(pairs, constrained):
    config = constrained("a, b : 2\na == b", step1__iterations=0, step2__iterations=200, step2__learning_rate=0.02)
    config.objective = {"symbolic": config.objective["symbolic"]}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = fit_prepared(prepare(pairs, config, 2), seed=0)
    assert len(set(model.predict(pairs))) == 1  # all rows in one cluster: the rule holds, and says nothing
    assert any("1 of 2 clusters has no rows" in str(w.message) for w in said)
    assert model.results["objective"] < 0.2  # the rule is the objective


def test_a_weight_of_zero_leaves_rows_ungrouped_and_the_run_as_it_was(blobs, tiny, constrained):
    config = override(constrained("a, b, c : 2\na != b\nb != c or a == c"), {"objective.symbolic.weight": 0.0})
    plain = fit_prepared(prepare(blobs, tiny(), 2), seed=0).net.state_dict()  # 80 is not a multiple of 3
    zero = fit_prepared(prepare(blobs, config, 2), seed=0).net.state_dict()
    assert all(torch.equal(plain[name], zero[name]) for name in plain)


# ---- settings ----


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"kind": "constraint"}, "training.objective.symbolic.rule is empty"),
        ({"kind": "constraint", "rule": "a : 2\nb == 1"}, "symbolic.rule: Line 2 of the constraint: 'b' is not"),
        ({"kind": "constraint", "rule": "a : 2\na == 1\x00"}, "cannot be printed"),
    ],
)
def test_an_invalid_constraint_is_refused(tiny, settings, expected):
    with pytest.raises(ConfigError) as caught:
        override(tiny(), {"objective.symbolic": settings})
    assert expected in str(caught.value)


def test_settings_keep_the_text(constrained):
    config = constrained("a, b : 2  # two\n\na < b\n")
    assert from_dict(to_dict(config)) == config
    assert from_dict(yaml.safe_load(yaml.safe_dump(to_dict(config)))) == config


@pytest.mark.parametrize("method", ["jem"])
def test_methods_without_step_2_have_no_place_for_a_constraint(method, pairs):
    with pytest.raises(ConfigError, match="A constraint acts in step 2"):
        GEDI(2, preset="smoke", method=method, constraint=RULE).fit(pairs)


# ---- the estimator ----


def tiny_fit(training, **options):
    return GEDI(2, preset="smoke", training=training, random_state=0, **options)


@pytest.fixture(scope="module")
def few():
    return {"step1.iterations": 3, "step2.iterations": 3, "sampler.buffer_size": 50, "start.nodes": 20}


def test_a_constraint_a_path_and_text_are_one(pairs, few, tmp_path):
    (tmp_path / "rule.txt").write_text(RULE)
    sources = [RULE, str(tmp_path / "rule.txt"), tmp_path / "rule.txt", Constraint(a < b)]
    found = [tiny_fit(few, constraint=source).fit(pairs).predict_proba(pairs) for source in sources]
    assert all(np.array_equal(found[0], other) for other in found[1:])
    assert not np.array_equal(found[0], tiny_fit(few).fit(pairs).predict_proba(pairs))


def test_groups_say_which_rows_belong_together(pairs, few):
    order = np.random.default_rng(0).permutation(80)
    places = np.argsort(order).reshape(40, 2)
    estimator = tiny_fit(few | {"step2.iterations": 1, "step2.batch_size": 6}, constraint=Constraint(a < b))
    estimator.fit(pairs[order], groups=places)
    assert np.array_equal(pairs[order][places].reshape(80, 2), pairs)
    with pytest.raises(DataError, match="not a multiple"):
        estimator.fit(pairs[:79])
    with pytest.raises(DataError, match=r"'groups' names rows 0 to 79, but rows are 0 to 59"):
        estimator.fit(pairs[:60], groups=places)


def test_a_saved_model_needs_no_file(pairs, few, tmp_path):
    (tmp_path / "rule.txt").write_text(RULE)
    model = tiny_fit(few, constraint=tmp_path / "rule.txt").fit(pairs)
    model.save(tmp_path / "run")
    (tmp_path / "rule.txt").unlink()
    again = GEDI.load(tmp_path / "run")
    assert np.array_equal(again.predict(pairs), model.labels_)
    assert again.model_.config.objective["symbolic"].rule == RULE


# ---- the command line ----


@pytest.fixture
def data(pairs, tmp_path):
    order = np.random.default_rng(0).permutation(80)
    np.savez(tmp_path / "pairs.npz", x=pairs[order], y=order % 2, groups=np.argsort(order).reshape(40, 2))
    (tmp_path / "rule.txt").write_text(RULE)
    return tmp_path


FEW = ["--training.step1.iterations", "3", "--training.step2.iterations", "60", "--training.start.nodes", "20"]


def test_fit_with_a_constraint_resumes_without_its_file(data, capsys):
    command = ["fit", str(data / "pairs.npz"), "--n-clusters", "2", "--preset", "smoke", "--device", "cpu", *FEW]
    command += ["--constraint", str(data / "rule.txt"), "--training.objective.symbolic.weight", "2"]
    assert main([*command, "--out", str(data / "run")]) == 0
    assert "the rows of each group are, in this order: a, b\n" in capsys.readouterr().err
    model = runs.load(data / "run")
    assert model.config.objective["symbolic"].weight == 2.0
    (data / "rule.txt").unlink()
    (data / "run" / runs.MODEL).unlink()
    assert main(["resume", str(data / "run")]) == 0
    again = runs.load(data / "run")
    x = np.load(data / "pairs.npz")["x"]
    assert np.array_equal(again.predict_proba(x), model.predict_proba(x))
    assert (again.predict(x) == np.load(data / "pairs.npz")["y"]).mean() > 0.9


@pytest.mark.parametrize(
    ("config", "weight"),
    [
        ({"objective": {"symbolic": {"kind": "constraint", "rule": "a, b : 2\na == b", "weight": 5.0}}}, 5.0),
        ({"objective": {"symbolic": {"weight": 5.0}}}, 5.0),
        ({"objective": {"symbolic": None}}, 1.0),
    ],
)
def test_the_rule_of_the_flag_wins_over_that_of_the_config(data, config, weight):
    (data / "config.yaml").write_text(yaml.safe_dump({"training": config}))
    files = {"constraint": str(data / "rule.txt"), "config": str(data / "config.yaml")}
    args = Namespace(preset="smoke", method="gedi", changes={}, **files)
    term = _settings(args, n_features=2).objective["symbolic"]
    assert (term.rule, term.weight) == (RULE, weight)


@pytest.mark.parametrize(
    ("preset", "changes", "weight"),
    [
        ("paper-mnist", {}, 3000.0),  # beside clusters' 1000, as in the paper's table
        ("paper-mnist", {"objective": {"symbolic": {"weight": 2.0}}}, 2.0),
        ("images", {}, 1.0),
    ],
)
def test_a_preset_knows_the_weight_of_a_constraint(preset, changes, weight):
    term = GEDI(2, preset=preset, constraint=RULE, training=changes).settings(784, (28, 28, 1)).objective["symbolic"]
    assert term.weight == weight


def test_a_constraint_given_with_its_weight_keeps_it():
    given = {"objective": {"symbolic": {"kind": "constraint", "rule": RULE, "weight": 2.0}}}
    config = configure("paper-mnist", "gedi", given, n_features=784, image_shape=(28, 28, 1))
    assert config.objective["symbolic"].weight == 2.0


def test_groups_that_changed_are_other_data(data, capsys):
    command = ["fit", str(data / "pairs.npz"), "--n-clusters", "2", "--preset", "smoke", "--device", "cpu", *FEW]
    command += ["--training.step2.iterations", "3", "--constraint", str(data / "rule.txt")]
    assert main([*command, "--out", str(data / "run")]) == 0
    (data / "run" / runs.MODEL).unlink()
    with np.load(data / "pairs.npz") as arrays:
        np.savez(data / "pairs.npz", **(dict(arrays) | {"groups": arrays["groups"][::-1]}))
    assert main(["resume", str(data / "run")]) == 2
    assert "has changed since the run began" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("a, b, c : 2\na < b or c == 1", "'groups' has type int64 and shape (40, 2)"),
        ("a, b : 3\na < b", "'a' has 3 values, but there are 2 clusters"),
        ("a, b : 2\na < b\na > b", "satisf"),
        ("a, b, c : 2\na < b", "'c' is declared but"),
    ],
)
def test_constraints_that_do_not_fit_are_refused_before_training(data, rule, expected, capsys):
    (data / "rule.txt").write_text(rule)
    command = ["fit", str(data / "pairs.npz"), "--n-clusters", "2", "--out", str(data / "run")]
    assert main([*command, "--constraint", str(data / "rule.txt")]) == 2
    assert expected in " ".join(capsys.readouterr().err.split()) and not (data / "run").exists()


def test_a_constraint_file_that_is_not_there(data):
    with pytest.raises(LogicError, match="cannot be read"):
        GEDI(2, constraint=data / "none.txt").settings(2)


@pytest.mark.parametrize(
    "rule", ["a : 2\n!!python/object/apply:os.mkdir [x]", "a : 9999999999\na == 1", "a : 2\na == 1\n" + "#" * 200_000]
)
def test_a_strangers_rule_is_read_as_a_constraint_and_nothing_else(pairs, few, tmp_path, rule, refused):
    tiny_fit(few, constraint=RULE).fit(pairs).save(tmp_path / "run")
    settings = yaml.safe_load((tmp_path / "run" / runs.CONFIG).read_text())
    settings["training"]["objective"]["symbolic"]["rule"] = rule
    (tmp_path / "run" / runs.CONFIG).write_text(yaml.safe_dump(settings))
    with refused(RunError, match="cannot be read"):
        runs.load(tmp_path / "run")
