"""Runs on the Hugging Face hub: safetensors, JSON, YAML and a model card, nothing that is executed.

A repository is not trusted: what is downloaded passes the same checks as any RUN folder.
"""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from gedi import __version__, runs
from gedi.errors import RunError
from gedi.files.reading import TEXT_BYTES, mapping, nested, shown
from gedi.runs.layout import MODEL_BYTES
from gedi.training.model import TrainedModel

FILES = (runs.CONFIG, runs.MODEL, runs.RESULTS, runs.METRICS)
CARD = "README.md"
REPO_ID = re.compile(r"[\w-][\w.-]{0,95}(/[\w-][\w.-]{0,95})?", re.ASCII)


def push(
    model: TrainedModel, repo_id: str, *, private: bool = False, token: str | None = None, message: str | None = None
) -> str:
    """Upload a model with its card; returns the commit's URL."""
    hub = _library()
    if not isinstance(repo_id, str) or not REPO_ID.fullmatch(repo_id):
        raise RunError(f"{shown(str(repo_id), 150)!r} is not a repository name: use one such as user/model.")
    with tempfile.TemporaryDirectory(prefix="gedi-") as folder:
        runs.save(model, Path(folder))
        (Path(folder) / CARD).write_text(model_card(model, repo_id), encoding="utf-8")
        try:
            api = hub.HfApi(token=token, library_name="gedi", library_version=__version__)
            api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(
                repo_id=repo_id,
                folder_path=folder,
                allow_patterns=[*FILES, CARD],
                commit_message=message or "Upload a gedi model",
            )
        except Exception as error:  # the library's errors and those of the network under it share no base class
            raise _failed(f"{repo_id} could not be uploaded", error) from error
    return str(commit)


def pull(place: str | Path, *, revision: str | None = None, token: str | None = None) -> TrainedModel:
    """The model in a local folder, or in a repository of the hub if there is no such folder."""
    if Path(place).is_dir():
        return runs.load(place)
    if isinstance(place, Path) or not REPO_ID.fullmatch(place):
        raise RunError(f"{shown(str(place), 150)} is neither a folder nor a repository name such as user/model.")
    hub = _library()
    try:
        snapshot = hub.snapshot_download(place, revision=revision, token=token, allow_patterns=list(FILES))
    except Exception as error:
        raise _failed(f"{place} could not be downloaded", error) from error
    with tempfile.TemporaryDirectory(prefix="gedi-") as folder:
        _copy(Path(snapshot), Path(folder), place)
        try:
            return runs.load(folder)
        except RunError as error:
            raise RunError(str(error).replace(folder, place)) from error


def _copy(snapshot: Path, folder: Path, repo_id: str) -> None:
    """Copy a snapshot's files: the hub's cache holds links, which a RUN folder may not."""
    for name in FILES:
        limit = MODEL_BYTES if name == runs.MODEL else TEXT_BYTES
        path = snapshot / name
        if not path.is_file():
            continue
        if path.stat().st_size > limit:
            raise RunError(f"{name} of {repo_id} has {path.stat().st_size:,} bytes; the limit is {limit:,}.")
        shutil.copyfile(path, folder / name)


def model_card(model: TrainedModel, repo_id: str) -> str:
    """The page that the hub shows: what the model is, how it was made, how to load it."""
    results = model.results
    versions = mapping(results, "provenance", "versions")
    shape = " x ".join(map(str, model.image_shape)) + " images" if model.image_shape else f"{model.n_features} features"
    facts: dict[str, Any] = {
        "clusters": model.n_clusters,
        "input": shape,
        "method": results.get("method", "gedi"),
        "data": results.get("data"),
        "seed": model.seed,
        "training time": f"{results['seconds']:.0f} s" if isinstance(results.get("seconds"), int | float) else None,
        "objective": results.get("objective"),
        "made with": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "date": nested(results, "provenance", "date"),
    }
    scores = mapping(results, "scores")
    about = {"library_name": "gedi", "tags": ["gedi", "clustering", "self-supervised-learning", "energy-based-model"]}
    parts = [
        f"---\n{yaml.safe_dump(about, sort_keys=False)}---",
        f"# {_plain(repo_id)}",
        "A [GEDI](https://arxiv.org/abs/2212.13425) model: one network, trained without labels, that clusters, embeds, "
        "scores and generates.",
        f"```python\nfrom gedi import GEDI\n\nmodel = GEDI.from_pretrained({repo_id!r})\nmodel.predict(X)\n```",
        _table("trained", {name: value for name, value in facts.items() if value not in (None, "")}),
    ]
    if scores:
        parts += ["Agreement with the labels of the training data, which training never saw:", _table("score", scores)]
    parts.append("The files are safetensors, JSON and YAML: loading them runs no code.")
    return "\n\n".join(parts) + "\n"


def _table(head: str, rows: dict[str, Any]) -> str:
    texts = {name: f"{value:.4g}" if isinstance(value, float) else str(value) for name, value in rows.items()}
    lines = [f"| {_plain(str(name))} | {_plain(text)} |" for name, text in texts.items()]
    return "\n".join([f"| {head} | |", "|---|---|", *lines])


def _plain(text: str) -> str:
    """Text from a results file as plain text: no markup, no links, no new table cells."""
    return re.sub(r"([\\`*_\[\]<>|#!~])", r"\\\1", shown(text, 200))


def _library() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise RunError("Sharing models needs the package huggingface_hub: pip install 'gedi-ssl[hub]'.") from error
    return huggingface_hub


def _failed(what: str, error: Exception) -> RunError:
    return RunError(f"{what}: {shown(f'{type(error).__name__}: {error}', 250).rstrip('.')}.")
