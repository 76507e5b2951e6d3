"""The picture of k-means: centres, colours, borders."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from knoll import KMeans, datasets, plots
from knoll.exceptions import BadData
from knoll.plots.kmeans import cell
from knoll.plots.style import PALETTE, RED


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def borders(ax):
    return [c for c in ax.collections if isinstance(c, LineCollection)]


def test_points_take_the_colour_of_their_cluster_and_centres_are_red():
    X = datasets.load("banana").X
    model = KMeans(3, random_state=0).fit(X)
    ax = plots.kmeans(model, X)
    (line,) = ax.lines
    np.testing.assert_array_equal(line.get_xydata(), model.cluster_centers_)
    assert to_hex(line.get_color()).upper() == RED
    dots = [c for c in ax.collections if not isinstance(c, LineCollection) and len(c.get_offsets())]
    assert [to_hex(c.get_facecolor()[0]).upper() for c in dots] == list(PALETTE[:3])
    for c, shown in enumerate(dots):
        np.testing.assert_array_equal(np.asarray(shown.get_offsets()), X[model.labels_ == c])


def test_borders_lie_halfway_between_the_two_closest_centres():
    X = datasets.load("banana").X
    model = KMeans(7, random_state=0).fit(X)
    (drawn,) = borders(plots.kmeans(model, X))
    segments = drawn.get_segments()
    assert len(segments) >= 2 * 6  # each border is drawn from both sides; seven cells of a plane have six or more
    for t in (0.1, 0.5, 0.9):
        on = np.array([(1 - t) * a + t * b for a, b in segments])
        distances = np.sort(model.transform(on), axis=1)
        np.testing.assert_allclose(distances[:, 0], distances[:, 1], rtol=1e-9)


def test_borders_do_not_stretch_the_axes():
    X = datasets.load("banana").X
    ax = plots.kmeans(KMeans(4, random_state=0).fit(X), X)
    ax.figure.canvas.draw()
    assert ax.get_xlim()[1] - ax.get_xlim()[0] < 4 * np.ptp(X[:, 0])


def test_a_cell_is_where_its_centre_is_the_closest():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(6, 2))
    frame = np.array([[-3.0, -3], [3, -3], [3, 3], [-3, 3]])
    areas = []
    for c in range(6):
        corners = cell(centers, c, frame)
        x, y = corners.T
        areas.append(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))
        inside = corners.mean(axis=0)
        assert ((centers - inside) ** 2).sum(axis=1).argmin() == c
    assert sum(areas) == pytest.approx(36.0)  # they cover the frame


def test_one_column_one_centre_and_many_columns():
    assert borders(plots.kmeans(KMeans(1).fit([[0.0, 1.0], [1.0, 2.0]])))[0].get_segments() == []
    (lines,) = borders(plots.kmeans(KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0]])))
    assert {round(float(x), 9) for segment in lines.get_segments() for x in segment[:, 0]} == {4.75}
    X = datasets.load("iris").X
    ax = plots.kmeans(KMeans(3, random_state=0).fit(X), X)
    assert borders(ax) == []
    assert "principal axis 1 of 4" in ax.get_xlabel()


def test_points_of_another_width_are_refused():
    with pytest.raises(BadData, match="X has 3 columns, and the model was fitted to 2"):
        plots.kmeans(KMeans(1).fit([[0.0, 1.0]]), np.zeros((4, 3)))
