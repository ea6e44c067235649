"""From settings and data to the objects a run is made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from gedi.data import Scaler, TableRecipe
from gedi.data.augment import Augment, row_augmentation
from gedi.data.neighbours import nearest_neighbours
from gedi.data.pictures import is_mirrored
from gedi.data.scaled_rows import Rows, scaled
from gedi.data.streaming import is_mapped
from gedi.data.table_rows import categories, fill_gaps, typical_rows
from gedi.nets import GediNet
from gedi.nets.mixture import Mixture
from gedi.objectives.generative import Energy, density_of
from gedi.objectives.symbolic import find_groups
from gedi.sampling import Box
from gedi.training.config import TrainingConfig
from gedi.training.encoder_registry import ENCODERS, check_encoder, threads_for, width_of

ALWAYS_ENOUGH, LOOKS = 100_000, 4  # see `enough_rows`
SPACING_ROWS = 5_000  # most rows that `spacing` looks at
FEW, MUCH_SPARSER = 0.05, 5.0  # see `Spacing.sparsity`
DEQUANTISE = 0.15  # standard deviation of the noise on categories, in scaled units


@dataclass(frozen=True)
class Prepared:
    """Everything that a run is made from, known before it trains."""

    config: TrainingConfig  # with all lengths filled in
    scaler: Scaler
    rows: Rows  # scaled; a random subset if there are very many
    plain: Rows  # the same without the noise on categories: as new rows come
    augment: Augment  # T(x'|x)
    n_clusters: int
    image_shape: tuple[int, ...] | None = None
    groups: torch.Tensor | None = None  # row indices of each group of a constraint, [groups, variables]
    words: Sequence[Sequence[int]] = ()  # feature indices of every category
    table: TableRecipe | None = None  # how the rows were made from the columns of a table
    typical: torch.Tensor | None = None  # scaled rows that gaps of new ones are filled from, if the table has gaps
    base: Mixture | None = None  # the fitted part of a density that has one
    sparsity: float = 1.0  # the slowest waves of the encoder's first layer are this many times slower than the fastest


def prepare(
    x: np.ndarray,
    config: TrainingConfig,
    n_clusters: int,
    *,
    image_shape: tuple[int, ...] | None = None,
    groups: Any = None,
    table: TableRecipe | None = None,
    words: Sequence[Sequence[int]] | None = None,
    scaler: Scaler | None = None,
) -> Prepared:
    """Scale checked rows [n, d], fill in the settings that depend on them, then find their neighbours for the views.

    ``groups`` [g, k] are the row indices of each group of a constraint; None: consecutive rows. ``table`` says which
    columns of a table the features come from. ``words`` are the feature indices of every category; None: look for them.
    ``scaler`` is that of the rows, if it is known.
    """
    grouped = find_groups(config.objective, len(x), n_clusters, groups)
    words = categories(x, table, images=image_shape is not None) if words is None else words
    scaler = scaler or Scaler().fit(x, mode=config.scaling, together=words)
    x = x if grouped is not None else enough_rows(x, config)
    rows = scaled(x, scaler)
    typical = None
    if table is not None and table.has_gaps:
        filled = fill_gaps(np.asarray(rows[:]), table.gaps(x))
        rows, typical = torch.from_numpy(filled), torch.from_numpy(typical_rows(filled))
    plain = rows
    if words:
        rows = dequantised(rows, words)
    config, sparsity = fill_from_data(config, rows, image_shape)
    box = (-1.0, 1.0) if config.scaling == "pixels" else None
    augment = row_augmentation(config.augment, rows, image_shape, box=box, words=words)
    base, density = None, density_of(config.objective)
    if density is not None:
        with threads_for(config.net):
            base = density.fit_base(rows, config.sampler.data_noise or 0.0)
    return Prepared(
        config, scaler, rows, plain, augment, n_clusters, image_shape, grouped, words, table, typical, base, sparsity
    )


def dequantised(rows: Rows, words: Sequence[Sequence[int]]) -> torch.Tensor:
    """Scaled rows with a little noise on their categories: points on a grid have no density.

    Two levels of a category are at least one unit apart, so the noise hardly ever turns one into another.
    """
    places = [place for some in words for place in some]
    whole = rows[:].clone()
    noise = torch.randn((len(whole), len(places)), generator=torch.Generator().manual_seed(0))
    whole[:, places] += DEQUANTISE * noise
    return whole


def enough_rows(x: np.ndarray, config: TrainingConfig) -> np.ndarray:
    """All rows, or a random subset if training would draw each row fewer than `LOOKS` times on average.

    Batches are random anyway; this saves the neighbour search for rows that are hardly used.
    """
    draws = sum(stage.iterations * stage.batch_size for stage in (config.step1, config.step2))
    most = max(ALWAYS_ENOUGH, draws // LOOKS)
    if len(x) <= most or is_mapped(x):
        return x
    return x[np.sort(np.random.default_rng(0).choice(len(x), most, replace=False))]


class Spacing(NamedTuple):
    """How far rows are from their 10th neighbours, per dimension (distance / sqrt(d))."""

    resolution: float  # the median: finer samplers and walks waste steps; coarser ones blur the structure of the data
    sparsity: float  # how many times further apart the `FEW` sparsest rows are, if that is `MUCH_SPARSER`; otherwise 1


def spacing(x: np.ndarray | Rows) -> Spacing:
    """Measured on some of the rows."""
    rows = np.asarray(x[:: math.ceil(len(x) / SPACING_ROWS)])
    distances = nearest_neighbours(rows, 10).distances[:, -1]
    typical, sparse = float(np.median(distances)), float(np.quantile(distances, 1 - FEW))
    resolution = typical / math.sqrt(x.shape[1])
    if resolution <= 1e-6:
        return Spacing(0.05, 1.0)  # mostly identical rows define no scale
    return Spacing(resolution, sparse / typical if sparse > MUCH_SPARSER * typical else 1.0)


def has_open_frequency(config: TrainingConfig) -> bool:
    """Whether the encoder has waves whose frequency depends on the data."""
    return ENCODERS[config.net.encoder].has_waves and config.net.frequency is None


def has_open_lengths(config: TrainingConfig) -> bool:
    """Whether any length depends on the data."""
    sampler = config.sampler
    lengths = [sampler.noise, sampler.final_noise, sampler.data_noise, config.dam.radius, config.augment.noise]
    return None in lengths or has_open_frequency(config)


def fill_from_data(
    config: TrainingConfig, x: np.ndarray | Rows, image_shape: tuple[int, ...] | None = None
) -> tuple[TrainingConfig, float]:
    """A copy of ``config`` with unset lengths filled in from the data's resolution, and ``flip`` from its symmetry.

    Also returns how many times slower than the fastest the encoder's slowest waves are (1.0: all are alike).
    """
    config = copy.deepcopy(config)
    net, sampler, dam, augment = config.net, config.sampler, config.dam, config.augment
    if augment.flip is None:
        augment.flip = image_shape is not None and is_mirrored(x, image_shape)
    if not has_open_lengths(config):
        return config, 1.0
    (unit, sparsity), is_open = spacing(x), has_open_frequency(config)
    if is_open:
        net.frequency = 0.3 / (unit * math.sqrt(x.shape[1]))
    # Chains that start from data move within its blur; others have a long way to go, in steps that get shorter.
    first, last, blur = (0.15, 0.15, 3.0) if sampler.from_data == 1 else (3.0, 0.75, 1.0)
    sampler.noise = first * unit if sampler.noise is None else sampler.noise
    sampler.final_noise = min(last * unit, sampler.noise) if sampler.final_noise is None else sampler.final_noise
    sampler.data_noise = blur * sampler.final_noise if sampler.data_noise is None else sampler.data_noise
    dam.radius = unit if dam.radius is None else dam.radius
    augment.noise = unit if augment.noise is None else augment.noise
    return config, sparsity if is_open else 1.0


def box_around(x: Rows, config: TrainingConfig) -> Box:
    """The sampler's box: around the data or, for pixels, around the range from black to white.

    A pixel that is black in all training images may not be black in new ones.
    """
    margin = config.sampler.box_margin
    if config.scaling != "pixels":
        return Box.around(x if isinstance(x, torch.Tensor) else x.extremes(), margin)
    side = torch.full((x.shape[1],), 1.0 + margin, device=x.device)
    return Box(-side, side)


def restart_box(box: Box, config: TrainingConfig) -> Box:
    """Where chains start: in the sampler's box, unless the settings give a range."""
    within = config.sampler.restart_within
    return box if within is None else Box(torch.full_like(box.low, -within), torch.full_like(box.high, within))


def build_net(
    config: TrainingConfig,
    n_features: int,
    n_clusters: int,
    generator: torch.Generator,
    box: Box | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> GediNet:
    """A fresh GediNet whose weights depend on ``generator`` alone."""
    # torch's initialisers use only the global generator: seed it from ours, and restore it afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=generator)))
        return assemble(config, n_features, n_clusters, box, image_shape)


def assemble(
    config: TrainingConfig,
    n_features: int,
    n_clusters: int,
    box: Box | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> GediNet:
    """A GediNet with weights from torch's global generator; on the meta device, only its shapes."""
    sizes, generative = config.net, density_of(config.objective) or Energy()
    check_encoder(sizes, n_features, image_shape)
    make = ENCODERS[sizes.encoder].make
    return GediNet(
        make(sizes, n_features, image_shape),
        representation=width_of(sizes),
        embedding=sizes.embedding,
        projector_hidden=sizes.projector_hidden,
        n_clusters=n_clusters,
        head=sizes.head,
        n_heads=max(1, config.heads.random),  # a start that wins needs a head to learn it
        neutral=config.heads.neutral,
        energy_encoder=make(sizes, n_features, image_shape) if sizes.two_encoders else None,
        density=lambda net, support: generative.density(net, n_features, support),
        support=box if sizes.walls else None,
    )
