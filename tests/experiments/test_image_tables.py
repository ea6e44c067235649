"""The five tables on images: one set of fits, everything measured once, the paper's numbers beside ours."""

import json
import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from gedi.data import Scaler
from gedi.errors import DataError
from gedi.evaluation.fid import FEATURE_FRECHET
from gedi.experiments import EXPERIMENTS, image_scores
from gedi.experiments import cells as cells_module
from gedi.experiments.cells import CellData, cell_data
from gedi.experiments.equal_compute import hold_to, passes, per_iteration
from gedi.experiments.image_cells import DATA, ROWS, ImageCell, cells_of, measure
from gedi.experiments.image_scores import of_foreign, of_image_fit, of_samples, some, untrained_features
from gedi.experiments.outcome import budget
from gedi.experiments.plots import tiled
from gedi.training.presets import preset, with_method

TABLES = ("table2", "table3", "table-probe", "table-fid", "table-ood")
BRIGHTNESS = {"svhn": 40, "cifar10": 120, "cifar100": 200}
SIDE, N = 18, 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Small images in place of the data sets: each has a brightness of its own, and classes by the first pixel."""
    where = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    for name, bright in BRIGHTNESS.items():
        x = rng.integers(bright - 30, bright + 30, (2 * N, SIDE, SIDE, 3), dtype=np.uint8)
        y = np.arange(2 * N) % DATA[name]
        x[:, 0, 0, 0] = y
        np.savez(where / f"{name}.npz", x_train=x[:N], y_train=y[:N], x_test=x[N:], y_test=y[N:])
    return where


@pytest.fixture
def images(folder, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(folder))
    monkeypatch.delenv(image_scores.INCEPTION, raising=False)


class Oracle:
    """Stands in for a model of SVHN's brightness: enc(x) is the class, log p falls with the distance from it."""

    has_clusters = True
    config = preset("smoke", n_features=2)
    scaler = Scaler().fit(np.array([[0] * SIDE * SIDE * 3, [255] * SIDE * SIDE * 3], dtype=np.uint8), mode="pixels")

    def __init__(self, chains):
        self.chains = chains

    def represent(self, x):
        return np.eye(256, dtype=np.float32)[x[:, 0].astype(int)][:, :100]

    def score_samples(self, x):
        return -np.abs(x.mean(1) - BRIGHTNESS["svhn"])

    def ood_score(self, x):
        return -self.score_samples(x)

    def sample(self, n, *, seed, steps, fresh):
        assert fresh and steps > 0
        return np.random.default_rng(seed).uniform(-20, 280, (n, SIDE * SIDE * 3))


@pytest.fixture
def oracle():
    return Oracle(torch.zeros(12, SIDE * SIDE * 3))


@pytest.fixture
def fake_fits(monkeypatch):
    """The classes as clusters for GEDI, one cluster for the others, and no model."""
    fitted = []

    def fit(cell, data, models):
        fitted.append(cell)
        labels = data.y_test if cell.method == "gedi" else np.zeros_like(data.y_test)
        return labels, {"objective": 0.1, "walk_crossing": None, "gradient_evaluations": 1, "config": {}}, None

    monkeypatch.setattr(cells_module, "_fit_gedi", fit)
    return fitted


def quiet(line):
    pass


# ---- the tables ----


def test_the_tables_share_their_fits(images, fake_fits, tmp_path):
    outcomes = {name: EXPERIMENTS[name].run("smoke", None, tmp_path, 1, quiet) for name in TABLES}
    assert len(fake_fits) == len(set(fake_fits)) == 3 * 6
    for name, outcome in outcomes.items():
        assert all(len(row) == len(outcome.columns) for row in outcome.rows)
        assert all(isinstance(entry, str) for row in outcome.rows for entry in row)
        assert json.loads((tmp_path / f"{name}.json").read_text())["scale"] == "smoke"
    assert {name: len(outcome.rows) for name, outcome in outcomes.items()} == dict(
        zip(TABLES, (12, 9, 18, 18, 36), strict=True)
    )


def test_the_papers_numbers_stand_beside_ours(images, fake_fits, tmp_path):
    columns, rows = {}, {}
    for name in TABLES:
        outcome = EXPERIMENTS[name].run("smoke", None, tmp_path, 1, quiet)
        columns[name] = {column: i for i, column in enumerate(outcome.columns)}
        rows[name] = {tuple(row[: 3 if name == "table-ood" else 2]): row for row in outcome.rows}

    def entry(name, place, column):
        return rows[name][place][columns[name][column]]

    assert entry("table2", ("SVHN", "GEDI"), "NMI") == "1.00"
    assert entry("table2", ("SVHN", "GEDI"), "NMI in the paper") == "0.39"
    assert entry("table2", ("CIFAR-100", "SwAV"), "NMI in the paper") == "0.69"
    assert entry("table3", ("CIFAR-100", "no NF, 2 encoders"), "NMI in the paper") == "0.75"
    assert entry("table-probe", ("CIFAR-10", "Barlow"), "probe in the paper") == "0.63"
    assert entry("table-fid", ("SVHN", "GEDI"), "FID in the paper") == "208"
    assert entry("table-ood", ("SVHN", "GEDI", "CIFAR-10"), "AUROC in the paper") == "0.94"
    assert entry("table-ood", ("CIFAR-100", "no NF", "SVHN"), "AUROC in the paper") == "0.32"


def test_nmi_of_the_whole_set_comes_before_that_of_batches_and_notes_say_which_is_which(images, fake_fits, tmp_path):
    outcome = EXPERIMENTS["table2"].run("smoke", None, tmp_path, 1, quiet)
    assert outcome.columns[2:5] == ["NMI", "NMI, batches of 64", "NMI in the paper"]
    jem = next(row for row in outcome.rows if row[:2] == ["CIFAR-100", "JEM"])
    assert jem[2] == "0.00"
    assert any("random labels agree" in note for note in outcome.notes)
    assert any("k-means on enc(x)" in note for note in outcome.notes)
    fid = EXPERIMENTS["table-fid"].run("smoke", None, tmp_path, 1, quiet)
    assert any(FEATURE_FRECHET in note for note in fid.notes)


def test_a_missing_data_set_is_said_before_the_first_fit(folder, tmp_path, monkeypatch, fake_fits):
    for name in ("svhn", "cifar10"):
        (tmp_path / f"{name}.npz").write_bytes((folder / f"{name}.npz").read_bytes())
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    with pytest.raises(DataError, match="cifar100"):
        EXPERIMENTS["table2"].run("smoke", None, tmp_path, 1, quiet)
    assert fake_fits == []


# ---- the cells ----


@pytest.mark.parametrize("data", DATA)
def test_every_scale_has_its_preset(data):
    names = {scale: cells_of(data, "gedi", budget(scale, 1, laptop_seeds=1))[0] for scale in ("laptop", "paper")}
    assert names["paper"].config() == preset(f"paper-{data}", n_features=2)
    laptop = preset("images", n_features=2)
    laptop.augment.flip = data != "svhn"  # digits are not mirrored
    laptop.embedding.iterations = 1_600  # the tables' own
    assert names["laptop"].config() == laptop
    assert {cell.n_clusters for cell in names.values()} == {100 if data == "cifar100" else 10}


def test_swav_has_a_queue_and_prototypes_that_wait_for_an_epoch():
    (cell,) = cells_of("svhn", "swav", budget("paper", 1, laptop_seeds=1))
    term = cell.config().objective["clustering"]
    assert (term.queue, term.frozen, term.dam) == (3840, 1000, 0.0)
    (cell,) = cells_of("svhn", "swav", budget("laptop", 1, laptop_seeds=1))
    term, plain = cell.config().objective["clustering"], with_method(preset("images", n_features=2), "swav")
    assert term.queue == plain.objective["clustering"].queue > 0
    assert 0 < term.frozen < cell.config().step2.iterations


@pytest.mark.parametrize(("row", "stage"), [("jem", "step1"), ("barlow", "embedding"), ("swav", "step2")])
def test_at_the_papers_scale_a_baseline_trains_for_one_step(row, stage):
    (cell,) = cells_of("cifar10", row, budget("paper", 1, laptop_seeds=1))
    config = cell.config()
    lengths = {name: getattr(config, name).iterations for name in ("step1", "embedding", "step2")}
    assert lengths == {"step1": 0, "embedding": 0, "step2": 0} | {stage: 70_000}


@pytest.mark.parametrize("row", [row for row in ROWS if row != "gedi"])
def test_on_a_laptop_all_rows_cost_what_gedi_costs(row):
    configs = {r: cells_of("cifar10", r, budget("laptop", 1, laptop_seeds=1))[0].config() for r in (row, "gedi")}
    assert passes(configs[row]) == pytest.approx(passes(configs["gedi"]), rel=0.01)


@pytest.mark.parametrize("row", ["swav", "no-nf", "no-nf-2-encoders"])
def test_an_encoder_learns_at_one_rate_whatever_teaches_it(row):
    configs = {r: cells_of("cifar10", r, budget("laptop", 1, laptop_seeds=1))[0].config() for r in (row, "gedi")}
    assert configs[row].step2.learning_rate == configs["gedi"].embedding.learning_rate


def test_passes_are_counted_as_the_engine_makes_them():
    """Of 8 images: step 1, two views learned from, and in step 2 a third at the end of walks."""
    config = preset("images", n_features=2)
    for stage in (config.step1, config.embedding, config.step2):
        stage.batch_size, stage.iterations = 8, 10
    config.sampler.steps, config.dam.steps, config.dam.every = 5, 2, 3
    config.objective["generative"].every = 4
    density = 2 * 3 + 5 * 2
    step1, embedding, step2 = density, 6 + density / 4, 6 + (3 + 2 * 3) / 3 + density / 4
    assert passes(config) == 80 * (step1 + embedding + step2)
    hold_to(config, 80 * (step1 + embedding) + 160 * step2)
    assert config.step2.iterations == 20
    config.objective["generative"].every = 0
    assert per_iteration(config, "embedding") == 8 * 6 and per_iteration(config, "step1") == 8 * density
    del config.objective["generative"]
    config.step1.iterations = 0
    config.objective["clustering"].dam = 0.0
    assert passes(config) == 80 * 6 + 160 * 6


def test_cells_know_their_row_and_differ():
    cells = [cell for data in DATA for row in ROWS for cell in cells_of(data, row, budget("smoke", 2, laptop_seeds=1))]
    assert len({cell.key for cell in cells}) == len({cell.picture(Path("out")) for cell in cells}) == 36
    assert all(
        cells_of(cell.dataset, cell.row, budget("smoke", 2, laptop_seeds=1))[cell.seed] == cell for cell in cells
    )


def test_workers_can_be_sent_what_they_measure(tmp_path):
    sent = pickle.loads(pickle.dumps(partial(measure, out=tmp_path)))
    assert sent.func is measure and sent.keywords == {"out": tmp_path}


# ---- the numbers of one fit ----


def svhn(**options):
    return ImageCell("svhn", 10, preset="smoke", rows=N, **options)


def test_a_fit_is_asked_for_everything(images, oracle, tmp_path):
    cell, picture = svhn(), tmp_path / "new" / "samples.png"
    numbers = of_image_fit(cell, oracle, cell_data(cell), picture=picture)
    assert numbers["probe"] > 0.95 and numbers["knn"] > 0.95
    assert numbers["nmi_of_representation"] == pytest.approx(1.0)
    assert "nmi" not in numbers  # it has clusters of its own
    assert numbers["ood_log_density_cifar10"] == numbers["ood_log_density_cifar100"] == 1.0
    assert numbers["ood_gradient_cifar10"] == 0.0
    assert "ood_gradient_svhn" not in numbers and "fid_buffer" not in numbers
    assert imread(picture).shape[1] > 500
    json.dumps(numbers)


def test_clusters_of_a_method_without_any_are_those_of_k_means_on_its_representation(images, oracle):
    oracle.has_clusters = False
    cell = svhn(method="jem")
    data = cell_data(cell)
    numbers = of_image_fit(cell, oracle, data)
    assert numbers["nmi"] == numbers["accuracy"] == pytest.approx(1.0)
    assert len(numbers["labels"]) == len(data.y_test)


def test_measured_scores_and_labels_of_k_means_take_the_place_of_one_cluster(images, oracle, monkeypatch):
    def fit(cell, data, models):
        return np.zeros_like(data.y_test), {"config": {}}, oracle

    oracle.has_clusters = False
    monkeypatch.setattr(cells_module, "_fit_gedi", fit)
    measured = measure(svhn(method="jem"))
    assert measured["nmi"] == pytest.approx(1.0) and len(set(measured["labels"])) == 10


def test_a_diverged_fit_has_no_more_numbers():
    assert of_image_fit(svhn(), None, CellData(*[np.zeros((1, 1))] * 3)) == {}


def test_distances_grow_from_images_to_noise_and_nothing_is_no_sample():
    rng = np.random.default_rng(1)
    x = rng.integers(90, 110, (200, 16, 16, 3), dtype=np.uint8)
    data = CellData(x[:100], x[100:], np.zeros(100, dtype=int))
    near = np.clip(x[:50].astype(int) + rng.integers(-60, 60, (50, 16, 16, 3)), 0, 255).astype(np.uint8)
    numbers = of_samples(svhn(), {"buffer": near, "fresh": near[:0]}, data)
    assert numbers["frechet_real"] < numbers["frechet_buffer"] < numbers["frechet_noise"]
    assert "frechet_fresh" not in numbers


def test_untrained_features_are_the_same_for_every_fit():
    x = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    first = untrained_features(x)
    image_scores._untrained.cache_clear()
    assert np.array_equal(first, untrained_features(x)) and first.shape == (5, image_scores.FEATURES)


def test_fid_is_asked_for_where_the_weights_are_named(monkeypatch):
    asked = []

    def fid(real, fake, path):
        asked.append((len(real), len(fake), path))
        return 200.0 + len(fake)

    monkeypatch.setattr(image_scores, "inception_fid", fid)
    monkeypatch.setenv(image_scores.INCEPTION, "inception.pth")
    x = np.random.default_rng(0).integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    data = CellData(x, x, np.zeros(9, dtype=int))
    numbers = of_samples(svhn(), {"buffer": x[:4], "fresh": x[:3]}, data)
    assert (numbers["fid_buffer"], numbers["fid_fresh"]) == (204.0, 203.0)
    assert asked == [(9, 4, "inception.pth"), (9, 3, "inception.pth")]


def test_foreign_images_are_those_of_the_two_other_test_sets(images, oracle):
    cell = ImageCell("cifar10", 10, preset="smoke", rows=50)
    numbers = of_foreign(cell, oracle, cell_data(cell))
    assert numbers["ood_log_density_svhn"] == 0.0  # the oracle is of SVHN: CIFAR-10 is farther from it
    assert numbers["ood_log_density_cifar100"] == 1.0


def test_some_rows_are_distinct_and_all_of_few_are_kept():
    x = np.arange(10)
    assert np.array_equal(some(x, 10, 0), x)
    assert len(set(some(x, 4, 0).tolist())) == 4


def test_tiles_are_in_reading_order():
    tiles = tiled(np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1), columns=2)[..., 0]
    assert tiles[::2, ::2].tolist() == [[0, 1], [2, 255]] and (tiles[1::2] == 255).all()


def test_one_fit_for_real(images, tmp_path):
    cell = ImageCell("svhn", 10, preset="smoke", rows=60, iterations=2)
    measured = measure(cell, out=tmp_path)
    assert "diverged" not in measured and cell.picture(tmp_path).is_file()
    expected = {"probe", "knn", "nmi_batch64", "frechet_fresh", "ood_gradient_cifar10", "ood_log_density_cifar100"}
    expected |= {"estimated_seconds", "training_seconds"}
    assert expected <= measured.keys()
