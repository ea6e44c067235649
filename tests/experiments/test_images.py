"""The five tables on images: one set of fits, the paper's numbers beside ours, and the cells behind them."""

import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gedi.errors import DataError
from gedi.evaluation.samples import SMALL_NET_FRECHET
from gedi.experiments import EXPERIMENTS, budget, cell_fits, tabulate
from gedi.experiments.cell_fits import CELLS, MODELS, read_cells, run_cells
from gedi.experiments.image_cells import (
    BASELINE_ROWS,
    CLASSES,
    FRESH,
    INCEPTION,
    LAPTOP_ITERATIONS,
    ROWS,
    ImageCell,
    hold_to,
    image_cells,
    measure_images,
    passes,
    per_iteration,
)
from gedi.training.config import override
from gedi.training.presets import preset

from .conftest import replace_fits, use_images

LINES = {"table2": 24, "table3": 18, "table-probe": 27, "table-fid": 18, "table-ood": 36}
SMOKE, LAPTOP, PAPER = (budget(scale, 1, laptop_seeds=1) for scale in ("smoke", "laptop", "paper"))
CELL = ImageCell("svhn", 10, preset="smoke", rows=40, iterations=2)


def classes_or_one(cell, y):
    """The classes as clusters for GEDI, one cluster for the others."""
    return y if cell.method == "gedi" else np.zeros_like(y)


@pytest.fixture(scope="module")
def made(image_folder, tmp_path_factory):
    """The five tables, one after the other in one folder, the cells that were fitted, and the folder."""
    out = tmp_path_factory.mktemp("tables")
    with pytest.MonkeyPatch.context() as patch:
        use_images(patch, image_folder)
        fitted = replace_fits(patch, classes_or_one)
        return {name: EXPERIMENTS[name].run("smoke", None, out, 1, print) for name in LINES}, fitted, out


# ---- tables ----


def test_the_tables_share_their_fits_and_have_the_papers_numbers_beside_ours(made):
    outcomes, fitted, out = made
    tables = {}
    for name, lines in LINES.items():
        outcome = outcomes[name]
        assert len(outcome.rows) == lines and {len(row) for row in outcome.rows} == {len(outcome.columns)}
        assert all(isinstance(entry, str) for row in outcome.rows for entry in row)
        assert json.loads((out / f"{name}.json").read_text())["scale"] == "smoke"
        tables[name] = {tuple(row[: 3 if name == "table-ood" else 2]): row for row in outcome.rows}
        tables[name]["columns"] = outcome.columns
    assert len(fitted) == len({cell.key for cell in fitted}) < 3 * 9  # rows that are the same fit share it

    def entry(name, place, column):
        return tables[name][place][tables[name]["columns"].index(column)]

    assert entry("table2", ("SVHN", "GEDI"), "NMI") == "1.00"
    assert entry("table2", ("SVHN", "GEDI"), "NMI in the paper") == "0.39"
    assert entry("table2", ("CIFAR-100", "SwAV"), "NMI in the paper") == "0.69"
    assert entry("table2", ("CIFAR-100", "JEM"), "NMI") == "0.00"
    assert entry("table3", ("CIFAR-100", "no NF, 2 encoders"), "NMI in the paper") == "0.75"
    assert entry("table3", ("CIFAR-100", "with L_NF"), "NMI in the paper") == "0.72"
    assert entry("table2", ("CIFAR-100", "random labels"), "NMI in the paper") == "–"
    # A hundred clusters on few images: NMI of random labels is far from 0, their AMI is not.
    assert float(entry("table2", ("CIFAR-100", "random labels"), "NMI")) > 0.3
    assert abs(float(entry("table2", ("CIFAR-100", "random labels"), "AMI"))) < 0.1
    assert entry("table-probe", ("CIFAR-10", "Barlow"), "probe in the paper") == "0.63"
    assert entry("table-fid", ("SVHN", "with L_NF"), "FID in the paper") == "208"
    assert entry("table-ood", ("SVHN", "with L_NF", "CIFAR-10"), "AUROC in the paper") == "0.94"
    assert entry("table-ood", ("CIFAR-100", "no NF", "SVHN"), "AUROC in the paper") == "0.32"


def test_nmi_of_the_whole_set_comes_before_that_of_batches_and_notes_say_which_is_which(made):
    outcomes, _, _ = made
    outcome = outcomes["table2"]
    assert outcome.columns[2:6] == ["NMI", "AMI", "NMI, batches of 64", "NMI in the paper"]
    assert any("random labels agree" in note for note in outcome.notes)
    assert any("k-means on enc(x)" in note for note in outcome.notes)
    assert any(SMALL_NET_FRECHET in note for note in outcomes["table-fid"].notes)


def test_a_missing_data_set_is_reported_before_the_first_fit(images, fake_fits, image_folder, tmp_path, monkeypatch):
    fitted = fake_fits(classes_or_one)
    for name in ("svhn", "cifar10"):
        (tmp_path / f"{name}.npz").write_bytes((image_folder / f"{name}.npz").read_bytes())
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    with pytest.raises(DataError, match="cifar100"):
        EXPERIMENTS["table2"].run("smoke", None, tmp_path, 1, print)
    assert fitted == []


def test_missing_weights_are_reported_before_the_first_fit(images, tmp_path, monkeypatch):
    monkeypatch.setenv(INCEPTION, str(tmp_path / "nowhere.pth"))
    monkeypatch.setattr(tabulate, "run_cells", None)
    with pytest.raises(DataError, match=r"no Inception weights at .*nowhere\.pth"):
        EXPERIMENTS["table-fid"].run("smoke", None, tmp_path / "out", 1, print)


# ---- cells ----


@pytest.mark.parametrize("data", CLASSES)
def test_every_scale_has_its_preset(data):
    (on_laptop,), (on_paper,) = image_cells(LAPTOP, data, "gedi"), image_cells(PAPER, data, "gedi")
    assert on_paper.config() == preset(f"paper-{data}", n_features=2)
    laptop = preset("images", n_features=2)
    laptop.augment.flip = data != "svhn"  # digits are not mirrored
    laptop.step2.iterations = LAPTOP_ITERATIONS
    assert on_laptop.config() == laptop
    assert on_laptop.n_clusters == on_paper.n_clusters == (100 if data == "cifar100" else 10)


@pytest.mark.parametrize(("row", "stage"), [("jem", "step1"), ("barlow", "step2"), ("swav", "step2")])
def test_at_the_paper_scale_a_baseline_trains_for_one_step(row, stage):
    (cell,) = image_cells(PAPER, "cifar10", row)
    config = cell.config()
    lengths = {name: getattr(config, name).iterations for name in ("step1", "step2")}
    assert lengths == {"step1": 0, "step2": 0} | {stage: 70_000}


def test_the_papers_ablation_is_the_same_whatever_the_preset_is():
    for scale in (LAPTOP, PAPER):
        with_nf, no_nf, two = (
            image_cells(scale, "svhn", row)[0].config() for row in ("with-nf", "no-nf", "no-nf-2-encoders")
        )
        assert ["negative_free" in config.objective for config in (with_nf, no_nf, two)] == [True, False, False]
        assert [config.net.two_encoders for config in (with_nf, no_nf, two)] == [False, False, True]
        assert with_nf.objective["generative"].every > 0 and no_nf.objective["generative"].every > 0
    assert image_cells(PAPER, "svhn", "with-nf")[0].key == image_cells(PAPER, "svhn", "gedi")[0].key


@pytest.mark.parametrize("row", [row for row in ROWS if row != "gedi"])
def test_on_a_laptop_all_rows_cost_what_gedi_costs(row):
    config, gedi = (image_cells(LAPTOP, "cifar10", r)[0].config() for r in (row, "gedi"))
    assert passes(config) == pytest.approx(passes(gedi), rel=0.01)
    assert config.augment == gedi.augment


@pytest.mark.parametrize(("kind", "density"), [("energy", 2 * 3 + 5 * 2), ("denoising", 10)])
def test_passes_are_counted_as_the_engine_makes_them(kind, density):
    """For 8 images: step 1, with chains or without; in step 2, two views and a third at the end of the walks."""
    config = override(preset("images", n_features=2), {"objective.generative.kind": kind, "augment.resize": 1.0})
    for stage in (config.step1, config.step2):
        stage.batch_size, stage.iterations = 8, 10
    config.sampler.steps, config.dam.steps, config.dam.every = 5, 2, 3
    config.objective["generative"].every = 4
    config.objective["clustering"].dam = 1.0
    step1, step2 = density, 6 + (3 + 2 * 3) / 3 + density / 4
    assert passes(config) == 80 * (step1 + step2)
    hold_to(config, 80 * step1 + 160 * step2)
    assert config.step2.iterations == 20
    config.objective["generative"].every = 0
    config.objective["clustering"].dam = 0.0
    assert per_iteration(config, "step2") == 8 * 6 and per_iteration(config, "step1") == 8 * density
    del config.objective["generative"]
    config.step1.iterations = 0
    assert passes(config) == 160 * 6
    config.augment.resize = 0.5  # a quarter of the pixels
    assert passes(config) == 40 * 6


def test_cells_know_their_row_and_differ():
    two = budget("smoke", 2, laptop_seeds=1)
    cells = [cell for data in CLASSES for row in (*ROWS, *BASELINE_ROWS) for cell in image_cells(two, data, row)]
    assert len({cell.picture(Path("out")) for cell in cells}) == len(cells) == 72
    assert all(image_cells(two, cell.dataset, cell.row)[cell.seed] == cell for cell in cells)


def test_workers_can_be_sent_what_they_measure(tmp_path):
    sent = pickle.loads(pickle.dumps(partial(measure_images, out=tmp_path)))
    assert sent.func is measure_images and sent.keywords == {"out": tmp_path}


def test_a_real_fit_is_kept_and_later_measured_for_fid_without_fitting_again(images, tmp_path, monkeypatch):
    (first,) = run_cells([CELL], tmp_path, 1, print, measure=partial(measure_images, out=tmp_path)).values()
    assert "diverged" not in first and CELL.picture(tmp_path).is_file()
    expected = {
        "probe",
        "sgd_probe",
        "ami",
        "auroc_uniform",
        "knn",
        "nmi_batch64",
        "small_net_frechet_fresh",
        "recognised_fresh",
        "ood_gradient_cifar10",
        "ood_log_density_cifar100",
    }
    assert expected | {"estimated_seconds", "training_seconds"} <= first.keys()
    assert "fid_fresh" not in first and (tmp_path / MODELS / CELL.key).is_dir()
    monkeypatch.setenv(INCEPTION, "inception.pth")
    monkeypatch.setattr("gedi.experiments.image_cells.inception_fid", lambda real, fake, path: float(len(fake)))
    monkeypatch.setattr(cell_fits, "_fit_gedi", None)
    again = measure_images(CELL, out=tmp_path)
    assert again["fid_fresh"] == FRESH
    assert {name: again[name] for name in first} == first


def test_fits_that_lack_something_are_measured_again_and_their_new_numbers_count(tmp_path):
    def fake(cell):
        return {"key": cell.key, "cell": {"method": "gedi"}, "nmi": 0.5, "seconds": 1.0, "fid_fresh": 9.0}

    def without(cell):
        return {name: value for name, value in fake(cell).items() if name != "fid_fresh"}

    run_cells([CELL], tmp_path, 1, print, measure=without)
    assert run_cells([CELL], tmp_path, 1, print, measure=fake) == {CELL: without(CELL)}
    assert run_cells([CELL], tmp_path, 1, print, measure=fake, needs="fid_fresh") == {CELL: fake(CELL)}
    assert read_cells(tmp_path / CELLS) == {CELL.key: fake(CELL)}
