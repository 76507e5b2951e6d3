"""Pictures: what is drawn, where, and in which colour."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

import knoll
from knoll import DBSCAN, Gaussian, KMeans, MeanShift, datasets, plots
from knoll.exceptions import BadData, InvalidType
from knoll.plots.style import BLUE, MARKERS, NOISE, PALETTE, RED


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def drawn(ax):
    return [np.asarray(collection.get_offsets()) for collection in ax.collections if len(collection.get_offsets())]


def test_points_without_labels_are_blue():
    X = datasets.load("banana").X
    ax = plots.scatter(X)
    (xy,) = drawn(ax)
    np.testing.assert_array_equal(xy, X)
    assert to_hex(ax.collections[0].get_facecolor()[0]).upper() == BLUE
    assert ax.get_aspect() == 1.0


def test_noise_is_grey_and_beneath():
    X = np.random.default_rng(0).normal(size=(30, 2))
    labels = np.repeat([-1, 0, 5], 10)
    ax = plots.scatter(X, labels)
    colors = [to_hex(collection.get_facecolor()[0]).upper() for collection in ax.collections]
    assert colors == [NOISE, PALETTE[0], PALETTE[1]]
    assert [len(xy) for xy in drawn(ax)] == [10, 10, 10]


def test_more_clusters_than_colours_get_other_markers():
    k = 2 * len(PALETTE) + 1
    ax = plots.scatter(np.random.default_rng(0).normal(size=(k, 2)), np.arange(k))
    looks = {
        (to_hex(c.get_facecolor()[0]), len(c.get_paths()[0].vertices)) for c in ax.collections if len(c.get_offsets())
    }
    assert len(looks) == k
    assert len(MARKERS) == len(set(MARKERS))


def test_the_gaussian_is_its_mean_and_its_contour():
    X = datasets.load("one_gaussian").X
    model = Gaussian().fit(X)
    ax = plots.gaussian(model, X, n_std=2)
    contour, mean = (np.column_stack(line.get_data()) for line in ax.lines)
    np.testing.assert_allclose(model.mahalanobis(contour), 2, rtol=1e-9)
    np.testing.assert_allclose(mean, [model.mean_])
    assert {line.get_color() for line in ax.lines} == {RED}


def test_more_than_two_columns_are_drawn_in_their_principal_axes_and_report_it():
    data = datasets.load("iris")
    ax = plots.scatter(data.X, data.y)
    assert ax.get_xlabel().startswith("principal axis 1 of 4 (92%")
    model = Gaussian().fit(data.X)
    ax = plots.gaussian(model, data.X)
    (xy,) = drawn(ax)
    contour = np.column_stack(ax.lines[0].get_data())
    inside = np.linalg.norm(np.linalg.solve(np.linalg.cholesky(np.cov(xy.T, bias=True)), xy.T), axis=0)
    np.testing.assert_allclose(
        np.linalg.norm(np.linalg.solve(np.linalg.cholesky(np.cov(xy.T, bias=True)), contour.T), axis=0),
        3,
        rtol=1e-9,
    )
    assert (inside < 3.5).all()


def test_axes_are_reused_and_columns_named():
    _, ax = plt.subplots()
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)), columns=["height", "weight"])
    assert plots.scatter(frame, ax=ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("height", "weight")
    assert plots.gaussian(Gaussian().fit(frame), frame, ax=ax) is ax
    assert ax.get_xlabel() == "height"


def test_one_column_is_a_line_of_points():
    ax = plots.scatter(np.arange(5.0)[:, None])
    (xy,) = drawn(ax)
    assert (xy[:, 1] == 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: plots.scatter(np.zeros((3, 2)), [0, 1]),
            r"one entry for each of the 3 rows of X, got shape \(2,\)",
        ),
        (lambda: plots.scatter([[np.nan, 1.0]]), "NaN at row 0, column 0"),
        (lambda: plots.scatter(np.zeros((0, 2))), "minimum of 1 is required"),
        (lambda: plots.gaussian(Gaussian().fit(np.eye(3)[:, :1])), "at least two columns"),
        (
            lambda: plots.gaussian(Gaussian().fit(datasets.load("banana").X), datasets.load("iris").X),
            "X has 4 columns, and the model was fitted to 2",
        ),
    ],
)
def test_bad_calls_are_reported(call, message):
    with pytest.raises(BadData, match=message):
        call()


def test_dbscan_is_dots_rings_and_crosses():
    X = np.concatenate([np.linspace(0, 1, 20), [1.3, 9.0]])[:, None] * [1.0, 0.5]
    model = knoll.DBSCAN(0.4, min_samples=6).fit(X)
    ax = plots.dbscan(model, X)
    noise, core, edge = ax.collections
    assert len(noise.get_offsets()) == 1
    assert len(core.get_offsets()) == len(model.core_sample_indices_)
    assert len(edge.get_offsets()) == 21 - len(model.core_sample_indices_)
    with pytest.raises(BadData, match="X has 3 columns, and the model was fitted to 2"):
        plots.dbscan(model, np.zeros((4, 3)))


def test_curves_mark_the_choice():
    X = knoll.datasets.load("x1500").X
    estimate = knoll.scales.estimate_eps(X)
    curve, line = plots.eps_curve(estimate).lines
    assert (curve.get_ydata() == estimate.curve).all()
    assert set(line.get_ydata()) == {estimate.eps}
    for choice in (
        knoll.tuning.choose_n_clusters(X, [2, 3, 4], random_state=0),
        knoll.tuning.choose_n_components(X, [1, 2], covariance_types=("full", "diag"), n_init=1, random_state=0),
    ):
        ax = plots.selection(choice)
        assert set(ax.lines[-1].get_xdata()) == {choice.best}
        drawn = [line.get_ydata().tolist() for line in ax.lines[:-1]]
        assert all(scores.tolist() in drawn for name, scores in choice.curve.items() if name != "inertia")


@pytest.mark.parametrize(
    ("draw", "name", "missing"),
    [
        (plots.gaussian, "Gaussian", "ellipse"),
        (plots.gaussian_mixture, "GaussianMixture", "means_"),
        (plots.climb, "MeanShift", "peaks_"),
        (plots.dbscan, "DBSCAN", "predict_kind"),
        (plots.responsibilities, "mixture", "predict_proba"),
        (plots.density, "model with a density", "score_samples"),
        (plots.kernel_kmeans, "KernelKMeans", "fit_points_"),
    ],
)
def test_the_picture_of_another_model_is_refused(draw, name, missing):
    X = np.random.default_rng(0).normal(size=(20, 2))
    message = rf"plots.{draw.__name__} draws a fitted {name}, got KMeans, which has no {missing}. plots.scatter\(X"
    with pytest.raises(InvalidType, match=message):
        draw(KMeans(2, random_state=0).fit(X), X)
    with pytest.raises(InvalidType, match=r"plots.kmeans draws a fitted KMeans, got Gaussian"):
        plots.kmeans(Gaussian().fit(X), X)


def test_a_model_that_was_not_fitted_is_reported_so():
    X = np.zeros((3, 2))
    models = {plots.climb: MeanShift(bandwidth=1.0), plots.dbscan: DBSCAN(1.0), plots.density: Gaussian()}
    for draw, model in models.items():
        with pytest.raises(NotFittedError, match=rf"This {type(model).__name__} instance is not fitted yet"):
            draw(model, X)


# ---- numbers that no axis can carry ----------------------------------------------------------------------------------

FAR = 5.0 * (_rows := datasets.load("x1500").X[::10]) / np.abs(_rows).max()


def mixture(X):
    return knoll.GaussianMixture(2, reg_covar=0, random_state=0).fit(X)


SPATIAL = {
    "scatter": lambda X: plots.scatter(X),
    "gaussian_mixture": lambda X: plots.gaussian_mixture(mixture(X), X),
    "responsibilities": lambda X: plots.responsibilities(mixture(X), X),
    "density": lambda X: plots.density(mixture(X), X),
    "kmeans": lambda X: plots.kmeans(knoll.KMeans(2, random_state=0).fit(X), X),
    "decision_regions": lambda X: plots.decision_regions(knoll.KMeans(2, random_state=0).fit(X), X),
    "dbscan": lambda X: plots.dbscan(knoll.DBSCAN(np.ptp(X)).fit(X), X),
    "climb": lambda X: plots.climb(knoll.MeanShift(bandwidth=np.ptp(X) / 4).fit(X), X),
    "similarity_graph": lambda X: plots.similarity_graph(X, np.ones((len(X), len(X)))),
}


@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
@pytest.mark.parametrize("power", [-300, 300])
@pytest.mark.parametrize("name", SPATIAL)
def test_numbers_that_no_axis_can_carry_are_reported(name, power):
    """What fits is computed at any scale; a picture has the factor."""
    with pytest.raises(BadData, match=rf"can be drawn of 1e-100 to 1e\+100. Divide X by 1e\{power:+d} before fitting"):
        SPATIAL[name](FAR * 10.0**power)


@pytest.mark.filterwarnings("ignore::knoll.exceptions.KnollWarning")
@pytest.mark.parametrize("power", [-90, 90])
def test_numbers_near_the_limits_are_drawn(power):
    ax = plots.kmeans(knoll.KMeans(2, random_state=0).fit(FAR * 10.0**power), FAR * 10.0**power)
    ax.figure.canvas.draw()
    plt.close(ax.figure)
