"""The committed settings of the published rows: what the presets give, and what `gedi fit --config` reads."""

import re
from pathlib import Path

import pytest

from gedi.cli import build_parser
from gedi.commands.fit import _config_file
from gedi.experiments import budget
from gedi.experiments.configs import files, write
from gedi.experiments.image_cells import ImageCell, image_cells
from gedi.training.presets import configure

FOLDER = Path(__file__).parent.parent / "configs"
PATHS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.glob("*/*.yaml"))


@pytest.fixture(scope="module")
def made():
    """The content of every file by its path, as the presets give it."""
    return files()


def cell_of(path) -> ImageCell:
    scale, name = path.split("/")
    _, data, row = name.removesuffix(".yaml").split("-", 2)
    (cell,) = image_cells(budget(scale, 1, laptop_seeds=1), data, row)
    return cell


def test_the_files_are_up_to_date_with_the_presets(made):
    there = {p.relative_to(FOLDER).as_posix(): p.read_text(encoding="utf-8") for p in FOLDER.rglob("*") if p.is_file()}
    assert there == made, "a preset has changed: run python -m gedi.experiments.configs configs"


def test_every_published_row_is_there_at_every_scale():
    names = {path.split("/")[1] for path in PATHS}
    assert len(names) == 3 * 8 and len(PATHS) == 3 * len(names)
    assert {
        "table2-svhn-gedi.yaml",
        "table2-cifar100-swav.yaml",
        "table3-cifar10-no-nf.yaml",
        "table3-svhn-with-nf.yaml",
    } <= names


@pytest.mark.parametrize("path", PATHS)
def test_a_file_is_read_back_as_the_rows_settings(path):
    cell = cell_of(path)
    given = _config_file(str(FOLDER / path))
    for method in {"gedi", cell.method}:  # the file says it all, whether the method is named or not
        read = configure(None, method, given, n_features=3072, image_shape=(32, 32, 3))
        assert read == cell.config()


@pytest.mark.parametrize("path", PATHS)
def test_a_file_names_its_row_and_a_command_that_parses(path):
    row, command, *_ = (FOLDER / path).read_text(encoding="utf-8").splitlines()
    cell = cell_of(path)
    assert re.fullmatch(r"# Table [23] of the paper, .+ on (SVHN|CIFAR-10|CIFAR-100), scale \w+:", row)
    args = build_parser().parse_args(command.removeprefix("# gedi ").split())
    assert (args.data, args.n_clusters, args.method) == (cell.dataset, cell.n_clusters, cell.method)
    assert args.config == f"configs/{path}"


def test_files_of_removed_rows_are_deleted_and_other_files_are_kept(tmp_path):
    (tmp_path / "paper").mkdir()
    old, mine = tmp_path / "paper" / "table2-svhn-dino.yaml", tmp_path / "paper" / "mine.yaml"
    old.write_text("x"), mine.write_text("x")
    write(tmp_path)
    assert not old.exists() and mine.exists() and len(list(tmp_path.rglob("table*.yaml"))) == len(PATHS)
