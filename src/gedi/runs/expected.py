"""What the files of a run can hold: settings that make sense, and the tensors those settings imply, and no others.

Sizes are worked out on torch's meta device, which knows shapes and reserves nothing.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gedi.data import Scaler
from gedi.errors import ConfigError
from gedi.files.reading import LONGEST_INTEGER, shown
from gedi.files.tensors import Layout, Spec, check_layout
from gedi.logic.text import check_text
from gedi.nets import GediNet
from gedi.sampling import Box
from gedi.training.build import assemble, build_net
from gedi.training.config import TrainingConfig, from_dict, get, longest_queue, paths
from gedi.training.state import TrainState
from gedi.training.world import Hardware

NUMBERS = 2**28  # of one network, of one replay buffer, of one queue: 1 GiB each
MODEL_BYTES = 2**31  # a network and its chains
CHECKPOINT_BYTES = 2**34  # two states of seven copies of the network (moments, averages, best), buffer and queue
LONGEST_SETTING = 64  # entries of a list
RULE = "/objective/symbolic/rule"
NEVER_NEGATIVE = ("running_var", "exp_avg_sq", "/step")
F32 = torch.float32

# -- settings ---------------------------------------------------------------------------------------------------------


def whole_number(settings: Mapping[str, Any], name: str, least: int = -LONGEST_INTEGER, most: int = 2**63) -> int:
    """A whole number among settings, in its range."""
    value = settings[name]
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is not a whole number that makes sense: {shown(repr(value))}")
    return value


def training_settings(values: Any) -> TrainingConfig:
    """The typed settings of ``training`` in a YAML file."""
    if not isinstance(values, dict):
        raise ValueError("'training' is not a mapping of settings")
    _check_plain(values)
    config = from_dict(values)
    for path in paths(config):
        if (value := get(config, path)) != value:
            raise ConfigError(f"training.{path} is not a number.")
    return config


def _check_plain(value: Any, where: str = "") -> None:
    """Words and short lists: the parser of settings would read a longer text as YAML of its own."""
    if isinstance(value, dict):
        for name, item in value.items():
            _check_plain(item, f"{where}/{name}")
    elif where == RULE and isinstance(value, str):  # text by its type, and read by the constraint language alone
        check_text(value)
    elif isinstance(value, list):
        if len(value) > LONGEST_SETTING or any(isinstance(item, list | dict | str) for item in value):
            raise ValueError(f"a list of settings is not of numbers, or has more than {LONGEST_SETTING} entries")
    elif isinstance(value, str) and not re.fullmatch(r"[A-Za-z0-9_.+-]{1,40}", value):
        raise ValueError(f"the setting {shown(value)!r} is not a word")


def scaler_of(state: Any, n_features: int) -> Scaler:
    """The scaler of a model of ``n_features``."""
    scaler = Scaler.from_state(state)
    assert scaler.centre is not None and scaler.scale is not None
    shapes = {"feature": (n_features,), "global": (), "pixels": (), "none": ()}
    if not isinstance(scaler.mode, str) or scaler.mode not in shapes:
        raise ValueError("the scaler's mode is not known")
    if scaler.centre.shape != (n_features,) or scaler.scale.shape != shapes[scaler.mode]:
        raise ValueError(f"the scaler is not one of {n_features} features")
    if not np.isfinite(scaler.centre).all() or not (np.isfinite(scaler.scale) & (scaler.scale > 0)).all():
        raise ValueError("the scaler holds numbers that cannot scale")
    return scaler


def image_shape_of(value: Any, n_features: int) -> tuple[int, ...] | None:
    """(H, W, C) of rows that are images, None for other rows."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != 3 or not all(type(n) is int and n > 0 for n in value):
        raise ValueError(f"image_shape is not [height, width, channels]: {shown(repr(value))}")
    if math.prod(value) != n_features:
        raise ValueError(f"image_shape {value} does not make {n_features} features")
    return tuple(value)


def hardware_of(values: Any) -> Hardware:
    """Where a run trains, as its plan has it."""
    if not isinstance(values, dict) or not values.keys() <= {field.name for field in fields(Hardware)}:
        raise ValueError("'hardware' is not a mapping of what is known about devices")
    hardware = Hardware(**values)
    words = {"device": ("auto", "cpu", "cuda", "mps"), "precision": ("32", "bf16-mixed")}
    if any(getattr(hardware, name) not in known for name, known in words.items()):
        raise ValueError("'hardware' names a device or precision that is not known")
    most = {"devices": max(os.cpu_count() or 1, torch.cuda.device_count()), "nodes": 2**16}
    for name in most:
        # Each is a process: nobody's file may ask for more of them here than this machine has cores or devices.
        whole_number({name: getattr(hardware, name)}, name, least=1, most=most[name])
    if not _is_number(hardware.timeout) or not 0 < hardware.timeout < 1e7:
        raise ValueError("'hardware' has a timeout that is not a time")
    return hardware


# -- sizes ------------------------------------------------------------------------------------------------------------


def shape_of_net(
    config: TrainingConfig, n_features: int, n_clusters: int, image_shape: tuple[int, ...] | None = None
) -> GediNet:
    """The network that the settings describe, without memory for its weights."""
    with torch.device("meta"):
        side = torch.empty(n_features)
        return assemble(config, n_features, n_clusters, Box(side, side), image_shape)


def net_of(
    config: TrainingConfig, n_features: int, n_clusters: int, image_shape: tuple[int, ...] | None = None
) -> GediNet:
    """The network that the settings describe, with memory: for sizes that have been checked."""
    side = torch.zeros(n_features)
    return build_net(config, n_features, n_clusters, torch.Generator().manual_seed(0), Box(side, side), image_shape)


def layout_of(values: Mapping[str, torch.Tensor], prefix: str = "") -> dict[str, Spec]:
    """Types and shapes of tensors."""
    return {prefix + name: Spec(value.dtype, tuple(value.shape)) for name, value in values.items()}


def model_layout(net: GediNet, n_features: int) -> dict[str, Spec]:
    """The tensors of model.safetensors."""
    side, chains = Spec(F32, (n_features,)), Spec(F32, (None, n_features))
    own = {"sampler.low": side, "sampler.high": side, "sampler.chains": chains}
    return layout_of(net.state_dict(), "net.") | own


def check_sizes(
    config: TrainingConfig, n_features: int, n_clusters: int, image_shape: tuple[int, ...] | None = None
) -> None:
    """Refuse settings whose tensors no machine this is meant for would hold, before any of them is made."""
    try:
        shape = shape_of_net(config, n_features, n_clusters, image_shape)
        net = sum(value.numel() for value in shape.state_dict().values())
    except ConfigError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:  # more than a machine word can count
        raise ConfigError("The sizes in training.net are beyond what any machine can hold.") from error
    asked = {
        "network (training.net)": net,
        "replay buffer (training.sampler.buffer_size)": config.sampler.buffer_size * n_features,
        "queue (training.objective.clustering.queue)": longest_queue(config) * config.net.embedding,
    }
    for name, numbers in asked.items():
        if numbers > NUMBERS:
            raise ConfigError(f"The {name} would hold {numbers:,} numbers, the most is {NUMBERS:,}: make it smaller.")


# -- checkpoints ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExpectedCheckpoint:
    """What a checkpoint of one run can hold: the run's own tensors, and counters that mean something."""

    state: TrainState
    stages: Sequence[str]  # in their order
    rows: int  # of the data
    queue: int  # the longest it can be
    processes: int = 1  # that train together

    def check_counters(self, counters: Any) -> None:
        """Counters of the right types, in their ranges, of this run and of the state its guard would go back to."""
        self._check_state_counters(counters)
        if counters["processes"] != self.processes:
            raise ValueError(
                f"it was written by {shown(repr(counters['processes']))} processes and this run has {self.processes}: "
                "give --devices and --nodes as before"
            )
        history, seconds, guard = counters["history"], counters["seconds"], counters["guard"]
        if not _are_mappings(history):
            raise ValueError("its history is not a list of mappings")
        if not isinstance(seconds, dict) or not all(_is_number(value) for value in seconds.values()):
            raise ValueError("its seconds are not numbers")
        if not _is_number(counters["elapsed"]) or not 0 <= counters["elapsed"] < 1e12:
            raise ValueError("its elapsed time is not a time")
        if not _is_number(counters["walk_crossing"], or_none=True):
            raise ValueError("its walk_crossing is not a number")
        events = guard["events"]
        if not _are_mappings(events) or not all({"stage", "remedy"} <= event.keys() for event in events):
            raise ValueError("its guard's events are not what a guard writes")
        if not _is_number(guard["rate"]) or not 0 < guard["rate"] <= 1:
            raise ValueError("its guard's rate is not a share")
        for name in ("tries", "total"):
            whole_number(guard, name, least=0, most=2**31)
        if guard["good"] is not None:
            self._check_state_counters(guard["good"])

    def _check_state_counters(self, counters: Any) -> None:
        if not isinstance(counters, dict):
            raise ValueError("its counters are not a mapping")
        if counters["stage"] not in self.stages:
            raise ValueError(f"its stage is not known: {shown(repr(counters['stage']))}")
        for name in ("iteration", "attempt", "gradient_evaluations"):
            whole_number(counters, name, least=0, most=2**62)
        for name in ("best", "kept"):
            objective, iteration = counters[name]
            if not _is_number(objective, or_none=True) or type(iteration) is not int:
                raise ValueError(f"its counter {name!r} is not an objective and an iteration")
        if not _is_number(counters["objective"], or_none=True):
            raise ValueError("its objective is not a number")

    def check_layout(self, found: Layout, counters: Mapping[str, Any]) -> None:
        """The tensors of the state, of the state to go back to, and of every process's own noise."""
        expected = self._state_layout(found, counters, "")
        if counters["guard"]["good"] is not None:
            expected |= self._state_layout(found, counters["guard"]["good"], "good/")
        if self.state.noise is not self.state.generator:
            noise = self.state.noise.get_state()
            expected["noise"] = Spec(noise.dtype, (len(noise) * self.processes,))
        check_layout(found, expected)
        for name in ("queue", "good/queue"):
            if name in found and (found[name].shape[0] or 0) > self.queue:
                raise ValueError(f"its queue is longer than {self.queue}")

    def _state_layout(self, found: Layout, counters: Mapping[str, Any], prefix: str) -> dict[str, Spec]:
        """The tensors of one packed state; groups of weights are there whole or not at all."""
        state, weights = self.state, self.state.net.state_dict()
        clusters, embedding = state.net.prototypes.directions.shape
        chains = state.buffer.chains
        expected = {"buffer": Spec(chains.dtype, (len(chains) * self.processes, *chains.shape[1:]))}
        expected |= layout_of({"rng": state.generator.get_state()})
        expected |= layout_of(weights, "net/") | layout_of(weights, "average/")
        expected["queue"] = Spec(F32, (None, embedding))
        optional = {"marginals": Spec(F32, (clusters,)), "start_labels": Spec(torch.int64, (self.rows,))}
        expected |= {name: spec for name, spec in optional.items() if prefix + name in found}
        began_step2 = self.stages.index(counters["stage"]) > self.stages.index("step1")
        present = {"after_step1": began_step2} | {n: counters[n][0] is not None for n in ("best", "kept")}
        for group, needed in present.items():
            if needed or any(name.startswith(f"{prefix}{group}/") for name in found):
                expected |= layout_of(weights, f"{group}/")
        for place, parameter in enumerate(state.net.parameters()):
            group = f"optimiser/{place}/"
            if any(name.startswith(prefix + group) for name in found):
                moment = Spec(parameter.dtype, tuple(parameter.shape))
                names = {"step": Spec(F32, ()), "exp_avg": moment, "exp_avg_sq": moment}
                expected |= {group + name: spec for name, spec in names.items()}
        return {prefix + name: spec for name, spec in expected.items()}

    def check_values(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Values that later arithmetic relies on."""
        check_variances(tensors)
        clusters = len(self.state.net.prototypes.directions)
        for prefix in ("", "good/"):
            labels, marginals = tensors.get(f"{prefix}start_labels"), tensors.get(f"{prefix}marginals")
            if labels is not None and not bool(((labels >= 0) & (labels < clusters)).all()):
                raise ValueError("its start_labels are not clusters")
            if marginals is not None and not bool((marginals > 0).all()):
                raise ValueError("its marginals are not positive")


def check_variances(tensors: Mapping[str, torch.Tensor]) -> None:
    """Squares and counts are never negative."""
    for name, value in tensors.items():
        if name.endswith(NEVER_NEGATIVE) and bool((value < 0).any()):
            raise ValueError(f"the tensor {shown(name)!r} holds negative values")


def _is_number(value: Any, *, or_none: bool = False) -> bool:
    return (value is None and or_none) or type(value) in (int, float)


def _are_mappings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(line, dict) for line in value)


def check_data_path(data: Any, names: Sequence[str]) -> None:
    """A plan names known data, or the absolute path of a regular file or a folder, as `gedi fit` writes it."""
    if not isinstance(data, str):
        raise ValueError("'data' is not text")
    if data.lower() in names:
        return
    path = Path(data)
    if not path.is_absolute() or ".." in path.parts:
        raise ValueError(f"'data' is neither a known name nor an absolute path: {shown(data)!r}")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise ValueError(f"'data' is neither a regular file nor a folder: {shown(data)!r}")
