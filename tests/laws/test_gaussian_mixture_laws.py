"""Laws of the mixture: what must hold for any data."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from knoll import GaussianMixture
from knoll.exceptions import BadData, CollapsedComponentWarning, ConvergenceWarning, KnollWarning

SHAPES = ("full", "tied", "diag", "spherical")
STARTS = ("kmeans", "k-means++", "random", "random_from_data")
seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from(SHAPES)
PARAMETERS = ("weights_", "means_", "covariances_", "precisions_cholesky_")


def cloud(seed: int, n: int, d: int, k: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(scale=4, size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d)) @ (
        np.eye(d) + 0.3 * rng.normal(size=(d, d))
    )


def fit(X, k=3, sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KnollWarning)
        return GaussianMixture(k, **{"random_state": 0, **parameters}).fit(X, sample_weight=sample_weight)


def assert_same_bits(a, b, names=PARAMETERS):
    for name in names:
        assert np.asarray(getattr(a, name)).tobytes() == np.asarray(getattr(b, name)).tobytes(), name


def assert_close(a, b, tol=1e-8):
    for name in ("weights_", "means_", "covariances_"):
        mine, other = getattr(a, name), getattr(b, name)
        np.testing.assert_allclose(mine, other, rtol=tol, atol=tol * np.abs(other).max(), err_msg=name)


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(30, 300), d=st.integers(1, 4), k=st.integers(1, 5), shape=shapes, noise=st.booleans())
def test_the_likelihood_never_falls(seed, n, d, k, shape, noise):
    """Nor where a component collapses: it is kept above the floor from the start."""
    X = cloud(seed, n, d)
    if noise:
        X = np.vstack([X, np.random.default_rng(seed).uniform(-20, 20, size=(n // 8, d))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(
            k, reg_covar=0.0, covariance_type=shape, tol=0.0, max_iter=40, noise=noise, random_state=0
        ).fit(X)
    bounds = model.lower_bounds_
    assert len(bounds) == model.n_iter_ == len(model.history_["objective"])
    assert model.lower_bound_ == bounds[-1]
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1.0, abs=1e-12)
    assert (np.diff(bounds) >= -1e-11 * np.maximum(1.0, np.abs(bounds[1:]))).all()


@settings(max_examples=25)
@given(seed=seeds, n=st.integers(5, 20), d=st.integers(1, 3), shape=shapes, init=st.sampled_from(["kmeans", "random"]))
def test_the_likelihood_never_falls_on_a_lattice_where_components_collapse(seed, n, d, shape, init):
    X = np.random.default_rng(seed).integers(-2, 3, size=(n, d)).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GaussianMixture(
            3, reg_covar=0.0, covariance_type=shape, tol=0.0, max_iter=30, init_params=init, random_state=0
        ).fit(X)
    bounds = model.lower_bounds_
    assert (np.diff(bounds) >= -1e-10 * np.maximum(1.0, np.abs(bounds[1:]))).all()


def test_the_likelihood_never_falls_where_it_once_did():
    model = GaussianMixture(2, covariance_type="diag", reg_covar=0, random_state=0, tol=0, max_iter=50)
    with warnings.catch_warnings(record=True) as output:
        warnings.simplefilter("always")
        model.fit([[1.0], [0], [-2], [2], [0], [-1]])
    assert any(issubclass(w.category, CollapsedComponentWarning) for w in output)
    assert (np.diff(model.lower_bounds_) >= -1e-14).all()
    assert model.lower_bounds_[-1] > model.lower_bounds_[0] + 0.9


@settings(max_examples=10, suppress_health_check=[HealthCheck.filter_too_much])
@given(seed=seeds, d=st.integers(1, 4), shape=shapes)
def test_the_parameters_are_the_m_step_of_the_responsibilities(seed, d, shape):
    """At a fixed point: π, μ and Σ about the new μ, from λ (eq. 2.7 to 2.9)."""
    X = cloud(seed, 200, d)
    model = fit(X, 2, reg_covar=0.0, covariance_type=shape, stop="parameters", tol=1e-9, max_iter=400)
    assume(model.converged_)
    lam = model.predict_proba(X)
    n_c = lam.sum(axis=0)
    means = lam.T @ X / n_c[:, None]
    scatters = np.stack([((X - m).T * lam[:, c]) @ (X - m) / n_c[c] for c, m in enumerate(means)])
    sigma = {
        "full": scatters,
        "tied": np.tensordot(n_c / n_c.sum(), scatters, 1),
        "diag": np.diagonal(scatters, axis1=1, axis2=2),
        "spherical": np.trace(scatters, axis1=1, axis2=2) / d,
    }[shape]
    np.testing.assert_allclose(model.weights_, n_c / len(X), atol=1e-9)
    np.testing.assert_allclose(model.means_, means, atol=1e-7)
    np.testing.assert_allclose(model.covariances_, sigma, atol=1e-6)


@settings(max_examples=25)
@given(seed=seeds, shape=shapes, init=st.sampled_from(STARTS))
def test_a_weight_is_a_number_of_repetitions(seed, shape, init):
    X = cloud(seed, 120, 2)
    weights = np.random.default_rng(seed).integers(0, 4, size=len(X))
    parameters = {"covariance_type": shape, "init_params": init, "max_iter": 6, "random_state": seed % 2**32}
    weighted = fit(X, sample_weight=weights, **parameters)
    repeated = fit(np.repeat(X, weights, axis=0), **parameters)
    assert_close(weighted, repeated)
    np.testing.assert_allclose(weighted.lower_bounds_, repeated.lower_bounds_, rtol=1e-9, atol=1e-9)


@settings(max_examples=25)
@given(seed=seeds, shape=shapes, init=st.sampled_from(STARTS))
def test_the_order_of_rows_changes_rounding_only(seed, shape, init):
    X = cloud(seed, 150, 2)
    order = np.random.default_rng(seed).permutation(len(X))
    parameters = {"covariance_type": shape, "init_params": init, "max_iter": 6}
    assert_close(fit(X, **parameters), fit(X[order], **parameters))


@settings(max_examples=20)
@given(seed=seeds, d=st.integers(1, 3))
def test_affine_maps_carry_the_model_along(seed, d):
    X = cloud(seed, 200, d)
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(d, d)) + 2 * np.eye(d), 10 * rng.normal(size=d)
    assume(np.linalg.cond(A) < 100)
    means = X[rng.choice(len(X), size=2, replace=False)]
    precision = np.linalg.inv(np.atleast_2d(np.cov(X.T)))
    back = np.linalg.inv(A)
    common = {"reg_covar": 0.0, "max_iter": 10, "tol": 0.0, "weights_init": [0.5, 0.5]}
    plain = fit(X, 2, means_init=means, precisions_init=np.stack([precision] * 2), **common)
    mapped = fit(
        X @ A.T + b, 2, means_init=means @ A.T + b,
        precisions_init=np.stack([_symmetric(back.T @ precision @ back)] * 2), **common,
    )  # fmt: skip
    np.testing.assert_allclose(mapped.weights_, plain.weights_, atol=1e-7)
    np.testing.assert_allclose(mapped.means_, plain.means_ @ A.T + b, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mapped.covariances_, A @ plain.covariances_ @ A.T, rtol=1e-6, atol=1e-6)


def _symmetric(matrix):
    return (matrix + matrix.T) / 2


@settings(max_examples=20)
@given(seed=seeds, shape=shapes, power=st.sampled_from([-470, -60, -3, 1, 10, 60, 490]), init=st.sampled_from(STARTS))
def test_scaling_by_a_power_of_two_is_exact(seed, shape, power, init):
    X = cloud(seed, 150, 2)
    parameters = {"covariance_type": shape, "reg_covar": 0.0, "init_params": init, "max_iter": 8}
    plain, scaled = fit(X, **parameters), fit(np.ldexp(X, power), **parameters)
    np.testing.assert_array_equal(scaled.means_, np.ldexp(plain.means_, power))
    np.testing.assert_array_equal(scaled.covariances_, np.ldexp(plain.covariances_, 2 * power))
    np.testing.assert_array_equal(scaled.weights_, plain.weights_)
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)
    assert scaled.n_iter_ == plain.n_iter_
    np.testing.assert_allclose(scaled.lower_bounds_, plain.lower_bounds_ - 2 * power * np.log(2), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("absent", [1.7e308, -1.7e308, 1e200, 3.0])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("init", STARTS)
def test_an_absent_row_changes_no_bit_however_large(absent, first, init):
    """A value that stands for "no data" must not choose the unit in which the others are measured."""
    X, away = cloud(3, 80, 2), np.full((2, 2), absent)
    rows, weights = ([away, X], [np.zeros(2), np.ones(80)]) if first else ([X, away], [np.ones(80), np.zeros(2)])
    rows, weights = np.concatenate(rows), np.concatenate(weights)
    present, model = fit(X, init_params=init), fit(rows, sample_weight=weights, init_params=init)
    assert_same_bits(model, present, (*PARAMETERS, "lower_bounds_"))
    np.testing.assert_array_equal(model.labels_[weights > 0], present.labels_)
    np.testing.assert_array_equal(model.labels_, model.predict(rows))
    cuts = [(rows[:2], weights[:2]), (rows[2:50], weights[2:50]), (rows[50:], weights[50:])]
    blocks = GaussianMixture(3, random_state=0, init_params=init).fit_blocks(lambda: cuts)
    assert_same_bits(blocks, present)


def test_a_row_that_is_not_finite_is_refused_though_absent():
    with pytest.raises(BadData, match="an infinity at row 1, column 1"):
        fit(np.array([[0.0, 1.0], [2.0, np.inf], [3.0, 4.0]]), k=1, sample_weight=[1.0, 0.0, 1.0])


@pytest.mark.parametrize("power", [-1074, -1022, -65, 3, 64, 1000, 1022])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_count_by_their_ratios(power, shape):
    X, weights = cloud(5, 90, 2), np.random.default_rng(5).integers(1, 3, size=90).astype(float)
    plain, scaled = (fit(X, sample_weight=w, covariance_type=shape) for w in (weights, np.ldexp(weights, power)))
    assert_same_bits(scaled, plain, (*PARAMETERS, "lower_bounds_", "labels_"))
    heavy = np.ldexp(weights, power)
    assert plain.score(X, sample_weight=heavy) == pytest.approx(plain.score(X, sample_weight=weights), rel=1e-14)
    free = {"full": 9, "tied": 3, "diag": 6, "spherical": 3}[shape] + 6 + 2
    if power < 1000:
        size, total = np.log(weights.sum()) + power * np.log(2), plain.score(X, sample_weight=weights) * weights.sum()
        assert plain.bic(X, sample_weight=heavy) == pytest.approx(-2 * np.ldexp(total, power) + free * size, rel=1e-12)
        assert plain.aic(X, sample_weight=heavy) == pytest.approx(-2 * np.ldexp(total, power) + 2 * free, rel=1e-12)
    else:
        for criterion in (plain.bic, plain.aic, plain.icl):
            with pytest.raises(BadData, match=r"weights up to .* leaves float64\. Divide the weights by their largest"):
                criterion(X, sample_weight=np.full(90, 1e308))


@pytest.mark.parametrize("powers", [(332, -332), (-332, 332), (0, -450), (500, 200), (10, -195)])
@pytest.mark.parametrize("shape", ["full", "tied", "diag"])
def test_columns_of_any_units_stand_side_by_side(powers, shape):
    """The floor is relative to each column's own variance: no unit of a column makes it collapse."""
    X = cloud(7, 120, 2)
    start = {"weights_init": [0.2, 0.3, 0.5], "covariance_type": shape, "reg_covar": 0.0, "max_iter": 5, "tol": 0.0}
    Y = np.ldexp(X, powers)
    factors = np.ldexp(1.0, -np.array(powers))
    begin = {
        "full": (np.tile(np.eye(2), (3, 1, 1)), np.tile(np.diag(factors**2), (3, 1, 1))),
        "tied": (np.eye(2), np.diag(factors**2)),
        "diag": (np.ones((3, 2)), np.tile(factors**2, (3, 1))),
    }[shape]
    plain = fit(X, means_init=X[:3], precisions_init=begin[0], **start)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CollapsedComponentWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianMixture(3, means_init=Y[:3], precisions_init=begin[1], **start).fit(Y)
        blocks = GaussianMixture(3, means_init=Y[:3], precisions_init=begin[1], **start).fit_blocks(lambda: [Y])
    np.testing.assert_allclose(model.means_, np.ldexp(plain.means_, powers), rtol=1e-12)
    variances = np.array(powers)[:, None] + powers if shape != "diag" else 2 * np.array(powers)
    np.testing.assert_allclose(model.covariances_, np.ldexp(plain.covariances_, variances), rtol=1e-11)
    np.testing.assert_array_equal(model.labels_, plain.labels_)
    np.testing.assert_array_equal(model.predict(Y), plain.labels_)
    np.testing.assert_allclose(model.predict_proba(Y), plain.predict_proba(X), atol=1e-12)
    assert model.lower_bound_ == pytest.approx(plain.lower_bound_ - sum(powers) * np.log(2), rel=1e-12)
    assert_same_bits(blocks, model)
    warm = GaussianMixture(3, means_init=Y[:3], precisions_init=begin[1], warm_start=True, **{**start, "max_iter": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _ in range(5):
            warm.fit(Y)
    np.testing.assert_allclose(warm.means_, model.means_, rtol=1e-11)


def test_named_starts_see_columns_in_the_units_they_have():
    """k-means compares columns: beside 1e100 it sees nothing of 1e-100, and so begins as on the first column alone."""
    X = cloud(9, 150, 2) * [1e100, 1e-100]
    for init in STARTS:
        model = fit(X, init_params=init, reg_covar=0.0)
        assert np.isfinite(model.lower_bound_)
        assert (model.covariances_[:, 1, 1] < 1e-190).all()


@pytest.mark.parametrize("power", [-60, 1, 400])
@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_scaling_with_noise_is_exact(shape, power):
    X = np.vstack([cloud(3, 200, 3), np.random.default_rng(3).uniform(-20, 20, size=(30, 3))])
    plain, scaled = (fit(Y, 2, reg_covar=0.0, noise=True, covariance_type=shape) for Y in (X, np.ldexp(X, power)))
    np.testing.assert_array_equal(scaled.means_, np.ldexp(plain.means_, power))
    np.testing.assert_array_equal(scaled.covariances_, np.ldexp(plain.covariances_, 2 * power))
    np.testing.assert_array_equal(scaled.labels_, plain.labels_)
    np.testing.assert_array_equal(scaled.noise_box_, np.ldexp(plain.noise_box_, power))
    assert scaled.noise_weight_ == plain.noise_weight_
    assert scaled.noise_log_density_ == pytest.approx(plain.noise_log_density_ - 3 * power * np.log(2), rel=1e-12)


@settings(max_examples=15)
@given(seed=seeds, n=st.integers(5, 9000), cuts=st.lists(st.integers(0, 9000), max_size=5), shape=shapes)
def test_any_cuts_give_the_same_bits(seed, n, cuts, shape):
    X = cloud(seed, n, 2)
    parameters = {"covariance_type": shape, "max_iter": 3, "random_state": 0, "noise": seed % 2 == 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KnollWarning)
        whole = GaussianMixture(2, **parameters).fit(X)
        by_blocks = GaussianMixture(2, **parameters).fit_blocks(lambda: np.split(X, sorted(cuts)))
    assert_same_bits(whole, by_blocks, (*PARAMETERS, "lower_bounds_", "noise_weight_", "noise_box_"))


@pytest.mark.parametrize("shape", [*SHAPES, "fixed"])
@pytest.mark.parametrize("init", STARTS)
def test_threads_and_layout_do_not_change_a_bit(shape, init):
    X = cloud(1, 9_001, 3)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=len(X))
    fixed = {"fixed_variance": 2.0} if shape == "fixed" else {}
    parameters = {"covariance_type": shape, "init_params": init, "max_iter": 3, "noise": shape == "diag", **fixed}
    one = fit(X, sample_weight=weights, n_jobs=1, **parameters)
    wide = np.zeros((9_001, 7))
    wide[:, ::-2][:, :3] = X
    frozen = np.asfortranarray(X)
    frozen.flags.writeable = False
    for other, n_jobs in ((X, 2), (X, 5), (frozen, 3), (wide[:, ::-2][:, :3], 2), (X[::-1].copy()[::-1], 1)):
        again = fit(other, sample_weight=weights, n_jobs=n_jobs, **parameters)
        assert_same_bits(one, again, (*PARAMETERS, "lower_bounds_", "labels_", "noise_weight_"))
        assert one.predict_proba(X).tobytes() == again.predict_proba(other).tobytes()
        assert one.score_samples(X).tobytes() == again.score_samples(other).tobytes()


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1), st.integers(0, 3)), min_size=1, max_size=25),
    k=st.integers(1, 6),
    shape=st.sampled_from([*SHAPES, "fixed"]),
    reg=st.sampled_from([0.0, 1e-6]),
    init=st.sampled_from(STARTS),
    noise=st.booleans(),
)
def test_degenerate_lattices_give_finite_models(rows, k, shape, reg, init, noise):
    """Duplicates, constant columns, fewer distinct rows than components, weights of 0: no NaN, no exception."""
    table = np.array(rows, dtype=float)
    X, weights = table[:, :2], table[:, 2]
    assume(np.count_nonzero(weights) >= k)
    fixed = {"fixed_variance": 0.5} if shape == "fixed" else {}
    model = fit(X, k, weights, covariance_type=shape, reg_covar=reg, init_params=init, noise=noise, **fixed)
    for name in (*PARAMETERS, "precisions_", "lower_bounds_", "noise_weight_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert model.weights_.sum() + model.noise_weight_ == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    lam = model.predict_proba(X)
    np.testing.assert_allclose(lam.sum(axis=1), 1.0, atol=1e-12)
    assert np.isfinite(model.score_samples(X)).all()


@settings(max_examples=20)
@given(seed=seeds, shape=shapes, dtype=st.sampled_from([np.float32, np.float64]), noise=st.booleans())
def test_predict_gives_the_labels_of_the_fit(seed, shape, dtype, noise):
    X = cloud(seed, 300, 2).astype(dtype)
    model = fit(X, 4, covariance_type=shape, max_iter=5, noise=noise)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.means_.dtype == model.covariances_.dtype == model.precisions_.dtype == dtype
    lam = model.predict_proba(X).astype(np.float64)
    assert lam.shape == (300, 4 + noise)
    best = lam.argmax(axis=1)
    best[best == 4] = -1
    clear = np.sort(lam, axis=1)[:, -2] < lam.max(axis=1) - 1e-6
    np.testing.assert_array_equal(best[clear], model.labels_[clear])
