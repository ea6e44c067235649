"""Pages as text: what they contain, that nothing in them can do harm, and what is refused."""

import json
import re
import shutil

import numpy as np
import pytest

from gedi import GEDI, runs
from gedi.cli import main
from gedi.commands.report import write_run_report
from gedi.data import load
from gedi.evaluation import nmi
from gedi.report.data_sample import FILE
from gedi.report.records import left_out
from gedi.training.number import Number

LARGEST = {"rows": 3_000_000, "images": 5_000_000}  # bytes
FOLDED = ["stability", "embedding", "training", "cost", "settings", "provenance"]


def text_of(path):
    return path.read_text(encoding="utf-8")


def ids(page):
    return re.findall(r'<section id="([a-z]+)"', page)


def own_part(page):
    """The page without plotly's script, which mentions many URLs that it never requests."""
    return re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)


def without_commands(page):
    """The page without commands to paste, which name the folder of the run."""
    return re.sub(r"<code><span>gedi</span> .*?</code>", "", page)


@pytest.fixture
def copy(tmp_path):
    """A function that copies a run, for a test to change."""

    def make(run, name="copy"):
        return shutil.copytree(run, tmp_path / name)

    return make


def report(*words):
    return main(["report", *(str(word) for word in words)])


# ---- contents ----


def test_a_fit_ends_with_a_page_of_its_kind_of_data(moons_run, digits_run, image_run, wide_run):
    kinds = {
        moons_run: ["answer", "map", "columns", "labels", "density", "diagnostics"],
        digits_run: ["answer", "map", "unsure", "labels", "density", "samples", "diagnostics"],
        image_run: ["answer", "map", "unsure", "labels", "density", "samples", "diagnostics"],
        wide_run: ["answer", "map", "columns", "density", "diagnostics"],
    }
    for run, sections in kinds.items():
        page = text_of(run / "report.html")
        assert ids(page) == sections
        assert len(page.encode()) < LARGEST["images" if "unsure" in sections else "rows"]
        assert set(re.findall(r'href="#([a-z]+)"', page)) == {*ids(page), "main"} - {"unsure"}
        assert all(f'<details id="{name}">' in page for name in FOLDED)


def test_the_answer_is_in_the_datas_own_words(runs_of_other_columns):
    (run, _), _ = runs_of_other_columns
    page = own_part(text_of(run / "report.html"))
    answer = page[page.index('<section id="answer"') : page.index('<section id="map"')]
    said = {(a, b) for a, b in re.findall(r"<b>[bc]</b> (\S+) \(others (\S+)\)", answer)}
    assert said and all({round(float(a)), round(float(b))} == {0, 6} for a, b in said)
    assert re.search(r'Clusters: <span class="badge (good|fair|poor|not-graded)">', answer)
    assert len(re.findall(r"row \d+</td>", answer)) == 2, "one typical row of each cluster, by its own number"


def test_no_page_speaks_the_engineers_language(moons_run, digits_run):
    for run in (moons_run, digits_run):
        page = own_part(text_of(run / "report.html"))
        page = page[: page.index('<details id="settings"')]
        said = re.sub(r"<[^>]+>", " ", re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL))
        assert not re.search(r"\b(nats?|spheres?|guards?|energy)\b", said, re.IGNORECASE)


def test_the_number_of_clusters_found_is_shown_with_its_runner_up(moons_run, copy):
    run = copy(moons_run)
    results = json.loads(text_of(run / "results.json"))
    number = Number(2, 3, "unsure", 0.7, {2: 0.9, 3: 0.8, 4: 0.1}).plain()
    (run / "results.json").write_text(json.dumps(results | {"number": number}))
    assert report(run) == 0
    page = own_part(text_of(run / "report.html"))
    agreement = "70% agreement between two halves of the rows"
    assert f"<strong>2 clusters</strong>, but is not sure ({agreement}); the runner-up is 3." in page
    assert 'data-chart="number"' in page and 'data-chart="number"' not in text_of(moons_run / "report.html")


def test_images_are_not_called_rows(image_run, wide_run):
    says = {run: re.sub(r"<[^>]+>", "", own_part(text_of(run / "report.html"))) for run in (image_run, wide_run)}
    assert " of the images keep their cluster" in says[image_run] and " of the rows" not in says[image_run]
    assert " of the rows keep their cluster" in says[wide_run]


def test_everything_on_a_page_has_a_text_for_screen_readers(moons_run, image_run, wide_run):
    for run in (moons_run, image_run, wide_run):
        page = own_part(text_of(run / "report.html"))
        assert all(re.search(r'alt="[^"]{10,}', image) for image in re.findall(r"<img[^>]*>", page))
        assert all(
            re.search(r'aria-label="[^"]{10,}', chart) for chart in re.findall(r"<div[^>]*data-chart[^>]*>", page)
        )
        assert page.count("<table") == page.count("<thead>") and page.count("<h1") == 1
        assert all("scope=" in head for head in re.findall(r"<th\b[^>]*>", page))


def test_a_page_has_no_url_and_allows_no_request(moons_run, image_run):
    for run in (moons_run, image_run):
        page = text_of(run / "report.html")
        assert "http://" not in own_part(page) and "https://" not in own_part(page)
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
        assert policy and policy[1].startswith("default-src &#39;none&#39;") and "unsafe-eval" not in policy[1]
        assert "unsafe-inline" not in policy[1].split("style-src")[0]


def test_labels_are_marked_as_not_used_in_training(moons_run, wide_run):
    assert "not used in training" in text_of(moons_run / "report.html")
    assert "not used in training" not in own_part(text_of(wide_run / "report.html"))


@pytest.mark.parametrize("nothing", [{}, {"unreadable": []}, {"unreadable": None}, {"unreadable": "a.png"}])
def test_files_left_out_are_counted_and_the_first_are_named(nothing):
    assert left_out(nothing) is None
    assert left_out({"unreadable": ["a\nb.png"]}) == "1 image file was left out as unreadable: a b.png."
    many = left_out({"unreadable": [f"{i}.png" for i in range(1234)]})
    assert many is not None and many.startswith("1,234 image files were") and many.endswith("19.png and 1214 more.")


def candidates_of(page):
    """The table of what competed: names and how they were judged, in order, and the names marked as chosen."""
    part = page[page.index("<h3>How the clusters were chosen") : page.index('<details id="embedding"')]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td class="number">(.*?)</td><td>(.*?)</td>', part)
    return [(name, float(judged)) for name, judged, _ in rows], [name for name, _, mark in rows if mark == "✓ chosen"]


def test_what_competed_for_the_clusters_is_listed_best_first(moons_run):
    found, chosen = candidates_of(text_of(moons_run / "report.html"))
    judged = json.loads(text_of(moons_run / "results.json"))["candidates"]
    assert len(judged) == 5 and len(found) == 5
    assert sorted(value for _, value in found) == [value for _, value in found]
    assert [value for _, value in found] == pytest.approx(sorted(judged.values()), rel=0.01, abs=1e-3)
    names = {"a head": "the best head", "kmeans": "k-means", "mixture": "a Gaussian mixture"}
    best = min(judged, key=judged.get)
    assert chosen == [found[0][0]] == [names.get(best, f"a cut of the {best.rstrip('s')} graph")]


def test_heads_alone_and_a_single_head_are_mentioned(wide_run, copy):
    page = text_of(wide_run / "report.html")
    assert "4 cluster heads competed" in page and candidates_of(page) == ([], [])
    run = copy(wide_run)
    results = json.loads(text_of(run / "results.json"))
    (run / "results.json").write_text(json.dumps(results | {"candidates": {}}))
    assert report(run) == 0
    page = text_of(run / "report.html")
    assert "cluster heads competed" not in page and "--training.heads.random 16" in page


def test_the_page_can_be_made_again_when_the_data_is_gone(image_run, copy):
    run = copy(image_run, "elsewhere-now")
    before = text_of(run / "report.html")
    (run / "plan.yaml").unlink()
    (run / "report.html").unlink()
    assert report(run) == 0
    again = text_of(run / "report.html")
    assert without_commands(again).replace("elsewhere-now", "image-run") == without_commands(before)


@pytest.fixture
def loads(monkeypatch):
    """The folders whose models are read from disk."""
    folders, load = [], runs.load
    monkeypatch.setattr(runs, "load", lambda folder: folders.append(folder) or load(folder))
    return folders


def test_a_model_is_read_once_whatever_is_shown(moons_run, tmp_path, loads):
    assert report(moons_run, "--data", "moons", "--ood", "circles", "--out", tmp_path / "page.html") == 0
    assert loads == [moons_run]


def test_a_model_in_memory_is_not_read_and_gives_the_same_page(moons_run, copy, loads):
    run = copy(moons_run, "moons-run")
    model, plan = runs.load(run), runs.Plan.read(run)
    data = load(**plan.reading)
    results, model.results = model.results, {}  # the results are those that were written: a fit adds some as it saves
    for name in ("report.html", FILE):
        (run / name).unlink(missing_ok=True)
    write_run_report(run, (model, results, data, plan))
    assert (run / FILE).read_bytes() == (moons_run / FILE).read_bytes()
    assert loads == [run] and without_commands(text_of(run / "report.html")) == without_commands(
        text_of(moons_run / "report.html")
    )


def test_data_given_by_hand_stands_in_for_the_sample(moons_run, copy, tmp_path):
    run = copy(moons_run)
    (run / FILE).unlink()
    (run / "plan.yaml").unlink()
    assert report(run) == 0
    bare = text_of(run / "report.html")
    assert "use --data to see more" in bare and "map" not in ids(bare)
    np.savetxt(
        tmp_path / "few.csv", np.random.default_rng(0).normal(size=(30, 2)), delimiter=",", header="a,b", comments=""
    )
    assert report(run, "--data", tmp_path / "few.csv", "--ood", "circles") == 0
    page = text_of(run / "report.html")
    assert "map" in ids(page) and "all 30 rows" in page and "given: circles" in page


def test_scores_and_header_are_those_of_the_given_data(moons_run, moons, tmp_path):
    kept = np.load(moons)
    rng = np.random.default_rng(0)
    lines = [f"{a},{b},{k}" for (a, b), k in zip(kept["x"], rng.permutation(kept["y"]), strict=True)]
    (tmp_path / "mixed.csv").write_text("\n".join(["a,b,kind", *lines]))
    given = ["--data", tmp_path / "mixed.csv", "--label-column", "kind"]
    assert report(moons_run, *given, "--out", tmp_path / "one.html") == 0
    page = text_of(tmp_path / "one.html")
    score = re.search(r"<dt>NMI</dt><dd>([\d.]+)", page)
    assert score and float(score[1]) < 0.05
    assert "<dt>data</dt><dd>mixed</dd>" in page and "<dt>trained on</dt><dd>moons</dd>" in page
    assert report(moons_run, moons_run, *given, "--out", tmp_path / "two.html") == 0
    assert f">{score[1]}</td>" in text_of(tmp_path / "two.html")


def test_a_run_made_in_python_without_a_plan_or_labels_has_a_page(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 3))
    settings = {"step1.iterations": 2, "step2.iterations": 2, "start.nodes": 5}
    GEDI(2, preset="smoke", random_state=0, training=settings).fit(x).save(tmp_path / "run")
    assert report(tmp_path / "run") == 0
    page = text_of(tmp_path / "run" / "report.html")
    assert ids(page) == ["answer", "diagnostics"]
    assert "<dt>random_state</dt><dd>0</dd>" in page and "<dt>seed</dt>" not in page, "what the user typed"


@pytest.mark.parametrize(("method", "missing"), [("jem", "columns"), ("swav", "density")])
def test_what_a_method_does_not_train_is_not_shown(tmp_path, moons, method, missing):
    few = ["--preset", "smoke", "--training.step1.iterations", "2" if method == "jem" else "0"]
    few += ["--training.step2.iterations", "0" if method == "jem" else "2"]
    assert main(["fit", str(moons), "--n-clusters", "2", "--out", str(tmp_path / "run"), "--method", method, *few]) == 0
    page = text_of(tmp_path / "run" / "report.html")
    assert missing not in ids(page) and "map" in ids(page)


def test_a_run_that_diverged_has_a_page_that_says_why(tmp_path, moons, capsys):
    words = ["--preset", "smoke", "--training.guard.max_gradient", "1e-9", "--training.guard.tries", "1"]
    assert main(["fit", str(moons), "--n-clusters", "2", "--out", str(tmp_path / "run"), *words]) == 3
    page = text_of(tmp_path / "run" / "report.html")
    assert "Training diverged in step1" in page and "✕ poor" in page and "rolled back" in page
    assert "guard.max_gradient" in page and "report:" in capsys.readouterr().out


# ---- several runs ----


def test_runs_are_compared_by_what_differs(moons_run, other_moons_run, tmp_path):
    path = tmp_path / "both.html"
    assert report(moons_run, other_moons_run, "--out", path) == 0
    page = own_part(text_of(path))
    assert ids(page) == ["verdict", "measures", "agreement", "settings", "training"]
    settings = page[page.index('id="settings"') : page.index('id="training"')]
    assert "dam.steps" in settings and "step1.batch_size" not in settings
    assert "clusters-0" in page and "clusters-1" in page
    shown = re.findall(r">(\d\.\d{3})</td>", page[page.index('id="agreement"') : page.index('id="settings"')])
    assert len(shown) == 4 and shown[0] == shown[3] == "1.000" and shown[1] == shown[2]


def test_runs_of_different_data_are_compared_without_agreement(moons_run, wide_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert report(moons_run, wide_run) == 0
    page = text_of(tmp_path / "gedi-comparison.html")
    assert "Nothing to compare" in page and "No winner: these runs show different rows or columns" in page


def test_each_run_clusters_the_columns_that_it_knows_of_the_given_data(runs_of_other_columns, tmp_path):
    folders, rows = runs_of_other_columns
    clusters = []
    for run in folders:
        assert main(["predict", str(run), str(rows), "--out", str(tmp_path / f"{run.name}.csv")]) == 0
        clusters.append(np.genfromtxt(tmp_path / f"{run.name}.csv", delimiter=",", names=True)["cluster"])
    assert report(*folders, "--data", rows, "--out", tmp_path / "both.html") == 0
    page = own_part(text_of(tmp_path / "both.html"))
    shown = re.findall(r">(\d\.\d{3})</td>", page[page.index('id="agreement"') : page.index('id="settings"')])
    assert shown[1] == f"{nmi(*clusters):.3f}" and "Not compared row by row" not in page


def test_samples_of_other_columns_are_not_compared_and_the_page_says_so(runs_of_other_columns, tmp_path):
    assert report(*runs_of_other_columns[0], "--out", tmp_path / "both.html") == 0
    page = own_part(text_of(tmp_path / "both.html"))
    assert "Nothing to compare" in page and "Not compared row by row: no-d." in page


# ---- strangers' folders ----


def test_nothing_in_a_run_can_become_markup(wide_run, copy, hostile):
    run = copy(wide_run, "run<script>alert(1)<&script>")
    results = json.loads(text_of(run / "results.json"))
    event = {"stage": "step1", "iteration": 1} | dict.fromkeys(("seen", "action", "remedy"), hostile)
    results |= {
        "data": hostile,
        "method": hostile,
        "guard": [event],
        "cost": {hostile: 1.0},
        "hardware": {hostile: hostile},
        "candidates": {hostile: 0.1, "a head": 0.2, "walks": hostile},
    }
    results["provenance"] |= {hostile: hostile, "command": "</script><script>alert(2)</script>"}
    results["scores"] = {"nmi": hostile}
    (run / "results.json").write_text(json.dumps(results))
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"stage": "step1", "iteration": 2, "</script>" + hostile: 1.0}) + "\n")
    assert report(run) == 0
    page = own_part(text_of(run / "report.html"))
    assert "<img" not in page.replace('<img class="pixels', "") and "<script>" not in page
    assert page.count("<script") == page.count("</script>") == 1
    assert "&lt;img src=x" in page


def test_malformed_results_do_not_stop_a_report(moons_run, copy):
    run = copy(moons_run)
    results = json.loads(text_of(run / "results.json"))
    results |= {"cost": [1], "provenance": "none", "scores": [0.5], "seconds": "long", "data": {"a": 1}, "method": None}
    results |= {"candidates": ["walks"], "objective": {}}
    for guard in (7, [{"stage": "step9"}, 3]):
        (run / "results.json").write_text(json.dumps(results | {"guard": guard}))
        assert report(run) == 0


def test_a_folder_without_a_model_is_refused_with_a_hint(tmp_path, capsys):
    assert report(tmp_path) == 2
    assert "the run is not finished. Continue it with: gedi resume" in capsys.readouterr().err
    (tmp_path / "results.json").write_text("{}")
    assert report(tmp_path) == 2
    assert "neither a model nor a record of why" in capsys.readouterr().err


def test_a_file_that_is_not_a_report_is_not_overwritten(moons_run, tmp_path, capsys):
    path = tmp_path / "thesis.html"
    path.write_text("years of work")
    assert report(moons_run, "--out", path) == 2
    assert "is not a report" in capsys.readouterr().err and path.read_text() == "years of work"


def test_a_link_in_the_folder_is_not_written_through(moons_run, copy, tmp_path, capsys):
    run = copy(moons_run)
    (tmp_path / "mine").write_text("mine")
    (run / "report.html").unlink()
    (run / "report.html").symlink_to(tmp_path / "mine")
    assert report(run) == 2
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "There is no folder nowhere"),
        (["RUN", "--data", "digits"], "digits has 64 features, but the run was trained on 2"),
        (["RUN", "RUN", "--ood", "circles"], "--ood is only shown in the report of a single run"),
        (["RUN"] * 13, "At most 12 runs fit on one page"),
    ],
)
def test_impossible_reports_are_refused_in_one_sentence(moons_run, capsys, words, sentence):
    assert report(*[moons_run if word == "RUN" else word for word in words]) == 2
    err = capsys.readouterr().err
    assert sentence in err and err.count("\n") == 1
