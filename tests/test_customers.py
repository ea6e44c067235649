"""One command on a table as it comes finds what experts find in columns they prepared by hand."""

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from gedi import GEDI
from gedi.cli import main
from gedi.data.customers import customers
from gedi.evaluation import ami


def prepared(frame):
    """The columns as a careful person would prepare them: units removed, gaps filled, numbers standardised."""
    text = frame.replace("", None)
    numbers = pd.DataFrame(
        {
            "age": pd.to_numeric(text["age"]),
            "income": pd.to_numeric(text["income"].str.replace(",", "")),
            "spend": pd.to_numeric(text["spend"].str.removesuffix(" EUR")),
            "orders": pd.to_numeric(text["orders"]),
            "days": (pd.to_datetime(text["signup"]) - pd.Timestamp("2020-01-01")).dt.days,
        }
    )
    numbers = numbers.fillna(numbers.median())
    words = pd.get_dummies(text[["city", "newsletter", "channel"]])
    return np.hstack([(numbers - numbers.mean()) / numbers.std(), words]).astype(float)


def best_rival(frame, segments):
    """The best AMI of k-means and of a Gaussian mixture."""
    x = prepared(frame)
    rivals = KMeans(4, n_init=10, random_state=0), GaussianMixture(4, reg_covar=1e-3, n_init=5, random_state=0)
    return max(ami(segments, rival.fit_predict(x)) for rival in rivals)


def clusters_by_command(frame, folder, seed, *flags):
    frame.to_csv(folder / "customers.csv", index=False)
    run, out = str(folder / "run"), str(folder / "clusters.csv")
    words = ["--n-clusters", "4", "--out", run, "--seed", str(seed), *flags]
    assert main(["fit", str(folder / "customers.csv"), *words]) == 0
    assert main(["predict", run, str(folder / "customers.csv"), "--out", out]) == 0
    answers = pd.read_csv(out)
    assert list(answers)[:2] == ["customer_id", "cluster"]
    return frame[["customer_id"]].merge(answers, on="customer_id", validate="one_to_one")["cluster"].to_numpy()


def test_quick_settings_already_find_the_segments(tmp_path):
    frame, segments = customers(400, seed=0)
    flags = ["--preset", "smoke", "--training.step2.iterations", "100"]
    found = clusters_by_command(frame, tmp_path, 0, *flags)
    assert ami(segments, found) >= best_rival(frame, segments) - 0.02
    model = GEDI(4, preset="smoke", training={"step2.iterations": 100}, random_state=0).fit(frame)
    assert ami(segments, model.labels_) >= best_rival(frame, segments) - 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_defaults_find_the_segments(tmp_path, seed):
    frame, segments = customers(1_000, seed=seed)
    assert ami(segments, clusters_by_command(frame, tmp_path, seed)) >= best_rival(frame, segments) - 0.02
