"""The data: the same points everywhere, the paper's figures on X₁₅₀₀, and what bad arguments get."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect

import numpy as np
import pytest
import scipy.ndimage
import scipy.stats
import threadpoolctl
from sklearn import datasets as their_datasets
from sklearn.cluster import DBSCAN, KMeans, SpectralClustering
from sklearn.metrics import adjusted_mutual_info_score, adjusted_rand_score
from sklearn.mixture import GaussianMixture

from knoll import datasets, metrics
from knoll.datasets import _paper, _sampling
from knoll.exceptions import BadData, CostError, InvalidParameter, InvalidType

PAPER = ["one_gaussian", "x1500", "circles", "banana", "three_component_density"]
TABLES = ["iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud"]


def digest(X):
    """A fingerprint of the points to 1.5e-8, so that the last bits of a C library do not matter."""
    return hashlib.sha256(np.rint(X * 2.0**26).astype("<i8").tobytes()).hexdigest()[:16]


def em(X, weights, means, covariances, *, rounds=10_000, tol=1e-12):
    """EM for a Gaussian mixture, to convergence; returns (log joint, parameters)."""
    last = -np.inf
    for _ in range(rounds):
        joint = datasets.Mixture(weights, means, covariances).log_joint(X)  # (n, k)
        log_px = np.logaddexp.reduce(joint, axis=1)
        resp = np.exp(joint - log_px[:, None])
        mass = resp.sum(axis=0)
        weights, means = mass / len(X), resp.T @ X / mass[:, None]
        covariances = np.array([(r[:, None] * (X - m)).T @ (X - m) / s for r, m, s in zip(resp.T, means, mass)])
        if abs(log_px.mean() - last) < tol:
            break
        last = log_px.mean()
    return datasets.Mixture(weights, means, covariances).log_joint(X), (weights, means, covariances)


def match(labels, y):
    """Rename clusters to the class most of their points have."""
    names = np.array([np.bincount(y[labels == c], minlength=3).argmax() for c in range(3)])
    return names[labels]


@pytest.fixture(autouse=True)
def one_thread():
    """Small fits on a busy machine wait for each other's BLAS threads most of the time."""
    with threadpoolctl.threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def fitted():
    data = datasets.x1500()
    return data, em(data.X, data.model.weights, data.model.means, data.model.covariances)


# ---- the same points everywhere


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("one_gaussian", "a9567780e98d4947"),
        ("x1500", "855a163c3455ed8a"),
        ("circles", "01254a7c2770a7f0"),
        ("banana", "0303521572ec774c"),
        ("three_component_density", "c2965cc5f30eac54"),
    ],
)
def test_the_points_are_pinned(name, fingerprint):
    """The fingerprints are those of the first release: changing one changes everybody's figures."""
    data = datasets.load(name)
    assert digest(data.X) == fingerprint
    off = np.abs(data.X * 2.0**26 % 1.0 - 0.5).min()
    assert off > 1e-5, "a coordinate lies on the edge of two cells, and the fingerprint hangs on its last bits"


@pytest.mark.parametrize("name", PAPER + TABLES)
def test_one_interface(name):
    data = datasets.load(name)
    n, d = data.X.shape
    assert data.name == name
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert np.isfinite(data.X).all()
    assert len(data.feature_names) == d
    assert all(isinstance(text, str) and text for text in (data.description, data.source, *data.feature_names))
    if data.y is None:
        assert data.target_names == ()
    else:
        assert data.y.shape == (n,)
        assert data.y.dtype == np.int64
        assert np.array_equal(np.unique(data.y), np.arange(len(data.target_names)))
    assert repr(data).startswith(f"Dataset(name='{name}'")
    with pytest.raises(dataclasses.FrozenInstanceError):
        data.name = "other"


@pytest.mark.parametrize("name", PAPER + TABLES)
def test_every_load_is_a_fresh_copy(name):
    first, before = datasets.load(name), digest(datasets.load(name).X)
    first.X[:] = 0.0
    if first.y is not None:
        first.y[:] = 7
    if first.model is not None:
        first.model.means[:] = 0.0
    again = datasets.load(name)
    assert digest(again.X) == before
    assert again.y is None or again.y.max() < 10
    assert again.model is None or again.model.means.any()
    assert again.y is None or not (again.y == 7).all()


def test_names_and_load_agree_with_the_functions():
    assert datasets.names() == PAPER + TABLES
    for name in datasets.names():
        assert digest(getattr(datasets, name)().X) == digest(datasets.load(name).X)
    assert datasets.load(" X1500 ").name == "x1500"
    assert datasets.load("breast-cancer").name == "breast_cancer"
    datasets.names().clear()
    assert datasets.names()


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_scikit_learn_s(name):
    ours, theirs = datasets.load(name), getattr(their_datasets, f"load_{name}")()
    assert np.array_equal(ours.X, theirs.data)
    assert list(ours.feature_names) == list(theirs.feature_names)
    if ours.y is not None:
        assert np.array_equal(ours.y, theirs.target)


# ---- X₁₅₀₀


def test_the_mixture_misplaces_two_points_of_one_class_into_one_other(fitted):
    data, (joint, _) = fitted
    found = joint.argmax(axis=1)
    wrong = np.flatnonzero(found != data.y)
    assert len(wrong) == 2
    assert data.y[wrong].tolist() == [0, 0]
    assert found[wrong].tolist() == [2, 2]
    for ami in (adjusted_mutual_info_score, metrics.adjusted_mutual_info_score):
        assert round(ami(data.y, found), 3) == 0.992
    for ari in (adjusted_rand_score, metrics.adjusted_rand_score):
        assert round(ari(data.y, found), 3) == 0.996


def test_no_point_is_near_the_mixture_s_border(fitted):
    data, (joint, (weights, means, covariances)) = fitted
    second, first = np.sort(joint, axis=1)[:, -2:].T
    assert (first - second).min() > np.log(8)
    rng = np.random.default_rng(0)
    for size in (1e-6, 1e-3):
        moved = means + size * rng.standard_normal(means.shape)
        wider = covariances * (1 + size * rng.standard_normal((3, 1, 1)))
        near = datasets.Mixture(weights, moved, wider).log_joint(data.X)
        assert np.array_equal(near.argmax(axis=1), joint.argmax(axis=1))


@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8, 1e-10])
def test_scikit_learn_s_mixture_finds_the_same_partition(fitted, tol):
    data, (joint, _) = fitted
    model = GaussianMixture(3, n_init=3, tol=tol, max_iter=2000, random_state=0).fit(data.X)
    assert np.array_equal(match(model.predict(data.X), data.y), joint.argmax(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_em_from_a_k_means_start_finds_the_same_partition(fitted, seed):
    data, (joint, _) = fitted
    start = KMeans(3, n_init=1, random_state=seed).fit(data.X)
    covariances = np.array([np.cov(data.X[start.labels_ == c].T) for c in range(3)])
    again, _ = em(data.X, np.full(3, 1 / 3), start.cluster_centers_, covariances)
    assert np.array_equal(match(again.argmax(axis=1), data.y), joint.argmax(axis=1))


def test_k_means_clearly_fails():
    data = datasets.x1500()
    found = KMeans(3, n_init=50, random_state=0).fit_predict(data.X)
    assert metrics.adjusted_rand_score(data.y, found) < 0.6
    assert metrics.adjusted_mutual_info_score(data.y, found) < 0.7


# ---- the other pictures


@pytest.mark.parametrize("name", ["one_gaussian", "x1500", "three_component_density"])
def test_points_follow_their_model(name):
    data = datasets.load(name)
    classes = np.zeros(len(data.X), dtype=int) if data.y is None else data.y
    for c, (weight, mean, covariance) in enumerate(zip(data.model.weights, data.model.means, data.model.covariances)):
        X = data.X[classes == c]
        assert len(X) / len(data.X) == pytest.approx(weight, abs=0.06)
        squares = np.einsum("ni,ij,nj->n", X - mean, np.linalg.inv(covariance), X - mean)
        assert scipy.stats.kstest(squares, scipy.stats.chi2(2).cdf).pvalue > 0.01
    assert data.model.weights.sum() == pytest.approx(1.0)


def test_density_is_that_of_scipy():
    data = datasets.three_component_density()
    m = data.model
    exact = sum(
        w * scipy.stats.multivariate_normal(mu, cov).pdf(data.X)
        for w, mu, cov in zip(m.weights, m.means, m.covariances)
    )
    assert m.density(data.X) == pytest.approx(exact, rel=1e-10)
    assert m.log_density([[1e3, 1e3]])[0] < -1e4
    with pytest.raises(BadData, match=r"X must have shape \(n, 2\), got \(2,\). Pass one row per point."):
        m.density([0.0, 0.0])
    for bad in (np.nan, np.inf):
        with pytest.raises(BadData, match=rf"X has {bad} at row 1, column 0. Drop or impute such rows first."):
            m.density([[0.0, 0.0], [bad, 0.0]])
    for rows in ([["a", "b"]], [[0.0], [1.0, 2.0]], [[10**400, 0]], [[None, object()]]):
        with pytest.raises(BadData, match=r"X must hold real numbers in rows of 2: .* Encode or drop the others"):
            m.density(rows)


def test_a_level_cuts_three_islands_out_of_the_density():
    data = datasets.three_component_density()
    axis = np.linspace(-7, 7, 281)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    height = data.model.density(grid.reshape(-1, 2)).reshape(281, 281)
    assert scipy.ndimage.label(height > 0.02)[1] == 3
    assert scipy.ndimage.label(height > 0.002)[1] == 1
    assert height.sum() * (axis[1] - axis[0]) ** 2 == pytest.approx(1.0, abs=1e-6)
    assert DBSCAN(eps=0.5, min_samples=10).fit_predict(data.X).max() == 2


@pytest.mark.parametrize("make", [datasets.circles, datasets.banana])
def test_curved_classes_need_more_than_k_means(make):
    data = make()
    assert adjusted_rand_score(data.y, KMeans(2, n_init=10, random_state=0).fit_predict(data.X)) < 0.5
    spectral = SpectralClustering(2, gamma=1 / (2 * 0.1**2), random_state=0)
    assert adjusted_rand_score(data.y, spectral.fit_predict(data.X)) == 1.0


def test_circles_without_noise_are_circles():
    data = datasets.circles(101, noise=0, factor=0.25)
    radius = np.hypot(*data.X.T)
    assert radius[data.y == 0] == pytest.approx(1.0)
    assert radius[data.y == 1] == pytest.approx(0.25)
    assert np.bincount(data.y).tolist() == [51, 50]


def test_banana_without_noise_are_two_arcs():
    data = datasets.banana(101, noise=0)
    assert np.hypot(*data.X[data.y == 0].T) == pytest.approx(1.0)
    assert np.hypot(*(data.X[data.y == 1] - [1.0, 0.5]).T) == pytest.approx(1.0)
    assert np.bincount(data.y).tolist() == [51, 50]


# ---- arguments


@pytest.mark.parametrize("make", [getattr(datasets, n) for n in PAPER if n != "x1500"])
def test_size_and_seed(make):
    assert len(make(37).X) == 37
    assert digest(make(37, random_state=5).X) == digest(make(37, random_state=np.int64(5)).X)
    assert digest(make(37, random_state=5).X) != digest(make(37, random_state=6).X)
    assert digest(make(random_state=None).X) != digest(make(random_state=None).X)
    for source in (np.random.default_rng, np.random.RandomState):
        stream = source(1)
        first, second = make(random_state=stream), make(random_state=stream)
        assert digest(first.X) != digest(second.X)
        assert digest(first.X) == digest(make(random_state=source(1)).X)


def test_seeds_do_not_share_their_draws():
    """Where a point lies in its component does not depend on the components that this or another seed draws."""
    roots = [_paper._ellipse(0.0, 0.9, 0.7), _paper._ellipse(60.0, 1.1, 0.5), _paper._ellipse(-30.0, 0.8, 0.5)]
    for seed in range(3):
        data = datasets.three_component_density(random_state=seed)
        z = [np.linalg.solve(roots[c], x - data.model.means[c]) for x, c in zip(data.X, data.y)]
        drawn = scipy.stats.norm.cdf(np.ravel(z))  # the uniforms that the normals were made of
        assert np.allclose(drawn, _sampling.uniforms(seed, 1200, stream=1))
        for other in range(5):
            assert abs(np.corrcoef(drawn, _sampling.uniforms(other, 1200))[0, 1]) < 0.15


@pytest.mark.parametrize("make", [getattr(datasets, n) for n in PAPER if n != "x1500"])
@pytest.mark.parametrize(
    ("options", "error_type", "message"),
    [
        ({"n_samples": 0}, InvalidParameter, "n_samples must be >= "),
        ({"n_samples": -5}, InvalidParameter, "got -5. Write e.g. n_samples=500."),
        ({"n_samples": "many"}, InvalidType, "n_samples must be an integer, got 'many'."),
        ({"n_samples": 10.0}, InvalidType, "n_samples must be an integer, got 10.0."),
        ({"n_samples": True}, InvalidType, "n_samples must be an integer, got True."),
        ({"noise": -0.1}, InvalidParameter, "noise must be finite and >= 0, got -0.1. It is the standard deviation"),
        ({"noise": np.nan}, InvalidParameter, "noise must be finite and >= 0, got nan."),
        ({"noise": np.inf}, InvalidParameter, "noise must be finite and >= 0, got inf."),
        ({"noise": 10**400}, InvalidParameter, "noise must be finite and >= 0, got inf."),
        ({"noise": -(10**400)}, InvalidParameter, "noise must be finite and >= 0, got -inf."),
        ({"noise": np.array([0.1, 0.2])}, InvalidType, "noise must be a number, got array([0.1, 0.2])."),
        (
            {"n_samples": 10**12},
            CostError,
            "n_samples must be <= 10**8, got 1000000000000, whose points need 16000 GB. Draw several smaller sets, "
            "each with a random_state of its own.",
        ),
        ({"n_samples": 10**5000}, CostError, "n_samples must be <= 10**8, got more than 10**10 GB of points."),
        ({"noise": "loud"}, InvalidType, "noise must be a number, got 'loud'."),
        ({"random_state": -1}, InvalidParameter, "random_state must be >= 0, got -1."),
        ({"random_state": "x"}, InvalidType, "random_state must be an int, a numpy Generator or RandomState"),
        ({"factor": 1.5}, InvalidParameter, "factor must lie between 0 and 1, got 1.5. The outer circle"),
        ({"factor": 0}, InvalidParameter, "factor must lie between 0 and 1, got 0."),
        ({"factor": "half"}, InvalidType, "factor must be a number, got 'half'."),
    ],
)
def test_bad_arguments(make, options, error_type, message):
    if not options.keys() <= inspect.signature(make).parameters.keys():
        with pytest.raises(InvalidParameter, match=f"has no option '{next(iter(options))}'. Its options: n_samples"):
            datasets.load(make.__name__, **options)
        return
    with pytest.raises(error_type) as error:
        make(**options)
    assert message in str(error.value)
    with pytest.raises(error_type):
        datasets.load(make.__name__, **options)


def test_unknown_names():
    with pytest.raises(InvalidParameter, match=r"there is no dataset named 'bananas'. Did you mean 'banana'\?"):
        datasets.load("bananas")
    with pytest.raises(InvalidParameter, match=r"no dataset named 'qqq'. Known: one_gaussian, x1500, "):
        datasets.load("qqq")
    with pytest.raises(InvalidType, match=r"name must be a string, got 3. knoll.datasets.names\(\) lists"):
        datasets.load(3)
    with pytest.raises(InvalidParameter, match=r"dataset 'x1500' has no option 'n_samples'. Its options: none."):
        datasets.load("x1500", n_samples=3)


# ---- pandas


def test_frame():
    pytest.importorskip("pandas")
    data = datasets.iris()
    table = data.frame()
    assert list(table.columns) == [*data.feature_names, "target"]
    assert np.array_equal(table[list(data.feature_names)], data.X)
    assert np.array_equal(table["target"], data.y)
    table.iloc[0, 0] = -1.0
    assert data.X[0, 0] == 5.1
    assert list(datasets.one_gaussian().frame().columns) == ["x", "y"]


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"frame\(\) needs pandas, which is not installed"):
        datasets.iris().frame()
