"""Loads data sets by name, and files and folders by path."""

# pyright: reportMissingTypeStubs=false
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pooch

from gedi.data import arrays, mixed, official, pictures, streaming, tables, toys
from gedi.data.dataset import Dataset
from gedi.data.mixed import TableBlock
from gedi.data.table_recipe import TableRecipe
from gedi.data.tables import Wanted
from gedi.errors import DataError, did_you_mean

SHAPES = (toys.moons, toys.circles, toys.rings, toys.spirals, toys.links, toys.smile, toys.blobs)
SHAPES_OF_PAPER = (toys.paper_moons, toys.paper_circles)
TOYS = {shape.__name__.replace("_", "-"): shape for shape in SHAPES + SHAPES_OF_PAPER}
IMAGES = ("mnist", "fashion-mnist", "svhn", "cifar10", "cifar100")
NAMES = (*TOYS, "digits", "addition", *IMAGES)
SPLITS = ("train", "test")
TOY_ROWS = {"train": 2_000, "test": 1_000}
# Test points of a toy come from seed + 10,000: fresh points, far from the small seeds people train with.
TEST_SEED_OFFSET = 10_000
ADDITION_ROWS = 3_000


@dataclass(frozen=True, eq=False)
class Stream:
    """Data of any size, to be read once: blocks of rows [n, d] or of images [n, H, W, C], in order."""

    name: str
    parts: Iterator[TableBlock]
    files: list[str] | None = None  # names of the image files, if the data is a folder

    @property
    def blocks(self) -> Iterator[np.ndarray]:
        """The rows or images alone."""
        return (part.x for part in self.parts)


@dataclass(frozen=True)
class DatasetInfo:
    """One line of `gedi datasets`."""

    name: str
    kind: str  # "toy" or "images"
    where: str  # the file where it is expected, or what generates it
    present: bool
    rows: int | None  # training rows; None if not present, or packed in an archive


def load(
    data: str | Path,
    *,
    split: str = "train",
    n: int | None = None,
    seed: int = 0,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = (),
    raw: bool = False,
    table: TableRecipe | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    skip_broken: bool = False,
    as_values: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Dataset:
    """Load a data set by name, or a file, an image or a folder of images by path.

    Toys (moons, circles, rings, ...) have `n` points, by default 2,000 to train and 1,000 to test; the test points come
    from `seed + 10_000`. addition has `n` images of MNIST, by default 3,000, drawn with `seed` in consecutive triplets
    a, b, a + b; its test split is MNIST's. Other data has all rows, or a random subset of `n` rows drawn with `seed`.
    digits and files other than .npz are not split: 'train' and 'test' both give all rows.

    In a table, the column `label_column` (default: 'label', or 'y' if it holds classes) is not a feature;
    label_column="" makes every column a feature. Columns named in `drop` are left out (None: the caller cannot drop
    any, so no message suggests it). `columns` names the features, in order; other columns are ignored.

    A table that holds more than plain numbers (gaps, categories, dates, units, ids) is turned into features, and
    `Dataset.table` says how; with `raw`, or if `columns` are named, it is refused. `table`, the recipe of another
    data set, reads new data in the same way.

    Images are resized to `size` (32 by default; a pair is height, width). They have one channel if all are
    grey and three otherwise, unless `channels` is given. Files that cannot be read are an error, unless `skip_broken`
    leaves them out with a warning. Their pixels are bytes; `as_values`, if given, converts them.
    Sub-folders 'train' and 'test', if both exist, are the splits; other sub-folders are labels, unless
    label_column="".

    Arrays of more than 1 GiB stay on disk and are read when needed: see `gedi.data.streaming`.
    """
    if split not in SPLITS:
        raise DataError(f"The split must be 'train' or 'test', got {split!r}.")
    if n is not None and n < 1:
        raise DataError(f"The number of rows to load must be at least 1, got n={n}.")
    if drop and not str(data).lower().endswith(tables.TABLE_SUFFIXES):
        raise DataError(f"{data} has no named columns, so {drop[0]!r} cannot be dropped.")
    if _is_name(data):
        return _named(str(data).lower(), split, n, seed)
    path, wanted = Path(data).expanduser(), Wanted(label_column, columns, drop, raw)
    if path.is_dir() or _is_picture(path):
        inside = path / split if all((path / s).is_dir() for s in SPLITS) else path
        labels, name = label_column != "", path.resolve().name if path.is_dir() else path.stem
        found = pictures.read_folder(inside, size=size, channels=channels, labels=labels, skip_broken=skip_broken)
        found = _subset(replace(found, name=name), n, seed)
        return found if as_values is None else replace(found, x=as_values(found.x))
    if not path.exists():
        raise _not_found(data, path)
    if path.suffix.lower() not in tables.TABLE_SUFFIXES:
        return _subset(arrays.read(path, split), n, seed)
    if table is not None:
        wanted = replace(wanted, features=[column.name for column in table.used])
        return _subset(mixed.read_by_recipe(path, wanted, table), n, seed)
    return _subset(mixed.read_table(path, wanted), n, seed)


def stream(
    data: str | Path,
    *,
    split: str = "train",
    seed: int = 0,
    label_column: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = (),
    table: TableRecipe | None = None,
    keep: bool = False,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    skip_broken: bool = False,
    as_values: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Stream:
    """The rows of ``load``, without labels, a block at a time: a file may be larger than memory.

    A table that is not plain numbers needs `table`, the recipe to read it with. Its blocks then come with the ids of
    their rows or, with `keep`, with all columns of the file.
    """
    path = Path(data).expanduser()
    if _is_name(data) or _is_picture(path) or not path.is_file():
        images: dict[str, Any] = {"size": size, "channels": channels, "skip_broken": skip_broken}
        named = {"split": split, "seed": seed, "label_column": label_column, "drop": drop}
        whole = load(data, **named, **images, as_values=as_values)
        return Stream(whole.name, map(TableBlock, arrays.array_blocks(whole.x)), whole.files)
    if path.suffix.lower() not in tables.TABLE_SUFFIXES:
        if keep:
            raise DataError(f"{data} has no named columns to keep: leave out --keep.")
        return Stream(path.stem, map(TableBlock, arrays.read_blocks(path, split)))
    if table is not None:
        wanted = Wanted(label_column, [column.name for column in table.used], drop)
        file, rows = tables.open_table(path, wanted), arrays.block_rows(len(table.features))
        return Stream(path.stem, mixed.recipe_blocks(file, wanted, table, rows, keep=keep))
    if keep:
        raise DataError(f"The run does not know the columns of its training table, so those of {data} cannot be kept.")
    wanted = Wanted(label_column, columns, drop, raw=True)
    file = tables.open_table(path, wanted)
    return Stream(path.stem, mixed.plain_blocks(file, file.choose(wanted), wanted, arrays.block_rows(len(file.names))))


def data_dir() -> Path:
    """The folder of named image sets: $GEDI_DATA, or the user's cache."""
    return Path(os.environ.get("GEDI_DATA") or pooch.os_cache("gedi")).expanduser()


def known_datasets() -> list[DatasetInfo]:
    """Every name that `load` knows, where its data is expected, and whether it is there."""
    found = [DatasetInfo(name, "toy", "generated from a seed", True, TOY_ROWS["train"]) for name in TOYS]
    found.append(DatasetInfo("digits", "images", "scikit-learn", True, 1_797))
    mnist = _image_set("mnist")
    rows = ADDITION_ROWS if mnist.present else None
    found.append(DatasetInfo("addition", "images", f"triplets from {mnist.where}", mnist.present, rows))
    return found + [_image_set(name) for name in IMAGES]


def _image_set(name: str) -> DatasetInfo:
    path = data_dir() / f"{name}.npz"
    there = None if path.is_file() else official.find_files(name, "train", data_dir())
    where = str(path if there is None else there.where)
    try:
        if there is not None:
            return DatasetInfo(name, "images", where, True, there.count())
        with streaming.open_numpy(path) as archive:  # the array of labels is small
            return DatasetInfo(name, "images", where, True, len(arrays.archive_array(archive, "y_train", path)))
    except DataError:
        return DatasetInfo(name, "images", where, False, None)


def _is_name(data: str | Path) -> bool:
    return isinstance(data, str) and data.lower() in NAMES


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in pictures.PICTURE_SUFFIXES and path.is_file()


def _named(name: str, split: str, n: int | None, seed: int) -> Dataset:
    if name in TOYS:
        rows = TOY_ROWS[split] if n is None else n
        x, y = TOYS[name](rows, seed=seed + (TEST_SEED_OFFSET if split == "test" else 0))
        return Dataset(name, x, y, [f"x{i}" for i in range(x.shape[1])])
    if name == "addition":
        return _addition(split, n, seed)
    return _subset(_digits() if name == "digits" else _named_images(name, split), n, seed)


def _addition(split: str, n: int | None, seed: int) -> Dataset:
    images = _named_images("mnist", split)
    if split == "test":
        return replace(_subset(images, n, seed), name="addition")
    rows = ADDITION_ROWS if n is None else n
    if rows % 3:
        raise DataError(f"addition consists of triplets of images: n must be a multiple of 3, got {rows}.")
    if images.y is None:
        raise DataError("addition needs the labels of mnist to know which images add up, but there are none.")
    places = toys.triplets(images.y, rows // 3, seed=seed).ravel()
    return replace(images, name="addition", x=streaming.take(images.x, places), y=images.y[places])


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    found = cast(Any, load_digits(return_X_y=True))
    x, y = np.asarray(found[0], dtype=np.float32), np.asarray(found[1], dtype=np.int64)
    return Dataset("digits", x, y, None, (8, 8, 1))


def _named_images(name: str, split: str) -> Dataset:
    path = data_dir() / f"{name}.npz"
    if path.is_file():
        content = arrays.read(path, split)
        if content.image_shape is None:
            raise DataError(f"{path} should hold images [n, H, W, C], but x_{split} has shape {content.x.shape}.")
        return Dataset(name, content.x, content.y, None, content.image_shape)
    there = official.find_files(name, split, data_dir())
    if there is None:
        raise DataError(
            f"The data set {name} is not at {path}: download it with 'gedi fetch {name}', put its official files or a "
            f"{name}.npz with the arrays x_train, y_train, x_test, y_test (uint8 images [n, H, W, C], int64 labels) in "
            "that folder, or set GEDI_DATA to the folder that has it."
        )
    x, y = there.read()
    return Dataset(name, x, y, None, x.shape[1:])


def _not_found(data: str | Path, path: Path) -> DataError:
    looks_like_path = isinstance(data, Path) or path.suffix or len(path.parts) > 1
    if looks_like_path:
        return DataError(f"There is no file {path}: check the path.")
    hint = did_you_mean(str(data).lower(), NAMES)
    return DataError(f"There is no data set (and no file) called {str(data)!r}{hint}")


def _subset(data: Dataset, n: int | None, seed: int) -> Dataset:
    if n is None:
        return data
    if data.groups is not None:
        raise DataError(f"{data.name} has groups of rows that belong together: load all rows instead of n={n}.")
    if n > len(data.x):
        raise DataError(f"{data.name} has only {len(data.x)} rows, got n={n}: ask for fewer.")
    keep = np.sort(np.random.default_rng(seed).choice(len(data.x), n, replace=False))
    y = None if data.y is None else data.y[keep]
    names = None if data.files is None else [data.files[int(i)] for i in keep]
    ids = None if data.ids is None else {name: cells[keep] for name, cells in data.ids.items()}
    return replace(data, x=streaming.take(data.x, keep), y=y, files=names, ids=ids)
