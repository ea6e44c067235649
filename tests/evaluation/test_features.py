"""Linear probes and nearest neighbours."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from gedi.errors import DataError
from gedi.evaluation import knn_accuracy, linear_probe, sgd_probe

rng = np.random.default_rng(0)


def blobs(n, k=4, d=6, spread=0.3, seed=0):
    generator = np.random.default_rng(seed)
    centres = 4 * np.eye(d)[:k]
    y = generator.integers(0, k, n)
    return centres[y] + spread * generator.standard_normal((n, d)), y


# ---- probe ----


@pytest.mark.parametrize("names", [np.arange(4), np.array(["dog", "cat", "ox", "ant"])])
def test_the_probe_separates_separable_classes_whatever_their_labels(names):
    (x, y), (x_test, y_test) = blobs(600), blobs(200, seed=1)
    assert linear_probe(x, names[y], x_test, names[y_test]) == 1.0


def test_the_probe_guesses_unrelated_labels_and_exclusive_or():
    x = rng.uniform(-1, 1, (2000, 2))
    y = (x[:, 0] > 0) ^ (x[:, 1] > 0)
    assert linear_probe(x[:1000], y[:1000], x[1000:], y[1000:]) < 0.7
    noise = rng.integers(0, 10, 2000)
    assert linear_probe(x[:1000], noise[:1000], x[1000:], noise[1000:]) < 0.2


def test_offset_and_unit_of_a_feature_change_nothing_for_the_probe_but_stop_the_papers():
    (x, y), (x_test, y_test) = blobs(600, spread=1.5), blobs(400, spread=1.5, seed=1)
    plain = linear_probe(x, y, x_test, y_test)
    unit, offset = np.array([1e-3, 1.0, 30.0, 1.0, 1e-2, 1.0]), np.array([0.0, 50.0, 0.0, -3.0, 0.0, 9.0])
    assert linear_probe(x * unit + offset, y, x_test * unit + offset, y_test) == pytest.approx(plain, abs=0.01)
    assert plain > 0.8
    assert sgd_probe(x * 1e-3, y, x_test * 1e-3, y_test, epochs=5) < plain - 0.2  # underfitted


def test_the_probe_has_converged():
    """More iterations change nothing, and it warns of none that it lacks."""
    (x, y), (x_test, y_test) = blobs(500, spread=3), blobs(300, spread=3, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = linear_probe(x, y, x_test, y_test)
    standard = StandardScaler().fit(np.float32(x))
    exact = LogisticRegression(tol=1e-8, max_iter=50_000).fit(standard.transform(np.float32(x)), y)
    assert found == pytest.approx(exact.score(standard.transform(np.float32(x_test)), y_test), abs=0.005)


def test_one_class_to_learn_from_is_always_the_answer():
    assert linear_probe(np.zeros((3, 2)), [7, 7, 7], np.ones((4, 2)), [7, 7, 1, 2]) == 0.5


# ---- the paper's probe ----


def test_separable_classes_are_separated():
    assert sgd_probe(*blobs(1000), *blobs(300, seed=1), epochs=20) == 1.0


def test_labels_may_be_anything():
    (x, y), (x_test, y_test) = blobs(600), blobs(200, seed=1)
    names = np.array(["dog", "cat", "ox", "ant"])
    assert sgd_probe(x, names[y], x_test, names[y_test], epochs=20) == 1.0


def test_unrelated_labels_are_guessed():
    x, x_test = rng.standard_normal((2, 1000, 4))
    y, y_test = rng.integers(0, 10, (2, 1000))
    assert sgd_probe(x, y, x_test, y_test, epochs=5) < 0.2


def test_it_is_linear():
    """No line solves exclusive or, however many epochs it trains."""
    x = rng.uniform(-1, 1, (2000, 2))
    y = (x[:, 0] > 0) ^ (x[:, 1] > 0)
    assert sgd_probe(x[:1000], y[:1000], x[1000:], y[1000:], epochs=20, lr=0.1) < 0.7
    assert sgd_probe(x[:1000], x[:1000, 0] > 0, x[1000:], x[1000:, 0] > 0, epochs=20, lr=0.1) > 0.95


def test_the_seed_decides_and_the_global_generator_is_left_alone():
    (x, y), (x_test, y_test) = blobs(400, spread=3), blobs(400, spread=3, seed=1)
    before = torch.get_rng_state()
    scores = [sgd_probe(x, y, x_test, y_test, epochs=1, lr=0.1, seed=s) for s in (0, 0, 1, 2, 3)]
    assert torch.equal(torch.get_rng_state(), before)
    assert scores[0] == scores[1] and len(set(scores)) > 1


def test_the_papers_settings_are_the_defaults(monkeypatch):
    made, steps = [], []

    class Watched(torch.optim.SGD):
        def __init__(self, parameters, **options):
            made.append(options)
            super().__init__(parameters, **options)

        def step(self):
            steps.append(1)
            super().step()

    monkeypatch.setattr(torch.optim, "SGD", Watched)
    sgd_probe(*blobs(250), *blobs(10, seed=1))
    assert made == [{"lr": 1e-3, "momentum": 0.9}] and len(steps) == 100 * 3  # 100 epochs of 100 + 100 + 50 rows


def test_it_agrees_with_torchs_own_layer():
    """The same start and the same batches through nn.Linear and nn.CrossEntropyLoss."""
    x, y = blobs(120, spread=2)
    generator = torch.Generator().manual_seed(3)
    layer = torch.nn.Linear(6, 4)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) / 6**0.5)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05, momentum=0.9)
    features, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    for _ in range(3):
        for rows in torch.randperm(120, generator=generator).split(50):
            optimiser.zero_grad()
            torch.nn.CrossEntropyLoss()(layer(features[rows]), labels[rows]).backward()
            optimiser.step()
    expected = float((layer(features).argmax(1) == labels).float().mean())
    ours = sgd_probe(x, y, x, y, epochs=3, lr=0.05, batch_size=50, seed=3)
    assert ours == pytest.approx(expected, abs=1e-6)


# ---- neighbours ----


def reference_knn(train, y, test, k):
    """One row at a time, in plain Python."""
    out = []
    for t in test:
        cosines = [float(np.dot(t, r) / np.linalg.norm(t) / np.linalg.norm(r)) for r in train]
        near = sorted(range(len(train)), key=lambda i: -cosines[i])[:k]
        votes = {}
        for i in near:
            count, nearness = votes.get(y[i], (0, 0.0))
            votes[y[i]] = (count + 1, nearness + cosines[i])
        out.append(max(votes, key=lambda label: votes[label]))
    return np.array(out)


@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_neighbours_agree_with_a_plain_search(k):
    (x, y), (x_test, y_test) = blobs(80, spread=3), blobs(40, spread=3, seed=1)
    expected = np.mean(reference_knn(x.astype(np.float32), y, x_test.astype(np.float32), k) == y_test)
    assert knn_accuracy(x, y, x_test, y_test, k=k) == pytest.approx(expected)


def test_only_the_direction_counts():
    (x, y), (x_test, y_test) = blobs(200, spread=2), blobs(100, spread=2, seed=1)
    score = knn_accuracy(x, y, x_test, y_test)
    lengths = rng.uniform(0.01, 100, (300, 1))
    assert knn_accuracy(x * lengths[:200], y, x_test * lengths[200:], y_test) == pytest.approx(score, abs=0.011)


def test_a_row_is_its_own_neighbour_and_zero_rows_do_no_harm():
    x, y = rng.standard_normal((50, 3)), np.arange(50)
    assert knn_accuracy(x, y, x, y, k=1) == 1.0
    assert knn_accuracy(np.zeros((5, 3)), [1] * 5, np.zeros((2, 3)), [1, 2], k=99) == 0.5


# ---- refused by all ----


@pytest.mark.parametrize("score", [linear_probe, sgd_probe, knn_accuracy])
def test_arrays_that_do_not_fit_are_refused(score):
    x, y = np.zeros((4, 2)), np.arange(4)
    with pytest.raises(DataError, match="training set"):
        score(x, y[:3], x, y)
    with pytest.raises(DataError, match="test set"):
        score(x, y, np.zeros((4, 2, 2)), y)
    with pytest.raises(DataError, match="width"):
        score(x, y, np.zeros((4, 3)), y)
    with pytest.raises(DataError, match="NaN"):
        score(x * np.nan, y, x, y)
    with pytest.raises(DataError, match="training set"):
        score(x[:0], y[:0], x, y)
    with pytest.raises(DataError, match="at least 1"):
        knn_accuracy(x, y, x, y, k=0)


def test_a_class_never_seen_counts_as_wrong():
    (x, y), (x_test, y_test) = blobs(300, k=2), blobs(100, k=2, seed=1)
    unseen = np.where(np.arange(100) < 50, 77, y_test)
    assert linear_probe(x, y, x_test, unseen) == pytest.approx(0.5)
    assert sgd_probe(x, y, x_test, unseen, epochs=20) == pytest.approx(0.5)
    assert knn_accuracy(x, y, x_test, unseen) == pytest.approx(0.5)
