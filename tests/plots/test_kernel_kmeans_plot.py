"""The picture of kernel k-means: colours, and borders where the closest mean changes."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.contour import QuadContourSet

from knoll import KernelKMeans, datasets, plots
from knoll.exceptions import BadData
from knoll.plots.style import PALETTE


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def borders(ax):
    return [c for c in ax.collections if isinstance(c, QuadContourSet)]


def test_points_have_their_clusters_colours_and_borders_lie_where_the_label_changes():
    X = datasets.load("banana").X
    model = KernelKMeans(3, sigma=1.0, random_state=0).fit(X)
    ax = plots.kernel_kmeans(model)
    dots = [c for c in ax.collections if not isinstance(c, QuadContourSet) and len(c.get_offsets())]
    assert [to_hex(c.get_facecolor()[0]).upper() for c in dots] == list(PALETTE[:3])
    for c, shown in enumerate(dots):
        np.testing.assert_array_equal(np.asarray(shown.get_offsets()), X[model.labels_ == c])
    lines = [path.vertices for drawn in borders(ax) for path in drawn.get_paths()]
    on = np.concatenate(lines)[::7]
    assert len(on) > 20
    step = 1.2 * np.ptp(X, axis=0) / 160
    for point in on:
        around = point + step * np.array([[-1, -1], [1, 1], [-1, 1], [1, -1], [0, 1], [0, -1], [1, 0], [-1, 0]])
        assert len(set(model.predict(around))) > 1


def test_other_points_many_columns_and_a_matrix():
    X = datasets.load("iris").X
    model = KernelKMeans(3, sigma=1.0, random_state=0).fit(X)
    ax = plots.kernel_kmeans(model, X[:50])
    assert borders(ax) == []
    assert "principal axis 1 of 4" in ax.get_xlabel()
    with pytest.raises(BadData, match="X has 3 columns, and the model was fitted to 4"):
        plots.kernel_kmeans(model, X[:, :3])
    with pytest.raises(BadData, match="fitted to a kernel matrix: there are no points to draw"):
        plots.kernel_kmeans(KernelKMeans(2, kernel="precomputed", random_state=0).fit(np.eye(4) + 1))
