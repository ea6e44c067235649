"""A trained model's answer for a row does not depend on the other rows."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from gedi.errors import DataError, RunError
from gedi.nets import MLPEncoder
from gedi.objectives.term import Loss, Term
from gedi.settings import Positive
from gedi.training.build import prepare
from gedi.training.config import override
from gedi.training.fit import fit_prepared
from gedi.training.methods import with_method
from gedi.training.model import MOST_TYPICAL

ANSWERS = ("predict_proba", "transform", "score_samples", "typicality", "ood_score")


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_row_gets_the_same_answer_alone_and_in_company(fitted, blobs, answer):
    together = getattr(fitted, answer)(blobs)
    alone = np.concatenate([getattr(fitted, answer)(row[None]) for row in blobs])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_row_gets_the_same_answer_wherever_it_stands(fitted, blobs, answer):
    many = np.tile(blobs, (40, 1))[:-3]  # three blocks and a part of one
    expected = np.concatenate([getattr(fitted, answer)(blobs)] * 40)[:-3]
    np.testing.assert_array_equal(getattr(fitted, answer)(many), expected)


@pytest.mark.parametrize("answer", ANSWERS)
def test_long_data_is_answered_in_pieces(fitted, blobs, answer, monkeypatch):
    whole = getattr(fitted, answer)(blobs)
    monkeypatch.setattr(MLPEncoder, "rows_at_once", 7)
    np.testing.assert_allclose(getattr(fitted, answer)(blobs), whole, atol=1e-5, rtol=1e-5)


def test_answers_are_float64_and_the_net_is_not_changed(fitted, blobs):
    before = {k: v.clone() for k, v in fitted.net.state_dict().items()}
    assert all(getattr(fitted, answer)(blobs).dtype == np.float64 for answer in ANSWERS)
    fitted.sample(3)
    assert all(torch.equal(before[k], v) for k, v in fitted.net.state_dict().items())


def test_the_gradient_score_is_that_of_the_log_density(fitted, blobs):
    h, rows = 1e-3, blobs[:5].astype(np.float64)
    columns = []
    for j in range(2):
        kick = np.zeros(2)
        kick[j] = h
        columns.append((fitted.score_samples(rows + kick) - fitted.score_samples(rows - kick)) / (2 * h))
    in_scaled_units = np.stack(columns, axis=1) * fitted.scaler.scale
    np.testing.assert_allclose(fitted.ood_score(rows), -np.linalg.norm(in_scaled_units, axis=1), rtol=0.02, atol=1e-3)


def test_samples_are_reproducible_and_in_the_users_units(fitted):
    one, same, other = fitted.sample(20, seed=3), fitted.sample(20, seed=3), fitted.sample(20, seed=4)
    assert np.array_equal(one, same) and not np.array_equal(one, other)
    low, high = (fitted.scaler.inverse(edge[None].numpy(), dtype=np.float64)[0] for edge in fitted.box)
    assert ((one >= low - 1e-6) & (one <= high + 1e-6)).all()


def test_at_least_one_sample_is_required(fitted):
    with pytest.raises(DataError, match="at least 1, got 0"):
        fitted.sample(0)


def test_fresh_chains_do_not_need_those_of_training_and_stay_in_the_box(fitted):
    without = replace(fitted, chains=fitted.chains[:0])
    one, other = without.sample(20, seed=3, steps=2, fresh=True), without.sample(20, seed=4, steps=2, fresh=True)
    low, high = (fitted.scaler.inverse(edge[None].numpy(), dtype=np.float64)[0] for edge in fitted.box)
    assert ((one >= low - 1e-6) & (one <= high + 1e-6)).all() and not np.array_equal(one, other)


def test_probabilities_of_protocpc_have_its_temperature(blobs, tiny):
    config = override(with_method(tiny(), "protocpc"), {"objective.contrastive.tau": 0.5})
    model = fit_prepared(prepare(blobs, config, 2), seed=0)
    scores = model.net.scores(torch.from_numpy(model.scaler.transform(blobs)))
    torch.testing.assert_close(torch.from_numpy(model.predict_proba(blobs)).float(), torch.softmax(scores / 0.5, dim=1))


# ---- typicality ----

TWO_TERMS = {"objective.generative.kind": "denoising", "objective.generative.components": 2}  # log p has two terms
OWN = np.random.default_rng(1).normal([-3.0, 20.0], [2.0, 0.5], (501, 2))  # terms of log p of training rows


def test_samples_start_from_the_mixture_if_training_moved_no_chains(blobs, tiny):
    model = fit_prepared(prepare(blobs, override(tiny(), TWO_TERMS), 2), seed=0)
    without = replace(model, chains=model.chains[:0])  # they are few, so samples from them would repeat each other
    assert np.array_equal(without.sample(20, seed=3, steps=2), model.sample(20, seed=3, steps=2, fresh=True))


@pytest.fixture
def judge(fitted, monkeypatch):
    """A function: typicality of rows whose terms of log p are these, for training rows with terms ``own``."""

    def typicality(terms, own=OWN):
        model = replace(fitted)
        monkeypatch.setattr(type(model), "_blocks", lambda *_: own)
        model.set_typical_parts(torch.zeros(len(own), 2))
        monkeypatch.setattr(model, "log_density_parts", lambda x: np.asarray(terms))
        return model.typicality(np.zeros((len(terms), 2)))

    return typicality


def test_the_most_typical_row_has_the_medians_of_all_terms(judge):
    assert judge([np.median(OWN, axis=0)]) == [0.0]
    assert (judge(OWN) <= 0).all()


def test_typicality_falls_on_both_sides_of_a_median_in_standard_deviations(judge):
    median, deviation = np.median(OWN, axis=0), OWN.std(axis=0)
    for j in range(2):
        away = np.arange(5)[:, None] * np.eye(2)[j] * deviation
        np.testing.assert_allclose(judge(median + away), -np.arange(5), atol=1e-9)
        np.testing.assert_allclose(judge(median - away), -np.arange(5), atol=1e-9)
    np.testing.assert_allclose(judge([median + [3, -4] * deviation]), [-5])  # terms do not offset each other


def test_typicality_does_not_depend_on_the_origin_and_unit_of_a_term(judge):
    terms = np.random.default_rng(2).normal(size=(20, 2)) * 30
    for shift, unit in (([7.0, 0.0], [1.0, 1.0]), ([0.0, -100.0], [1.0, 50.0]), ([3.0, 3.0], [-0.01, 2.0])):
        np.testing.assert_allclose(judge(terms * unit + shift, OWN * unit + shift), judge(terms), rtol=1e-9)


def test_a_constant_term_and_rows_with_an_infinite_log_p_do_no_harm(judge):
    constant = np.column_stack([OWN[:, 0], np.full(len(OWN), 2.0)])
    assert np.isfinite(judge(constant, constant)).all()
    broken = np.vstack([OWN, [[-np.inf, 0.0]]])
    np.testing.assert_array_equal(judge(OWN, broken), judge(OWN))
    assert judge([[-np.inf, 0.0]], broken) == [-np.inf]


@pytest.mark.parametrize(("changes", "terms"), [({}, 1), (TWO_TERMS, 2)])
def test_the_terms_are_measured_over_the_training_rows(blobs, tiny, changes, terms):
    model = fit_prepared(prepare(blobs, override(tiny(), changes), 2), seed=0)
    parts = model.log_density_parts(blobs)
    np.testing.assert_array_equal(model.typical_parts, [np.median(parts, axis=0), parts.std(axis=0)])
    assert parts.shape == (len(blobs), terms)
    foreign = blobs + [1000.0, -1000.0]
    assert model.typicality(blobs).min() > model.typicality(foreign).max()


def test_at_most_a_fixed_number_of_rows_is_read_in_blocks_and_evenly_spaced(fitted):
    seen = []

    class Watched:
        def __len__(self):
            return 3 * MOST_TYPICAL

        def __getitem__(self, places):
            seen.append(places)
            return torch.stack([places / (3 * MOST_TYPICAL), torch.zeros(len(places))], dim=1)

    replace(fitted).set_typical_parts(Watched())
    assert torch.equal(torch.cat(seen), torch.arange(0, 3 * MOST_TYPICAL, 3))
    assert max(map(len, seen)) <= fitted.net.encoder.rows_at_once


def test_categories_are_measured_without_the_noise_that_training_adds(tiny):
    rows = np.random.default_rng(0).normal(size=(60, 3))
    rows[:, 1] = rows[:, 0] > 0
    rows[:, 2] = 1 - rows[:, 1]  # a category, one-hot
    ready = prepare(rows, tiny(), 2, words=[[1, 2]])
    assert not torch.equal(ready.rows[:], ready.plain[:])
    model = fit_prepared(ready, seed=0)
    np.testing.assert_allclose(model.typical_parts[0], np.median(model.log_density_parts(rows), axis=0))


def test_without_the_typical_parts_the_error_says_why(fitted, blobs, tiny):
    with pytest.raises(RunError, match="an older version of gedi, without typicality: fit it again"):
        replace(fitted, typical_parts=None).typicality(blobs)
    swav = fit_prepared(prepare(blobs, with_method(tiny(), "swav"), 2), seed=0)
    assert swav.typical_parts is None
    with pytest.raises(RunError, match="trained without a density"):
        swav.typicality(blobs)


def test_a_new_family_with_clusters_predicts_with_its_own_temperature(fitted, blobs, own_terms):
    @dataclass
    class Mine(Term, family="mine"):
        kind: str = "mine"
        tau: Positive = 0.3  # temperature
        has_clusters: ClassVar[bool] = True

        def losses(self, views) -> dict[str, Loss]:
            return {}

    changed = override(fitted.config, {"objective.clustering": None, "objective.mine.kind": "mine"})
    model = replace(fitted, config=changed)
    scores = model.net.scores(torch.from_numpy(model.scaler.transform(blobs)))
    torch.testing.assert_close(torch.from_numpy(model.predict_proba(blobs)).float(), torch.softmax(scores / 0.3, dim=1))
