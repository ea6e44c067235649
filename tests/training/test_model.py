"""A trained model's answer for a row does not depend on the other rows."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from gedi.errors import DataError
from gedi.nets import MLPEncoder
from gedi.objectives.term import Loss, Term
from gedi.settings import Positive
from gedi.training.build import prepare
from gedi.training.config import override
from gedi.training.fit import fit_prepared
from gedi.training.methods import with_method

ANSWERS = ("predict_proba", "transform", "score_samples", "ood_score")


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
    scores = model._frozen.scores(torch.from_numpy(model.scaler.transform(blobs)))
    torch.testing.assert_close(torch.from_numpy(model.predict_proba(blobs)).float(), torch.softmax(scores / 0.5, dim=1))


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
    scores = model._frozen.scores(torch.from_numpy(model.scaler.transform(blobs)))
    torch.testing.assert_close(torch.from_numpy(model.predict_proba(blobs)).float(), torch.softmax(scores / 0.3, dim=1))
