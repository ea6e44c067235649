"""`gedi predict` and `gedi sample`: a trained run's answers and samples, as files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gedi.errors import DataError
from gedi.report.terminal import out, say

if TYPE_CHECKING:
    import numpy as np

    from gedi.data import Stream
    from gedi.training.model import TrainedModel

MOST_VALUES = 2**28  # of one draw of samples: 1 GiB in float32


def run_predict(args: argparse.Namespace) -> None:
    from gedi.data import stream
    from gedi.data.output import TABLES, check_new, new_table
    from gedi.report.tables import prediction_columns
    from gedi.training import runs

    path = Path(args.out)
    check_new(path, TABLES)
    model = runs.load(args.model)
    rows = 0
    with new_table(path) as write:
        for block in checked_blocks(model, stream(args.data, label_column=args.label_column), args.data):
            write(prediction_columns(model, block, embed=args.embed))
            rows += len(block)
    say(out, f"{rows} rows -> {args.out}")


def checked_blocks(model: TrainedModel, data: Stream, name: str) -> Iterator[np.ndarray]:
    """Blocks of finite rows [n, d] with the features the run was trained on."""
    from gedi.data import check_rows

    first = 0
    for block in data.blocks:
        flat = block.reshape(len(block), -1) if len(block) else block.reshape(0, 1)
        rows = check_rows(flat, n_clusters=None, allow_single_row=True, first_row=first)
        if rows.shape[1] != model.n_features:
            raise DataError(f"{name} has {rows.shape[1]} features, but the run was trained on {model.n_features}.")
        yield rows
        first += len(rows)


def run_sample(args: argparse.Namespace) -> None:
    from gedi.data.output import TABLES, check_new, new_file, new_table
    from gedi.report.tables import write_samples
    from gedi.training import runs

    path = Path(args.out)
    check_new(path, (*TABLES, ".png"))
    model = runs.load(args.model)
    most = MOST_VALUES // model.n_features
    if args.n > most:
        raise DataError(f"{args.n:,} samples were asked for, at most {most:,} are drawn at once: use several --seed.")
    samples = model.sample(args.n, seed=args.seed)
    if path.suffix.lower() == ".png":
        with new_file(path, (".png",)) as part:
            write_samples(model, samples, part)
    else:
        columns = {f"x{i}": column for i, column in enumerate(samples.T)}
        with new_table(path) as write:
            write({"x": samples} if path.suffix.lower() == ".npz" else columns)
    say(out, f"{args.n} samples -> {args.out}")
