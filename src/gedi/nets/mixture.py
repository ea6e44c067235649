"""A mixture of Gaussians, fitted in seconds, to which an energy is added."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from gedi.data.scaled_rows import Rows

SIZES = (1, 8, 64)  # numbers of components that are tried, up to the most that is allowed
FEWEST_ROWS = 20  # per component
MOST_ROWS = 60_000  # if there are more rows, this many are used, spread evenly
PCA_NUMBERS = 2**24  # most values in the rows that the principal directions are computed from
OWN_DIRECTIONS = 50  # principal directions of a component, at most
WHITENED = 50  # leading directions, each scaled to unit variance, in which components are found
AT_ONCE = 1000  # rows per block
HELD_OUT = 5  # every fifth row judges the number of components
SMALLEST = 1e-3  # least standard deviation in any direction
NOTHING = -1e30  # log of the height of an unused component; averages of an infinite one would be undefined


class Components(NamedTuple):
    """K Gaussians with covariances E_k diag(variances) E_k^T + rest (1 - E_k E_k^T)."""

    weights: torch.Tensor  # [K]; 0: unused
    log_heights: torch.Tensor  # [K], log of the weight times the density at the centre, up to a constant shared by all
    centres: torch.Tensor  # [K, D]
    directions: torch.Tensor  # E_k^T, [K, R, D], orthonormal rows
    variances: torch.Tensor  # [K, R]
    rest: torch.Tensor  # [K], the variance in all other directions


class Mixture(nn.Module):
    """A mixture of Gaussians in the data's principal directions, and one variance for all other directions.

    Each component is its own probabilistic PCA (Tipping & Bishop 1999; Richardson & Weiss 2018). An energy added to it
    need not learn where the data are and in which directions they vary, and log p falls off far from them. Before
    `fit`, it is a standard normal.
    """

    mean: torch.Tensor
    axes: torch.Tensor  # principal directions of all data, orthonormal rows; zero if there are too few rows for them
    rest: torch.Tensor  # variance in all directions that are not axes
    offset: torch.Tensor  # makes the mean of log p over the fitted rows 0
    component_weights: torch.Tensor
    component_log_heights: torch.Tensor

    def __init__(self, n_features: int, n_axes: int, n_components: int) -> None:
        super().__init__()
        n, k = min(n_axes, n_features), n_components
        r, unused = min(n, OWN_DIRECTIONS), k - 1
        self.register_buffer("mean", torch.zeros(n_features))
        self.register_buffer("axes", torch.zeros(n, n_features))
        self.register_buffer("rest", torch.ones(()))
        self.register_buffer("offset", torch.zeros(()))
        start = Components(
            weights=torch.tensor([1.0] + [0.0] * unused),  # on the meta device, arange would import torch's compiler
            log_heights=torch.tensor([0.0] + [NOTHING] * unused),
            centres=torch.zeros(k, n),
            directions=torch.zeros(k, r, n),
            variances=torch.ones(k, r),
            rest=torch.ones(k),
        )
        for name, values in start._asdict().items():
            self.register_buffer(f"component_{name}", values)

    @property
    def components(self) -> Components:
        return Components(*(self.get_buffer(f"component_{name}") for name in Components._fields))

    @property
    def used(self) -> Components:
        """Those that have a weight: `fit` puts them first, and computing the others would take most of the time."""
        n = max(1, int((self.component_log_heights > NOTHING).sum()))
        return Components(*(values[:n] for values in self.components))

    @torch.no_grad()
    def fit(self, x: Rows, blur: float) -> None:
        """Fit it to rows with noise of size ``blur``; held-out rows decide how many components there are."""
        from sklearn.decomposition import PCA  # takes a second to import

        floor, device = max(blur, SMALLEST) ** 2, self.mean.device
        few = max(2, min(MOST_ROWS, PCA_NUMBERS // x.shape[1]))
        some = torch.as_tensor(x[:: math.ceil(len(x) / few)]).cpu().double().numpy()
        n_axes = min(len(self.axes), len(some) - 1)
        with np.errstate(invalid="ignore"):  # if all rows are alike, it divides by a total variance of 0
            pca = PCA(n_axes, random_state=0).fit(some)
        self.mean.copy_(torch.as_tensor(pca.mean_))
        self.axes.zero_()[:n_axes] = torch.as_tensor(pca.components_).to(self.axes)
        self.rest.fill_(float(pca.noise_variance_) + floor)
        places = torch.arange(0, len(x), math.ceil(len(x) / MOST_ROWS))
        blocks = [(torch.as_tensor(x[block]).to(device) - self.mean) @ self.axes.T for block in places.split(AT_ONCE)]
        z = torch.cat(blocks).cpu()[:, :n_axes]
        found = _best(z.double(), len(self.component_weights), floor)
        self.component_weights.zero_()
        self.component_log_heights.fill_(NOTHING)
        for mine, new in zip(self.components, found, strict=True):
            mine[tuple(map(slice, new.shape))] = new.to(mine)
        self.offset.zero_().copy_(self(torch.as_tensor(some[::10]).to(self.mean)).mean())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """log p up to a constant, one value per row: over the rows it was fitted to, the mean is 0."""
        apart = x - self.mean
        z = apart @ self.axes.T
        outside = (apart.square().sum(1) - z.square().sum(1)).clamp_min(0.0)
        return log_density(z, self.used) - outside / (2 * self.rest) - self.offset

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """d log p / dx."""
        apart = x - self.mean
        z = apart @ self.axes.T
        return (gradient(z, self.used) + z / self.rest) @ self.axes - apart / self.rest

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """``n`` draws."""
        options = {"generator": generator, "device": self.mean.device}
        c, k = self.components, torch.multinomial(self.component_weights, n, replacement=True, generator=generator)
        noise, elsewhere = (torch.randn((n, size), **options) for size in self.axes.shape)
        z = c.centres[k] + c.rest[k].sqrt()[:, None] * noise
        for j in k.unique().tolist():
            of_j, wider = k == j, c.variances[j].sqrt() - c.rest[j].sqrt()
            z[of_j] += (noise[of_j] @ c.directions[j].T * wider) @ c.directions[j]
        elsewhere = elsewhere - (elsewhere @ self.axes.T) @ self.axes
        return self.mean + z @ self.axes + self.rest.sqrt() * elsewhere


def log_density(z: torch.Tensor, c: Components) -> torch.Tensor:
    """log sum_k w_k N(z; m_k, C_k), up to the constant of D dimensions; one value per row."""
    return torch.logsumexp(_by_component(z, c)[0], dim=1)


def gradient(z: torch.Tensor, c: Components) -> torch.Tensor:
    """Its gradient: that of every component, weighted by its posterior."""
    log_p, along, directions = _by_component(z, c)
    posterior = log_p.softmax(1)
    wide = posterior / c.rest
    wider = (posterior[:, :, None] * along).flatten(1) @ directions
    return wide @ c.centres - wide.sum(1, keepdim=True) * z + wider


def _by_component(z: torch.Tensor, c: Components) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """log w_k N_k(z), [n, K]; where z lies along the directions of each, [n, K, R]; and these directions, [K R, D].

    The directions are scaled so that |z - m_k|^2 / rest_k minus the squared length along them is the squared distance
    under C_k.
    """
    directions = c.directions * (1 / c.rest[:, None] - 1 / c.variances).clamp_min(0.0).sqrt()[:, :, None]
    ends = torch.einsum("krd,kd->kr", directions, c.centres)
    flat = directions.flatten(0, 1)
    along = torch.addmm(-ends.flatten(), z, flat.T).unflatten(1, ends.shape)
    apart = torch.cdist(z, c.centres, compute_mode="donot_use_mm_for_euclid_dist").square() / c.rest
    return c.log_heights - (apart - torch.linalg.vector_norm(along, dim=2).square()) / 2, along, flat


def _best(z: torch.Tensor, most: int, floor: float) -> Components:
    """Components of as many clusters as explain held-out rows best."""
    whitened = (z / z.std(0).clamp_min(1e-6))[:, :WHITENED].numpy()
    judges = np.arange(len(z)) % HELD_OUT == 0
    sizes = [k for k in SIZES if k == 1 or k <= min(most, len(z) // FEWEST_ROWS)]
    if len(sizes) == 1:
        return _components(z, _kmeans(whitened, 1), floor)

    def judged(k: int) -> float:
        found = _components(z[~judges], _kmeans(whitened[~judges], k), floor)
        return float(torch.cat([log_density(some, found) for some in z[judges].split(AT_ONCE)]).mean())

    return _components(z, _kmeans(whitened, max(sizes, key=judged)), floor)


def _components(z: torch.Tensor, labels: torch.Tensor, floor: float) -> Components:
    """A Gaussian for every cluster of rows [n, D]; with few rows, its covariance is drawn towards the pooled one."""
    n, d = z.shape
    clusters = [z[labels == k] for k in range(int(labels.max()) + 1)]
    sizes = torch.tensor([len(rows) for rows in clusters], dtype=z.dtype)
    centres = torch.stack([rows.mean(0) for rows in clusters])
    scatter = torch.stack([(rows - m).T @ (rows - m) for rows, m in zip(clusters, centres, strict=True)])
    pooled = scatter.sum(0) / n
    covariances = (scatter + d * pooled) / (sizes + d)[:, None, None] + floor * torch.eye(d, dtype=z.dtype)
    variances, directions = torch.linalg.eigh(covariances)
    r = min(d, OWN_DIRECTIONS)
    rest = variances[:, : d - r].mean(1) if r < d else variances[:, 0]
    log_volumes = variances[:, -r:].log().sum(1) + (d - r) * rest.log()
    return Components(
        weights=sizes / n,
        log_heights=(sizes / n).log() - log_volumes / 2,
        centres=centres,
        directions=directions.transpose(1, 2)[:, -r:].contiguous(),
        variances=variances[:, -r:],
        rest=rest,
    )


def _kmeans(x: np.ndarray, k: int) -> torch.Tensor:
    """Labels by k-means, renumbered so that every cluster has rows."""
    from sklearn.cluster import k_means

    if k == 1:
        return torch.zeros(len(x), dtype=torch.long)
    labels = np.asarray(k_means(x, k, n_init=1, max_iter=20, random_state=0)[1])  # type: ignore[arg-type]
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])
