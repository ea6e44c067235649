"""What sets each cluster apart from the rest, column by column: for rows that have no picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gedi.report.charts import Chart, axis, chart
from gedi.report.data_sample import DataSample
from gedi.report.look import compact, literal, rgb

COLUMNS = 24  # of the chart
TOP = 5  # columns named for each cluster
TELLING = 0.5  # a difference of half a standard deviation is worth a word


@dataclass(frozen=True)
class Profile:
    """One cluster in words: the columns in which it differs most, and by how many standard deviations."""

    cluster: int
    rows: int
    differences: list[tuple[str, float]]


def differences(rows: np.ndarray, cluster: np.ndarray, n_clusters: int) -> np.ndarray:
    """Mean of each cluster less the mean of all other rows, in standard deviations of the column: [clusters, d].

    NaN for a cluster that has no rows or all of them.
    """
    rows = np.asarray(rows, dtype=np.float64)
    spread = rows.std(0)
    spread = np.where(spread > 0, spread, 1.0)
    found = np.full((n_clusters, rows.shape[1]), np.nan)
    for k in range(n_clusters):
        mine = cluster == k
        if mine.any() and not mine.all():
            found[k] = (rows[mine].mean(0) - rows[~mine].mean(0)) / spread
    return found


def profiles(sample: DataSample, cluster: np.ndarray, found: np.ndarray) -> list[Profile]:
    """The most telling columns of each cluster."""
    made = []
    for k, line in enumerate(found):
        if np.isnan(line).all():
            continue
        top = [i for i in np.argsort(-np.abs(line), kind="stable")[:TOP] if abs(line[i]) >= TELLING]
        made.append(Profile(k, int((cluster == k).sum()), [(sample.feature(int(i)), float(line[i])) for i in top]))
    return made


def see_through(i: int) -> str:
    """A colour of the palette under which the page shines through, light or dark, so that text over it can be read."""
    return "rgba({},{},{},0.6)".format(*rgb(i))


def profile_chart(sample: DataSample, found: np.ndarray) -> Chart | None:
    """Clusters against the columns that tell most, as a heat map."""
    used = np.flatnonzero(~np.isnan(found).all(axis=1))
    if not len(used):
        return None
    strength = np.abs(found[used]).max(0)
    columns = np.sort(np.argsort(-strength, kind="stable")[:COLUMNS])[::-1]
    z = found[np.ix_(used, columns)].T
    top = max(1.0, float(np.abs(z).max()))
    names = [literal(sample.feature(int(i))) for i in columns]
    heat = {
        "type": "heatmap",
        "z": [compact(line, 3) for line in z],
        "x": [f"cluster {k}" for k in used],
        "y": list(range(len(columns))),
        "colorscale": [[0, see_through(0)], [0.5, "rgba(140,140,140,0.08)"], [1, see_through(3)]],
        "zmin": -top,
        "zmax": top,
        "xgap": 2,
        "ygap": 2,
        "texttemplate": "%{z:+.1f}" if len(used) <= 12 else None,
        "customdata": [[name] * len(used) for name in names],
        "hovertemplate": "%{customdata}, %{x}: %{z:+.2f} standard deviations<extra></extra>",
        "colorbar": {"thickness": 10, "len": 0.8},
    }
    return chart(
        [heat],
        height=120 + 26 * len(columns),
        xaxis=axis(type="category", side="top", showgrid=False),
        yaxis=axis(tickvals=list(range(len(columns))), ticktext=names, showgrid=False, automargin=True, zeroline=False),
    )
