"""The number of clusters: found from the rows alone, the same every time, and with a word on how sure it is."""

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs

from gedi import GEDI
from gedi.data import toys
from gedi.data.mixed import read_frame
from gedi.errors import ConfigError, DataError
from gedi.training.number import eigengaps, find_number
from gedi.training.presets import configure


def found(x, seed=0):
    return find_number(np.asarray(x, dtype=float), configure(None, "gedi", n_features=x.shape[1]), seed)


@pytest.mark.parametrize(("k", "columns"), [(3, 2), (5, 10)])
def test_clear_groups_are_counted(k, columns):
    x, _ = make_blobs(240, centers=k, n_features=columns, cluster_std=0.5, random_state=1)
    number = found(x)
    assert number.chosen == k and number.sure == "clear" and number.runner_up != k
    assert max(number.curve, key=lambda n: number.curve[n]) == k
    assert number.plain()["curve"][str(k)] == pytest.approx(number.curve[k], abs=1e-4)
    assert number.in_words().startswith(f"found {k} clusters (clear")


def test_shapes_are_counted_too():
    number = found(toys.moons(400, seed=0)[0])
    assert number.chosen == 2 and number.sure == "clear"


def test_noise_has_no_clear_clusters():
    number = found(np.random.default_rng(0).normal(size=(200, 3)))
    assert number.sure == "no clear clusters" and number.chosen <= 3


def with_words(n=300, *, segments=3):
    """Segments that differ in a number and in three categories, beside two categories that say nothing."""
    rng = np.random.default_rng(0)
    truth = rng.integers(segments, size=n)
    speaking = [np.eye(segments)[np.where(rng.random(n) < 0.85, truth, rng.integers(segments, size=n))] for _ in "abc"]
    silent = [np.eye(4)[rng.integers(4, size=n)] for _ in "de"]
    sizes = np.cumsum([1, *[segments] * 3, 4, 4])
    words = [list(range(first, last)) for first, last in pairwise(sizes.tolist())]
    return np.column_stack([4.0 * truth + rng.normal(size=n), *speaking, *silent]), words


def test_combinations_of_words_are_not_counted():
    x, words = with_words()
    config = configure("rows", "gedi", n_features=x.shape[1])
    assert find_number(x, config, 0, words=words).chosen == 3
    x[:, 0] = np.random.default_rng(1).normal(size=len(x))
    silent = find_number(x[:, [0, *words[3], *words[4]]], config, 0, words=[[1, 2, 3, 4], [5, 6, 7, 8]])
    assert silent.sure == "no clear clusters"


def test_one_column_of_few_words_gives_no_warnings():
    frame = pd.DataFrame({"colour": ["red", "green", "blue"] * 40})
    x, table = read_frame(frame, "X")
    config = configure(None, "gedi", n_features=x.shape[1], has_words=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_number(x, config, 0, words=table.words, table=table).sure == "no clear clusters"


def test_rows_with_gaps_are_not_a_cluster():
    x = make_blobs(200, centers=3, cluster_std=0.6, n_features=3, random_state=2)[0]
    x[np.random.default_rng(0).random(x.shape) < 0.08] = np.nan
    rows, table = read_frame(pd.DataFrame(x, columns=list("abc")), "X")
    assert find_number(rows, configure(None, "gedi", n_features=3), 0, table=table).chosen == 3


def test_the_same_rows_and_seed_give_the_same_number_in_any_units():
    x = make_blobs(160, centers=4, random_state=3)[0]
    first = found(x)
    assert found(x) == first and found(1000 * x + 7).chosen == first.chosen


@pytest.mark.parametrize("rows", [2, 5, 7, 45])
def test_few_rows_are_no_failure(rows):
    x = np.random.default_rng(0).normal(size=(rows, 2))
    assert 1 <= found(x).chosen <= rows


def test_identical_rows_are_no_failure():
    assert found(np.ones((50, 2))).chosen >= 1


def test_separate_groups_leave_a_gap_after_their_number():
    x = make_blobs(300, centers=4, cluster_std=0.2, random_state=3)[0]
    gaps = eigengaps(x, 10)
    assert list(gaps) == list(range(2, 11)) and max(gaps, key=lambda k: gaps[k]) == 4


@pytest.mark.parametrize("word", ["auto", None])
def test_the_estimator_finds_it(word):
    x = make_blobs(120, centers=3, cluster_std=0.3, random_state=0)[0]
    tiny = {"step1.iterations": 3, "step2.iterations": 3}
    model = GEDI(n_clusters=word, preset="smoke", training=tiny, random_state=0).fit(x)
    assert model.n_clusters_ == 3 == model.predict_proba(x).shape[1] and model.n_clusters is word
    assert model.model_.results["number"]["chosen"] == 3
    assert "number" not in GEDI(n_clusters=2, preset="smoke", training=tiny).fit(x).model_.results


def test_other_words_are_refused():
    with pytest.raises(DataError, match="whole number or 'auto', got 'many'"):
        GEDI(n_clusters="many", preset="smoke").fit(np.random.default_rng(0).normal(size=(20, 2)))


def test_a_constraint_needs_a_number():
    model = GEDI(n_clusters="auto", constraint="a, b : 2\na != b", preset="smoke")
    with pytest.raises(ConfigError, match="give n_clusters instead of auto"):
        model.fit(np.random.default_rng(0).normal(size=(20, 2)))


def test_the_search_says_how_far_it_has_come():
    for x, words in [(make_blobs(100, centers=3, random_state=0)[0], []), with_words(100)]:
        told = []
        config = configure("toy", "gedi", n_features=x.shape[1])
        assert find_number(x, config, 0, words=words, report=told.append) == find_number(x, config, 0, words=words)
        assert {one.doing for one in told} == {"looking for the number of clusters"} and told[0].iteration == 0
        assert all(a.iteration < b.iteration < b.total == a.total for a, b in pairwise(told))


def test_the_number_is_left_open_unless_it_is_given(capfd):
    x = make_blobs(120, centers=3, cluster_std=0.3, random_state=0)[0]
    training = {"step1.iterations": 3, "step2.iterations": 3}
    assert GEDI(preset="smoke", training=training, random_state=0, verbose=1).fit(x).n_clusters_ == 3
    assert "found 3 clusters" in capfd.readouterr().err
