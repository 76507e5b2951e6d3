"""The rows of the eigenvectors that spectral clustering partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from knoll.plots.plane import Plane
from knoll.plots.scatter import scatter
from knoll.plots.style import axes_or_new
from knoll.spectral.estimator import SpectralClustering

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def embedding(model: SpectralClustering, ax: Axes | None = None) -> Axes:
    """Draw the rows of the embedding in the colours of their clusters.

    Parameters
    ----------
    model : SpectralClustering
        The fitted model. With more than two eigenvectors the two leading principal axes of the rows are drawn.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import SpectralClustering, datasets, plots
    >>> model = SpectralClustering(2, random_state=0).fit(datasets.load("banana").X)
    >>> ax = plots.embedding(model)
    """
    rows = np.asarray(model.embedding_, dtype=np.float64)
    names = [f"eigenvector {j + 1}" for j in range(rows.shape[1])]
    return scatter(rows, model.labels_, axes_or_new(ax), plane=Plane.of_points(rows, names))
