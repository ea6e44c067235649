"""Cells: keys, resuming, divergence, baselines."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from gedi import runs
from gedi.errors import ConfigError
from gedi.experiments import cell_fits
from gedi.experiments import cells as cells_module
from gedi.experiments.cell_fits import CELLS, fit_seed, kmeans_labels, measure_cell, prepared, read_cells, run_cells
from gedi.experiments.cells import Cell, cell_data
from gedi.training.engine import Engine
from gedi.training.guard import DivergedError
from gedi.training.presets import preset

SMALL = Cell("moons", 2, preset="smoke", rows=120, iterations=5)


class Fake:
    """Stands in for `measure_cell` and records its calls."""

    def __init__(self, stop_after=None):
        self.calls, self.stop_after = [], stop_after

    def __call__(self, cell):
        if self.stop_after is not None and len(self.calls) >= self.stop_after:
            raise KeyboardInterrupt
        self.calls.append(cell)
        return {"key": cell.key, "cell": {"method": cell.method}, "nmi": cell.seed / 10, "seconds": 1.0}


def seeds(n):
    return [replace(SMALL, seed=s) for s in range(n)]


def test_finished_cells_are_not_run_again(tmp_path):
    first, second = Fake(), Fake()
    run_cells(seeds(3), tmp_path, 1, print, measure=first)
    lines = []
    found = run_cells(seeds(4), tmp_path, 1, lines.append, measure=second)
    assert [c.seed for c in first.calls] == [0, 1, 2]
    assert [c.seed for c in second.calls] == [3]
    assert [m["nmi"] for m in found.values()] == [0.0, 0.1, 0.2, 0.3]
    assert lines[0].startswith("3 of 4 fits are already in")
    assert "seed 3" in lines[-1] and "NMI 0.300" in lines[-1]


def test_the_same_cell_twice_is_run_once(tmp_path):
    fake = Fake()
    same = replace(SMALL, dam_steps=preset("smoke", n_features=2).dam.steps)
    run_cells([SMALL, SMALL, same], tmp_path, 1, print, measure=fake)
    assert len(fake.calls) == 1


def test_an_interrupt_leaves_what_is_finished(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_cells(seeds(5), tmp_path, 1, print, measure=Fake(stop_after=2))
    assert len(read_cells(tmp_path / CELLS)) == 2
    again = Fake()
    run_cells(seeds(5), tmp_path, 1, print, measure=again)
    assert [c.seed for c in again.calls] == [2, 3, 4]


def test_a_truncated_last_line_is_run_again_and_does_not_spoil_the_next(tmp_path):
    run_cells(seeds(3), tmp_path, 1, print, measure=Fake())
    path = tmp_path / CELLS
    path.write_bytes(path.read_bytes()[:-20])
    again = Fake()
    found = run_cells(seeds(4), tmp_path, 1, print, measure=again)
    assert [c.seed for c in again.calls] == [2, 3]
    assert len(found) == len(read_cells(path)) == 4


def test_keys_are_distinct():
    changes = [
        {},
        {"seed": 1},
        {"n_clusters": 3},
        {"dataset": "circles"},
        {"method": "swav"},
        {"method": "jem"},
        {"method": "kmeans"},
        {"method": "ward"},
        {"preset": "paper"},
        {"preset": None},
        {"method": "untrained"},
        {"variant": "with L_NF"},
        {"variant": "two encoders"},
        {"variant": "two encoders + no step 1"},
        {"columns": 10},
        {"dam_steps": 7},
        {"iterations": 6},
        {"rows": 121},
        {"noise": 0.08},
        {"rotate": 30.0},
        {"weights": (0.7, 0.3)},
    ]
    keys = [replace(SMALL, **change).key for change in changes]
    assert len(set(keys)) == len(keys)


def test_settings_are_those_for_the_width_of_the_data(monkeypatch):
    seen = []
    monkeypatch.setattr(cells_module, "preset", lambda name, **of: seen.append(of["n_features"]) or preset(name, **of))
    for cell in (Cell("moons", 2), Cell("links", 2), Cell("links", 2, columns=10), Cell("digits", 10)):
        cell.config()
    assert seen == [2, 3, 10, 64]


def test_a_changed_preset_is_a_new_cell(monkeypatch):
    before = SMALL.key

    def changed(name, **shape):
        config = preset(name, **shape)
        config.sampler.steps += 1
        return config

    monkeypatch.setattr(cells_module, "preset", changed)
    assert SMALL.key != before


def test_an_unknown_variant_is_refused():
    with pytest.raises(ConfigError, match="'no MAD': did you mean 'no DAM'"):
        replace(SMALL, variant="no step 1 + no MAD").config()


def test_several_changes_make_one_variant():
    plain, both = (replace(SMALL, variant=variant).config() for variant in ("full", "no step 1 + two encoders"))
    assert (both.step1.iterations, both.net.two_encoders) == (0, True)
    assert (plain.step1.iterations, plain.net.two_encoders) == (5, False)


def test_worker_processes_give_the_keys_and_numbers_of_one_process(tmp_path):
    both = [SMALL, replace(SMALL, dataset="circles")]
    alone = [measure_cell(cell) for cell in both]
    together = run_cells(both, tmp_path, 2, print)
    for one, other in zip(alone, together.values(), strict=True):
        assert one["key"] == other["key"]
        assert one["labels"] == other["labels"] and one["objective"] == other["objective"]


def test_a_measured_cell_says_what_and_how():
    measured = measure_cell(SMALL)
    scores = {"nmi", "ami", "accuracy", "ari", "nmi_batch64", "objective", "seconds", "gradient_evaluations"}
    assert scores | {"auroc_uniform", "auroc_shuffled", "candidates"} <= measured.keys()
    assert 0 <= measured["auroc_uniform"] <= 1 and 0 <= measured["auroc_shuffled"] <= 1
    assert 0 <= measured["nmi"] <= 1 and len(measured["labels"]) == 120
    assert measured["config"]["sampler"]["noise"] > 0  # open settings are filled in
    assert measured["provenance"]["versions"]["torch"]
    assert json.loads(json.dumps(measured, allow_nan=False)) == measured


def test_a_diverged_cell_is_recorded_as_one_cluster(monkeypatch):
    def diverge(*args):
        raise DivergedError("Training diverged in step1.")

    monkeypatch.setattr(cell_fits, "_fit_gedi", diverge)
    measured = measure_cell(SMALL)
    assert measured["diverged"] == "Training diverged in step1."
    assert measured["nmi"] == 0.0 and set(measured["labels"]) == {0}


def test_only_a_density_is_scored_as_one():
    assert "auroc_uniform" not in measure_cell(replace(SMALL, variant="no density"))
    assert "auroc_uniform" not in measure_cell(Cell("moons", 2, method="kmeans", rows=100))


def test_random_labels_have_the_sizes_of_the_clusters_and_agree_with_nothing(fake_fits):
    fake_fits(lambda cell, y: y)
    measured = measure_cell(Cell("digits", 10, preset="smoke"))
    assert measured["nmi"] == 1.0
    assert measured["random_labels"]["nmi"] < 0.05 and abs(measured["random_labels"]["ami"]) < 0.02
    fake_fits(lambda cell, y: np.zeros_like(y))
    assert measure_cell(Cell("digits", 10, preset="smoke"))["random_labels"]["accuracy"] == pytest.approx(0.1, abs=0.01)


def test_the_untrained_encoder_is_the_net_that_gedi_starts_from(tmp_path):
    """Its clusters come from k-means on its representation, and nothing has been trained."""
    cell, gedi = (replace(SMALL, method=method) for method in ("untrained", "gedi"))
    measured = run_cells([cell], tmp_path, 1, print, keep_models=True)[cell]
    model = runs.load(tmp_path / "models" / cell.key)
    data = cell_data(cell)
    first = Engine(prepared(gedi, data), seed=fit_seed(gedi)).state.net
    for name, value in first.state_dict().items():
        assert torch.equal(value, model.net.state_dict()[name]), name
    train, test = model.represent(data.x_train), model.represent(data.x_test)
    assert measured["labels"] == kmeans_labels(cell, train, test).tolist()
    assert measured["gradient_evaluations"] == 0 and len(set(measured["labels"])) == 2


def test_jem_finds_one_cluster():
    assert measure_cell(replace(SMALL, method="jem"))["nmi"] == 0.0


@pytest.mark.parametrize("method", ["kmeans", "spectral", "ward"])
def test_baselines_label_test_points(method):
    measured = measure_cell(Cell("moons", 2, method=method, rows=300, noise=0.03))
    assert set(measured["labels"]) == {0, 1} and measured["nmi"] > 0.1
    assert (measured["nmi"] > 0.99) == (method == "spectral")


def test_data_options_reach_the_data():
    plain, noisy, turned, uneven = (
        cell_data(Cell("moons", 2, rows=200, **options))
        for options in ({}, {"noise": 0.3}, {"rotate": 90.0}, {"weights": (0.7, 0.3)})
    )
    assert noisy.x_train.std() > plain.x_train.std()
    np.testing.assert_allclose(turned.x_train[:, 1], plain.x_train[:, 0], atol=1e-5)
    assert np.bincount(uneven.y_test).tolist() == [140, 60]
    assert not np.array_equal(plain.x_train, plain.x_test)


@pytest.mark.parametrize("columns", [10, 20])
def test_a_toy_in_more_columns_is_rotated_and_hardly_thicker(columns):
    cell = Cell("circles", 2, rows=400, columns=columns)
    plain, wide = cell_data(replace(cell, columns=None)), cell_data(cell)
    assert wide.x_train.shape == wide.x_test.shape == (400, columns)
    spread = np.linalg.svd(wide.x_train - wide.x_train.mean(0), compute_uv=False) / 20
    assert spread[1] > 0.5 and spread[2:] == pytest.approx(cells_module.THIN, rel=0.25)
    lengths = [np.linalg.norm(data.x_test, axis=1) for data in (plain, wide)]
    assert np.abs(lengths[0] - lengths[1]).max() < 0.1  # one rotation for both splits
    assert np.abs(np.corrcoef(wide.x_train.T)).mean() > 0.2  # every column carries part of the rings
    assert not np.array_equal(cell_data(replace(cell, seed=1)).x_test, wide.x_test)
    assert replace(cell, preset=None).config() == preset(None, n_features=columns)


def test_digits_come_as_images_and_are_scored_on_what_was_fitted():
    data = cell_data(Cell("digits", 10, rows=100))
    assert data.x_train.shape == (100, 8, 8, 1)
    assert np.array_equal(data.x_train, data.x_test)
