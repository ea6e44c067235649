"""Loads data: named data sets, files and folders of images, with checks and scaling."""

from gedi.data import toys
from gedi.data.checks import check_block, check_rows, checked_blocks
from gedi.data.dataset import Dataset
from gedi.data.downloads import fetch
from gedi.data.scaling import Scaler
from gedi.data.sources import NAMES, DatasetInfo, Stream, known_datasets, load, stream
from gedi.data.streaming import batches
from gedi.data.table_recipe import Column, TableRecipe

__all__ = [
    "NAMES",
    "Column",
    "Dataset",
    "DatasetInfo",
    "Scaler",
    "Stream",
    "TableRecipe",
    "batches",
    "check_block",
    "check_rows",
    "checked_blocks",
    "fetch",
    "known_datasets",
    "load",
    "stream",
    "toys",
]
