"""Settings: every change is checked by name, type and value, and every field says what it means."""

import ast
import inspect
import io
import tokenize
from dataclasses import is_dataclass

import pytest
import yaml

from gedi.errors import ConfigError
from gedi.objectives.term import kinds
from gedi.settings import types_of
from gedi.training import config as module
from gedi.training.config import TrainingConfig, from_dict, get, override, paths, to_dict


def test_nested_and_dotted_changes_are_the_same():
    nested = override(TrainingConfig(), {"sampler": {"steps": 5}, "dam": {"radius": 0.2}, "scaling": "none"})
    dotted = override(TrainingConfig(), {"sampler.steps": 5, "dam.radius": 0.2, "scaling": "none"})
    assert nested == dotted
    assert (nested.sampler.steps, nested.dam.radius, nested.scaling) == (5, 0.2, "none")


def test_an_override_changes_nothing_else_and_leaves_its_argument_alone():
    before = TrainingConfig()
    after = override(before, {"step2.iterations": 7})
    assert before == TrainingConfig()
    changed = [path for path in paths(before) if get(before, path) != get(after, path)]
    assert changed == ["step2.iterations"]


@pytest.mark.parametrize(
    ("given", "nearest"),
    [
        ({"dam.stepps": 5}, "dam.steps"),
        ({"sampler": {"noisee": 1.0}}, "sampler.noise"),
        ({"step1.learning_rat": 1.0}, "step1.learning_rate"),
        ({"heads.randon": 2}, "heads.random"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_real_one(given, nearest):
    with pytest.raises(ConfigError, match=rf"nearest is training\.{nearest}\.$"):
        override(TrainingConfig(), given)


def test_a_group_is_not_a_value():
    with pytest.raises(ConfigError, match=r"training\.dam"):
        override(TrainingConfig(), {"dam": 5})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("dam.steps", "many"),
        ("dam.steps", 2.5),
        ("net.hidden", ["wide"]),
        ("net.activation", "tanh"),
        ("heads.starts", ["labels"]),
        ("heads.starts", "kmeans"),
        ("net.head", "classifier"),
        ("net.two_encoders", "perhaps"),
        ("step1.betas", [0.9]),
    ],
)
def test_a_wrong_type_is_refused_in_one_line_that_names_the_key(path, value):
    with pytest.raises(ConfigError) as caught:
        override(TrainingConfig(), {path: value})
    assert f"training.{path}" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sampler.steps", 0),
        ("sampler.buffer_size", 0),
        ("sampler.noise", 0.0),
        ("sampler.noise", -1.0),
        ("sampler.restart", 1.5),
        ("sampler.step", 0.0),
        ("sampler.max_drift", -1.0),
        ("sampler.max_gap", 0.0),
        ("sampler.burn_in", -5.0),
        ("objective.clustering.tau", 0.0),
        ("objective.clustering.tau", float("nan")),
        ("objective.clustering.prior", -0.1),
        ("objective.clustering.neutral", -0.1),
        ("heads.random", -1),
        ("heads.neutral", -1),
        ("heads.choose", 1.1),
        ("heads.anchor", -1.0),
        ("heads.fade", -0.1),
        ("augment.elastic", -0.1),
        ("augment.shift", -1.0),
        ("augment.scale", 1.5),
        ("dam.steps", -1),
        ("dam.radius", -0.1),
        ("dam.max_drop", -1.0),
        ("augment.neighbours", -1),
        ("objective.generative.size", -1.0),
        ("net.hidden", []),
        ("net.hidden", [0]),
        ("net.embedding", 0),
        ("start.walks", 0),
        ("start.repeats", 0),
        ("step1.iterations", -1),
        ("step1.betas", [1.5, 0.9]),
        ("step1.final_rate", -3.0),
        ("step2.batch_size", 0),
        ("step2.learning_rate", 0.0),
        ("step2.average", 1.01),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(path, value):
    with pytest.raises(ConfigError, match=rf"^training\.{path} must"):
        override(TrainingConfig(), {path: value})


def groups_of_settings(cls: type) -> list[type]:
    inner = [kind for kind in types_of(cls).values() if is_dataclass(kind)]
    return [cls, *(found for kind in inner for found in groups_of_settings(kind))]


TERMS = [term for members in kinds().values() for term in members.values()]


@pytest.mark.parametrize("group", [*groups_of_settings(TrainingConfig), *TERMS], ids=lambda group: group.__name__)
def test_every_number_has_a_range(group):
    assert [name for name, kind in types_of(group).items() if kind in (int, float, int | None, float | None)] == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"net.encoder": "resnet8"}, "leave out walks and mixture"),
        ({"heads.choose": 1.0}, "heads.choose must be at most 0.9"),
        ({"augment.resize": 0.5}, "which training.net.encoder mlp cannot read: set it to 1"),
        ({"augment.resize": 0.5, "net.encoder": "convnet", "heads.starts": []}, "clustering.dam to 0"),
        ({"objective.clustering": {"kind": "kmeans"}}, "kmeans labels the rows itself"),
        ({"objective.clustering": {"kind": "kmeans"}, "heads": {"random": 1, "starts": []}}, "heads.neutral 0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes, expected):
    with pytest.raises(ConfigError, match=expected):
        override(TrainingConfig(), changes)


def test_settings_that_go_together_are_taken():
    alone = {"random": 1, "starts": [], "neutral": 0}
    override(TrainingConfig(), {"objective.clustering": {"kind": "kmeans"}, "heads": alone, "net.head": "projector"})
    override(TrainingConfig(), {"heads": alone | {"choose": 1.0}})
    images = override(TrainingConfig(), {"net.encoder": "resnet8", "heads.starts": ["neighbours", "kmeans"]})
    assert images.heads.starts == ("neighbours", "kmeans")


def test_of_several_changes_the_later_ones_win():
    first, second = {"dam.steps": 3, "objective.clustering.prior": 7.0}, {"dam": {"steps": 4}, "heads.random": 2}
    both = override(TrainingConfig(), first, second)
    assert both == override(override(TrainingConfig(), first), second)
    assert (both.dam.steps, both.heads.random, both.objective["clustering"].prior) == (4, 2, 7.0)


def test_a_term_that_a_change_adds_starts_with_given_settings():
    rule = {"objective.symbolic": {"kind": "constraint", "rule": "a, b: 2\na != b"}}
    added = {"symbolic": {"weight": 9.0}}
    for changes, weight in (
        ([rule], 9.0),
        ([rule, {"objective.symbolic.weight": 2}], 2.0),
        ([rule, {"objective.symbolic": None}, rule], 9.0),
    ):
        assert override(TrainingConfig(), *changes, added=added).objective["symbolic"].weight == weight


def test_settings_of_a_whole_run_say_which_terms_there_are():
    without = {"objective.generative": None, "objective.clustering.dam": 0.0, "step1.iterations": 0}
    run = override(TrainingConfig(), without, {"heads.starts": [], "sampler.steps": 5})
    assert "generative" in TrainingConfig().objective and override(TrainingConfig(), to_dict(run)) == run


def test_a_term_cannot_be_both_left_out_and_changed():
    with pytest.raises(ConfigError, match=r"training\.objective\.clustering is given twice"):
        override(TrainingConfig(), {"objective.clustering": None, "objective.clustering.tau": 1.0})


def test_settings_survive_yaml():
    changed = override(TrainingConfig(), {"net.hidden": [3, 4], "dam.radius": None, "step1.betas": [0.1, 0.2]})
    again = from_dict(yaml.safe_load(yaml.safe_dump(to_dict(changed))))
    assert again == changed
    assert again.net.hidden == (3, 4)


def test_every_field_has_a_comment_beside_it():
    source = inspect.getsource(module)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    silent = [
        f"{cls.name}.{ast.unparse(node.target)}"
        for cls in classes
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and commented.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1))
    ]
    assert len(classes) > 5
    assert silent == []
