"""A similarity graph: the points and the strongest edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from knoll.exceptions import BadData
from knoll.plots.fitted import plane_of
from knoll.plots.scatter import scatter
from knoll.plots.style import RED, axes_or_new
from knoll.validation import Number, check_parameters, refuse_masked

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def similarity_graph(
    X: ArrayLike, similarity: ArrayLike, labels: ArrayLike | None = None, ax: Axes | None = None, *, n_edges: int = 2000
) -> Axes:
    """Draw points and the strongest edges between them, the stronger the darker.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points. With more than two columns their two leading principal axes are drawn.
    similarity : array-like or sparse matrix of shape (n_samples, n_samples)
        A symmetric matrix of similarities ≥ 0; the diagonal is left out.
    labels : array-like of shape (n_samples,), optional
        Cluster of each point.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    n_edges : int, default=2000
        The most edges to draw.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import datasets, kernels, plots
    >>> X = datasets.load("banana").X
    >>> ax = plots.similarity_graph(X, kernels.Gaussian(0.1).tile(X, X))
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    check_parameters("plots.similarity_graph", {"n_edges": n_edges}, {"n_edges": (Number(0, whole=True),)})
    points, plane = plane_of(X)
    n = len(points)
    if np.shape(similarity) != (n, n):
        raise BadData(f"similarity must be a matrix of {n} × {n}, a row and a column for each row of X, "
                      f"got shape {np.shape(similarity)}.")  # fmt: skip
    refuse_masked(similarity, "similarity")
    matrix: Any = similarity if scipy.sparse.issparse(similarity) else np.asarray(similarity, dtype=np.float64)
    upper = scipy.sparse.triu(scipy.sparse.coo_array(matrix), 1).tocoo()
    strength = np.asarray(upper.data, dtype=np.float64)
    if len(strength) and not strength.min() >= 0:
        raise BadData(f"similarity must be ≥ 0, and its least value is {strength.min():g}.")
    strongest = np.argsort(-strength, kind="stable")[: int(n_edges)]
    strongest = strongest[strength[strongest] > 0][::-1]  # the darkest on top
    ax = axes_or_new(ax)
    xy = plane.points(points)
    ends = np.stack([xy[upper.row[strongest]], xy[upper.col[strongest]]], axis=1)  # (edges, 2, 2)
    shade = strength[strongest] / strength[strongest].max(initial=1e-300)
    colors = [(*to_rgb(RED), 0.1 + 0.6 * float(s)) for s in shade]
    ax.add_collection(LineCollection(list(ends), colors=colors, linewidths=0.7, zorder=1))
    return scatter(X, labels, ax=ax, plane=plane)
