"""Arrays come in here: named data sets, files, checks and scaling."""

from gedi.data import toys
from gedi.data.checks import check_rows
from gedi.data.scaling import Scaler
from gedi.data.sources import NAMES, Dataset, DatasetInfo, known_datasets, load

__all__ = ["NAMES", "Dataset", "DatasetInfo", "Scaler", "check_rows", "known_datasets", "load", "toys"]
