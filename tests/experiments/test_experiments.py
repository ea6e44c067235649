"""Tables and figures: what they show, and the files they write. Fits are faked unless a test is about the fit."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread
from sklearn.datasets import load_digits

from gedi import GEDI, experiments
from gedi.data import toys
from gedi.errors import ConfigError, DataError
from gedi.experiments import EXPERIMENTS, ablation_tables, budget, cell_fits, cells, find, paper, table1, table_mixed
from gedi.experiments.ablation_tables import VARIANTS
from gedi.experiments.cells import Cell, cell_data
from gedi.experiments.image_cells import ROWS, image_cells
from gedi.experiments.plots import draw_landscape, figure, scatter_clusters
from gedi.experiments.stability_tables import counts_of_runs
from gedi.experiments.table1 import BestOf, setting_differences
from gedi.experiments.tabulate import mean_std, settings_names, statistics_of
from gedi.experiments.toy_figures import toy_cell
from gedi.report.measures import walk_paths
from gedi.training.config import check
from gedi.training.guard import DivergedError
from gedi.training.methods import METHODS
from gedi.training.presets import preset

LAPTOP = budget("laptop", None, laptop_seeds=5)
# These have tests of their own: they train for real, or need images or the files of a benchmark.
OWN_TESTS = {"fig-landscapes", "table-digits", "table-divergence", "table-mixed", "table-mnist", "table-nesy"}
OWN_TESTS |= {"table-stability", "table2", "table3", "table-probe", "table-fid", "table-ood"}
OWN_TESTS |= {"table-anomaly", "table-clustering", "table-foreign", "table-verdict"}
FAKEABLE = [name for name in EXPERIMENTS if name not in OWN_TESTS]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_experiment_is_a_function_of_its_module(experiment):
    module = importlib.import_module(f"gedi.experiments.{experiment.module}")
    assert callable(getattr(module, experiment.name.replace("-", "_")))


def is_a_picture(path):
    pixels = imread(path)
    return pixels.ndim == 3 and min(pixels.shape[:2]) > 200 and pixels[..., :3].std() > 0.02


@pytest.fixture
def fits(fake_fits):
    """Right for GEDI, arbitrary for the others; the paper's settings diverge."""

    def labels(cell, y):
        if cell.preset == "paper":
            event = {"stage": "step1", "iteration": 7, "seen": "|log p| is 1e4, above guard.max_energy = 3000"}
            raise DivergedError("Training diverged in step1 at iteration 7.", [event])
        wrong = cell.method != "gedi"
        return np.zeros_like(y) if cell.method == "jem" else y ^ wrong * (np.arange(len(y)) % 2)

    return fake_fits(labels)


@pytest.mark.parametrize("name", FAKEABLE)
def test_every_experiment_writes_its_table_and_files(name, tmp_path, fits, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))  # only generated data sets
    outcome = EXPERIMENTS[name].run("smoke", 2, tmp_path, 1, print)
    assert outcome.rows and all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert all(isinstance(entry, str) for row in outcome.rows for entry in row)
    assert "The smoke scale only checks that everything runs: its numbers mean nothing." in outcome.notes
    written = {path.name: path for path in outcome.files}
    content = json.loads(written.pop(f"{name}.json").read_text(encoding="utf-8"))
    assert content["scale"] == "smoke" and len(content["seeds"]) == 2
    assert content["table"] == {"columns": outcome.columns, "rows": outcome.rows}
    assert content["notes"] == outcome.notes and content["files"] == list(written)
    assert content["provenance"]["date"] and content["cells"] and content["settings"]
    assert all({"mean", "std", "min", "max"} <= group["nmi"].keys() for group in content["groups"])
    assert all(is_a_picture(path) for path in written.values())
    assert written or name.startswith("table")


def test_one_step_is_one_step_with_fewer_evaluations():
    """At most half of them in the plane; the settings for digits already save most of them."""
    for data, share in (("moons", 0.5), ("digits", 0.95)):
        two, one = (Cell(data, 2, method=method).config() for method in ("gedi", "gedi-1"))
        assert one.step1.iterations == 0

        def evaluations(config):
            every, total = config.objective["generative"].every, 0
            for stage in (config.step1, config.step2):
                steps = config.sampler.steps / (1 if stage is config.step1 else every)
                walks = stage is config.step2 and config.objective["clustering"].dam
                steps += config.dam.steps if walks else 0
                total += stage.iterations * stage.batch_size * steps
            return total

        assert evaluations(one) <= share * evaluations(two)


def test_table1_has_the_papers_numbers_beside_ours_and_says_what_diverged(tmp_path, fits):
    outcome = EXPERIMENTS["table1"].run("smoke", 2, tmp_path, 1, print)
    table = {(row[0], row[1]): dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows}
    assert [row[1] for row in outcome.rows][: len(outcome.rows) // 2] == [
        "JEM",
        "SwAV",
        "GEDI, literal",
        "GEDI, literal, weights 1",
        "GEDI, best of 4 by objective",
        "GEDI, best of 4, weights 1, short step 2",
        "GEDI, our default",
        "k-means",
        "untrained encoder",
        "random labels",
    ]
    for data, theirs in paper.TABLE1.items():
        assert table[data, "GEDI, our default"]["NMI in the paper"] == str(theirs["gedi"])
        assert table[data, "SwAV"]["NMI in the paper"] == str(theirs["swav"])
        assert table[data, "random labels"]["NMI in the paper"] == "–"
    assert table["moons", "GEDI, literal"]["NMI in the paper"] == "0.98 ± 0.02"
    assert table["circles", "GEDI, our default"]["NMI"] == table["circles", "GEDI, our default"]["AMI"] == "1.00 ± 0.00"
    assert table["circles", "JEM"]["NMI"] == "0.00 ± 0.00"
    assert float(table["circles", "random labels"]["NMI"][:4]) < 0.05
    assert any("JEM has no cluster head" in note for note in outcome.notes)
    assert table["moons", "GEDI, literal"]["NMI"] == "0.00 ± 0.00 (2 of 2 diverged)"
    assert table["moons", "GEDI, literal"]["left the guard's limits"] == "2 of 2, step1 at 7"
    assert table["moons", "GEDI, our default"]["left the guard's limits"] == "–"
    assert any("fits diverged" in note and "iteration 7" in note for note in outcome.notes)
    assert {cell.dataset for cell in fits} == {"paper-moons", "paper-circles"}


def test_the_best_of_several_fits_is_that_with_the_lowest_objective(monkeypatch):
    objectives = {1: 0.3, 1001: None, 2001: 0.1, 3001: 0.2}

    def fit(cell, data):
        wrong = cell.seed != 2001  # the second diverges, the third is the best
        if objectives[cell.seed] is None:
            raise DivergedError("Training diverged in step2 at iteration 9.")
        return data.y_test * (not wrong), {"objective": objectives[cell.seed], "config": {}}, None

    monkeypatch.setattr(cell_fits, "_fit_gedi", fit)
    cell = BestOf("paper-moons", 2, seed=1, preset="paper", rows=100)
    measured = table1.measure_best(cell)
    assert measured["nmi"] == 1 and measured["objective"] == 0.1 and measured["key"] == cell.key
    assert [run["objective"] for run in measured["runs"]] == list(objectives.values())
    assert cell.key != cell.independent()[0].key and "runs" in cell.settings()


def test_table1_has_the_papers_data_settings_and_iterations():
    data = cell_data(table1.cells_of_row(LAPTOP, "circles", "literal")[0])
    assert len(data.x_train) == 400 and np.linalg.norm(data.x_train, axis=1).mean() == pytest.approx(2.25, abs=0.05)
    rows = [row for row in table1.TABLE_ROWS if row != "kmeans"]
    config = {row: table1.cells_of_row(LAPTOP, "moons", row)[0].config() for row in rows}
    literal, jem, swav = config["literal"], config["jem"], config["swav"]
    assert (literal.step1.iterations, literal.step2.iterations, literal.step1.batch_size) == (7000, 7000, 400)
    assert (jem.step1.iterations, jem.step1.betas, jem.net.representation) == (7000, (0.0, 0.9), 1)
    assert (swav.step1.iterations, swav.step2.iterations) == (0, 7000)
    assert config["mechanism"] == literal
    assert (literal.objective["clustering"].weight, literal.objective["clustering"].dam) == (1000, 500)
    short = config["equal-short"]
    assert (short.objective["clustering"].weight, short.objective["clustering"].dam) == (1, 1)
    assert short.objective["negative_free"].weight == 1 / 400 and short.step2.iterations == 150
    assert config["equal"].step2 == literal.step2 and config["equal"].objective == short.objective
    assert table1.cells_of_row(budget("paper", 1, laptop_seeds=1), "moons", "jem")[0].config().step1.iterations == 10**5


@pytest.mark.parametrize("name", ["fig-steps", "fig-ablation", "fig-classes"])
def test_no_start_hides_what_the_walks_do(name, tmp_path, fits):
    EXPERIMENTS[name].run("smoke", 1, tmp_path, 1, print)
    ours = [cell for cell in fits if cell.dam_steps is not None]
    assert ours and all(cell.config().heads.starts == () for cell in ours)
    assert EXPERIMENTS[name].laptop_seeds == 5


def test_experiments_share_cells(tmp_path, fits):
    EXPERIMENTS["fig-steps"].run("smoke", 1, tmp_path, 1, print)
    lines = []
    EXPERIMENTS["fig-ablation"].run("smoke", 1, tmp_path, 1, lines.append)
    assert lines[0].startswith("4 of 22 fits are already in")  # the default from random heads: two data sets, two T


# ---- the parts of GEDI ----


def test_every_part_is_a_change_of_its_own_where_the_default_has_the_part():
    def changed(name):
        settings = {variant: ablation_tables.part_cells(LAPTOP, name, variant)[0].settings() for variant in VARIANTS}
        return {variant for variant in VARIANTS if settings[variant] != settings["full"]}, settings

    toys_changed, settings = changed("moons")
    same = {"with DAM", "no learned neighbours"}  # toys have walks, and keep the neighbours of the input
    assert toys_changed == set(VARIANTS) - {"full"} - same
    assert len({json.dumps(config) for config in settings.values()}) == len(VARIANTS) - len(same)
    digits_changed, _ = changed("digits")
    assert digits_changed == set(VARIANTS) - {"full", "no DAM"}  # its default has no walks
    for name in ablation_tables.DATA:
        for variant in VARIANTS:
            for cell in ablation_tables.part_cells(LAPTOP, name, variant):
                if cell.dataset != "mnist":
                    check(cell.config())


def test_what_the_parts_leave_out():
    def config(variant):
        return ablation_tables.part_cells(LAPTOP, "moons", variant)[0].config()

    alone = config("no density")
    assert "generative" not in alone.objective and not alone.step1.iterations and "walks" not in alone.heads.starts
    assert not any(term.walks for term in [*alone.objective.values(), *config("no DAM").objective.values()])
    frozen = config("density frozen after step 1")
    assert frozen.objective["generative"].every == 0 and frozen.net.two_encoders and frozen.step1.iterations
    assert "negative_free" not in config("full").objective and config("with L_NF").objective["negative_free"].per_sample
    near = config("no neighbours")
    assert near.augment.neighbours == 0 and "neighbours" not in near.heads.starts
    assert config("Sinkhorn instead of the prior").objective["clustering"].kind == "sinkhorn"
    assert config("random heads only").heads.starts == () and config("starts alone").heads.random == 0
    assert config("no anchor").heads.anchor == 0 < config("full").heads.anchor
    assert config("no neutral head").heads.neutral == 0 < config("full").heads.neutral
    assert config("half the prior").objective["clustering"].prior == config("full").objective["clustering"].prior / 2
    on_sphere = config("prior on a sphere")
    assert (on_sphere.net.head, on_sphere.objective["clustering"].kind) == ("projector", "prior")


def test_the_parts_leave_mnist_out_where_it_is_missing(tmp_path, fits, monkeypatch):
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    outcome = EXPERIMENTS["table-parts"].run("smoke", 1, tmp_path / "out", 1, print)
    assert {row[0] for row in outcome.rows} == ablation_tables.DATA.keys() - {"MNIST, 10,000 images"}
    assert any("MNIST, 10,000 images is left out" in note for note in outcome.notes)
    assert str(tmp_path) not in " ".join(outcome.notes)
    titles = [row[1].removesuffix(" (as full)") for row in outcome.rows if row[0] == "moons"]
    assert titles == [*VARIANTS, "k-means", "untrained encoder", "random labels"]


def test_parts_for_real(tmp_path, monkeypatch):
    monkeypatch.setattr(ablation_tables, "DATA", {"moons": ablation_tables.DATA["moons"]})
    monkeypatch.setattr(experiments, "budget", lambda *a, **k: replace(budget(*a, **k), rows=80, iterations=3))
    outcome = EXPERIMENTS["table-parts"].run("smoke", 1, tmp_path, 1, print)
    table = {row[1]: dict(zip(outcome.columns, row, strict=True)) for row in outcome.rows}
    without = {"no density", "k-means", "untrained encoder", "random labels"}
    assert {name for name, row in table.items() if row["AUROC, noise"] == row["AUROC, shuffled"] == "–"} == without
    assert table["random labels"]["seconds a fit"] == "–" and float(table["full"]["seconds a fit"]) >= 0


# ---- equal terms ----


@pytest.mark.parametrize("data", ["digits", "moons"])
def test_every_method_has_gedis_views_and_iterations_and_swav_its_heads(data):
    gedi = Cell(data, 10).config()
    for method in METHODS:
        config = Cell(data, 10, method=method).config()
        assert config.augment == gedi.augment and config.scaling == gedi.scaling
        assert (config.net.hidden, config.net.representation) == (gedi.net.hidden, gedi.net.representation)
        if method != "gedi-1":
            steps = config.step1.iterations + config.step2.iterations
            assert steps == gedi.step1.iterations + gedi.step2.iterations
    swav = Cell(data, 10, method="swav").config()
    assert replace(swav.heads, starts=gedi.heads.starts) == gedi.heads


def test_differences_come_from_the_settings():
    listed = " ".join(setting_differences(preset("paper", n_features=2), preset(None, n_features=2)))
    assert "sampler.step 1.0 → unset" in listed
    assert "dam.radius 0.03 → from the data" in listed
    assert "objective.clustering.weight 1000.0 →" in listed
    same = preset(None, n_features=2)
    assert setting_differences(same, preset(None, n_features=2)) == []


def test_digits_for_real(tmp_path):
    outcome = EXPERIMENTS["table-digits"].run("smoke", None, tmp_path, 1, print)
    assert [row[0] for row in outcome.rows] == [
        "GEDI",
        "k-means",
        "spectral",
        "Ward",
        "untrained encoder",
        "random labels",
    ]
    assert float(outcome.rows[1][1][:4]) > 0.5


def test_landscapes_for_real(tmp_path, short_fits):
    outcome = EXPERIMENTS["fig-landscapes"].run("smoke", None, tmp_path, 1, print)
    assert is_a_picture(outcome.files[0])
    lines = []
    EXPERIMENTS["fig-landscapes"].run("smoke", None, tmp_path, 1, lines.append)
    assert lines == [f"3 of 3 fits are already in {tmp_path / 'cells.jsonl'}"]  # models are kept with the cells


def test_draw_landscape_in_one_call(tmp_path):
    x, _ = toys.moons(200)
    fitted = GEDI(2, preset="smoke", training={"step1.iterations": 5, "step2.iterations": 5}, random_state=0).fit(x)
    assert is_a_picture(draw_landscape(fitted.model_, x, tmp_path / "new" / "moons.png", "moons"))
    walks = walk_paths(fitted.model_, x, n=7)
    assert walks.shape == (7, fitted.model_.config.dam.steps + 1, 2)
    lengths = np.linalg.norm(np.diff(walks, axis=1), axis=2)
    assert np.isfinite(walks).all() and lengths.max() < 1.0
    three = GEDI(2, preset="smoke", training={"step1.iterations": 2, "step2.iterations": 2}).fit(np.c_[x, x[:, 0]])
    with pytest.raises(DataError, match="two features; this one has 3"):
        draw_landscape(three.model_, np.c_[x, x[:, 0]], tmp_path / "no.png", "three features")


def test_equal_partitions_get_equal_colours():
    _, ((one, other),) = figure(1, 2)
    x = np.arange(10.0).reshape(5, 2)
    scatter_clusters(one, x, np.array([2, 2, 0, 1, 0]))
    scatter_clusters(other, x, np.array([0, 0, 1, 2, 1]))
    seen = [[(c.get_offsets().tolist(), c.get_facecolor().tolist()) for c in axes.collections] for axes in (one, other)]
    assert seen[0] == seen[1] and len(seen[0]) == 3


def test_cells_share_the_name_of_their_settings_only_if_they_share_the_settings():
    two = budget("laptop", 2, laptop_seeds=1)
    cells = [cell for data in ("svhn", "cifar10", "cifar100") for row in ROWS for cell in image_cells(two, data, row)]
    names = settings_names(cells)
    for cell in cells:
        assert names[cell] == names[replace(cell, seed=1 - cell.seed)]
        assert all(cell.settings() == other.settings() for other in cells if names[other] == names[cell])
    assert settings_names(cells[:2]) == {cell: "jem, images, full" for cell in cells[:2]}


def test_at_the_paper_scale_jem_and_swav_have_the_papers_settings_without_the_guard():
    smoke, laptop, full = (budget(scale, 1, laptop_seeds=1) for scale in ("smoke", "laptop", "paper"))
    for row in ("jem", "swav"):
        found = [cells.cells_of(scale, toy_cell(scale, "moons", row))[0] for scale in (smoke, laptop, full)]
        assert [(cell.preset, cell.guarded) for cell in found] == [("smoke", True), (None, True), ("paper", False)]


def test_a_template_becomes_one_cell_per_seed():
    cell = Cell("moons", 2, seed=10, rows=50)
    few = cells.cells_of(LAPTOP, cell, laptop_seeds=2)
    assert few == [cell, replace(cell, seed=11)]
    chosen = budget("laptop", 3, laptop_seeds=5)
    assert [c.seed for c in cells.cells_of(chosen, cell, laptop_seeds=2)] == [10, 11, 12]
    (smoke,) = cells.cells_of(budget("smoke", None, laptop_seeds=5), cell)
    assert (smoke.preset, smoke.rows, smoke.iterations) == ("smoke", 300, 40)
    (kmeans,) = cells.cells_of(budget("smoke", None, laptop_seeds=5), replace(cell, method="kmeans"))
    assert (kmeans.preset, kmeans.rows, kmeans.iterations) == (None, 300, None)


def test_summary_over_seeds():
    group = statistics_of([{"nmi": 0.9, "objective": None}, {"nmi": 1.0, "diverged": "x"}])
    assert group["nmi"]["mean"] == pytest.approx(0.95) and group["nmi"]["min"] == 0.9
    assert group["nmi"]["std"] == pytest.approx(np.std([0.9, 1.0], ddof=1))
    assert "objective" not in group and mean_std(group, "objective") == "–"
    assert mean_std(group) == "0.95 ± 0.07 (1 of 2 diverged)"


def test_scales():
    smoke, laptop, full = (budget(scale, None, laptop_seeds=2) for scale in ("smoke", "laptop", "paper"))
    assert (smoke.preset, laptop.preset, full.preset) == ("smoke", None, None)
    assert (smoke.rows, laptop.rows, full.rows) == (300, None, None)
    assert [len(b.seeds) for b in (smoke, laptop, full)] == [1, 2, 5]
    assert smoke.dam_steps == (1, 2) and laptop.dam_steps is None


@pytest.mark.parametrize(
    ("scale", "seeds", "jobs", "message"),
    [
        ("huge", None, 1, "no scale 'huge'"),
        ("smoke", 0, 1, "at least 1, got 0"),
        ("smoke", None, 0, "processes"),
    ],
)
def test_bad_requests_are_one_sentence(scale, seeds, jobs, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        EXPERIMENTS["table1"].run(scale, seeds, tmp_path, jobs, print)


def test_unknown_experiments_name_the_nearest():
    assert find("fig-steps").name == "fig-steps"
    with pytest.raises(ConfigError, match="did you mean 'table1'"):
        find("tabel1")


def test_the_registry_is_fast_to_import():
    code = "import sys, gedi.experiments; print([m for m in ('torch', 'matplotlib', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_paper_sampler_is_listed_with_what_the_guard_saw(tmp_path):
    outcome = EXPERIMENTS["table-divergence"].run("smoke", 1, tmp_path, 1, print)
    assert [row[0] for row in outcome.rows] == ["moons", "circles"]
    content = json.loads((tmp_path / "table-divergence.json").read_text())
    (settings,) = content["settings"].values()
    assert settings["sampler"]["clamp"] is False and settings["sampler"]["step"] == 1.0
    assert all(cell["end"] == "finished" and cell["warned"] == 0 for cell in content["cells"])
    assert all(cell["first_seen"] is None for cell in content["cells"])  # 40 iterations are few


def test_stability_counts_what_went_wrong():
    event = {"stage": "step1", "iteration": 3, "remedy": "cool it"}
    gone = {"seen": "generative is nan", "action": "rolled back to iteration 0"}
    far = {"seen": "the energy gap is 2e3", "action": "rolled back to iteration 0"}
    runs = [
        {"guard": [], "largest": {"generative": 2.0, "energy_size": 4.0}},
        {"guard": [event | far], "largest": {"generative": 9.0, "energy_size": 100.0}},
        {"guard": [event | gone, event | gone | {"action": "stopped"}], "diverged": "it diverged"},
    ]
    counted = counts_of_runs(runs)
    assert (counted["runs"], counted["non_finite"], counted["rolled_back"], counted["aborted"]) == (3, 1, 2, 1)
    assert (counted["largest_gap"], counted["largest_log_density"]) == (9.0, 10.0)


def test_stability_for_real(tmp_path, short_fits):
    outcome = EXPERIMENTS["table-stability"].run("smoke", 1, tmp_path, 1, print)
    assert [row[:5] for row in outcome.rows] == [[data, "1", "0", "0", "0"] for data in ("moons", "circles", "digits")]


def test_the_table_of_mnist_lists_gedi_beside_swav_and_k_means_of_pixels(tmp_path, fits, monkeypatch):
    pixels, classes = load_digits(return_X_y=True)
    x, y = pixels.reshape(-1, 8, 8, 1).astype(np.uint8), classes.astype(np.int64)
    np.savez(tmp_path / "mnist.npz", x_train=x[:800], y_train=y[:800], x_test=x[800:], y_test=y[800:])
    monkeypatch.setenv("GEDI_DATA", str(tmp_path))
    outcome = EXPERIMENTS["table-mnist"].run("smoke", 1, tmp_path / "out", 1, print)
    by_method = {row[0]: row for row in outcome.rows}
    assert by_method["GEDI"][1] == "1.00" and by_method["SwAV"][1] != "1.00"
    assert 0.4 < float(by_method["k-means of pixels"][1][:4]) < 0.95
    assert float(by_method["random labels"][1]) < 0.2 and "untrained encoder" in by_method
    assert json.loads((tmp_path / "out" / "table-mnist.json").read_text())["groups"]


def test_the_table_of_mixed_columns_compares_the_table_itself_with_one_hot_columns(tmp_path, short_fits, monkeypatch):
    monkeypatch.setattr(table_mixed, "TABLE_SIZE", 60)
    outcome = EXPERIMENTS["table-mixed"].run("smoke", 1, tmp_path, 1, print)
    assert [row[0] for row in outcome.rows] == ["customers"] * 4 + ["words and noise"] * 4
    content = json.loads((tmp_path / "table-mixed.json").read_text(encoding="utf-8"))
    assert {group["method"] for group in content["groups"]} == set(table_mixed.WAYS)
    assert content["table"]["rows"] == outcome.rows and len({cell["key"] for cell in content["cells"]}) == 8
    assert [row[-1] == "–" for row in outcome.rows] == 2 * [False, False, True, True]  # only GEDI has a density
