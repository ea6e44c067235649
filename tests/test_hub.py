"""Models on the hub, with the hub's library played by a folder: no test goes online."""

import json
import os
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import yaml

from gedi import GEDI, hub, runs
from gedi.errors import RunError

TINY = {"step1.iterations": 3, "step2.iterations": 3, "sampler.steps": 1, "dam.steps": 1, "start.nodes": 5}
rng = np.random.default_rng(0)
X = np.vstack([rng.normal(-3, 0.4, (20, 2)), rng.normal(3, 0.4, (20, 2))])


@pytest.fixture(scope="module")
def model() -> GEDI:
    return GEDI(n_clusters=2, preset="smoke", training=TINY, random_state=0).fit(X)


class Hub(SimpleNamespace):
    """Keeps what is uploaded in a folder, and hands it out as the real cache does: links to blobs."""

    def HfApi(self, **options):
        self.calls.append(("HfApi", options))
        return self

    def create_repo(self, repo_id, **options):
        self.calls.append(("create_repo", {"repo_id": repo_id} | options))

    def upload_folder(self, *, repo_id, folder_path, allow_patterns, commit_message):
        for name in os.listdir(folder_path):
            assert name in allow_patterns
            (self.folder / repo_id).mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.join(folder_path, name), self.folder / repo_id / name)
        self.calls.append(("upload_folder", {"commit_message": commit_message}))
        return f"https://hub.example/{repo_id}/commit/1"

    def snapshot_download(self, repo_id, *, revision, token, allow_patterns):
        self.calls.append(("snapshot_download", {"revision": revision, "token": token}))
        if not (self.folder / repo_id).is_dir():
            raise FileNotFoundError("404 Client Error\nRepository Not Found")
        snapshot = self.folder / "snapshot"
        snapshot.mkdir(exist_ok=True)
        for path in (self.folder / repo_id).iterdir():
            if path.name in allow_patterns:
                (snapshot / path.name).symlink_to(path)
        return str(snapshot)


@pytest.fixture
def online(tmp_path, monkeypatch):
    made = Hub(folder=tmp_path / "hub", calls=[])
    made.folder.mkdir()
    monkeypatch.setitem(sys.modules, "huggingface_hub", made)
    return made


def test_a_model_survives_upload_and_download(model, online):
    assert model.push_to_hub("me/moons", private=True, token="t", commit_message="m").startswith("https://hub.example")
    again = GEDI.from_pretrained("me/moons", revision="v1", token="t")
    for name in ("predict", "predict_proba", "transform", "score_samples", "typicality", "ood_score"):
        assert np.array_equal(getattr(again, name)(X), getattr(model, name)(X)), name
    assert again.n_features_in_ == 2 and again.n_clusters == 2
    calls = dict(online.calls)
    assert calls["HfApi"]["token"] == "t" and calls["upload_folder"] == {"commit_message": "m"}
    assert calls["create_repo"] == {"repo_id": "me/moons", "private": True, "exist_ok": True}
    assert calls["snapshot_download"] == {"revision": "v1", "token": "t"}


def test_only_plain_files_are_uploaded(model, online):
    model.push_to_hub("me/moons")
    names = {path.name for path in (online.folder / "me/moons").iterdir()}
    assert names == {"config.yaml", "model.safetensors", "results.json", "metrics.jsonl", "README.md"}


def test_the_real_library_has_what_is_used():
    library = pytest.importorskip("huggingface_hub")
    from inspect import signature

    api = library.HfApi(token="t", library_name="gedi", library_version="0")
    assert {"private", "exist_ok"} <= signature(api.create_repo).parameters.keys()
    wanted = {"repo_id", "folder_path", "allow_patterns", "commit_message"}
    assert wanted <= signature(api.upload_folder).parameters.keys()
    assert {"revision", "token", "allow_patterns"} <= signature(library.snapshot_download).parameters.keys()


def test_a_folder_needs_no_hub(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    model.save(tmp_path / "run")
    assert np.array_equal(GEDI.from_pretrained(tmp_path / "run").predict(X), model.labels_)


def test_without_the_extra_it_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(RunError, match=r"gedi-ssl\[hub\]"):
        model.push_to_hub("me/moons")
    with pytest.raises(RunError, match=r"gedi-ssl\[hub\]"):
        GEDI.from_pretrained("me/moons")


@pytest.mark.parametrize("name", ["a/b/c", "", "../up", "me/mo ons", "https://hub.example/me/moons", "me/"])
def test_an_invalid_name_is_refused_before_anything_is_sent(model, online, name):
    with pytest.raises(RunError, match="repository name"):
        model.push_to_hub(name)
    if name:
        with pytest.raises(RunError, match="repository name"):
            GEDI.from_pretrained(name)
    assert online.calls == []


def test_a_missing_path_is_not_looked_up_online(online, tmp_path):
    with pytest.raises(RunError, match="neither a folder nor"):
        GEDI.from_pretrained(tmp_path / "nowhere")
    assert online.calls == []


def test_a_missing_repository_is_one_sentence(online):
    with pytest.raises(RunError, match=r"me/nothing could not be downloaded: .*Not Found") as error:
        GEDI.from_pretrained("me/nothing")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["truncated", "other shapes", "a tag", "no config", "too large"])
def test_downloads_are_checked_like_any_folder(model, online, damage, monkeypatch):
    model.push_to_hub("me/moons")
    folder = online.folder / "me/moons"
    weights, config = folder / "model.safetensors", folder / "config.yaml"
    if damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-8])
    elif damage == "other shapes":
        config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"n_clusters": 3}))
    elif damage == "a tag":
        config.write_text("!!python/object/apply:os.system ['touch hacked']")
    elif damage == "no config":
        config.unlink()
    else:
        monkeypatch.setattr(hub, "MODEL_BYTES", 100)
    with pytest.raises(RunError, match="me/moons") as error:
        GEDI.from_pretrained("me/moons")
    assert "\n" not in str(error.value) and "/tmp" not in str(error.value)


# ---- the card ----


def test_the_card_says_how_the_model_was_made_and_loads(model, tmp_path):
    with runs.claimed(tmp_path / "run") as folder:
        runs.save(model.model_, folder, {"data": "moons", "method": "gedi", "scores": {"nmi": 0.98765}})
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    card = hub.model_card(runs.load(tmp_path / "run"), "me/moons")
    front, body = card.split("---\n")[1:3]
    assert yaml.safe_load(front)["library_name"] == "gedi"
    assert "GEDI.from_pretrained('me/moons')" in body
    date = results["provenance"]["date"]
    for line in ("| data | moons |", "| clusters | 2 |", "| nmi | 0.9877 |", f"| date | {date} |"):
        assert line in body


def test_text_of_a_strangers_results_stays_plain_text(model, tmp_path):
    with runs.claimed(tmp_path / "run") as folder:
        evil = "x | <script>alert(1)</script>\n\n# [click](http://evil.example)"
        runs.save(model.model_, folder, {"data": evil, "scores": {evil: evil}, "seconds": "soon"})
    card = hub.model_card(runs.load(tmp_path / "run"), "me/moons")
    assert "<script>" not in card and "\n# " not in card.split("me/moons", 1)[1]
    assert "[click" not in card.replace(r"\[click", "") and r"x \| " in card


def test_a_model_saved_again_keeps_the_provenance_of_its_training(model, tmp_path):
    with runs.claimed(tmp_path / "one") as folder:
        runs.save(model.model_, folder)
    kept = json.loads((tmp_path / "one" / "results.json").read_text())
    kept["provenance"]["date"] = "2020-01-01T00:00:00+00:00"
    (tmp_path / "one" / "results.json").write_text(json.dumps(kept))
    GEDI.load(tmp_path / "one").save(tmp_path / "two")
    assert json.loads((tmp_path / "two" / "results.json").read_text())["provenance"] == kept["provenance"]
