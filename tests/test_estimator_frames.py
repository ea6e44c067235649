"""GEDI on pandas data frames, and scikit-learn's habits that go with them."""

import warnings

import numpy as np
import pandas as pd
import pytest

from gedi import GEDI
from gedi.data.customers import customers
from gedi.errors import DataError

TINY = {"step1.iterations": 3, "step2.iterations": 3, "sampler.buffer_size": 50, "sampler.steps": 1, "dam.steps": 1}
TINY |= {"start.nodes": 20, "start.walks": 1}


def tiny(n_clusters=4, **more):
    return GEDI(n_clusters, preset="smoke", training=TINY, random_state=0, **more)


@pytest.fixture(scope="module")
def frame():
    return customers(150, seed=0)[0]


@pytest.fixture(scope="module")
def model(frame):
    return tiny().fit(frame)


def test_a_frame_of_any_columns_is_fitted_and_predicted(model, frame):
    assert (model.predict(frame) == model.labels_).all() and len(model.labels_) == len(frame)
    assert list(model.feature_names_in_) == list(frame) and model.n_features_in_ == frame.shape[1]
    assert (tiny().fit_predict(frame) == model.labels_).all()
    assert model.predict(frame[list(frame)[::-1]].drop(columns="customer_id")).tolist() == model.labels_.tolist()


def test_a_row_with_a_gap_joins_rows_that_are_similar_elsewhere():
    truth = np.arange(200) % 2
    x = 6.0 * truth[:, None] + np.random.default_rng(0).normal(size=(200, 2))
    gone = np.arange(200) % 10 < 2
    x[gone, 0] = np.nan
    found = GEDI(2, preset="smoke", random_state=0).fit(pd.DataFrame(x, columns=["a", "b"])).labels_
    assert max((found == truth)[gone].mean(), (found != truth)[gone].mean()) > 0.95


def test_text_and_typed_columns_are_the_same(model, frame):
    typed = frame.replace("", None).assign(
        age=pd.to_numeric(frame["age"]), signup=pd.to_datetime(frame["signup"].replace("", None))
    )
    np.testing.assert_array_equal(model.predict_proba(typed), model.predict_proba(frame))


def test_samples_are_a_frame_in_the_tables_own_units(model):
    drawn = model.sample(5)
    assert drawn["spend"].str.endswith(" EUR").all() and set(drawn["newsletter"]) <= {"yes", "no"}


def test_a_saved_model_reads_frames_the_same_way(model, frame, tmp_path):
    model.save(tmp_path / "run")
    again = GEDI.load(tmp_path / "run")
    assert (again.predict(frame) == model.labels_).all() and again.model_.table == model.model_.table


def test_a_frame_of_numbers_gives_the_same_weights_as_its_array():
    x = np.random.default_rng(0).normal(size=(60, 2))
    frame = pd.DataFrame(x, columns=["a", "b"])
    one, other = tiny(2).fit(x), tiny(2).fit(frame)
    np.testing.assert_array_equal(one.score_samples(x), other.score_samples(frame))
    frame.loc[3, "a"] = np.nan
    with pytest.warns(UserWarning, match=r"gaps in 'a' \(1\)"):
        assert np.isfinite(other.score_samples(frame)).all()


def test_the_embedding_has_names_and_can_be_a_frame(model, frame):
    names = model.get_feature_names_out()
    assert list(names[:2]) == ["gedi0", "gedi1"] and len(names) == model.transform(frame).shape[1]
    out = tiny().set_output(transform="pandas").fit(frame).transform(frame.set_index("customer_id", drop=False))
    assert list(out) == list(names) and list(out.index) == list(frame["customer_id"])


def test_the_score_is_the_mean_log_density(model, frame):
    assert model.score(frame) == pytest.approx(model.score_samples(frame).mean())
    assert not hasattr(model, "partial_fit")


def test_warnings_point_at_the_users_own_line(model, frame):
    with pytest.warns(UserWarning, match="'Paris'") as told:
        model.predict(frame.assign(city="Paris"))
    assert [one.filename for one in told] == [__file__]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tiny(2).fit(np.column_stack([np.ones(40), np.arange(40) % 7]))
    assert {one.filename for one in told if "constant" in str(one.message)} == {__file__}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="city"), "X has no column 'city'"),
        (lambda frame: frame.assign(spend="none of your business"), "Column 'spend' of X must hold numbers in EUR"),
        (lambda frame: frame.to_numpy(), "pass a pandas DataFrame with these columns, not ndarray"),
    ],
)
def test_errors_name_the_column(model, frame, change, message):
    with pytest.raises(ValueError, match=message):
        model.predict(change(frame))


def test_a_frame_with_inf_is_refused_by_column(frame):
    with pytest.raises(ValueError, match="Column 'size' holds inf in row 2"):
        tiny().fit(frame.assign(size=[1.0, 2.0, np.inf] * 50))


def test_frames_without_rows_or_with_two_columns_of_one_name_are_refused_in_a_sentence(frame):
    with pytest.raises(DataError, match="X has no rows"):
        tiny().fit(frame.iloc[:0])
    with pytest.raises(DataError, match="several columns named 'age'"):
        tiny().fit(pd.concat([frame, frame[["age"]]], axis=1))


def test_an_infinite_number_is_named_by_its_column():
    frame = pd.DataFrame({"height": [1.0, np.inf, 3.0] * 10, "weight": np.arange(30) + 0.5})
    with pytest.raises(DataError, match="Column 'height' holds inf in row 1"):
        tiny(2).fit(frame)
