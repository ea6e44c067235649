"""Building a run: lengths come from the data, weights from the generator."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch

from gedi.objectives.symbolic import constraint_change
from gedi.settings import types_of
from gedi.training import build
from gedi.training.build import assemble, build_net, enough_rows, fill_from_data, prepare, spacing
from gedi.training.config import NetConfig, TrainingConfig, override
from gedi.training.encoder_registry import ENCODERS
from gedi.training.engine import Engine
from gedi.training.presets import preset

OPEN = ("net.frequency", "sampler.noise", "sampler.final_noise", "sampler.data_noise", "dam.radius", "augment.noise")


def at(config, path):
    group, name = path.split(".")
    return getattr(getattr(config, group), name)


@pytest.mark.parametrize("factor", [0.01, 3.0, 1000.0])
def test_resolution_scales_with_the_data(blobs, factor):
    before, after = spacing(blobs), spacing(blobs * factor)
    assert after.resolution == pytest.approx(factor * before.resolution, rel=1e-4)
    assert after.sparsity == pytest.approx(before.sparsity, rel=1e-4)


def test_resolution_is_a_neighbour_distance_per_dimension():
    line = np.arange(1000, dtype=np.float64)[:, None]
    assert spacing(line).resolution == pytest.approx(5.0)  # on a line, ten neighbours are five on each side
    assert spacing(np.hstack([line] * 4)).resolution == pytest.approx(5.0)


def test_rows_without_a_scale_get_a_usable_one():
    assert spacing(np.zeros((50, 3))).resolution > 0


def test_waves_are_slower_only_if_some_rows_are_much_sparser_than_the_rest():
    rng = np.random.default_rng(0)
    dense, sparse = 0.02 * rng.standard_normal((900, 2)), 4 + rng.standard_normal((100, 2))
    assert spacing(dense).sparsity == 1.0  # the rows at its edge are a few times sparser
    ready = prepare(np.vstack([dense, sparse]), preset("smoke", n_features=2), 2)
    assert ready.sparsity > 10
    frequencies = [
        Engine(replace(ready, sparsity=ratio), seed=0).state.net.encoder.linears[0].weight.detach().norm(dim=1)
        for ratio in (1.0, ready.sparsity)
    ]
    ratios = frequencies[0] / frequencies[1]
    assert ratios[0] == pytest.approx(1.0) and ratios[-1] == pytest.approx(ready.sparsity, rel=1e-3)
    assert bool((ratios.diff() > 0).all())
    given = override(preset("smoke", n_features=2), {"net.frequency": 3.0})
    assert prepare(np.vstack([dense, sparse]), given, 2).sparsity == 1.0  # a frequency that was asked for is kept


def test_every_open_length_is_set_from_the_resolution(blobs):
    assert all(at(TrainingConfig(), path) is None for path in OPEN)
    config, unit = fill_from_data(TrainingConfig(), blobs)[0], spacing(blobs).resolution
    assert [at(config, path) for path in OPEN] == pytest.approx(
        [0.3 / (unit * 2**0.5), 3 * unit, 0.75 * unit, 0.75 * unit, unit, unit]
    )


@pytest.mark.parametrize("path", OPEN)
def test_a_length_that_was_given_is_left_alone(blobs, path):
    assert at(fill_from_data(override(TrainingConfig(), {path: 0.123}), blobs)[0], path) == 0.123


def test_filling_works_on_a_copy_and_leaves_the_temperature_open(blobs):
    before = TrainingConfig()
    after, _ = fill_from_data(before, blobs)
    assert before == TrainingConfig()
    assert after.sampler.step is None


def test_the_setting_allows_every_encoder_of_the_registry():
    assert get_args(types_of(NetConfig)["encoder"]) == tuple(ENCODERS)


@pytest.mark.parametrize(("random", "expected"), [(0, 1), (1, 1), (5, 5)])
def test_a_start_needs_a_head_to_learn_it(random, expected):
    config = override(TrainingConfig(), {"heads.random": random, "net.frequency": 1.0})
    assert assemble(config, 3, 4).clusters.n_heads == expected


def weights(seed):
    return build_net(
        TrainingConfig(net=NetConfig(frequency=1.0)), 3, 4, torch.Generator().manual_seed(seed)
    ).state_dict()


def test_weights_depend_on_the_generator_alone():
    torch.manual_seed(1)
    one = weights(0)
    torch.manual_seed(2)
    two = weights(0)
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not torch.equal(one["energy_head.weight"], weights(1)["energy_head.weight"])


def test_building_leaves_torchs_own_random_numbers_alone():
    before = torch.get_rng_state()
    weights(0)
    assert torch.equal(torch.get_rng_state(), before)


# ---- very many rows ----


@pytest.mark.parametrize(("iterations", "expected"), [(20, 50), (60, 60), (200, 70)])
def test_rows_that_training_would_hardly_see_are_left_out(monkeypatch, iterations, expected):
    """At most as many rows as are drawn four times each on average, never fewer than are always enough."""
    monkeypatch.setattr(build, "ALWAYS_ENOUGH", 50)
    config = override(
        TrainingConfig(),
        {"step1": {"iterations": 5, "batch_size": 4}, "step2": {"iterations": iterations - 5, "batch_size": 4}},
    )
    x = np.arange(70.0)[:, None]
    kept = enough_rows(x, config)[:, 0]
    assert len(kept) == expected == len(set(kept)) and list(kept) == sorted(kept)
    assert list(kept) == list(enough_rows(x, config)[:, 0])


def test_groups_of_a_constraint_and_mapped_files_keep_all_rows(monkeypatch, tmp_path, tiny):
    monkeypatch.setattr(build, "ALWAYS_ENOUGH", 50)
    few = {"step1.iterations": 1, "step2.iterations": 1}
    x = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert enough_rows(mapped, override(TrainingConfig(), few)) is mapped
    assert len(prepare(x, override(tiny(), few), 2).rows) == 50
    rule = override(tiny(), few, constraint_change("a, b : 2\na == b"))
    assert len(prepare(x, rule, 2).rows) == 60
