"""Does a refactoring change any number? Seeded fits of two revisions, compared bit for bit.

    python benchmarks/same_weights.py 631a9ee            # against the working tree
    python benchmarks/same_weights.py 631a9ee v0.2.0     # against another revision
    python benchmarks/same_weights.py 631a9ee --only toy # cases whose name contains "toy"

Each case is a fit of a few iterations through the public `GEDI`. Its fingerprint covers every tensor of the saved model
and what the model then says about its rows. Settings of all laptop-scale experiments are compared too, because their
fits are cached by settings. Exit code 1 if anything differs.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from machine import ROOT, arguments, checkout, environment

SHORT = {
    "step1.iterations": 12,
    "step2.iterations": 16,
    "step1.batch_size": 64,
    "step2.batch_size": 64,
    "sampler.buffer_size": 100,
}
NO_STEP1 = {"step1.iterations": 0}
ONE_HEAD = {"net.head": "projector", "heads.random": 1, "heads.starts": [], "heads.neutral": 0}
VARIANTS: dict[str, dict[str, Any]] = {
    "two heads": {"heads.random": 2},
    "two encoders": {"net.two_encoders": True},
    "no step 1": NO_STEP1,
    "random heads only": {"heads.starts": []},
    "starts alone": {"heads.random": 0},
    "one head on a projector": ONE_HEAD,
    "density every third": {"objective.generative.every": 3, "dam.every": 2},
    "unbounded sampler": {"sampler.clamp": False, "sampler.max_gap": None, "sampler.burn_in": None},
    "rollbacks": {"guard.max_gradient": 38.0, "guard.every": 5, "guard.tries": 8},
}


def cases() -> dict[str, dict[str, Any]]:
    """Arguments of `GEDI` and the data's name, by the case's name: all methods, and all terms but constraints."""
    from gedi.objectives.term import kinds
    from gedi.training.config import TrainingConfig
    from gedi.training.methods import METHODS, with_method
    from gedi.training.state import TRAINED

    found: dict[str, dict[str, Any]] = {}

    def add(name: str, data: str, changes: dict[str, Any], **options: Any) -> None:
        found[name] = {"data": data, "training": SHORT | changes, **options}

    add("preset toy", "moons", {})
    add("preset rows", "rows", {})
    add("preset digits", "digits", {})
    add("preset grey", "grey", {})
    add("preset images", "pictures", {"net.representation": 8})
    add("preset smoke", "moons", {}, preset="smoke")
    add("preset smoke, images", "pictures", {}, preset="smoke")
    add("preset paper", "moons", {}, preset="paper")
    add("preset paper-jem", "moons", {"step2.iterations": 0}, preset="paper-jem", method="jem")
    for name in ("svhn", "cifar10", "cifar100", "mnist"):
        data = "grey" if name == "mnist" else "pictures"
        narrow = {"net.representation": 8, "net.embedding": 8, "sampler.steps": 2, "dam.steps": 2}
        add(f"preset paper-{name}", data, narrow, preset=f"paper-{name}")
    for method in METHODS:
        config = with_method(TrainingConfig(), method)
        changes = {f"{stage}.iterations": 0 for stage in TRAINED if not getattr(config, stage).iterations}
        add(f"method {method}, toy", "moons", changes, method=method)
        if method not in ("gedi", "gedi-1"):
            add(f"method {method}, digits", "digits", changes, method=method)
    for family, members in kinds().items():
        for kind in members if family != "symbolic" else ():
            needed = ONE_HEAD | {"objective.clustering.dam": 0.0} if kind == "kmeans" else {}
            changes = {f"objective.{family}.kind": kind} | needed
            add(f"term {family}.{kind}", "moons", changes, preset="smoke")
    for name, changes in VARIANTS.items():
        add(name, "moons", changes, preset="smoke")
    rule = "a, b, c : 4\na + b == c\n"
    for kind in ("walks", "neighbours", "kmeans"):
        add(f"constraint, start {kind}", "moons", {"heads.starts": [kind]}, preset="smoke", constraint=rule)
    add("constraint, digits", "digits", {}, constraint=rule)
    return found


def rows_of(name: str) -> Any:
    import numpy as np
    from sklearn.datasets import load_digits, make_blobs, make_moons

    rng = np.random.default_rng(0)
    if name == "moons":
        return make_moons(240, noise=0.05, random_state=0)[0]
    if name == "rows":
        return make_blobs(240, n_features=12, centers=4, random_state=0)[0]
    if name == "digits":
        return load_digits().images[:240]
    channels = 1 if name == "grey" else 3
    return rng.integers(0, 256, (66, 18, 18, channels), dtype=np.uint8)


def fingerprint(arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()[:16]


def fit(data: str, **options: Any) -> str:
    from safetensors.numpy import load_file

    from gedi import GEDI

    x = rows_of(data)
    constraint = options.pop("constraint", None)
    model = GEDI(n_clusters=4, random_state=0, constraint=constraint, **options).fit(x)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/run")
        arrays = dict(load_file(f"{folder}/run/model.safetensors"))
    arrays |= {"answer/labels": model.labels_, "answer/proba": model.predict_proba(x), "answer/z": model.transform(x)}
    arrays |= {"answer/log p": model.score_samples(x), "answer/samples": model.sample(5)}
    return fingerprint(arrays)


def published_keys() -> dict[str, str]:
    """For each experiment at laptop scale, a digest of the keys of the cells it asks for; nothing is fitted."""
    import importlib
    import pkgutil

    import gedi.experiments

    class Asked(Exception):
        """Carries the keys out of the experiment, before it fits anything."""

    def ask(cells: Any, *_: Any, **__: Any) -> Any:
        raise Asked(*sorted({cell.key for cell in cells}))

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("it has no cells")

    for found in pkgutil.iter_modules(gedi.experiments.__path__):
        module = importlib.import_module(f"gedi.experiments.{found.name}")
        for name in ("run_cells", "in_processes", "fit_rows", "fit_prepared"):
            if hasattr(module, name):
                setattr(module, name, ask if name == "run_cells" else refuse)
    keys: dict[str, str] = {}
    for name, experiment in gedi.experiments.EXPERIMENTS.items():
        try:
            with tempfile.TemporaryDirectory() as folder:
                experiment.run(scale="laptop", seeds=None, out=Path(folder), jobs=1, say=lambda line: None)
        except Asked as asked:
            digest = hashlib.sha256(json.dumps(asked.args).encode()).hexdigest()[:12]
            keys[f"cells of {name}"] = f"{len(asked.args)} fits {digest}"
        except Exception as error:  # it has no cells, or its data are not here
            keys[f"cells of {name}"] = str(error)
    return keys


def report(chosen: dict[str, dict[str, Any]], only: str) -> None:
    """Run the chosen cases with the gedi on the path; one JSON line each."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, case in chosen.items():
        try:
            found = fit(**case)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        print(json.dumps([name, found]), flush=True)
    if not only or "cells" in only:
        for name, found in published_keys().items():
            if only in name:
                print(json.dumps([name, found]), flush=True)


def run(source: Path, chosen: dict[str, dict[str, Any]], only: str) -> dict[str, str]:
    """Fingerprints of the chosen cases, by the code in ``source``."""
    command = [sys.executable, __file__, "--child", json.dumps(chosen), "--only", only]
    done = subprocess.run(command, env=environment(source), stdout=subprocess.PIPE, text=True, check=True, cwd=source)
    return dict(json.loads(line) for line in done.stdout.splitlines())


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument(
        "before", nargs="?", help="revision to compare with, or a file with the lines that --child printed for it"
    )
    parser.add_argument("after", nargs="?", help="default: the working tree")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name contains this")
    parser.add_argument(
        "--child",
        nargs="?",
        const="",
        metavar="CASES",
        help="only print the fingerprints of the gedi on the path (CASES: those of another revision, as JSON)",
    )
    args = parser.parse_args()
    if args.child:  # an earlier revision may not have the registries that cases() reads
        chosen = json.loads(args.child)
    else:
        chosen = {name: case for name, case in cases().items() if args.only in name}
    if args.child is not None:
        report(chosen, args.only)
        return 0
    if args.before is None:
        parser.error("give the revision to compare with")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        if Path(args.before).is_file():
            kept = dict(json.loads(line) for line in Path(args.before).read_text(encoding="utf-8").splitlines())
            before = {name: found for name, found in kept.items() if args.only in name}
        else:
            before = run(checkout(args.before, Path(one)), chosen, args.only)
        after = run(ROOT if args.after is None else checkout(args.after, Path(two)), chosen, args.only)
    different = [name for name in before | after if before.get(name) != after.get(name)]
    for name in before | after:
        mark, now = ("DIFFERS", f"  now {after.get(name, '-')[:200]}") if name in different else ("same   ", "")
        print(f"{mark}  {name:34} {before.get(name, '-')[:60]}{now}")
    print(f"{len(before | after) - len(different)} the same, {len(different)} different")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
