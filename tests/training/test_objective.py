"""Objectives are sets of terms, checked when read; a term may come from another package."""

import ast
import inspect
import io
import tokenize
from dataclasses import dataclass
from importlib import metadata

import pytest
import torch

from gedi.errors import ConfigError
from gedi.objectives import clustering, contrastive, generative, negative_free, symbolic
from gedi.objectives.negative_free import gaussian_kl, scatter_matrix
from gedi.objectives.term import Term, kinds
from gedi.training.config import TrainingConfig, from_dict, override, read_objective, to_dict

pytestmark = pytest.mark.usefixtures("own_terms")
ALL = [(family, kind) for family, members in kinds().items() for kind in members]
NEEDED = {"constraint": {"rule": "a, b : 2\na != b"}}  # settings that a kind requires


@pytest.mark.parametrize(("family", "kind"), ALL)
def test_every_kind_is_read_by_its_name_and_says_where_it_comes_from(family, kind):
    term = read_objective(**{family: {"kind": kind, "weight": 0.5} | NEEDED.get(kind, {})})[family]
    assert (term.kind, term.weight) == (kind, 0.5) and term.equation and type(term).__doc__


@pytest.mark.parametrize(("family", "kind"), ALL)
def test_every_kind_gives_finite_losses_with_gradients(make_engine, tiny, family, kind):
    settings = {"kind": kind} | NEEDED.get(kind, {})
    alone = {"heads__random": 1, "heads__starts": (), "heads__neutral": 0, "net__head": "projector"}
    alone = alone if kind == "kmeans" else {}
    run = make_engine(tiny(**alone, **{f"objective__{family}__{name}": value for name, value in settings.items()}))
    batch = next(run.stage("step1", run.config.step1))
    run.state.labels = torch.arange(80) % 2
    views = run.views(batch, *run.augment(batch), batch.x + 0.01, samples=batch.x + 0.5)
    losses = run.config.objective[family].losses(views)
    total = torch.stack([loss.value for loss in losses.values()]).sum()
    total.backward()
    gradients = [p.grad for p in run.state.net.parameters() if p.grad is not None]
    assert torch.isfinite(total) and any(g.abs().max() > 0 for g in gradients)


def test_the_paper_measures_the_distance_of_views_in_the_space_of_enc(make_engine, tiny):
    run = make_engine(tiny(objective__negative_free__kind="gaussian"))
    batch = next(run.stage("step1", run.config.step1))
    views = run.views(batch, *run.augment(batch))
    found = run.config.objective["negative_free"].losses(views)["negative_free"].value
    n, (h, h_view), z = len(batch.x), run.state.net.encoder(torch.cat(views.inputs)).chunk(2), views.features
    expected = gaussian_kl(scatter_matrix(z[:n], 1e-3)) + (h - h_view).square().sum() / 2
    assert torch.allclose(found, expected / n)


def test_the_slope_penalty_is_a_loss_of_its_own(make_engine, tiny):
    run = make_engine(tiny(objective__generative__gradient=0.1, sampler__data_noise=0.0))
    batch = next(run.stage("step1", run.config.step1))
    losses = run.config.objective["generative"].losses(run.views(batch, batch.x, batch.x, samples=batch.x + 0.5))
    expected = run.state.net.score(batch.x).square().sum(1).mean() / 2
    assert losses["energy_gradient"].weight == 0.1
    assert torch.allclose(losses["energy_gradient"].value, expected)
    without = make_engine(tiny()).config.objective["generative"]
    assert list(without.losses(run.views(batch, batch.x, batch.x, samples=batch.x))) == ["generative", "energy_size"]


def test_terms_share_one_pass_through_the_encoder(make_engine, tiny, monkeypatch):
    run = make_engine(tiny(objective__contrastive__kind="nt-xent", objective__negative_free__kind="gaussian"))
    seen = []
    original = run.encode
    monkeypatch.setattr(run, "encode", lambda *views: seen.append(len(views)) or original(*views))
    batch = next(run.stage("step1", run.config.step1))
    views = run.views(batch, *run.augment(batch), samples=batch.x)
    for term in run.config.objective.values():
        term.losses(views)
    assert len(run.config.objective) == 4 and seen == [2]


# ---- settings ----


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"objective.clusterin.tau": 1}, "There is no family of terms 'clusterin'; the nearest is 'clustering'."),
        ({"objective.clustering.taau": 1}, "nearest is training.objective.clustering.tau."),
        ({"objective.negative_free.kind": "barlo"}, "nearest is 'barlow'"),
        ({"objective.clustering.tau": "warm"}, "training.objective.clustering"),
        ({"objective.contrastive.tau": 0.1}, "training.objective.contrastive needs a kind, one of: infonce, nt-xent"),
        ({"objective": 5}, "training.objective"),
        ({"objective.clustering.kind": "kmeans"}, "kind kmeans labels the rows itself"),
        ({"objective.clustering": {"kind": "kmeans", "dam": 1.0}}, "training.objective.clustering.dam must be 0"),
        ({"objective.generative": None}, "training.step1 trains a density"),
        ({"objective.generative.weight": 0}, "training.step1 trains a density"),
        ({"objective.generative.weight": -1}, "training.objective.generative.weight must not be negative"),
    ],
)
def test_invalid_settings_are_refused_by_name(changes, expected):
    with pytest.raises(ConfigError) as caught:
        override(TrainingConfig(), changes)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_another_kind_starts_from_its_own_defaults_and_null_leaves_a_term_out():
    config = override(TrainingConfig(), {"objective.negative_free": {"kind": "vicreg", "variance": 7.0}})
    expected = read_objective(negative_free={"kind": "vicreg", "variance": 7.0})
    assert config.objective["negative_free"] == expected["negative_free"]
    assert "negative_free" not in override(config, {"objective.negative_free": None}).objective
    same_kind = override(TrainingConfig(), {"objective.clustering": {"kind": "prior", "prior": 9.0}})
    assert same_kind.objective["clustering"].prior == 9.0


def test_a_saved_objective_is_read_back_without_the_default_terms():
    config = override(TrainingConfig(), {"objective.generative": None, "step1.iterations": 0})
    assert from_dict(to_dict(config)) == config
    assert list(from_dict(to_dict(config)).objective) == ["clustering"]


@pytest.mark.parametrize("module", [clustering, contrastive, generative, negative_free, symbolic])
def test_every_setting_of_a_term_has_a_comment_beside_it(module):
    source = inspect.getsource(module)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    commented = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    silent = [
        f"{cls.name}.{ast.unparse(node.target)}"
        for cls in ast.parse(source).body
        if isinstance(cls, ast.ClassDef) and issubclass(getattr(module, cls.name), Term)
        for node in cls.body
        if isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) not in ("kind", "equation")
        and "ClassVar" not in ast.unparse(node.annotation)
        and commented.isdisjoint(range(node.lineno, (node.end_lineno or 0) + 1))
    ]
    assert silent == []


# ---- new terms ----


def test_two_classes_cannot_have_the_same_kind():
    with pytest.raises(ConfigError, match=r"clustering\.Prior and .*Mine are both the term clustering\.prior"):

        @dataclass
        class Mine(clustering.Prior):
            kind: str = "prior"

    assert kinds()["clustering"]["prior"] is clustering.Prior


def test_a_class_that_is_defined_again_replaces_itself():
    def define():
        @dataclass
        class Mine(clustering.Prior):
            kind: str = "mine"

        return Mine

    define()
    again = define()
    assert kinds()["clustering"]["mine"] is again


def test_a_kind_without_a_family_is_refused():
    with pytest.raises(ConfigError, match=r"Mine has a kind but no family.*class Mine\(Term, family=\.\.\.\)"):

        class Mine(Term):
            kind: str = "mine"


def test_a_forgotten_dataclass_is_named():
    class Mine(clustering.Prior):
        kind: str = "mine"
        room: float = 1.0

    with pytest.raises(ConfigError, match=r"Mine lacks @dataclass"):
        kinds()


def test_a_missing_method_is_named():
    @dataclass
    class Mine(negative_free.NegativeFree):
        kind: str = "mine"

    with pytest.raises(ConfigError, match=r"Mine lacks the method loss\."):
        kinds()


# ---- terms of other packages; tests/test_docs.py trains with one ----


@pytest.fixture
def installed(monkeypatch):
    """A function: pretend that a package has this entry point."""

    def install(name, place):
        entry = metadata.EntryPoint(name, place, "gedi.terms")
        monkeypatch.setattr("gedi.objectives.term.installed_terms", lambda: [entry])

    return install


def test_a_term_that_cannot_be_loaded_is_named(installed):
    installed("mine.broken", "no_such_module:Term")
    with pytest.raises(ConfigError, match=r"mine\.broken.*no_such_module"):
        kinds()


def test_an_entry_point_has_the_name_of_its_term(installed):
    installed("mine.prior", "gedi.objectives.clustering:Prior")
    with pytest.raises(ConfigError, match=r"The entry point mine\.prior must have the name FAMILY\.KIND"):
        kinds()


def test_a_term_of_another_package_cannot_replace_one_of_ours(installed, monkeypatch, tmp_path):
    (tmp_path / "their_package.py").write_text(
        "from gedi.objectives.clustering import Prior\nclass Theirs(Prior):\n    kind = 'prior'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    installed("clustering.prior", "their_package:Theirs")
    with pytest.raises(ConfigError, match=r"clustering\.Prior and their_package\.Theirs are both"):
        kinds()
