"""The addition table: its training data, its scores, and the paper's numbers beside ours."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits

from gedi.data.toys import ADDITION_RULE
from gedi.errors import ConfigError
from gedi.experiments import EXPERIMENTS, budget, cell_fits, paper, table_nesy
from gedi.experiments import cells as cells_module
from gedi.experiments.table_nesy import (
    EM_ALONE,
    EM_LEARNED,
    FROM_RANDOM,
    NESY_CONTROLS,
    PAPER_VARIANTS,
    AdditionCell,
    addition,
    addition_cells,
    addition_data,
    start_alone,
)
from gedi.objectives.term import temperature
from gedi.training.build import prepare
from gedi.training.config import check
from gedi.training.fit import fit_prepared
from gedi.training.guard import GuardWarning
from gedi.training.presets import preset


@pytest.fixture
def fits(fake_fits, monkeypatch):
    """Right clusters in every variant that has GEDI, but under the right names only with the constraint."""

    def labels(cell, y):
        shift = {"without GEDI": -y, "without constraint": 1, "with constraint": 0}.get(cell.variant, 2)
        return (y + shift) % 10

    fitted = fake_fits(labels)
    monkeypatch.setattr(table_nesy, "start_alone", lambda *args: cell_fits._fit_gedi(*args))
    return fitted


def test_clusters_count_only_under_their_own_names(fits, tmp_path):
    outcome = EXPERIMENTS["table-nesy"].run("smoke", 2, tmp_path, 1, print)
    accuracy, nmi = ([row[outcome.columns.index(name)][:4] for row in outcome.rows] for name in ("accuracy", "NMI"))
    assert accuracy == ["0.10", "0.00", "1.00"] + ["0.00"] * 3 and nmi == ["0.00", "1.00", "1.00"] + ["1.00"] * 3
    content = json.loads((tmp_path / "table-nesy.json").read_text())
    assert [group["symbol_accuracy"]["mean"] for group in content["groups"]][1:3] == [0.0, 1.0]


def test_the_papers_numbers_are_beside_ours(fits, tmp_path, monkeypatch):
    x = np.arange(60_000, dtype=np.uint8).reshape(-1, 1, 1, 1) // 100 % 2
    y = np.arange(60_000) % 10
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    cells_module._row_shape.cache_clear()
    outcome = EXPERIMENTS["table-nesy"].run("laptop", None, tmp_path, 1, print)
    rows = {(row[0], row[1]): row for row in outcome.rows}
    assert len(rows) == 18 and rows["1,000", "with constraint"][3] == paper.TABLE4_ACCURACY[1000]["with constraint"]
    assert [rows["1,000", variant][2:4] for variant in NESY_CONTROLS] == [["0.00 ± 0.00", "–"]] * 3
    assert [rows[n, "with constraint"][-1] for n in ("100", "1,000", "10,000")] == ["5", "5", "3"]


def test_the_triplets_add_up_and_are_not_in_the_test_set():
    cell = AdditionCell("digits", 10, 1, preset="smoke", variant="with constraint", rows=120)
    data = addition_data(cell)
    assert data.x_train.shape == (120, 8, 8, 1) and len(data.x_test) == 597
    x, y = load_digits(return_X_y=True)
    shown = {row.tobytes(): digit for row, digit in zip(x[:1200].astype(np.float32), y[:1200], strict=True)}
    a, b, c = np.array([shown[row.tobytes()] for row in data.x_train]).reshape(-1, 3).T
    assert np.array_equal(a + b, c)


def test_every_size_scale_and_variant_is_a_cell_of_its_own():
    cells = [
        cell
        for n in (100, 1000)
        for v in PAPER_VARIANTS
        for cell in addition_cells(budget("paper", 2, laptop_seeds=1), n, v)
    ]
    configs = [json.dumps(cell.settings()) for cell in cells if cell.seed == 0]
    assert len(cells) == 12 and len(set(configs)) == 6


@pytest.mark.parametrize(("n", "iterations"), [(100, 500), (1_000, 1_500), (10_000, 2_500)])
def test_the_papers_epochs_and_weights(n, iterations):
    config = addition("paper", n, "with constraint")
    assert config.step1.iterations == config.step2.iterations == iterations
    weights = {family: term.weight for family, term in config.objective.items()}
    assert weights == {"generative": 1.0, "negative_free": 1.0, "clustering": 1000.0, "symbolic": 3000.0}
    assert config.objective["clustering"].dam == 500.0


def test_the_variants_differ_in_their_terms():
    terms = {variant: set(addition("laptop", 100, variant).objective) for variant in PAPER_VARIANTS}
    gedi = {"generative", "clustering"}
    expected = {"without GEDI": {"symbolic"}, "without constraint": gedi, "with constraint": gedi | {"symbolic"}}
    assert terms == expected
    with pytest.raises(ConfigError, match="Unknown variant 'with'"):
        addition("laptop", 100, "with")


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_the_baseline_is_the_constraint_on_a_plain_classifier(scale):
    baseline, ours = (addition(scale, 1_000, variant) for variant in ("without GEDI", "with constraint"))
    assert baseline.net.head == "linear" and temperature(baseline.objective) == 1.0
    assert (baseline.net.encoder, baseline.net.representation) == (ours.net.encoder, ours.net.representation)
    assert baseline.step1.iterations == 0
    assert (baseline.heads.random, baseline.heads.starts, baseline.heads.neutral) == (1, (), 0)
    assert baseline.step2.learning_rate == ours.step2.learning_rate


@pytest.mark.parametrize(("n", "name"), [(100, "digits"), (1_000, "grey"), (10_000, "grey")])
def test_on_a_laptop_it_is_a_preset_for_images_and_the_rule(n, name):
    config, plain = addition("laptop", n, "with constraint"), preset(name, n_features=784, image_shape=(28, 28, 1))
    assert config.objective.pop("symbolic").weight == 3 * plain.objective["clustering"].weight
    config.start, config.heads.anchor = plain.start, plain.heads.anchor
    assert config == plain


def test_the_controls_take_away_what_they_say():
    full = addition("laptop", 1_000, "with constraint")
    alone, learned, random = (addition("laptop", 1_000, variant) for variant in (EM_ALONE, EM_LEARNED, FROM_RANDOM))
    assert random.heads.starts == () and random.objective == full.objective
    assert alone.heads.random == 0 and alone.heads.starts == full.heads.starts and alone.objective == full.objective
    assert set(learned.objective) == {"clustering", "symbolic"} and learned.objective["symbolic"].weight == 3.0
    assert learned.objective["clustering"].weight * learned.objective["clustering"].neutral < 1e-10
    assert not any(term.walks for term in learned.objective.values()) and not learned.heads.neutral
    assert learned.heads.choose == 0 and learned.heads.anchor == full.heads.anchor > 0
    for config in (alone, learned, random):
        check(config)


def test_em_alone_is_the_start_before_a_cluster_head_has_learned():
    cell = AdditionCell("digits", 10, 0, preset="smoke", variant=EM_ALONE, rows=120)
    data = addition_data(cell)
    labels, numbers, model = start_alone(cell, data)
    assert model is None and labels.shape == data.y_test.shape == (120,)
    assert data.x_test is data.x_train  # scored on the images that EM has named
    assert set(numbers["candidates"]) == {"neighbours", "kmeans"}  # judged, and the best taken
    a, b, c = data.y_test.reshape(-1, 3).T
    assert np.array_equal(a + b, c)
    a, b, c = labels.reshape(-1, 3).T
    assert np.mean(a + b == c) > 0.5  # one in ten by chance
    assert "ends" in cell.settings() and "ends" not in replace(cell, variant="with constraint").settings()


def test_the_baseline_calls_every_image_a_zero():
    """As the paper reports, but on small images: the rule holds, and nothing is learned."""
    cell = AdditionCell("digits", 10, 0, preset="smoke", variant="without GEDI", rows=300)
    data = addition_data(cell)
    config = cell.config()
    config.step2 = replace(config.step2, iterations=100, learning_rate=3e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GuardWarning)  # it warns of nine empty clusters
        x, x_test = (images.reshape(len(images), -1) for images in (data.x_train, data.x_test))
        model = fit_prepared(prepare(x, config, 10, image_shape=(8, 8, 1)), seed=0)
    assert set(model.predict(x_test)) == {0} and model.history[-2]["symbolic"] < 0.1


def test_it_runs(tmp_path, short_fits):
    outcome = EXPERIMENTS["table-nesy"].run("smoke", 1, tmp_path, 1, print)
    lines = [json.loads(line) for line in (tmp_path / "cells.jsonl").read_text().splitlines()]
    assert len(outcome.rows) == len(lines) == 6
    rules = [line["config"]["objective"].get("symbolic", {}).get("rule") for line in lines]
    assert rules.count(ADDITION_RULE) == 5 and rules.count(None) == 1
    again = []
    EXPERIMENTS["table-nesy"].run("smoke", 1, tmp_path, 1, again.append)
    assert "6 of 6 fits are already in" in again[0]
