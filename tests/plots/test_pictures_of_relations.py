"""The pictures behind the tour: graphs, regions, levels, agreement, mixed colours and paths."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from matplotlib.colors import to_hex, to_rgb
from scipy.stats import multivariate_normal

from knoll import DBSCAN, Gaussian, GaussianMixture, KMeans, datasets, metrics, plots, relations
from knoll.exceptions import BadData, InvalidParameter
from knoll.plots.density import _marginal
from knoll.plots.responsibilities import mixed_colors
from knoll.plots.style import BLUE, NOISE, PALETTE, RED


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


# ---- graphs --------------------------------------------------------------------------------------------------------

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
LINKS = np.array([[9.0, 0.5, 0.0, 0.2], [0.5, 9.0, 1.0, 0.0], [0.0, 1.0, 9.0, 0.1], [0.2, 0.0, 0.1, 9.0]])


@pytest.mark.parametrize("container", [np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix, list])
def test_the_strongest_edges_are_drawn_the_stronger_the_darker(container):
    ax = plots.similarity_graph(SQUARE, container(LINKS), n_edges=3)
    lines = ax.collections[0]
    ends = {tuple(map(tuple, segment)) for segment in lines.get_segments()}
    assert ends == {((1, 0), (1, 1)), ((0, 0), (1, 0)), ((0, 0), (0, 1))}  # not the weakest, no loop, nothing twice
    shade = lines.get_colors()[:, 3]
    assert (np.diff(shade) > 0).all()  # the strongest on top
    assert to_hex(lines.get_colors()[0]).upper() == RED


def test_no_edges_are_no_error():
    assert len(plots.similarity_graph(SQUARE, np.eye(4)).collections[0].get_segments()) == 0
    assert len(plots.similarity_graph(SQUARE, LINKS, n_edges=0).collections[0].get_segments()) == 0


# ---- regions -------------------------------------------------------------------------------------------------------


def test_regions_are_what_predict_answers():
    X = datasets.load("x1500").X
    model = KMeans(3, random_state=0).fit(X)
    ax = plots.decision_regions(model, X, resolution=40)
    mesh = ax.collections[0]
    corners = mesh.get_coordinates()
    middle = (corners[:-1, :-1] + corners[1:, 1:]) / 2
    drawn = np.asarray(mesh.get_array()).ravel()
    np.testing.assert_array_equal(drawn, model.predict(middle.reshape(-1, 2)))
    assert [to_hex(color).upper() for color in mesh.get_cmap().colors] == list(PALETTE[:3])


def test_noise_is_a_grey_region():
    X = datasets.load("banana").X
    ax = plots.decision_regions(DBSCAN(0.17).fit(X), X, resolution=30)
    assert ax.collections[0].get_cmap().colors[0] == NOISE


def test_regions_of_more_columns_and_of_tables():
    data = datasets.load("iris")
    table = pd.DataFrame(data.X, columns=list("abcd"))
    model = KMeans(3, random_state=0).fit(table)
    ax = plots.decision_regions(model, table, resolution=10)
    assert ax.get_xlabel().startswith("principal axis 1 of 4")


# ---- densities -----------------------------------------------------------------------------------------------------


def test_the_level_is_one_red_contour():
    X = datasets.load("three_component_density").X
    model = GaussianMixture(3, random_state=0).fit(X)
    ax = plots.density(model, X, level=0.02, resolution=80)
    level = ax.collections[-1]
    assert to_hex(np.atleast_2d(level.get_edgecolor())[0]).upper() == RED
    vertices = np.concatenate([path.vertices for path in level.get_paths()])
    np.testing.assert_allclose(np.exp(model.score_samples(vertices)), 0.02, rtol=0.05)
    assert len(plots.density(model).collections) == len(ax.collections) - 2  # neither points nor level


def test_more_columns_have_the_marginal_of_the_density():
    """A mixture's shadow is its marginal: with axes that are columns, the mixture of the columns."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(0, 9, 400), np.where(rng.random(400) < 0.5, -6, 6) + rng.normal(size=400),
                         0.1 * rng.normal(size=400)])  # fmt: skip
    model = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    plane, flat = _marginal(model, None)
    points = rng.normal(0, 5, (50, 2))
    expected = np.zeros(50)
    for weight, mean, variance in zip(model.weights_, model.means_, model.covariances_):
        marginal = np.eye(3)[:, :2].T @ (variance * np.eye(3)) @ np.eye(3)[:, :2]
        expected += weight * multivariate_normal(mean[:2], marginal).pdf(points)
    turned = plane.points(np.column_stack([points, np.full(50, model.weights_ @ model.means_[:, 2])]))
    np.testing.assert_allclose(np.exp(flat.score_samples(turned)), expected, rtol=0.05)
    ax = plots.density(model, X, level=1e-4)
    assert ax.get_xlabel().startswith("principal axis 1 of 3")
    assert plots.density(Gaussian().fit(datasets.load("iris").X)).get_ylabel().startswith("principal axis 2 of 4")


# ---- agreement -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("score", "function"), [
    ("ari", metrics.adjusted_rand_score), ("ami", metrics.adjusted_mutual_info_score),
])  # fmt: skip
def test_agreement_is_the_score_of_every_pair(score, function):
    data = datasets.load("iris")
    labels = {
        "classes": data.y,
        "two": KMeans(2, random_state=0).fit(data.X).labels_,
        "same": data.y[::-1] * 0 + data.y,
    }
    ax = plots.agreement(labels, score=score)
    shown = np.asarray(ax.images[0].get_array())
    names = list(labels)
    np.testing.assert_allclose(shown, [[function(labels[a], labels[b]) for b in names] for a in names])
    assert [text.get_text() for text in ax.texts][:3] == [f"{value:.2f}" for value in shown[0]]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == names


# ---- responsibilities ----------------------------------------------------------------------------------------------


def test_colours_mix_by_responsibility():
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0]])
    colors = mixed_colors(shares)
    first, second = (np.array(to_rgb(PALETTE[c])) for c in (0, 1))
    np.testing.assert_allclose(colors, [first, second, (first + second) / 2, to_rgb(NOISE)])
    X = datasets.load("iris").X
    model = GaussianMixture(3, random_state=0).fit(X)
    ax = plots.responsibilities(model, X)
    np.testing.assert_allclose(ax.collections[0].get_facecolor()[:, :3], mixed_colors(model.predict_proba(X)))


# ---- paths ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def paths():
    banana = datasets.load("banana", n_samples=60).X
    return {
        "mixture-to-kmeans": relations.get("mixture-to-kmeans").path(banana, steps=5),
        "gaussian-to-heaviside": relations.get("gaussian-to-heaviside").path(banana, steps=5, eps=0.3),
        "climb-to-mean-shift": relations.get("climb-to-mean-shift").path(banana, steps=5, bandwidth=0.5),
    }


@pytest.mark.parametrize("name", ["mixture-to-kmeans", "gaussian-to-heaviside", "climb-to-mean-shift"])
def test_frames_share_a_window_and_bear_their_title(paths, name):
    path = paths[name]
    windows = set()
    for i in range(len(path)):
        ax = plots.frame(path, i)
        ax.figure.canvas.draw()
        windows.add((ax.get_xlim(), ax.get_ylim()))
        assert ax.get_title() == path[i].title
    assert len(windows) == 1
    with pytest.raises(InvalidParameter, match=f"i must lie between {-len(path)} and {len(path) - 1}.*got 99"):
        plots.frame(path, 99)


def test_a_frame_draws_what_it_holds(paths):
    climb = paths["climb-to-mean-shift"]
    moved = plots.frame(climb, -1).collections[1]
    np.testing.assert_array_equal(moved.get_offsets(), climb[-1].arrays["positions"])
    assert to_hex(moved.get_facecolor()[0]).upper() == BLUE
    mixture = paths["mixture-to-kmeans"]
    ax = plots.frame(mixture, 0)
    np.testing.assert_array_equal(np.column_stack(ax.lines[0].get_data()), mixture[0].arrays["means"])
    circle = np.column_stack(ax.lines[1].get_data()) - mixture[0].arrays["means"][0]
    np.testing.assert_allclose(np.linalg.norm(circle, axis=1), 3 * np.sqrt(mixture[0].value))


def test_a_film_has_every_frame(paths, tmp_path):
    film = plots.animate(paths["climb-to-mean-shift"], seconds=1)
    film.save(tmp_path / "climb.gif", writer="pillow")
    from PIL import Image

    with Image.open(tmp_path / "climb.gif") as image:
        assert image.n_frames == len(paths["climb-to-mean-shift"])


# ---- bad calls -----------------------------------------------------------------------------------------------------


class Other:
    n_features_in_ = 3


def three_columns():
    return GaussianMixture(1).fit(datasets.load("iris").X[:, :3])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.similarity_graph(SQUARE, np.eye(3)), r"a matrix of 4 × 4.*got shape \(3, 3\)"),
        (lambda: plots.similarity_graph(SQUARE, -LINKS), "similarity must be ≥ 0, and its least value is -1"),
        (lambda: plots.density(Other()), "draws a Other of two columns, and this one has 3"),
        (lambda: plots.density(Gaussian().fit(SQUARE[:, :1])), "needs at least two columns; this model has 1"),
        (
            lambda: plots.density(GaussianMixture(1).fit(SQUARE + LINKS[:, :2]), np.eye(3)),
            "X has 3 columns, and the model was fitted to 2",
        ),
        (lambda: plots.decision_regions(three_columns(), SQUARE), "X has 2 columns, and the model was fitted to 3"),
        (lambda: plots.decision_regions(three_columns(), SQUARE[:, :1]), "needs at least two columns; X has 1"),
        (lambda: plots.responsibilities(three_columns(), SQUARE), "X has 2 columns, and the model was fitted to 3"),
        (lambda: plots.agreement({"a": [0, 1]}), "compares clusterings with each other, got 1"),
        (lambda: plots.agreement({"a": [0, 1], "b": [0]}), r"labels of the same rows, got shapes a \(2,\), b \(1,\)"),
    ],
)
def test_bad_calls_are_reported(call, message):
    with pytest.raises(BadData, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plots.agreement({"a": [0, 1], "b": [0, 1]}, score="x"), "score"),
        (lambda: plots.similarity_graph(SQUARE, LINKS, n_edges=-1), "n_edges"),
        (lambda: plots.density(GaussianMixture(1).fit(SQUARE), level=0.0), "level"),
        (lambda: plots.decision_regions(KMeans(1).fit(SQUARE), SQUARE, resolution=1), "resolution"),
    ],
)
def test_parameters_are_checked(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()
