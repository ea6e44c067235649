"""`gedi predict`, `gedi sample` and `gedi eval`: a trained run's answers and samples as files, and its metrics."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gedi.commands.terminal import err, out, say
from gedi.errors import DataError, RunError

if TYPE_CHECKING:
    import numpy as np

    from gedi.data import Dataset
    from gedi.training.model import TrainedModel

MOST_SAMPLED = 2**28  # in one draw of samples: 1 GiB in float32


def run_predict(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.data import check_block, stream
    from gedi.data.output import OUTPUT_SUFFIXES, check_new_file, new_table

    path = Path(args.out)
    check_new_file(path, OUTPUT_SUFFIXES)
    model = runs.load(args.model)
    data = stream(
        args.data, label_column=args.label_column, keep=args.keep, skip_broken=args.skip_broken, **model.reading
    )
    rows, shape = 0, model.image_shape
    if not model.has_density:
        say(err, f"{args.model} was trained without a density: log_density, typicality and ood_score are left out")
    elif model.typical_parts is None:
        say(err, f"{args.model} was saved by an older version of gedi: typicality is left out; fit again to have it")
    with new_table(path) as write:
        for part in data.parts:
            block = check_block(part.x, rows, n_features=model.n_features, name=args.data, image_shape=shape)
            names = {} if data.files is None else _image_column(data.files[rows : rows + len(block)])
            write(_beside(part.beside, names | prediction_columns(model, block, embed=args.embed)))
            rows += len(block)
    say(out, f"{rows:,} row{'' if rows == 1 else 's'} -> {args.out}")


def prediction_columns(model: TrainedModel, rows: np.ndarray, *, embed: bool = False) -> dict[str, np.ndarray]:
    """The model's answers for rows, one column each; scores only if a density was trained."""
    probability = model.predict_proba(rows)
    columns = {"cluster": probability.argmax(1), "probability": probability.max(1)}
    if model.has_density:
        columns["log_density"] = model.score_samples(rows)
        if model.typical_parts is not None:
            columns["typicality"] = model.typicality(rows)
        columns["ood_score"] = model.ood_score(rows)
        columns["cluster"] = model.leave_out(columns["cluster"], columns["log_density"])
    if embed:
        columns |= {f"embedding_{i}": column for i, column in enumerate(model.transform(rows).T)}
    return columns


def _beside(columns: Mapping[str, np.ndarray], answers: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Columns of the input, then the answers; an input column with the name of an answer is renamed."""
    return {f"{name} (input)" if name in answers else name: cells for name, cells in columns.items()} | answers


def _image_column(files: list[str]) -> dict[str, np.ndarray]:
    """The names of image files as a column; bytes that are not UTF-8 are escaped."""
    import numpy as np

    return {"image": np.array([name.encode("utf-8", "backslashreplace").decode() for name in files])}


def run_sample(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.data.output import OUTPUT_SUFFIXES, check_new_file, new_file, new_table
    from gedi.report.images import write_samples

    path = Path(args.out)
    check_new_file(path, (*OUTPUT_SUFFIXES, ".png"))
    model = runs.load(args.model)
    if not model.has_density:
        raise RunError(
            f"{args.model} was trained without a density, so there is nothing to sample from: fit with a method that "
            "has one, such as --method gedi or jem."
        )
    most = MOST_SAMPLED // model.n_features
    if args.n > most:
        raise DataError(
            f"-n asks for {args.n:,} samples, but at most {most:,} can be drawn at once: use several seeds."
        )
    options = {"seed": args.seed, "steps": args.steps, "fresh": args.fresh}
    if args.frames is not None:
        _write_frames(model, args, options)
        return
    samples = model.sample(args.n, **options)
    if path.suffix.lower() == ".png":
        with new_file(path, (".png",)) as part:
            write_samples(model, samples, part)
    else:
        columns = sample_columns(model, samples)
        with new_table(path) as write:
            write({"x": samples} if path.suffix.lower() == ".npz" else columns)
    say(out, f"{args.n} samples -> {args.out}")


def _write_frames(model: TrainedModel, args: argparse.Namespace, options: dict[str, Any]) -> None:
    """A picture of chains of images at several moments, one chain per row."""
    from gedi.data.output import new_file
    from gedi.report.images import write_samples

    path = Path(args.out)
    if model.image_shape is None or path.suffix.lower() != ".png" or args.frames < 2:
        raise DataError("--frames needs a run on images, --out FILE.png, and at least 2 frames.")
    paths = model.sample_paths(args.n, frames=args.frames, **options)
    with new_file(path, (".png",)) as part:
        write_samples(model, paths.reshape(-1, model.n_features), part, columns=args.frames)
    say(out, f"{args.n} chains, {args.frames} frames each -> {args.out}")


def sample_columns(model: TrainedModel, samples: np.ndarray) -> dict[str, np.ndarray]:
    """Samples as the training table would show them, one array per column."""
    import numpy as np

    if model.table is None or model.table.is_plain:
        names = model.columns or [f"x{i}" for i in range(model.n_features)]
        return dict(zip(names, samples.T, strict=True))
    shown = model.table.decode(samples)
    return {name: np.array([row[name] for row in shown], dtype=object) for name in shown[0]}


def run_eval(args: argparse.Namespace) -> None:
    from gedi import runs
    from gedi.evaluation import label_scores, ood_scores

    model = runs.load(args.model)
    options: dict[str, Any] = {"split": "test", "seed": args.seed, "skip_broken": args.skip_broken}
    data, rows = load_checked(model, args.data, label_column=args.labels, **options)
    scores: dict[str, Any] = {"data": data.name, "rows": len(rows)} | label_scores(model, rows, data.y)
    if not model.has_density:
        left_out = "mean_log_density and ood are" if args.ood else "mean_log_density is"
        say(err, f"{args.model} was trained without a density: {left_out} left out")
    else:
        scores["mean_log_density"] = float(model.score_samples(rows).mean())
        if args.ood:
            _, foreign = load_checked(model, args.ood, **options)
            scores["ood"] = {"data": args.ood} | ood_scores(model, rows, foreign)
            if model.typical_parts is None:
                say(err, f"{args.model} was saved by an older version of gedi: auroc_typicality is left out")
    sys.stdout.write(json.dumps(scores, indent=2) + "\n")


def load_checked(model: TrainedModel, name: str, **options: Any) -> tuple[Dataset, np.ndarray]:
    """Data read as the model expects it, and its checked rows."""
    from gedi.data import checked_blocks, load

    data = load(name, **options, **model.reading)
    (rows,) = checked_blocks([data.x], n_features=model.n_features, name=name, image_shape=model.image_shape)
    return data, rows
