"""GaussianMixture beside those who know: the paper's box step by step, scikit-learn, definitions."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats
import sklearn.datasets
import sklearn.exceptions
import sklearn.mixture
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knoll import Gaussian, GaussianMixture, reference
from knoll.exceptions import BadData, CollapsedComponentWarning, ConvergenceWarning

SHAPES = ("full", "tied", "diag", "spherical")
seeds = st.integers(0, 2**32 - 1)


def cloud(seed: int, n: int, d: int, k: int) -> np.ndarray:
    """k overlapping, elongated blobs."""
    rng = np.random.default_rng(seed)
    labels = np.sort(rng.integers(k, size=n))
    mixes = np.eye(d) + 0.4 * rng.normal(size=(k, d, d))
    return rng.normal(scale=3, size=(k, d))[labels] + np.einsum("nij,nj->ni", mixes[labels], rng.normal(size=(n, d)))


def start(seed: int, X: np.ndarray, k: int, shape: str = "full") -> dict[str, np.ndarray]:
    """A start that leaves nobody out: weights by chance, means among the rows, wide precisions."""
    rng = np.random.default_rng(seed + 1)
    d = X.shape[1]
    weights = rng.uniform(0.5, 1.5, size=k)
    mix = rng.normal(size=(k, d, d)) / (3 * d)
    full = (np.eye(d) + mix @ mix.transpose(0, 2, 1)) / X.var(axis=0).mean()
    precisions = {
        "full": full,
        "tied": full[0],
        "diag": np.diagonal(full, axis1=1, axis2=2).copy(),
        "spherical": full[:, 0, 0].copy(),
    }[shape]
    return {
        "weights_init": weights / weights.sum(),
        "means_init": X[rng.choice(len(X), size=k, replace=False)],
        "precisions_init": precisions,
    }


def fit(Estimator, X, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=sklearn.exceptions.ConvergenceWarning)  # ours is one, too
        warnings.simplefilter("ignore", category=CollapsedComponentWarning)
        return Estimator(**parameters).fit(X)


# ---- the reference ---------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(60, 150), d=st.integers(1, 4), k=st.integers(1, 4))
def test_equals_the_paper_step_by_step(seed, n, d, k):
    X = cloud(seed, n, d, k)
    initial = start(seed, X, k)
    Sigma = np.linalg.inv(initial["precisions_init"])
    box = reference.em_gmm(X, initial["weights_init"], initial["means_init"], Sigma, max_iter=6, tol=0.0)
    unit = X.std(axis=0)
    for state in box:
        if state.step != "M step":
            continue
        model = fit(GaussianMixture, X, n_components=k, tol=0.0, reg_covar=0.0, max_iter=state.iteration, **initial)
        np.testing.assert_allclose(model.weights_, state.pi, atol=1e-10)
        np.testing.assert_allclose(model.means_ / unit, state.mu / unit, atol=1e-10)
        np.testing.assert_allclose(
            model.covariances_ / np.outer(unit, unit), state.Sigma / np.outer(unit, unit), atol=1e-10
        )
        assert model.score(X) * n == pytest.approx(state.log_likelihood, rel=1e-10)
        last = state
    np.testing.assert_allclose(model.predict_proba(X), reference_lam(X, last), atol=1e-9)


@settings(max_examples=25)
@given(
    rows=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=12, max_size=40),
    seed=seeds,
    k=st.integers(1, 3),
)
def test_equals_the_paper_on_lattices(rows, seed, k):
    """Duplicates and ties: whatever the box can do without a collapse, we do alike."""
    X = np.array(rows, dtype=float)
    rng = np.random.default_rng(seed)
    means, Sigma = X[rng.choice(len(X), size=k, replace=False)], np.stack([4.0 * np.eye(2)] * k)
    try:
        state = reference.run(reference.em_gmm(X, np.full(k, 1 / k), means, Sigma, max_iter=4, tol=0.0))
    except BadData:  # it has collapsed
        assume(False)
    model = fit(
        GaussianMixture, X, n_components=k, tol=0.0, reg_covar=0.0, max_iter=state.iteration,
        weights_init=np.full(k, 1 / k), means_init=means, precisions_init=np.stack([0.25 * np.eye(2)] * k),
    )  # fmt: skip
    assume(all(np.linalg.cond(S) < 1e6 for S in state.Sigma))
    np.testing.assert_allclose(model.weights_, state.pi, atol=1e-10)
    np.testing.assert_allclose(model.means_, state.mu, atol=1e-10)
    np.testing.assert_allclose(model.covariances_, state.Sigma, atol=1e-9)
    first, second = np.sort(np.column_stack([state.lam, np.zeros(len(X))]), axis=1)[:, [-1, -2]].T
    clear = first > second + 1e-9  # a tie is decided by the last bit
    np.testing.assert_array_equal(model.labels_[clear], state.labels[clear])


def reference_lam(X: np.ndarray, state: reference.EMState) -> np.ndarray:
    return next(reference.em_gmm(X, state.pi, state.mu, state.Sigma)).lam


def test_labels_are_those_of_the_paper():
    X = cloud(7, 150, 2, 3)
    initial = start(7, X, 3)
    box = reference.em_gmm(X, initial["weights_init"], initial["means_init"],
                           np.linalg.inv(initial["precisions_init"]), max_iter=20, tol=0.0)  # fmt: skip
    model = fit(GaussianMixture, X, n_components=3, tol=0.0, reg_covar=0.0, max_iter=20, **initial)
    np.testing.assert_array_equal(model.labels_, reference.run(box).labels)


# ---- scikit-learn ----------------------------------------------------------------------------------------------


def assert_equal_fits(ours, theirs, X, tol=1e-9):
    unit = X.std(axis=0)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, atol=tol)
    np.testing.assert_allclose(ours.means_ / unit, theirs.means_ / unit, atol=tol)
    for name in ("covariances_", "precisions_", "precisions_cholesky_"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert mine.shape == other.shape
        np.testing.assert_allclose(mine, other, rtol=tol, atol=tol * np.abs(other).max())
    assert (ours.n_iter_, ours.converged_) == (theirs.n_iter_, theirs.converged_)
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=tol, atol=tol)
    assert ours.lower_bound_ == pytest.approx(theirs.lower_bound_, rel=tol, abs=tol)
    np.testing.assert_array_equal(ours.labels_, theirs.predict(X))
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=tol)
    np.testing.assert_allclose(ours.score_samples(X), theirs.score_samples(X), rtol=tol, atol=tol)
    for name in ("score", "aic", "bic"):
        assert getattr(ours, name)(X) == pytest.approx(getattr(theirs, name)(X), rel=tol)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("n", "d", "k"), [(300, 1, 2), (400, 3, 3), (900, 6, 4)])
def test_equals_scikit_learn_from_the_same_start(shape, n, d, k):
    X = cloud(n, n, d, k)
    parameters = {"n_components": k, "covariance_type": shape, "max_iter": 30, **start(n, X, k, shape)}
    assert_equal_fits(fit(GaussianMixture, X, **parameters), fit(sklearn.mixture.GaussianMixture, X, **parameters), X)


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_scikit_learn_on_data_that_is_shifted_and_stretched(shape):
    X = cloud(3, 500, 3, 3) * [1.0, 30.0, 0.2]
    shift = np.array([1e4, -1e3, 5e4])
    shifted = X + shift
    parameters = {"n_components": 3, "covariance_type": shape, "max_iter": 15, "tol": 0.0, "reg_covar": 0.0}
    ours = fit(GaussianMixture, shifted, **parameters, **start(3, shifted, 3, shape))
    theirs = fit(sklearn.mixture.GaussianMixture, X, **parameters, **start(3, X, 3, shape))  # where it has its digits
    np.testing.assert_allclose(ours.means_ - shift, theirs.means_, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_stops_where_scikit_learn_stops(shape):
    X = cloud(11, 400, 2, 3)
    for tol in (1e-1, 1e-3, 1e-5):
        parameters = {"n_components": 3, "covariance_type": shape, "tol": tol, "max_iter": 150}
        ours = fit(GaussianMixture, X, **parameters, **start(11, X, 3, shape))
        theirs = fit(sklearn.mixture.GaussianMixture, X, **parameters, **start(11, X, 3, shape))
        assert ours.n_iter_ == theirs.n_iter_
        assert ours.converged_ == theirs.converged_


# ---- columns that depend on each other ----------------------------------------------------------------------------


def iris_and_its_sum() -> np.ndarray:
    X = sklearn.datasets.load_iris().data
    return np.column_stack([X, X.sum(axis=1)])


def redundant() -> np.ndarray:
    return sklearn.datasets.make_classification(300, 10, n_informative=4, n_redundant=4, random_state=0)[0]


DEPENDENT = {"iris": iris_and_its_sum(), "redundant": redundant()}


def smallest_eigenvalue(model) -> float:
    return float(np.linalg.eigvalsh(np.asarray(model.covariances_, dtype=np.float64)).min())


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
@pytest.mark.parametrize("shape", ["full", "tied"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_columns_are_kept_apart_by_reg_covar_alone(name, shape, init):
    """Whatever the start, the way in and the weights: no floor of our own where scikit-learn needs none."""
    X = DEPENDENT[name]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(X))
    parameters = {"n_components": 3, "covariance_type": shape, "init_params": init, "max_iter": 30}
    for seed in range(4):
        estimator = GaussianMixture(**parameters, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for model in (
                estimator.fit(X),
                GaussianMixture(**parameters, random_state=seed).fit(X, sample_weight=weights),
                GaussianMixture(**parameters, random_state=seed).fit_blocks(lambda: np.array_split(X, 3)),
                GaussianMixture(**parameters, random_state=seed, means_init=X[:3]).fit(X),
            ):
                assert smallest_eigenvalue(model) == pytest.approx(1e-6, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("init", ["kmeans", "random"])
@pytest.mark.parametrize("shape", ["full", "tied"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_columns_fit_as_well_as_in_scikit_learn(name, shape, init, dtype):
    """From the parameters of our start (float32 would round them), and over seeds from starts of one name."""
    X = DEPENDENT[name].astype(dtype)
    ours, theirs = [], []
    for seed in range(5):
        parameters = {"n_components": 3, "covariance_type": shape, "init_params": init, "tol": 1e-6, "max_iter": 200}
        model = fit(GaussianMixture, X, **parameters, random_state=seed)
        if dtype is np.float64:
            begun = fit(GaussianMixture, X, **(parameters | {"max_iter": 0}), random_state=seed)
            start = {"weights_init": begun.weights_, "means_init": begun.means_, "precisions_init": begun.precisions_}
            same = fit(sklearn.mixture.GaussianMixture, X, **parameters, **start)
            assert model.lower_bound_ >= same.lower_bound_ - 1e-3
        other = fit(sklearn.mixture.GaussianMixture, X.astype(np.float64), **parameters, random_state=seed)
        ours.append(model.lower_bound_)
        theirs.append(other.lower_bound_)
    error = math.hypot(np.std(ours), np.std(theirs)) / math.sqrt(len(ours))
    assert np.mean(ours) >= np.mean(theirs) - 3 * error - 0.1


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
def test_a_constant_column_has_the_variance_that_reg_covar_gives_it(init):
    X = np.column_stack([sklearn.datasets.load_iris().data, np.full(150, 3.5)])
    for shape in ("full", "tied", "diag"):
        model = fit(GaussianMixture, X, n_components=3, covariance_type=shape, init_params=init, random_state=0)
        last = model.covariances_[..., -1] if shape == "diag" else model.covariances_[..., -1, -1]
        np.testing.assert_allclose(last, 1e-6, rtol=1e-12)


def test_an_array_of_the_start_is_kept_beside_a_named_method():
    X = cloud(5, 300, 2, 2)
    initial = start(5, X, 2)
    for name, fitted in (("weights_init", "weights_"), ("means_init", "means_"), ("precisions_init", "precisions_")):
        model = GaussianMixture(2, max_iter=0, random_state=0, **{name: initial[name]}).fit(X)
        np.testing.assert_allclose(getattr(model, fitted), initial[name], rtol=1e-12)


def test_warm_start_goes_on_as_scikit_learn_does():
    X = cloud(13, 400, 2, 3)
    parameters = {"n_components": 3, "warm_start": True, "max_iter": 4, "tol": 1e-5, **start(13, X, 3)}
    ours, theirs = GaussianMixture(**parameters), sklearn.mixture.GaussianMixture(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(5):
            ours.fit(X)
            theirs.fit(X)
            assert_equal_fits(ours, theirs, X)


# ---- definitions -----------------------------------------------------------------------------------------------


def log_joint(model, X):
    """log π_c N(x | μ_c, Σ_c) by SciPy, whatever the shape."""
    k, d = model.means_.shape
    eye = np.eye(d)
    matrices = {
        "full": lambda c: model.covariances_[c],
        "tied": lambda c: model.covariances_,
        "diag": lambda c: np.diag(model.covariances_[c]),
        "spherical": lambda c: model.covariances_[c] * eye,
        "fixed": lambda c: model.covariances_[c] * eye,
    }[model.covariance_type]
    columns = [
        math.log(model.weights_[c]) + scipy.stats.multivariate_normal(model.means_[c], matrices(c)).logpdf(X)
        for c in range(k)
    ]
    return np.column_stack(columns)


@pytest.mark.parametrize("shape", [*SHAPES, "fixed"])
def test_criteria_are_what_they_are_defined_as(shape):
    X = cloud(17, 300, 3, 2)
    n, d, k = 300, 3, 2
    fixed = {"fixed_variance": 2.0} if shape == "fixed" else {}
    model = GaussianMixture(k, covariance_type=shape, random_state=0, **fixed).fit(X)
    free = {"full": k * 6, "tied": 6, "diag": k * d, "spherical": k, "fixed": 0}[shape] + k * d + k - 1
    joint = log_joint(model, X)
    likelihood = np.logaddexp.reduce(joint, axis=1).sum()
    assert model.aic(X) == pytest.approx(-2 * likelihood + 2 * free)
    assert model.bic(X) == pytest.approx(-2 * likelihood + free * math.log(n))
    assert model.icl(X) == pytest.approx(-2 * joint.max(axis=1).sum() + free * math.log(n))
    assert model.icl(X) >= model.bic(X)
    np.testing.assert_allclose(model.score_samples(X), np.logaddexp.reduce(joint, axis=1), rtol=1e-10)
    weights = np.random.default_rng(0).integers(0, 4, size=n)
    for criterion in ("aic", "bic", "icl", "score"):
        weighted = getattr(model, criterion)(X, sample_weight=weights)
        assert weighted == pytest.approx(getattr(model, criterion)(np.repeat(X, weights, axis=0)))


def test_one_component_is_the_gaussian():
    X = cloud(19, 5_000, 4, 1)
    mixture, one = GaussianMixture(1, reg_covar=0.0).fit(X), Gaussian().fit(X)
    np.testing.assert_allclose(mixture.means_[0], one.mean_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(mixture.covariances_[0], one.covariance_, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mixture.score_samples(X), one.score_samples(X), rtol=1e-10)
    assert mixture.score(X) * len(X) == pytest.approx(one.score(X), rel=1e-12)
    assert (mixture.labels_ == 0).all()


def test_a_fixed_covariance_that_vanishes_is_kmeans():
    """Section 3: with Σ = εI and ε small the labels and means are those of k-means (from the same start)."""
    X = cloud(23, 200, 2, 3)
    means = X[[0, 70, 150]]
    state = reference.run(reference.kmeans(X, means))
    model = GaussianMixture(
        3, covariance_type="fixed", fixed_variance=1e-7, max_iter=100, tol=0.0, stop="parameters",
        weights_init=np.full(3, 1 / 3), means_init=means,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    np.testing.assert_array_equal(model.labels_, state.labels)
    np.testing.assert_allclose(model.means_, state.mu, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(model.covariances_, np.full(3, 1e-7))


# ---- a row far from the others ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("far", [1e10, 1e14, 1e18, 1e30, 1e100])
def test_one_far_row_with_a_component_of_its_own_costs_the_others_no_digits(shape, far):
    """The distance of a row that no other component sees is not in their parameters, nor in densities elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [9.0, 3.0], [-5.0, 8.0]], 100, axis=0)
    precisions = {"full": np.tile(np.eye(2), (4, 1, 1)), "tied": np.eye(2), "diag": np.ones((4, 2))}
    parameters = {
        "n_components": 4,
        "covariance_type": shape,
        "weights_init": np.full(4, 0.25),
        "precisions_init": precisions.get(shape, np.ones(4)),
        "max_iter": 30,
        "tol": 0.0,
    }

    def models(distance):
        far_row = [[distance, -distance]]
        Y = np.vstack([X, far_row])
        means = np.vstack([X[[0, 150, 250]], far_row])
        orders = [np.arange(301), np.arange(301)[::-1], rng.permutation(301)]
        fits = [fit(GaussianMixture, Y[order], means_init=means, **parameters) for order in orders]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            blocks = GaussianMixture(means_init=means, **parameters).fit_blocks(lambda: np.array_split(Y, 5))
        for name in ("means_", "covariances_", "weights_", "lower_bounds_"):
            np.testing.assert_array_equal(getattr(blocks, name), getattr(fits[0], name), err_msg=name)
        return fits

    near = models(1e5)[0]
    for model in models(far):
        np.testing.assert_allclose(model.means_[:3], near.means_[:3], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(model.weights_, near.weights_, rtol=1e-11)
        shared = slice(None) if shape == "tied" else slice(3)
        np.testing.assert_allclose(model.covariances_[shared], near.covariances_[shared], rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(model.score_samples(X), near.score_samples(X), rtol=1e-10)


# ---- columns that depend on each other -------------------------------------------------------------------------


def dependent_tables() -> dict[str, np.ndarray]:
    iris = sklearn.datasets.load_iris().data
    redundant = {"n_informative": 2, "n_redundant": 3, "n_clusters_per_class": 1}
    return {
        "iris and its sum": np.column_stack([iris, iris.sum(axis=1)]),
        "iris and two combinations": np.column_stack([iris, iris @ [1, -2, 0.5, 0], iris @ [0.1, 0.3, 0, 1]]),
        "redundant columns": sklearn.datasets.make_classification(200, 5, random_state=0, **redundant)[0],
    }


def exact_score(X: np.ndarray, reg_covar: float) -> float:
    """The log-likelihood per row of one Gaussian whose Σ is that of the rows, and reg_covar on its diagonal."""
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    n, d = X.shape
    mean = [sum(row[j] for row in rows) / n for j in range(d)]
    about = [[v - m for v, m in zip(row, mean)] for row in rows]
    S = [[sum(row[i] * row[j] for row in about) / n for j in range(d)] for i in range(d)]
    table = [[S[i][j] + (Fraction(reg_covar) if i == j else 0) for j in range(d)] + S[i] for i in range(d)]
    determinant = Fraction(1)
    for i in range(d):  # Gauss and Jordan: [Σ | S] → [I | Σ⁻¹S]; Σ is positive definite, so no pivot is 0
        determinant *= table[i][i]
        table[i] = [v / table[i][i] for v in table[i]]
        for r in set(range(d)) - {i}:
            table[r] = [v - table[r][i] * p for v, p in zip(table[r], table[i])]
    trace = sum(table[i][d + i] for i in range(d))
    log_det = math.log(determinant.numerator) - math.log(determinant.denominator)
    return -0.5 * (d * math.log(2 * math.pi) + log_det + float(trace))


@pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")  # reg_covar drowns small data
@pytest.mark.parametrize("shape", ["full", "tied"])
@pytest.mark.parametrize("name", dependent_tables())
def test_dependent_columns_keep_what_reg_covar_leaves_them(name, shape):
    for scale in (1e-6, 1.0, 1e3, 1e4, 1e6, 1e8, 1e10):
        X = dependent_tables()[name] * scale
        model = fit(GaussianMixture, X, n_components=1, covariance_type=shape)
        assert model.score(X) == pytest.approx(exact_score(X, 1e-6), abs=1e-3), scale
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CollapsedComponentWarning)
            blocks = GaussianMixture(1, covariance_type=shape).fit_blocks(lambda: np.array_split(X, 7))  # noqa: B023
        np.testing.assert_array_equal(blocks.precisions_cholesky_, model.precisions_cholesky_)


@pytest.mark.filterwarnings("ignore::knoll.exceptions.SuspiciousResultWarning")  # reg_covar drowns small data
@pytest.mark.parametrize("shape", ["full", "tied"])
@pytest.mark.parametrize("name", dependent_tables())
def test_dependent_columns_end_no_lower_than_scikit_learn(name, shape):
    """From the same start, but for what scikit-learn gains by rounding.

    Its smallest eigenvalues are reg_covar and the rounding of the largest. Where they come out below reg_covar, which
    S + reg_covar·I cannot have, its density is higher by half the logarithm of the quotient.
    """
    compared = 0
    for scale in 10.0 ** np.arange(-6.0, 11.0):
        X = dependent_tables()[name] * scale
        d, k = X.shape[1], 3
        for seed in range(2):
            rows = np.random.default_rng(seed).choice(len(X), size=k, replace=False)
            precision = np.eye(d) / X.var(axis=0).mean()
            parameters = {
                "n_components": k,
                "covariance_type": shape,
                "weights_init": np.full(k, 1 / k),
                "means_init": X[rows],
                "precisions_init": np.tile(precision, (k, 1, 1)) if shape == "full" else precision,
                "tol": 0.0,
                "max_iter": 15,
            }
            model = fit(GaussianMixture, X, **parameters)
            try:
                peer = fit(sklearn.mixture.GaussianMixture, X, **parameters)
            except ValueError:
                continue  # ill-defined there
            factors = np.broadcast_to(peer.precisions_cholesky_, (k, d, d))
            eigenvalues = np.linalg.svd(factors, compute_uv=False) ** -2.0  # (k, d) of Σ
            gained = peer.weights_ @ np.maximum(0.0, 0.5 * np.log(1e-6 / eigenvalues)).sum(axis=1)
            assert model.score(X) >= peer.score(X) - gained - 1e-3, (scale, seed)
            compared += 1
    assert compared >= 16
