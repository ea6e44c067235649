"""GEDI as scikit-learn sees it: conventions, determinism, and one clear sentence for bad input."""

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from gedi import GEDI, runs
from gedi.data import load
from gedi.errors import RunError

TINY = {
    "step1.iterations": 3,
    "step2.iterations": 3,
    "sampler.buffer_size": 50,
    "sampler.steps": 1,
    "dam.steps": 1,
    "start.walks": 1,
    "start.nodes": 20,
}
rng = np.random.default_rng(0)
X = np.vstack([rng.normal(-4, 0.5, (60, 2)), rng.normal(4, 0.5, (60, 2))])
FAR = np.array([[60.0, 60.0], [-60.0, 60.0], [0.0, -80.0], [300.0, 0.0]])


def tiny(**options) -> GEDI:
    return GEDI(**{"n_clusters": 2, "preset": "smoke", "training": TINY, "random_state": 0} | options)


@pytest.fixture(scope="module")
def fitted() -> GEDI:
    """A whole smoke fit."""
    return GEDI(n_clusters=2, preset="smoke", random_state=0).fit(X)


@parametrize_with_checks([tiny()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# ---- the same again ----


def test_the_same_random_state_gives_identical_results():
    one, two = tiny().fit(X), tiny().fit(X)
    mine, theirs = (e.model_.net.state_dict() for e in (one, two))
    assert all(torch.equal(mine[k], theirs[k]) for k in mine)
    assert np.array_equal(one.labels_, two.labels_)
    assert np.array_equal(one.sample(10), two.sample(10))
    assert one.objective_ == two.objective_


def test_another_random_state_gives_another_run():
    one, two = tiny().fit(X), tiny(random_state=1).fit(X)
    assert not np.array_equal(one.score_samples(X), two.score_samples(X))


def test_the_global_generators_are_neither_used_nor_advanced():
    torch.manual_seed(1)
    np.random.seed(1)
    one = tiny().fit(X).score_samples(X)
    torch.manual_seed(2)
    np.random.seed(2)
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    two = tiny().fit(X).score_samples(X)
    assert np.array_equal(one, two)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(np.random.get_state()[1], numpy_before)


def test_labels_given_as_y_change_nothing():
    plain, told = tiny().fit(X), tiny().fit(X, np.arange(len(X)) % 2)
    assert np.array_equal(plain.predict_proba(X), told.predict_proba(X))
    assert np.array_equal(plain.fit_predict(X), told.fit_predict(X, np.zeros(len(X))))


def test_a_clone_has_the_same_settings_and_gives_the_same_results(fitted):
    assert clone(fitted).get_params() == fitted.get_params()
    copy = clone(tiny(n_init=2))
    assert not hasattr(copy, "model_")
    assert np.array_equal(copy.fit(X).predict_proba(X), tiny(n_init=2).fit(X).predict_proba(X))


# ---- clusters ----


@pytest.mark.slow
def test_two_clear_groups_are_found_by_default():
    labels = GEDI(n_clusters=2, random_state=0).fit(X).labels_
    assert len(set(labels[:60])) == len(set(labels[60:])) == 1
    assert labels[0] != labels[-1]


@pytest.mark.slow
def test_four_narrow_rings_are_found_though_walks_cross_between_them():
    rng, sizes = np.random.default_rng(0), [90, 180, 270, 360]
    angles = rng.uniform(0, 2 * np.pi, sum(sizes))
    radii = np.repeat([1.0, 2, 3, 4], sizes)
    rings = radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1) + rng.normal(0, 0.08, (900, 2))
    labels = GEDI(n_clusters=4, random_state=0).fit(rings).labels_
    assert adjusted_rand_score(np.repeat(range(4), sizes), labels) > 0.95


def test_predictions_on_the_training_rows_are_the_labels(fitted):
    assert np.array_equal(fitted.predict(X), fitted.labels_)


def test_units_and_offset_do_not_matter(fitted):
    other = GEDI(n_clusters=2, preset="smoke", random_state=0).fit(1000 * X + 500)
    assert len(set(fitted.labels_)) == 2
    assert np.array_equal(other.labels_, fitted.labels_)


def test_the_papers_data_is_not_scaled():
    changed = TINY | {"scaling": "none"}
    model = tiny(training=changed).fit(X).model_
    assert np.array_equal(model.scaler.transform(X), X.astype(np.float32))


def test_probabilities_sum_to_one_and_their_largest_is_the_prediction(fitted):
    probability = fitted.predict_proba(X)
    assert probability.shape == (120, 2) and (probability >= 0).all()
    np.testing.assert_allclose(probability.sum(1), 1.0, atol=1e-12)
    assert np.array_equal(probability.argmax(1), fitted.predict(X))


def test_one_row_gets_the_same_answer_alone_and_among_others(fitted):
    places = range(0, 120, 7)
    assert [fitted.predict(X[[i]])[0] for i in places] == fitted.predict(X)[::7].tolist()
    for answer in (fitted.predict_proba, fitted.score_samples, fitted.transform, fitted.typicality, fitted.ood_score):
        alone = np.concatenate([answer(X[[i]]) for i in places])
        np.testing.assert_allclose(alone, answer(X)[::7], atol=1e-9, rtol=0)


@pytest.mark.parametrize("n_init", [3, np.int64(3)])
def test_n_init_is_the_number_of_cluster_heads(n_init):
    model = tiny(n_init=n_init, training=TINY | {"heads.random": 7}).fit(X).model_
    assert model.config.heads.random == 3 and model.net.clusters.n_heads == 3
    assert tiny().fit(X).model_.net.clusters.n_heads == 4  # of the preset


def test_what_competed_for_the_clusters_is_in_the_results(fitted):
    judged = fitted.model_.results["candidates"]
    assert set(judged) == {"a head", "walks", "neighbours", "kmeans", "mixture"}
    assert min(judged.values()) < 0.1  # the groups are clear


def test_iterations_of_both_steps_are_counted_once_however_many_heads_there_are():
    assert tiny(n_init=2, training=TINY | {"step1.iterations": 2}).fit(X).n_iter_ == 2 + 3
    assert tiny(n_init=2, training={"step1.iterations": 3}, method="jem").fit(X).n_iter_ == 3


# ---- embedding, density, samples ----


def test_under_linear_heads_the_embedding_is_the_representation(fitted):
    z = fitted.transform(X)
    assert z.shape == (120, fitted.model_.config.net.representation)
    assert np.array_equal(z, fitted.model_.represent(X))


def test_embeddings_of_prototypes_lie_on_the_unit_sphere():
    swav = tiny(method="swav", training=TINY | {"step1.iterations": 0}).fit(X)
    z = swav.transform(X)
    assert z.shape == (120, swav.model_.config.net.embedding)
    np.testing.assert_allclose(np.linalg.norm(z, axis=1), 1.0, atol=1e-6)


def test_data_is_denser_than_what_is_far_away(fitted):
    assert fitted.score_samples(X).min() > fitted.score_samples(FAR).max()


def test_what_is_far_away_is_not_typical(fitted):
    typical, far = fitted.typicality(X), fitted.typicality(FAR)
    assert typical.shape == (120,) and (typical <= 0).all() and far.max() < typical.min()


def test_the_ood_score_is_finite_and_never_positive(fitted):
    scores = fitted.ood_score(np.vstack([X, FAR]))
    assert scores.shape == (124,) and np.isfinite(scores).all() and (scores <= 0).all()


def test_samples_have_the_datas_shape_and_stay_in_its_box(fitted):
    samples = fitted.sample(50, random_state=1)
    assert samples.shape == (50, 2)
    margin = fitted.model_.config.sampler.box_margin * X.std(0) + 1e-3
    assert (samples >= X.min(0) - margin).all() and (samples <= X.max(0) + margin).all()


def test_columns_of_a_data_frame_are_kept_with_the_run(tmp_path):
    tiny().fit(pd.DataFrame(X, columns=["a", "b"])).save(tmp_path / "run")
    assert GEDI.load(tmp_path / "run").model_.columns == ["a", "b"]


def test_a_loaded_model_refuses_columns_in_another_order(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    tiny().fit(frame).save(tmp_path / "run")
    for again in (GEDI.load(tmp_path / "run"), GEDI.from_pretrained(tmp_path / "run")):
        assert len(again.predict(frame)) == len(X)
        with pytest.raises(ValueError, match="same order"):
            again.predict(frame[["b", "a"]])


def test_representations_are_short(fitted):
    assert repr(fitted).startswith("GEDI(") and "<style>" in fitted._repr_html_()
    assert re.fullmatch(r"TrainedModel\(2 features, \d clusters, [\d,]+ weights, seed \d+\)", repr(fitted.model_))
    assert repr(load("digits", n=5)) == "Dataset('digits', 5 images of 8 x 8 x 1, labels)"


def test_samples_are_reproducible(fitted):
    assert np.array_equal(fitted.sample(5, random_state=1), fitted.sample(5, random_state=1))
    assert not np.array_equal(fitted.sample(5, random_state=1), fitted.sample(5, random_state=2))
    assert not np.array_equal(fitted.sample(5, random_state=None), fitted.sample(5, random_state=None))
    assert fitted.sample(5, random_state=np.random.RandomState(1)).shape == (5, 2)
    with pytest.raises(ValueError, match=r"whole number of at least 1, got 2\.5"):
        fitted.sample(2.5)


# ---- folders ----


def test_a_saved_model_gives_the_same_answers(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    again = GEDI.load(tmp_path / "run")
    assert again.n_clusters == 2 and again.n_features_in_ == 2
    for name in ("predict", "predict_proba", "transform", "score_samples", "typicality", "ood_score"):
        assert np.array_equal(getattr(again, name)(X), getattr(fitted, name)(X)), name
    assert np.array_equal(again.sample(5), fitted.sample(5))


@pytest.mark.parametrize("options", [{}, {"random_state": None, "n_init": 1}, {"constraint": "a, b: 2\na != b"}])
def test_a_loaded_model_has_the_parameters_that_were_given(tmp_path, options):
    given = tiny(**options)
    given.fit(X).save(tmp_path / "run")
    assert GEDI.load(tmp_path / "run").get_params() == given.get_params()


@pytest.mark.parametrize("asked", [None, 3, {"preset": 3, "training": [1], "random_state": "x", "constraint": True}])
def test_parameters_that_a_run_did_not_keep_are_the_defaults(fitted, tmp_path, asked):
    runs.save(replace(fitted.model_, results={"asked": asked}), tmp_path)
    again = GEDI.load(tmp_path)
    assert again.get_params() == GEDI(n_clusters=2, random_state=fitted.model_.seed).get_params()


def test_an_existing_folder_is_not_overwritten(fitted, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="already exists"):
        fitted.save(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


# ---- shapes of input ----


@pytest.mark.parametrize("shape", [(30, 8, 8), (30, 4, 4, 4)])
def test_images_are_taken_as_flat_rows(shape):
    images = np.random.default_rng(1).uniform(size=shape)
    estimator = tiny().fit(images)
    assert estimator.n_features_in_ == 64
    assert np.array_equal(estimator.predict_proba(images), estimator.predict_proba(images.reshape(30, 64)))
    assert estimator.model_.image_shape == (*shape[1:], 1)[:3]


def test_a_constant_column_warns_and_works():
    with pytest.warns(UserWarning, match="1 of 3 columns are constant"):
        estimator = tiny().fit(np.column_stack([X, np.full(120, 7.0)]))
    assert len(estimator.labels_) == 120


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (X[:3], {"n_clusters": 4}, "more clusters than rows"),
        (np.where(np.eye(120, 2) > 0, np.nan, X), {}, "NaN"),
        (np.where(np.eye(120, 2) > 0, np.inf, X), {}, "inf"),
        (X.astype(str), {}, "strings"),
        ([["a", 1.0], ["b", 2.0]], {}, "strings"),
        (X[:1], {"n_clusters": 1}, "one row"),
        (X[:0], {}, "empty"),
        (np.empty((0, 8, 8)), {}, "empty: give at least two rows"),
        ("a/b.xlsx", {}, r"X is the path 'a/b.xlsx', not rows: pass pandas\.read_excel\('a/b.xlsx'\), or"),
        (Path("photos"), {}, r"pass gedi\.data\.load\('photos'\)\.x"),
        (None, {}, "X is NoneType, not rows"),
        ({"a": [1, 2]}, {}, "X is dict, not rows"),
        (iter(X), {}, "X is .*iterator, not rows"),
        (np.ma.masked_array(X, mask=np.eye(120, 2) > 0), {}, "2 NaN"),
        (pd.DataFrame({"a": ["x"]}), {}, "X has one row, but clusters need at least two"),
        (X[:, 0], {}, "2-D"),
        (X, {"n_clusters": 0}, "n_clusters"),
        (X, {"n_clusters": 2.5}, "whole number"),
        (X, {"preset": "smokee"}, r"'smokee'.*\bsmoke\b"),
        (X, {"method": "jemm"}, r"'jemm'.*\bjem\b"),
        (X, {"training": {"dam.stepps": 1}}, r"dam\.stepps.*nearest.*dam\.steps"),
        (X, {"training": {"dam.steps": "many"}}, r"dam\.steps"),
        (X, {"training": 5}, "training must map settings to values"),
        (X, {"n_init": 0}, "n_init must be a positive"),
        (X, {"n_init": 2.5}, r"n_init must be .* whole number, got 2\.5"),
    ],
)
def test_bad_input_is_a_value_error_of_one_line(rows, options, expected):
    with pytest.raises(ValueError, match=expected) as error:
        tiny(**options).fit(rows)
    assert "\n" not in str(error.value)


def test_no_rows_are_refused(fitted):
    for method in (fitted.predict, fitted.score_samples):
        with pytest.raises(ValueError, match="empty: give at least one row"):
            method(X[:0])


def test_a_loaded_model_says_where_its_labels_are(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    with pytest.raises(AttributeError, match=r"save does not keep labels_: use predict\(X\)"):
        _ = GEDI.load(tmp_path / "run").labels_
    with pytest.raises(AttributeError, match="no attribute 'labels_'"):
        _ = GEDI().labels_
    with pytest.raises(RunError, match="use another folder, or remove it"):
        fitted.save(tmp_path / "run")


def test_rows_with_other_features_than_in_training_are_refused(fitted):
    with pytest.raises(ValueError, match=r"3 features.*2 features"):
        fitted.predict(np.ones((2, 3)))


# ---- progress ----


def test_progress_goes_to_standard_error_alone(capfd):
    tiny(verbose=1).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fitting the density: done, 3 iterations in" in err and "finding clusters: done, 3 iterations in" in err


def test_without_verbose_nothing_is_printed(capfd):
    tiny().fit(X)
    assert capfd.readouterr() == ("", "")


def test_importing_it_does_not_import_torch():
    code = "import sys; from gedi import GEDI; GEDI(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
