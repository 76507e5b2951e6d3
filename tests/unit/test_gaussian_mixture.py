"""GaussianMixture: what it refuses and with which message, what it warns of, and what it does beyond scikit-learn."""

from __future__ import annotations

import math
import re
import signal
import sys
import threading
import time
import tracemalloc
import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from sklearn.mixture import GaussianMixture as SklearnMixture

from knoll import GaussianMixture, datasets, plots
from knoll.exceptions import (
    BadData,
    CollapsedComponentWarning,
    ConvergenceWarning,
    InvalidParameter,
    KnollWarning,
    SuspiciousResultWarning,
)
from knoll.mixture.preprocess import summarize
from knoll.plots.style import NOISE, RED

SHAPES = ("full", "tied", "diag", "spherical")


def blobs(n: int = 300, d: int = 2, k: int = 3, seed: int = 0, far: float = 10.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(scale=far, size=(k, d))[np.arange(n) % k] + rng.normal(size=(n, d))


def quiet(X, *args, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KnollWarning)
        return GaussianMixture(*args, **{"random_state": 0, **parameters}).fit(X)


# ---- what is refused, and how ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "GaussianMixture: n_components must be >= 1, got 0."),
        ({"n_components": 1.5}, "GaussianMixture: n_components must be a whole number, got 1.5."),
        ({"covariance_type": "round"}, "covariance_type must be one of 'full', 'tied', 'diag', 'spherical', 'fixed'"),
        ({"tol": -1.0}, "tol must be >= 0, got -1.0."),
        ({"reg_covar": -1e-6}, "reg_covar must be >= 0, got -1e-06."),
        ({"max_iter": -1}, "max_iter must be >= 0, got -1."),
        ({"n_init": 0}, "n_init must be >= 1, got 0."),
        ({"init_params": "best"}, "init_params must be one of 'kmeans', 'k-means++', 'random', 'random_from_data'"),
        ({"warm_start": 1}, "warm_start must be True or False, got 1."),
        ({"verbose": -1}, "verbose must be >= 0, got -1."),
        ({"verbose_interval": 0}, "verbose_interval must be >= 1, got 0."),
        ({"noise": -0.5}, "noise must be > 0, got -0.5."),
        ({"stop": "never"}, "stop must be one of 'likelihood', 'parameters', got 'never'."),
        ({"covariance_type": "fixed", "fixed_variance": 0.0}, "fixed_variance must be > 0, got 0.0."),
        (
            {"covariance_type": "fixed"},
            "covariance_type='fixed' needs fixed_variance, the variance ε > 0 that is fixed.",
        ),
        ({"fixed_variance": 1.0}, "fixed_variance=1.0 means nothing with covariance_type='full'. Give covariance_type"),
        (
            {"covariance_type": "fixed", "fixed_variance": 1.0, "precisions_init": np.ones(2)},
            "precisions_init means nothing with covariance_type='fixed'. Give fixed_variance alone.",
        ),
        ({"weights_init": [1.0]}, "The parameter 'weights' should have the shape of (2,), but got (1,)"),
        ({"weights_init": [1.5, -0.5]}, "in the range [0, 1], but got values from -0.50000 to 1.50000."),
        ({"weights_init": [0.5, 0.4]}, "should be normalized, but got sum(weights) = 0.90000. Divide them by it."),
        ({"weights_init": ["a", "b"]}, "The parameter 'weights' should be an array of numbers, got ['a', 'b']."),
        ({"means_init": [[1.0, 2.0]]}, "The parameter 'means' should have the shape of (2, 2), but got (1, 2)"),
        (
            {"means_init": [[np.nan, 2.0], [0, 0]]},
            "The parameter 'means' should be finite, but has a NaN or an infinity.",
        ),
        (
            {"precisions_init": np.ones((2, 3))},
            "The parameter 'full precision' should have the shape of (2, 2, 2), but got (2, 3)",
        ),
        (
            {"precisions_init": np.stack([np.eye(2), -np.eye(2)])},
            "'full precision' should be symmetric, positive-definite. Invert covariances that are.",
        ),
        (
            {"precisions_init": [[1.0, 0.5], [0.4, 1.0]], "covariance_type": "tied"},
            "'tied precision' should be symmetric, positive-definite.",
        ),
        (
            {"precisions_init": [[1.0, 0.0], [1.0, 1.0]], "covariance_type": "diag"},
            "'diag precision' should be positive, got 0.",
        ),
        (
            {"precisions_init": [1.0, -2.0], "covariance_type": "spherical"},
            "'spherical precision' should be positive, got -2.",
        ),
    ],
)
def test_parameters_are_checked_at_fit(parameters, message):
    with pytest.raises(InvalidParameter, match=re.escape(message)):
        GaussianMixture(**{"n_components": 2, **parameters}).fit(blobs(20))


def test_data_that_cannot_be_used_is_reported():
    with pytest.raises(
        BadData, match=r"Expected n_samples >= n_components but got n_components = 4, n_samples = 3\. Take"
    ):
        GaussianMixture(4).fit(np.eye(3))
    with pytest.raises(BadData, match="make_blocks\\(\\) gave no rows"):
        GaussianMixture(1).fit_blocks(list)
    with pytest.raises(BadData, match="every sample_weight is zero"):
        GaussianMixture(1).fit_blocks(lambda: [(np.eye(3), np.zeros(3))])
    with pytest.raises(BadData, match="n_components = 9, n_samples = 6"):
        GaussianMixture(9).fit_blocks(lambda: [np.eye(3), np.eye(3)])
    bad = np.eye(3)
    bad[1, 2] = np.inf
    with pytest.raises(BadData, match="X has an infinity at row 4, column 2"):
        GaussianMixture(1).fit_blocks(lambda: [np.eye(3), bad])


def test_a_sample_of_nothing_is_refused():
    model = quiet(blobs(), 2)
    with pytest.raises(InvalidParameter, match=r"Invalid value for 'n_samples': .*n_samples must be >= 1, got 0"):
        model.sample(0)
    with pytest.raises(InvalidParameter, match="random_state must be"):
        model.sample(3, random_state=-1)


# ---- what is warned of ---------------------------------------------------------------------------------------------


def test_an_unfinished_climb_is_reported():
    with pytest.warns(ConvergenceWarning, match="Best performing initialization did not converge. Try different init"):
        GaussianMixture(3, max_iter=1, random_state=0).fit(blobs())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = GaussianMixture(3, max_iter=0, random_state=0).fit(blobs())  # the start was requested
    assert (start.n_iter_, start.converged_, start.lower_bound_, len(start.lower_bounds_)) == (0, False, -math.inf, 0)


def test_warnings_point_at_the_caller():
    X, blocks = blobs(), lambda: [blobs()]
    for method, data in (("fit", X), ("fit_predict", X), ("fit_blocks", blocks)):
        call, line = getattr(GaussianMixture(3, max_iter=1, random_state=0), method), sys._getframe().f_lineno + 2
        with pytest.warns(ConvergenceWarning) as caught:
            call(data)
        assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)]


@pytest.mark.parametrize("shape", ["full", "diag", "spherical"])
@pytest.mark.parametrize(("reg_covar", "remedy"), [
    (0.0, "its covariance was floored at 1e-06 of the pooled variance."),
    (1e-6, "only reg_covar=1e-06 keeps its covariance from being singular."),
])  # fmt: skip
def test_a_collapsed_component_is_named_with_its_points(shape, reg_covar, remedy):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(100, 2)), np.tile([[50.0, 50.0]], (7, 1))])
    with pytest.warns(CollapsedComponentWarning) as caught:
        model = GaussianMixture(2, covariance_type=shape, reg_covar=reg_covar, random_state=0).fit(X)
    (c,) = np.flatnonzero(np.abs(model.means_ - 50).max(axis=1) < 1e-3)
    assert [str(w.message) for w in caught] == [f"GaussianMixture: component {c} has collapsed onto 1 point; {remedy}"]
    assert caught[0].filename == __file__
    assert model.weights_[c] == pytest.approx(7 / 107)
    assert np.isfinite(model.score_samples(X)).all()


def test_two_points_in_the_plane_are_reported_as_two():
    X = np.vstack([np.random.default_rng(0).normal(size=(100, 2)), [[50.0, 50.0], [51.0, 53.0]]])
    with pytest.warns(CollapsedComponentWarning, match=r"has collapsed onto 2 points; its covariance was floored at"):
        GaussianMixture(2, reg_covar=0.0, random_state=0).fit(X)


def test_a_constant_column_is_named():
    frame = pd.DataFrame(blobs(100, 3, 1), columns=["a", "b", "c"])
    frame["b"] = 7.0
    with pytest.warns(CollapsedComponentWarning, match=r"component 0 has collapsed \(column 'b' is constant in it, or"):
        model = GaussianMixture(1).fit(frame)
    np.testing.assert_allclose(model.means_[0], frame.mean())
    with pytest.warns(
        CollapsedComponentWarning, match=r"all components have collapsed \(column 1 is constant in it, or"
    ):
        GaussianMixture(2, covariance_type="tied", random_state=0).fit(frame.to_numpy())


def test_a_healthy_fit_reports_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in SHAPES:
            GaussianMixture(3, covariance_type=shape, random_state=0).fit(blobs())
            GaussianMixture(3, covariance_type=shape, random_state=0, reg_covar=0.0).fit(blobs())


def test_a_regularisation_that_drowns_the_data_is_reported():
    with pytest.warns(SuspiciousResultWarning, match=r"reg_covar=1e-06 is larger than the variance of every column"):
        GaussianMixture(2, random_state=0).fit(blobs() * 1e-9)


def test_more_components_than_distinct_rows():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 5, axis=0)
    with pytest.warns(CollapsedComponentWarning) as caught:
        model = GaussianMixture(4, random_state=0).fit(X)
    assert all("GaussianMixture: component" in str(w.message) for w in caught)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()
    assert model.weights_.sum() == pytest.approx(1.0)
    assert len(np.unique(model.labels_[:5])) == len(np.unique(model.labels_[5:])) == 1


def test_as_many_components_as_rows():
    X = blobs(6)
    model = quiet(X, 6)
    assert sorted(model.labels_) == list(range(6))
    np.testing.assert_allclose(model.means_[model.labels_], X, atol=1e-6)


# ---- beyond scikit-learn -------------------------------------------------------------------------------------------


def test_the_noise_component_recovers_a_known_mixture():
    rng = np.random.default_rng(1)
    a, b = rng.normal([0, 0], 1.0, size=(1000, 2)), rng.normal([12, 6], 1.5, size=(600, 2))
    noise = rng.uniform([-30, -30], [40, 40], size=(400, 2))
    X = np.vstack([a, b, noise])
    model = GaussianMixture(2, noise=True, random_state=0).fit(X)
    first = int(np.linalg.norm(model.means_, axis=1).argmin())
    np.testing.assert_allclose(model.means_[first], [0, 0], atol=0.15)
    np.testing.assert_allclose(model.means_[1 - first], [12, 6], atol=0.2)
    np.testing.assert_allclose(model.covariances_[first], np.eye(2), atol=0.2)
    assert model.noise_weight_ == pytest.approx(0.2, abs=0.02)
    np.testing.assert_array_equal(model.noise_box_, [X.min(axis=0), X.max(axis=0)])
    assert model.noise_log_density_ == pytest.approx(-np.log(np.ptp(X, axis=0)).sum())
    assert (model.labels_[:1600] == -1).mean() < 0.03
    assert (model.labels_[1600:] == -1).mean() > 0.85
    lam = model.predict_proba(X)
    assert lam.shape == (2000, 3)
    np.testing.assert_allclose(lam.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.labels_ == -1, lam.argmax(axis=1) == 2)
    assert lam[:, 2].mean() == pytest.approx(model.noise_weight_, abs=1e-3)  # at a fixed point
    assert model.predict([[1e6, 1e6]]) == [-1]
    # two coefficients of three, two means, two covariances, and the noise's
    n, likelihood = 2000, model.score_samples(X).sum()
    assert model.bic(X) == pytest.approx(-2 * likelihood + (1 + 4 + 6 + 1) * math.log(n))
    assert model.icl(X) == pytest.approx(model.bic(X) - 2 * np.log(lam.max(axis=1)).sum())
    without = GaussianMixture(2, random_state=0).fit(X)
    assert (without.noise_weight_, without.noise_log_density_) == (0.0, -math.inf)
    assert model.bic(X) < without.bic(X)


def test_the_noise_may_be_given_as_a_density():
    rng = np.random.default_rng(2)
    X = np.vstack([rng.normal(size=(500, 2)), rng.uniform(-20, 20, size=(100, 2))])
    as_box = GaussianMixture(1, noise=True, random_state=0).fit(X)
    volume = np.prod(np.ptp(X, axis=0))
    density = GaussianMixture(1, noise=1 / volume, random_state=0).fit(X)
    assert density.noise_log_density_ == pytest.approx(as_box.noise_log_density_)
    np.testing.assert_allclose(density.means_, as_box.means_, rtol=1e-9)
    points, labels = as_box.sample(4000, random_state=0)
    assert (labels == -1).mean() == pytest.approx(as_box.noise_weight_, abs=0.03)
    assert ((points[labels == -1] >= X.min(axis=0)) & (points[labels == -1] <= X.max(axis=0))).all()


def test_a_noise_without_weight_keeps_its_column():
    X = np.random.default_rng(0).normal(size=(200, 1))
    model = quiet(X, 1, noise=1e-300, tol=0.0, max_iter=20)
    assert model.noise_weight_ < 1e-200
    assert model.predict_proba(X).shape == (200, 2)
    assert (model.labels_ == 0).all()


@pytest.mark.parametrize(
    "change",
    [{"n_components": 3}, {"covariance_type": "diag"}, {"noise": True}, {"covariance_type": "spherical"}],
)
def test_warm_start_refuses_another_shape(change):
    X = blobs()
    model = quiet(X, 2, warm_start=True)
    with pytest.raises(
        InvalidParameter, match=r"warm_start cannot go on from 2 full components in 2 columns to .* Set warm"
    ):
        model.set_params(**change).fit(X)
    with pytest.raises(
        InvalidParameter, match=r"from 2 full components in 2 columns to 2 full ones in 3\. Set warm_start=False"
    ):
        quiet(X, 2, warm_start=True).fit(blobs(d=3))


def test_two_rules_end_the_loop():
    X = blobs(200, 2, 3, seed=4, far=1.5)
    likelihood = quiet(X, 3, tol=1e-3)
    parameters = quiet(X, 3, tol=1e-3, stop="parameters", max_iter=1000)
    assert likelihood.converged_
    assert parameters.converged_
    assert abs(np.diff(likelihood.lower_bounds_)[-1]) < 1e-3 <= abs(np.diff(likelihood.lower_bounds_)[-2])
    assert parameters.history_["changed"][-1] <= 1e-3 < parameters.history_["changed"][-2]
    assert parameters.n_iter_ > likelihood.n_iter_  # a flat likelihood hides parameters that still change


def test_history_reports_the_climb_and_the_best_start_is_kept():
    X = blobs(300, 2, 5, seed=3, far=3.0)
    runs = [quiet(X, 5, init_params="random_from_data", n_init=n) for n in (1, 4, 8)]
    assert runs[0].lower_bound_ <= runs[1].lower_bound_ <= runs[2].lower_bound_
    history = runs[2].history_
    np.testing.assert_array_equal(history["objective"], runs[2].lower_bounds_)
    assert history["iteration"].tolist() == list(range(1, runs[2].n_iter_ + 1))


def test_verbose_prints_at_its_interval(capsys):
    quiet(blobs(), 3, init_params="random", verbose=1, verbose_interval=2, tol=0.0, max_iter=5)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", objective")[0] for line in lines] == [
        "GaussianMixture, start 0: step 2", "GaussianMixture, start 0: step 4",
    ]  # fmt: skip


def test_samples_have_the_statistics_of_the_model():
    X = blobs(600, 2, 2, seed=6)
    for shape in (*SHAPES, "fixed"):
        fixed = {"fixed_variance": 1.3} if shape == "fixed" else {}
        model = quiet(X, 2, covariance_type=shape, **fixed)
        points, labels = model.sample(40_000, random_state=1)
        assert (np.diff(labels) >= 0).all()
        eye = np.eye(2)
        for c in range(2):
            sample = points[labels == c]
            sigma = {
                "full": model.covariances_[c],
                "tied": model.covariances_,
                "diag": np.diag(model.covariances_[c]) if shape == "diag" else None,
                "spherical": model.covariances_[c] * eye,
                "fixed": 1.3 * eye,
            }[shape]
            assert len(sample) / 40_000 == pytest.approx(model.weights_[c], abs=0.015)
            np.testing.assert_allclose(sample.mean(axis=0), model.means_[c], atol=0.05)
            np.testing.assert_allclose(np.cov(sample.T), sigma, atol=0.08)
        np.testing.assert_array_equal(points, model.sample(40_000, random_state=1)[0])


def test_blocks_larger_than_the_sample_start_from_some_of_the_rows(monkeypatch):
    monkeypatch.setattr("knoll.mixture.preprocess.SAMPLE", 500)
    X = blobs(9_000, seed=0, far=25.0)
    whole = GaussianMixture(3, random_state=0).fit(X)
    a = GaussianMixture(3, random_state=0).fit_blocks(lambda: np.array_split(X, 3))
    b = GaussianMixture(3, random_state=0).fit_blocks(lambda: np.array_split(X, 17))
    assert a.means_.tobytes() == b.means_.tobytes()
    assert not hasattr(a, "labels_")
    order = [int(np.linalg.norm(whole.means_ - m, axis=1).argmin()) for m in a.means_]
    np.testing.assert_allclose(a.means_, whole.means_[order], atol=1e-3)
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(X))
    chunks = list(zip(np.array_split(X, 5), np.array_split(weights, 5), strict=True))
    start = {"weights_init": [0.3, 0.3, 0.4], "means_init": X[:3], "precisions_init": np.stack([np.eye(2)] * 3)}
    c = GaussianMixture(3, **start).fit_blocks(lambda: chunks)
    d = GaussianMixture(3, **start).fit(X, sample_weight=weights)
    assert c.covariances_.tobytes() == d.covariances_.tobytes()
    np.testing.assert_array_equal(c.predict(X), d.labels_)


@pytest.mark.parametrize(("scale", "shift"), [(1e150, 0.0), (1e-150, 0.0), (1.0, 1e8), (1e200, 0.0), (1e-200, 0.0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_extreme_data_gives_the_right_answer(scale, shift, shape):
    X = np.round(blobs(300, 2, 3, seed=8), 3)
    # the same start: with names, a seed would draw other rows of other contents
    plain = quiet(X, 3, covariance_type=shape, reg_covar=0.0, means_init=X[:3])
    extreme = quiet(X * scale + shift, 3, covariance_type=shape, reg_covar=0.0, means_init=X[:3] * scale + shift)
    np.testing.assert_array_equal(extreme.labels_, plain.labels_)
    np.testing.assert_array_equal(extreme.predict(X * scale + shift), plain.labels_)
    np.testing.assert_allclose((extreme.means_ - shift) / scale, plain.means_, rtol=1e-6, atol=1e-6)
    if abs(math.log10(scale)) < 160:  # else the squares leave float64
        np.testing.assert_allclose(extreme.covariances_ / scale / scale, plain.covariances_, rtol=1e-6, atol=1e-6)
    assert extreme.score(X * scale + shift) == pytest.approx(plain.score(X) - 2 * math.log(scale), rel=1e-6)


def test_what_is_fixed_survives_extreme_data():
    """A regularisation or a fixed variance that is far from the data's own: no exception, and a finite model."""
    X = blobs()
    for scale in (1e-200, 1e-150, 1e150, 1e200):
        for parameters in ({}, {"covariance_type": "fixed", "fixed_variance": 1e-3}, {"noise": True}, {"noise": 1e-5}):
            model = quiet(X * scale, 3, **parameters)
            assert np.isfinite(model.means_).all()
            assert np.isfinite(model.weights_).all()
            assert np.isfinite(model.predict_proba(X * scale)).all()
            np.testing.assert_array_equal(model.predict(X * scale), model.labels_)
            if "fixed_variance" in parameters:
                np.testing.assert_array_equal(model.covariances_, np.full(3, 1e-3))


def test_extreme_weights_do_not_matter():
    X, weights = blobs(), np.random.default_rng(0).uniform(1, 2, size=300)
    plain = GaussianMixture(3, random_state=0).fit(X, sample_weight=weights)
    for power in (-900, 900):
        scaled = GaussianMixture(3, random_state=0).fit(X, sample_weight=np.ldexp(weights, power))
        assert scaled.means_.tobytes() == plain.means_.tobytes()


def test_ctrl_c_leaves_the_estimator_as_it_was():
    X = np.random.default_rng(0).normal(size=(100_000, 8))
    start = {"means_init": X[:20], "weights_init": np.full(20, 0.05), "precisions_init": np.stack([np.eye(8)] * 20)}
    model = quiet(X[:1000], 2)
    before = model.means_.copy()
    model.set_params(n_components=20, max_iter=100_000, tol=0.0, **start)
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    begun = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert time.perf_counter() - begun < 20  # far from a hundred thousand iterations, also on a busy machine
    np.testing.assert_array_equal(model.means_, before)


# ---- pictures ------------------------------------------------------------------------------------------------------


def test_the_picture_shows_each_component_over_its_points():
    rng = np.random.default_rng(0)
    X = np.vstack([blobs(200, 2, 2, seed=2), rng.uniform(-40, 40, size=(40, 2))])
    for shape in (*SHAPES, "fixed"):
        fixed = {"fixed_variance": 1.0} if shape == "fixed" else {}
        model = quiet(X, 2, covariance_type=shape, noise=True, **fixed)
        ax = plots.gaussian_mixture(model, X, n_std=2)
        contours = [np.column_stack(line.get_data()) for line in ax.lines if len(line.get_xdata()) > 1]
        assert len(contours) == 2
        assert {line.get_color() for line in ax.lines} == {RED}
        assert to_hex(ax.collections[0].get_facecolor()[0]).upper() == NOISE
        for c, contour in enumerate(contours):  # every point of a contour lies two standard deviations out
            of = model.covariances_ if shape == "tied" else model.covariances_[c]
            matrix = of if shape in ("full", "tied") else np.diag(np.broadcast_to(of, 2))
            away = contour - model.means_[c]
            np.testing.assert_allclose(np.einsum("ni,ij,nj->n", away, np.linalg.inv(matrix), away), 4.0, rtol=1e-6)
        plt.close("all")


def test_pictures_of_more_columns_and_of_one():
    X = datasets.load("iris").X
    ax = plots.gaussian_mixture(GaussianMixture(3, random_state=0).fit(X), X)
    assert ax.get_xlabel().startswith("principal axis 1 of 4")
    with pytest.raises(BadData, match="needs at least two columns; this mixture has 1"):
        plots.gaussian_mixture(GaussianMixture(1).fit(X[:, :1]))
    with pytest.raises(InvalidParameter, match="n_std must be > 0"):
        plots.gaussian_mixture(GaussianMixture(1).fit(X), n_std=0)
    plt.close("all")


# ---- parameters set after a fit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fitted", ["full", "tied", "diag", "spherical", "fixed"])
@pytest.mark.parametrize("then", ["full", "tied", "diag", "spherical", "fixed"])
def test_parameters_set_after_a_fit_do_not_change_its_answers(fitted, then):
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 3]], 30, axis=0)
    model = GaussianMixture(2, covariance_type=fitted, fixed_variance=2.0 if fitted == "fixed" else None)
    model.set_params(random_state=0).fit(X)
    before = model.predict(X), model.predict_proba(X), model.score_samples(X), model.sample(9)[0], model.bic(X)
    model.set_params(covariance_type=then, fixed_variance=0.1 if then == "fixed" else None, noise=True, n_components=3)
    after = model.predict(X), model.predict_proba(X), model.score_samples(X), model.sample(9)[0], model.bic(X)
    for a, b in zip(before, after, strict=True):
        np.testing.assert_array_equal(a, b)
    again = GaussianMixture.from_state(*model.to_state())
    np.testing.assert_array_equal(again.score_samples(X), before[2])
    model.set_params(warm_start=True, n_components=2, noise=False)
    if then != fitted:
        with pytest.raises(InvalidParameter, match=rf"from 2 {fitted} components in 2 columns to 2 {then} ones in 2"):
            model.fit(X)


def test_a_warm_start_may_change_the_fixed_variance():
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 3]], 30, axis=0)
    model = GaussianMixture(2, covariance_type="fixed", fixed_variance=2.0, random_state=0, warm_start=True).fit(X)
    model.set_params(fixed_variance=0.5, tol=1e-9).fit(X)
    cold = GaussianMixture(2, covariance_type="fixed", fixed_variance=0.5, random_state=0, tol=1e-9).fit(X)
    assert model.fixed_variance_ == 0.5
    np.testing.assert_allclose(model.score_samples(X), cold.score_samples(X), rtol=1e-6)


def test_a_faint_component_keeps_the_mean_of_its_points():
    """Where scikit-learn's share of ten roundings would draw it to zero (docs/guide/coming-from-scikit-learn.md)."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(100, 1, 200), rng.normal(140, 1, 200)])[:, None]
    start = {"weights_init": np.full(3, 1 / 3), "means_init": [[100.0], [140.0], [400.0]], "max_iter": 1}
    start["precisions_init"] = np.full(3, 1 / 400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = GaussianMixture(3, covariance_type="spherical", **start).fit(X)
        theirs = SklearnMixture(3, covariance_type="spherical", **start).fit(X)
    assert 0 < ours.weights_[2] < 1e-15
    assert X.min() <= ours.means_[2, 0] <= X.max()
    assert theirs.means_[2, 0] < 1.0


@pytest.mark.parametrize("covariance_type", ["diag", "spherical", "fixed"])
@pytest.mark.parametrize("blocks", [False, True])
def test_types_without_matrices_never_make_one_of_all_columns(covariance_type, blocks):
    n, d = 30, 2500
    X = np.random.default_rng(0).normal(size=(n, d))
    X[: n // 2] += 3
    variance = 1.0 if covariance_type == "fixed" else None
    model = GaussianMixture(2, covariance_type=covariance_type, fixed_variance=variance, random_state=0)
    tracemalloc.start()
    try:
        model.fit_blocks(lambda: [X[:7], X[7:]]) if blocks else model.fit(X)
        labels = model.predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * d * d
    assert (labels == labels[0]).tolist() == [True] * (n // 2) + [False] * (n - n // 2)


@pytest.mark.parametrize("d", [15, 16, 17, 50])
def test_pooled_variances_are_those_of_the_pooled_matrix(d):
    rng = np.random.default_rng(d)
    X = rng.normal(1e3, 1, size=(5000, d)) * 10.0 ** rng.integers(-3, 3, size=d)
    weights = rng.integers(0, 4, size=5000).astype(float)
    rules = {"estimator": None, "box": False, "unit": 0.0, "one_unit": False, "threads": 2}
    matrix, variances = (summarize(X, weights, matrix=choice, **rules).centering for choice in (True, False))
    assert matrix.covariance.shape == (d, d)
    assert variances.covariance.tobytes() == matrix.covariance.diagonal().tobytes()
    assert variances.origin.tobytes() == matrix.origin.tobytes()
