"""What the files of a run may contain: valid settings, and the tensors that follow from them.

Sizes are computed on torch's meta device, which tracks shapes without allocating memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
import torch

from gedi.data import Scaler, TableRecipe
from gedi.errors import ConfigError
from gedi.files.reading import shown
from gedi.files.tensors import Spec
from gedi.nets import GediNet
from gedi.sampling import Box
from gedi.settings import Count, Rule, make, types_of
from gedi.training.build import assemble
from gedi.training.config import TrainingConfig, from_dict

T = TypeVar("T")
NUMBERS = 2**28  # most values in a network or a replay buffer: 1 GiB each
MODEL_BYTES = 2**31  # a network and its chains
CHECKPOINT_BYTES = 2**34  # two states, each with four copies of the network (moments, averages) and a buffer
NEVER_NEGATIVE = ("base.variances", "base.rest", "running_var", "exp_avg_sq", "/step")
F32 = torch.float32
TYPICAL_TENSOR = "table.typical"  # rows that gaps are filled from, if the table had any
PARTS_TENSOR = "density.typical_parts"  # what typicality is measured by; runs saved before 0.2.0 have none

# -- settings ---------------------------------------------------------------------------------------------------------


IS_SHAPE = Rule("be [height, width, channels]", lambda shape: len(shape) == 3 and min(shape) > 0)


@dataclass(kw_only=True)
class ModelSettings:
    """What a model is, besides its tensors: config.yaml."""

    n_clusters: Count
    n_features: Count
    seed: int
    image_shape: Annotated[tuple[int, ...], IS_SHAPE] | None  # (H, W, C) of rows that are images
    scaler: dict
    table: list | None = None  # how rows are made from a table's columns
    words: list | None = None  # the feature indices of every category; None for runs that were saved without them
    training: TrainingConfig


def typed(cls: type[T], values: Any) -> T:
    """The YAML file of a run as a dataclass with settings under ``training``. Unknown entries are ignored."""
    if not isinstance(values, dict) or not isinstance(values["training"], dict):
        raise ValueError("'training' is not a mapping of settings")
    known = {name: values[name] for name in types_of(cls) if name in values}
    return make(cls, known | {"training": from_dict(values["training"])}, "")


def scaler_of(state: Any, n_features: int) -> Scaler:
    """The scaler, checked to fit ``n_features``."""
    scaler = Scaler.from_state(state)
    assert scaler.centre is not None and scaler.scale is not None
    shapes = {"feature": (n_features,), "global": (), "pixels": (), "none": ()}
    if not isinstance(scaler.mode, str) or scaler.mode not in shapes:
        raise ValueError("the scaler's mode is unknown")
    if scaler.centre.shape != (n_features,) or scaler.scale.shape != shapes[scaler.mode]:
        raise ValueError(f"the scaler does not fit {n_features} features")
    if not np.isfinite(scaler.centre).all() or not (np.isfinite(scaler.scale) & (scaler.scale > 0)).all():
        raise ValueError("the scaler must be finite, and its scale positive")
    return scaler


def table_of(state: list[Any] | None, n_features: int) -> TableRecipe | None:
    """The recipe for rows of ``n_features`` from a table's columns, None if there is no table."""
    if state is None:
        return None
    if not all(isinstance(column, dict) for column in state):
        raise ValueError("'table' is not a list of columns")
    table = TableRecipe.from_state(state)
    if len(table.features) != n_features:
        raise ValueError(f"the table's columns make {len(table.features)} features, not {n_features}")
    return table


def check_words(value: list[Any], n_features: int) -> None:
    """Refuse categories that are not lists of their own features."""
    if not all(isinstance(places, list) for places in value):
        raise ValueError("'words' is not a list of lists")
    known = [place for places in value for place in places]
    if any(type(place) is not int or not 0 <= place < n_features for place in known) or len({*known}) < len(known):
        raise ValueError(f"'words' must name each of the {n_features} features at most once, by its index")


# -- sizes ------------------------------------------------------------------------------------------------------------


def shape_of_net(
    config: TrainingConfig, n_features: int, n_clusters: int, image_shape: tuple[int, ...] | None = None
) -> GediNet:
    """The network that the settings describe, without memory for its weights."""
    with torch.device("meta"):
        side = torch.empty(n_features)
        return assemble(config, n_features, n_clusters, Box(side, side), image_shape)


def layout_of(values: Mapping[str, torch.Tensor], prefix: str = "") -> dict[str, Spec]:
    """Types and shapes of tensors."""
    return {prefix + name: Spec(value.dtype, tuple(value.shape)) for name, value in values.items()}


def model_layout(net: GediNet, n_features: int, table: TableRecipe | None) -> dict[str, Spec]:
    """The tensors of model.safetensors; only `PARTS_TENSOR` may be missing."""
    side, rows = Spec(F32, (n_features,)), Spec(F32, (None, n_features))
    own = {"sampler.low": side, "sampler.high": side, "sampler.chains": rows}
    own[PARTS_TENSOR] = Spec(torch.float64, (2, net.density.n_parts))
    if table is not None and table.has_gaps:
        own[TYPICAL_TENSOR] = rows
    return layout_of(net.state_dict(), "net.") | own


def check_sizes(
    config: TrainingConfig, n_features: int, n_clusters: int, image_shape: tuple[int, ...] | None = None
) -> GediNet:
    """The network of `shape_of_net`; refuses settings whose tensors would be too large, before any is allocated."""
    try:
        net = shape_of_net(config, n_features, n_clusters, image_shape)
    except ConfigError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:  # sizes that overflow a machine word
        raise ConfigError("The sizes in training.net are too large for any machine: make them smaller.") from error
    asked = {
        "network (training.net)": sum(value.numel() for value in net.state_dict().values()),
        "replay buffer (training.sampler.buffer_size)": config.sampler.buffer_size * n_features,
    }
    for name, numbers in asked.items():
        if numbers > NUMBERS:
            raise ConfigError(f"The {name} would hold {numbers:,} numbers; the limit is {NUMBERS:,}: make it smaller.")
    return net


def check_values(tensors: Mapping[str, torch.Tensor], n_heads: int) -> None:
    """Refuse negative variances, squares and counts, and a chosen cluster head that does not exist."""
    for name, value in tensors.items():
        if name.endswith(NEVER_NEGATIVE) and bool((value < 0).any()):
            raise ValueError(f"the tensor {shown(name)!r} contains negative values")
        if name.endswith("clusters.chosen") and not 0 <= int(value) < n_heads:
            raise ValueError("its chosen head does not exist")
