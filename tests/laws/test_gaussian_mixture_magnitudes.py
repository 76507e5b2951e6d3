"""Laws of the mixture for any magnitudes: of the data, of single columns, of weights and of what is added to variances.

A fit ends with a model whose every answer is a number, or with an error of knoll's own; a power of two as a unit
changes nothing.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import knoll
from knoll import GaussianMixture, tuning
from knoll.exceptions import BadData, InvalidParameter, KnollError, KnollWarning, ModelFileError

SHAPES = ("full", "tied", "diag", "spherical", "fixed")
STARTS = ("kmeans", "k-means++", "random", "random_from_data")
SIZES = (5e-324, 1e-320, 1e-310, 1e-300, 1e-200, 1e-160, 1e-155, 1e-100, 1.0, 1e100, 1e155, 1e160, 1e300, 4e307)
LARGEST = np.finfo(np.float64).max


def fit(X, k=3, sample_weight=None, **parameters):
    """Fit; a warning that is not knoll's, such as NumPy's of an overflow, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", KnollWarning)
        return GaussianMixture(k, **{"random_state": 0, **parameters}).fit(X, sample_weight=sample_weight)


def assert_sound(model, X, tmp_path=None, sample_weight=None):
    """Every answer is a number, and they agree with each other."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores, shares, labels = model.score_samples(X), model.predict_proba(X), model.predict(X)
        assert np.isfinite(scores).all()
        np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
        if hasattr(model, "labels_"):
            np.testing.assert_array_equal(labels, model.labels_)
        assert np.isfinite(model.means_).all()
        assert np.isfinite(model.sample(30, random_state=0)[0]).all()
        assert np.isfinite(model.lower_bounds_).all()
        weights = None if sample_weight is None else sample_weight / sample_weight.max()
        exact = model.score_samples(X.astype(np.float64))  # which the mean is taken of, whatever the dtype of X
        size = max(1.0, float(np.abs(exact).max()))
        mean = size * np.average(exact / size, weights=weights)
        assert model.score(X, sample_weight=sample_weight) == pytest.approx(mean, rel=1e-6, abs=1e-12)
        if sample_weight is None:
            assert np.isfinite([model.bic(X), model.aic(X), model.icl(X)]).all()
        if tmp_path is not None:
            knoll.save(model, tmp_path / "m.knoll")
            again = knoll.load(tmp_path / "m.knoll")
            assert again.score_samples(X).tobytes() == scores.tobytes()
            assert again.predict_proba(X).tobytes() == shares.tobytes()
            np.testing.assert_array_equal(again.predict(X), labels)


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("reg_covar", [1e-6, 0.0, 1e3])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("size", SIZES)
def test_data_of_any_size_has_a_sound_model(size, shape, reg_covar, noise, tmp_path):
    X = np.clip(np.random.default_rng(0).normal(size=(60, 2)), -4, 4) * size
    fixed = {"fixed_variance": 1.0} if shape == "fixed" else {}
    model = fit(X, 4, covariance_type=shape, reg_covar=reg_covar, noise=noise, **fixed)
    assert_sound(model, X, tmp_path)


@pytest.mark.parametrize("power", [-1000, -700, -531, -300, 300, 531, 1015])
@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("noise", [False, True])
def test_a_power_of_two_as_a_unit_changes_nothing(shape, noise, power):
    X = np.random.default_rng(1).normal(size=(150, 2)) + np.repeat([[0.0, 0], [9, 3], [-5, 8]], 50, axis=0)
    plain = fit(X, covariance_type=shape, reg_covar=0.0, noise=noise)
    Y = np.ldexp(X, power)
    scaled = fit(Y, covariance_type=shape, reg_covar=0.0, noise=noise)
    blocks = GaussianMixture(3, covariance_type=shape, reg_covar=0.0, noise=noise, random_state=0)
    blocks.fit_blocks(lambda: np.array_split(Y, 4))
    for model in scaled, blocks:
        np.testing.assert_array_equal(model.means_, np.ldexp(plain.means_, power))
        np.testing.assert_array_equal(model.predict(Y), plain.labels_)
        np.testing.assert_allclose(model.predict_proba(Y), plain.predict_proba(X), atol=1e-9)
        shift = 2 * power * np.log(2)
        np.testing.assert_allclose(model.score_samples(Y), plain.score_samples(X) - shift, rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(model.lower_bounds_, plain.lower_bounds_ - shift, rtol=1e-12)
        assert model.icl(Y) == pytest.approx(plain.icl(X) + 300 * shift, rel=1e-12)
        drawn, who = plain.sample(50, random_state=3)
        again, same = model.sample(50, random_state=3)
        np.testing.assert_array_equal(who, same)
        np.testing.assert_allclose(again, np.ldexp(drawn, power), rtol=1e-9, atol=np.ldexp(1e-9, power))


def test_a_power_of_two_as_a_unit_changes_no_start():
    """The rounding of a start about the origin may lie outside of the box of the rows, in every unit alike."""
    X = np.array([[35.8529338820793, -17.65417491347171], [0.3593962011489306, -0.17409655660858292]])
    for seed in range(4):
        start = {"init_params": "random_from_data", "max_iter": 0, "reg_covar": 0.0, "random_state": seed}
        for power in (-450, 450):
            scaled = fit(np.ldexp(X, power), 1, **start)
            np.testing.assert_array_equal(scaled.means_, np.ldexp(fit(X, 1, **start).means_, power))


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical", "fixed"])
@pytest.mark.parametrize("reg_covar", [0.0, 1e-6])
@pytest.mark.parametrize("reach", [12, 40, 150, 300])
def test_columns_of_unlike_sizes_fit(reach, reg_covar, shape, tmp_path):
    """Dependent columns within 10^±reach: where the eigenvalues of a covariance span more than float64's digits."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        sizes = 10.0 ** rng.uniform(-reach, reach, size=5)
        X = rng.normal(size=(15, 1)) * sizes if seed % 2 else rng.normal(size=(15, 5)) * sizes
        fixed = {"fixed_variance": 1.0} if shape == "fixed" else {}
        model = fit(X, 3, covariance_type=shape, reg_covar=reg_covar, init_params=STARTS[seed % 4], **fixed)
        assert_sound(model, X, tmp_path)


def test_collinear_columns_of_unlike_sizes_fit():
    z = np.random.default_rng(0).normal(size=(15, 1))
    for seed in range(5):
        model = fit(z @ [[6e9, 3e9, 1e-10, 1e10, 1e-2]], random_state=seed)
        assert np.isfinite(model.lower_bound_)
        assert (np.linalg.eigvalsh(model.covariances_ / 1e20) > -1e-12).all()


@pytest.mark.parametrize("value", [1e-300, 1.0, 1e300, LARGEST])
@pytest.mark.parametrize("size", [1e-300, 1.0, 1e300])
@pytest.mark.parametrize("shape", ["full", "tied", "diag"])
def test_the_value_of_a_constant_column_changes_nothing(shape, size, value):
    X = np.random.default_rng(2).normal(size=(90, 2)) + np.repeat([[0.0, 0], [9, 3], [-5, 8]], 30, axis=0)
    start = {"covariance_type": shape, "reg_covar": 1e-6 * min(size, 1e150) ** 2, "means_init": None}
    models = []
    for constant in (0.0, value):
        Y = np.column_stack([X * size, np.full(90, constant)])
        start["means_init"] = Y[[0, 40, 80]]
        models.append(fit(Y, weights_init=np.full(3, 1 / 3), **start))
        assert_sound(models[-1], Y)
        assert (models[-1].means_[:, 2] == constant).all()
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_allclose(models[0].means_[:, :2], models[1].means_[:, :2], rtol=1e-9)


@pytest.mark.parametrize("shape", ["spherical", "fixed"])
@pytest.mark.parametrize("value", [1e300, -LARGEST, LARGEST])
def test_a_huge_constant_leaves_round_shapes_as_they_are(shape, value):
    """Such a column adds nothing to a distance: labels and means are those of the other columns."""
    X = np.random.default_rng(2).normal(size=(90, 2)) + np.repeat([[0.0, 0], [9, 3], [-5, 8]], 30, axis=0)
    fixed = {"fixed_variance": 2.0} if shape == "fixed" else {}
    models = []
    for constant in (0.0, value):
        Y = np.column_stack([X, np.full(90, constant)])
        start = {"means_init": Y[[0, 40, 80]], "weights_init": [0.2, 0.3, 0.5]}
        models.append(fit(Y, covariance_type=shape, reg_covar=0.0, **start, **fixed))
        assert_sound(models[-1], Y)
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_allclose(models[0].means_[:, :2], models[1].means_[:, :2], rtol=1e-12)
    np.testing.assert_allclose(models[0].lower_bounds_, models[1].lower_bounds_, rtol=1e-12)


@pytest.mark.parametrize("shape", ["full", "diag", "spherical", "fixed"])
def test_means_lie_in_the_box_of_the_rows_that_count(shape):
    """Subnormal numbers are few: a mean of some may not be rounded to a number beside them."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.integers(1, 6, size=(12, 2)) * (5e-324 if seed % 2 else 2e-323)
        weights = rng.integers(0, 3, size=12).astype(float)
        weights[0] = 1.0
        here = X[weights > 0]
        fixed = {"fixed_variance": 1.0} if shape == "fixed" else {}
        for reg_covar in (0.0, 1e-6):
            for rows in (X, np.column_stack([X, rng.normal(size=12)])):
                parameters = {"covariance_type": shape, "reg_covar": reg_covar, "max_iter": 3, **fixed}
                means = fit(rows, 1 + seed % 3, weights, **parameters).means_[:, :2]
                assert (means >= here.min(axis=0)).all()
                assert (means <= here.max(axis=0)).all()


def test_a_constant_column_far_above_a_tied_covariance_leaks_no_warning():
    X = np.full((39, 2), [8e-37, 8e263])
    X[:3] = 0.0
    for init in STARTS:
        assert_sound(fit(X, 5, covariance_type="tied", reg_covar=1e3, noise=True, init_params=init), X)


def test_the_box_of_noise_may_be_thin_as_a_hair():
    X = np.random.default_rng(0).normal(size=(40, 2)) * [1e11, 1e-310]
    for shape in ("spherical", "fixed"):
        fixed = {"fixed_variance": 1e-6} if shape == "fixed" else {}
        model = fit(X, 2, covariance_type=shape, noise=True, **fixed)
        assert_sound(model, X)
        assert model.noise_log_density_ == pytest.approx(-np.log(np.ptp(X, axis=0)).sum(), rel=1e-9)


@pytest.mark.parametrize("init", STARTS)
def test_a_start_from_rows_beside_a_regularisation_far_above_their_weighted_variance(init):
    X = np.random.default_rng(0).normal(size=(30, 2)) * 1e-222
    weights = 10.0 ** np.random.default_rng(1).uniform(-300, 300, size=30)
    for shape in ("full", "tied", "diag", "spherical"):
        assert_sound(fit(X, 1, weights, covariance_type=shape, init_params=init), X, sample_weight=weights)


def test_a_regularisation_far_above_the_data_gives_one_gaussian_of_its_size():
    """The components are copies: what is left of the data is its mean."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    for size in (1e-100, 1e-155, 1e-160, 1e-250, 1e-310):
        for shape in ("full", "tied", "diag", "spherical"):
            model = fit(X * size, 2, covariance_type=shape)
            diagonal = (
                model.covariances_ if shape in ("diag", "spherical") else np.diagonal(model.covariances_, 0, -2, -1)
            )
            np.testing.assert_allclose(diagonal, 1e-6, rtol=1e-12)
            np.testing.assert_allclose(model.weights_ @ model.means_, (X * size).mean(axis=0), rtol=1e-6, atol=1e-323)
            assert model.score(X * size) == pytest.approx(-np.log(2 * np.pi) - np.log(1e-6), rel=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_points_at_the_end_of_the_numbers_are_far_out(shape, dtype):
    largest = np.finfo(dtype).max
    for d in (1, 3, 5):
        rng = np.random.default_rng(d)
        for size in (1.0, 1e-30, 1e30):
            X = (rng.normal(size=(50, d)) @ rng.normal(size=(d, d)) * size).astype(dtype)
            fixed = {"fixed_variance": size**2} if shape == "fixed" else {}
            model = fit(X, 2, covariance_type=shape, reg_covar=0.0, **fixed)
            far = (largest * np.sign(rng.normal(size=(20, d)))).astype(dtype)
            assert_far(model, far)


def assert_far(model, far):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = model.score_samples(far)
        assert np.isfinite(scores).all()
        assert (scores < -1e15).all()
        np.testing.assert_allclose(model.predict_proba(far).sum(axis=1), 1.0, atol=1e-6)
        assert np.isfinite(model.score(far))
        assert set(model.predict(far)) <= {0, 1}


def test_the_mean_of_finite_scores_is_finite():
    model = fit(np.array([[-1.0], [1.0]]), 2, covariance_type="fixed", fixed_variance=1e-20)
    far = np.full((40_000, 1), 1e300)
    assert model.score(far) == pytest.approx(float(model.score_samples(far[:1])[0]))
    with pytest.raises(BadData, match=r"log-likelihood of 40000 rows leaves float64 .* Fit the model to data like X"):
        model.bic(far)


def test_a_criterion_that_leaves_float64_where_the_likelihood_does_not_is_refused():
    X = np.random.default_rng(0).normal(size=(50, 1)) * 1e5
    model = fit(X, 1)
    weights = np.full(50, 1.2e308 / 50 / -model.score(X))  # the log-likelihood is −1.2e308, and a criterion twice that
    for criterion in (model.bic, model.aic, model.icl):
        with pytest.raises(BadData, match=r"leaves float64\. Divide the weights by their largest"):
            criterion(X, sample_weight=weights)


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_rows_of_no_weight_beside_the_others_are_absent(shape):
    X = np.random.default_rng(4).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 3], [-5, 8]], 20, axis=0)
    Y = np.vstack([X, [[1e300, -1e300]]])
    weights = np.append(np.full(60, 1e150), 1e-150)
    plain = fit(X, covariance_type=shape)
    model = fit(Y, sample_weight=weights, covariance_type=shape)
    blocks = GaussianMixture(3, covariance_type=shape, random_state=0)
    blocks.fit_blocks(lambda: [(Y[:7], weights[:7]), (Y[7:], weights[7:])])
    for other in model, blocks:
        np.testing.assert_allclose(other.means_, plain.means_, rtol=1e-9)
        np.testing.assert_array_equal(other.predict(X), plain.labels_)


def test_an_ordinary_fit_after_an_extreme_one_keeps_nothing_of_it():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = fit(X * 1e-200, 2, reg_covar=0.0)
    assert (model.column_exponents_ < -600).all()
    model.fit(X)
    assert not hasattr(model, "column_exponents_")
    assert not hasattr(model, "scaled_means_")
    assert model.score_samples(X).tobytes() == fit(X, 2, reg_covar=0.0).score_samples(X).tobytes()


@pytest.mark.parametrize("shape", ["full", "tied", "diag", "spherical"])
def test_a_warm_start_goes_on_in_other_units(shape):
    X = np.random.default_rng(6).normal(size=(90, 2)) + np.repeat([[0.0, 0], [9, 3], [-5, 8]], 30, axis=0)
    for power in (-600, 0, 600):
        Y = np.ldexp(X, power)
        cold = fit(Y, covariance_type=shape, reg_covar=0.0, tol=0.0, max_iter=4, init_params="random")
        warm = GaussianMixture(3, covariance_type=shape, reg_covar=0.0, tol=0.0, max_iter=1, init_params="random")
        warm.set_params(random_state=0, warm_start=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KnollWarning)
            for _ in range(4):
                warm.fit(Y)
            np.testing.assert_allclose(warm.means_, cold.means_, rtol=1e-9)
            np.testing.assert_array_equal(warm.labels_, cold.labels_)
            if power:
                with pytest.raises(InvalidParameter, match=r"so unlike that of X .* Set warm_start=False"):
                    warm.fit(np.ldexp(X, -power))
                assert_sound(warm, Y)  # as it was


def test_precisions_that_the_data_cannot_stand_beside_are_refused():
    X = np.random.default_rng(0).normal(size=(30, 2)) * 1e-300
    with pytest.raises(InvalidParameter, match="precisions_init between 1 and 1 are beyond float64 beside the size"):
        GaussianMixture(2, covariance_type="diag", precisions_init=np.ones((2, 2)), reg_covar=0.0).fit(X)


@pytest.mark.parametrize("size", [1e-310, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("reg_covar", [None, 0.0, 1e-6])
def test_the_number_of_components_is_chosen_at_any_size(size, reg_covar):
    X = np.random.default_rng(0).normal(size=(120, 2)) + np.repeat([[0.0, 0], [30, 0], [0, 30]], 40, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", KnollWarning)
        chosen = tuning.choose_n_components(X * size, range(1, 5), reg_covar=reg_covar, random_state=0)
    assert all(np.isfinite(curve).all() for curve in chosen.curve.values())
    if reg_covar != 1e-6 or size > 1:  # else it drowns the data
        assert chosen.best == 3


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    d=st.integers(1, 5),
    k=st.integers(1, 5),
    shape=st.sampled_from(SHAPES),
    init=st.sampled_from(STARTS),
    reg_covar=st.sampled_from([0.0, 1e-6, 1e-300, 1e300]),
    noise=st.booleans(),
    weighted=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
)
@example(1, 1, 1, 1, "tied", "kmeans", 1e-6, False, False, np.float64)  # one row of 3e276, whose axes squared overflow
def test_any_magnitudes(seed, n, d, k, shape, init, reg_covar, noise, weighted, dtype):
    """Only fits whose answers are numbers, or errors of knoll's own."""
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-320, 308, size=d if seed % 2 else 1)
        X = np.clip(X, -np.finfo(dtype).max, np.finfo(dtype).max).astype(dtype)
    weights = 10.0 ** rng.uniform(-300, 300, size=n) if weighted else None
    fixed = {"fixed_variance": float(10.0 ** rng.uniform(-300, 300))} if shape == "fixed" else {}
    parameters = {"covariance_type": shape, "init_params": init, "reg_covar": reg_covar, "noise": noise, **fixed}
    try:
        model = fit(X, min(k, n), weights, max_iter=10, **parameters)
    except KnollError:
        return
    assert_sound(model, X, sample_weight=weights)
    if reg_covar == 0 or shape == "fixed":  # which adds nothing to what it holds
        bounds = model.lower_bounds_
        assert (np.diff(bounds) >= -1e-9 * np.maximum(1.0, np.abs(bounds[1:]))).all()


@pytest.mark.parametrize("init", STARTS)
def test_a_fixed_variance_of_any_size_climbs_and_distinguishes_rows(init):
    """Light rows lie many deviations from the mean: over a narrow variance their squared distances leave float64."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(12, 2)) * 10.0 ** rng.uniform(-150, 150)
        weights = 10.0 ** rng.uniform(-200, 0, size=12)
        parameters = {"covariance_type": "fixed", "fixed_variance": 10.0 ** rng.uniform(-300, -200)}
        model = fit(X, 3, weights, init_params=init, tol=0.0, max_iter=10, **parameters)
        bounds = model.lower_bounds_
        assert (np.diff(bounds) >= -1e-9 * np.maximum(1.0, np.abs(bounds[1:]))).all()
        assert_sound(model, X, sample_weight=weights)
        blocks = GaussianMixture(3, init_params=init, tol=0.0, max_iter=10, random_state=0, **parameters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", KnollWarning)
            blocks.fit_blocks(lambda: [(X[:5], weights[:5]), (X[5:], weights[5:])])  # noqa: B023
        np.testing.assert_array_equal(blocks.means_, model.means_)
        size = np.abs(X).max()
        if parameters["fixed_variance"] > 1e-20 * size**2:
            continue  # else it is as hard as k-means: a row belongs to the nearest mean
        distances = np.linalg.norm(X[:, None] / size - model.means_ / size, axis=2)  # (n, k)
        distances[:, model.weights_ == 0] = np.inf  # the dead have none
        assert (distances[np.arange(12), model.labels_] <= distances.min(axis=1) * (1 + 1e-9)).all()


def test_a_model_without_its_exponents_computes_with_its_attributes():
    """As models of extreme data were once saved: with means and factors in the units of the data alone."""
    X = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0.0, 0], [9, 3]], 30, axis=0)
    for size in (1e-200, 1e-100, 1e100, 1e200):
        for shape in ("full", "tied", "diag", "spherical"):
            model = fit(X * size, 2, covariance_type=shape, reg_covar=0.0)
            header, arrays = model.to_state()
            for name in ("column_exponents_", "scaled_means_", "scaled_precisions_cholesky_"):
                del header["fitted"][name]
            older = GaussianMixture.from_state(header, arrays)
            np.testing.assert_array_equal(older.predict(X * size), model.labels_)
            np.testing.assert_allclose(older.score_samples(X * size), model.score_samples(X * size), rtol=1e-9)


@pytest.mark.parametrize("name", ["column_exponents_", "scaled_means_", "scaled_precisions_cholesky_"])
def test_a_file_with_some_of_the_scaled_parameters_is_damaged(name):
    model = fit(np.random.default_rng(0).normal(size=(60, 2)) * 1e-200, 2, reg_covar=0.0)
    header, arrays = model.to_state()
    GaussianMixture.from_state(header, arrays)
    values = getattr(model, name)
    for damage in (None, values[:-1], np.full_like(values, 99_999 if name == "column_exponents_" else np.nan)):
        fitted = {key: value for key, value in header["fitted"].items() if key != name or damage is not None}
        forged = arrays if damage is None else {**arrays, f"fitted.{name}": damage}
        with pytest.raises(ModelFileError, match=r"column_exponents_|scaled_"):
            GaussianMixture.from_state({**header, "fitted": fitted}, forged)
