"""Runs small enough to test what Algorithm 2 does, not how well it does it."""

import numpy as np
import pytest
import torch

from gedi.data.augment import row_augmentation
from gedi.training.build import fill_from_data
from gedi.training.config import TrainingConfig, override
from gedi.training.engine import Engine
from gedi.training.model import fit_rows
from gedi.training.presets import preset

TINY = {
    "step1.iterations": 4,
    "step2.iterations": 6,
    "step1.batch_size": 32,
    "step2.batch_size": 32,
    "sampler.buffer_size": 64,
    "start.nodes": 8,
}


@pytest.fixture(scope="session")
def blobs():
    """Two clear groups of rows, 40 + 40."""
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(-2, 0.3, (40, 2)), rng.normal(2, 0.3, (40, 2))]).astype(np.float32)


@pytest.fixture(scope="session")
def tiny():
    """A function: settings of a run of a few iterations, with changes."""

    def make(**changes) -> TrainingConfig:
        return override(preset("smoke", n_features=2), TINY | {k.replace("__", "."): v for k, v in changes.items()})

    return make


@pytest.fixture(scope="session")
def make_engine(blobs):
    """A function: the engine of a run on the blobs."""

    def make(config: TrainingConfig, *, seed: int = 0, on_progress=None) -> Engine:
        config = fill_from_data(config, blobs)
        rows = torch.from_numpy(blobs)
        augment = row_augmentation(config.augment, rows)
        return Engine(config, rows, 2, seed=seed, augment=augment, on_progress=on_progress)

    return make


@pytest.fixture(scope="session")
def fitted(blobs, tiny):
    """A model trained for a few iterations."""
    return fit_rows(blobs, n_clusters=2, config=tiny(), seed=0)
