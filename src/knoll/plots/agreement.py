"""The agreement of several clusterings of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from knoll import metrics
from knoll.exceptions import BadData
from knoll.plots.style import axes_or_new
from knoll.validation import Choice, check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCORES: dict[str, Callable[[ArrayLike, ArrayLike], float]] = {
    "ari": metrics.adjusted_rand_score,
    "ami": metrics.adjusted_mutual_info_score,
}


def agreement(labels: Mapping[str, ArrayLike], ax: Axes | None = None, *, score: str = "ari") -> Axes:
    """Draw the scores of every pair of clusterings as a matrix: 1 is the same partition, 0 is chance.

    Parameters
    ----------
    labels : mapping of names to arrays of shape (n_samples,)
        The clusterings, in the order to draw them.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.
    score : {"ari", "ami"}, default="ari"
        The adjusted Rand index, or the adjusted mutual information.

    Returns
    -------
    matplotlib Axes
        Where it was drawn.

    Examples
    --------
    >>> from knoll import KMeans, datasets, plots
    >>> data = datasets.load("iris")
    >>> ax = plots.agreement({"classes": data.y, "k-means": KMeans(3, random_state=0).fit(data.X).labels_})
    """
    check_parameters("plots.agreement", {"score": score}, {"score": (Choice(tuple(_SCORES)),)})
    names = list(labels)
    if len(names) < 2:
        raise BadData(f"plots.agreement compares clusterings with each other, got {len(names)}. Give two or more.")
    sizes = {name: np.shape(labels[name]) for name in names}
    if len(set(sizes.values())) > 1:
        shapes = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise BadData(f"plots.agreement needs labels of the same rows, got shapes {shapes}.")
    values = np.array([[_SCORES[score](labels[a], labels[b]) for b in names] for a in names])  # (m, m)
    ax = axes_or_new(ax)
    ax.imshow(values, vmin=0, vmax=1, cmap="Blues")
    for i in range(len(names)):
        for j in range(len(names)):
            dark = values[i, j] > 0.55
            ax.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", color="white" if dark else "black")
    ax.set_xticks(range(len(names)), names, rotation=30, ha="right")
    ax.set_yticks(range(len(names)), names)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0, labelsize=8)
    ax.set_title(score.upper(), fontsize=10)
    return ax
