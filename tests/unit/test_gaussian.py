"""Gaussian: what it learns, what it answers, what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.covariance import EmpiricalCovariance

from knoll import Gaussian, datasets
from knoll.exceptions import BadData, CollapsedComponentWarning, InvalidParameter, InvalidType


@pytest.fixture
def X():
    return datasets.load("one_gaussian").X


def test_equals_numpy_and_scikit_learn(X):
    model = Gaussian().fit(X)
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(model.covariance_, np.cov(X.T, bias=True), rtol=1e-13)
    sklearn_model = EmpiricalCovariance().fit(X)
    np.testing.assert_allclose(model.mahalanobis(X, squared=True), sklearn_model.mahalanobis(X), rtol=1e-12)
    np.testing.assert_allclose(model.score(X) / len(X), sklearn_model.score(X), rtol=1e-12)


def test_densities_equal_scipy(X):
    model = Gaussian().fit(X)
    expected = scipy.stats.multivariate_normal(model.mean_, model.covariance_).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-12)
    assert model.score(X) == pytest.approx(expected.sum(), rel=1e-13)
    assert model.history_["objective"][-1] == pytest.approx(model.score(X), rel=1e-12)
    assert model.weight_ == len(X)


def test_symmetric_to_the_bit():
    covariance = Gaussian().fit(np.random.default_rng(0).normal(size=(1000, 17))).covariance_
    assert (covariance == covariance.T).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 8, 9, 16, 31, 33, 100])
@pytest.mark.parametrize("n", [2, 5, 4095, 4096, 4097])
def test_every_width_and_the_edges_of_the_grid(n, d):
    X = np.random.default_rng(d).normal(size=(n, d)) * 2.0 ** np.arange(d)[::-1][:d]
    if n <= d:
        with pytest.warns(CollapsedComponentWarning, match="a combination of the columns before it"):
            model = Gaussian().fit(X)
    else:
        model = Gaussian().fit(X)
    centred = X - X.mean(axis=0)
    sigma = X.std(axis=0)
    assert np.abs((model.mean_ - X.mean(axis=0)) / sigma).max() < 1e-13
    assert np.abs((model.covariance_ - centred.T @ centred / n) / np.outer(sigma, sigma)).max() < 1e-13


def test_far_from_the_origin_keeps_its_digits():
    rng = np.random.default_rng(3)
    Z = rng.integers(-1000, 1000, size=(20_000, 3)).astype(float)  # so that adding 1e12 is exact
    near, far = Gaussian().fit(Z), Gaussian().fit(Z + 1e12)
    np.testing.assert_allclose(far.covariance_, near.covariance_, rtol=1e-13)
    assert len(far.history_["iteration"]) == 1


def test_first_rows_far_from_the_others_cost_a_second_pass_not_digits():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50_000, 2))
    weights = np.ones(len(X))
    X[:300] += 1e9
    weights[:300] = 1e-30
    model = Gaussian().fit(X, sample_weight=weights)
    assert len(model.history_["iteration"]) > 1
    np.testing.assert_allclose(model.covariance_, np.cov(X[300:].T, bias=True), rtol=1e-8)


@pytest.mark.parametrize("power", [-480, -300, 300, 480])
def test_scaling_by_a_power_of_two_is_exact(X, power):
    plain, scaled = Gaussian().fit(X), Gaussian().fit(np.ldexp(X, power))
    assert (scaled.mean_ == np.ldexp(plain.mean_, power)).all()
    assert (scaled.covariance_ == np.ldexp(plain.covariance_, 2 * power)).all()
    assert np.array_equal(scaled.mahalanobis(np.ldexp(X, power)), plain.mahalanobis(X))


def test_squares_below_float64_are_reported():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for Y in (X * 1e-300, np.c_[X[:, :1] * 1e-160, X[:, 1:]]):
        with pytest.raises(BadData, match=r"column 0 has a range of .* only\)\. Multiply it by a power of two first"):
            Gaussian().fit(Y)


def test_squares_beyond_float64_are_reported():
    with pytest.raises(
        BadData,
        match=r"the squares of X leave float64 \(\|X\| goes up to 1e\+300\)\. Divide the data by a power of two",
    ):
        Gaussian().fit(np.array([[1e300, 1.0], [-1e300, 2.0], [0.0, 3.0]]))


@pytest.mark.parametrize(
    ("X", "column"),
    [
        (np.column_stack([np.arange(50.0), np.full(50, 0.1)]), 1),
        (np.column_stack([np.arange(50.0), 3 * np.arange(50.0)]), 1),
        (np.full((20, 3), 0.1), 0),
        (np.eye(3)[:2], 1),
        (np.array([[1.0, 2.0]]), 0),
    ],
    ids=["constant column", "repeated column", "equal rows", "fewer rows than columns", "one row"],
)
def test_a_singular_covariance_warns_and_still_answers(X, column):
    with pytest.warns(CollapsedComponentWarning, match=rf"singular: column {column} is constant, or.*floored at 1e-06"):
        model = Gaussian().fit(X)
    assert model.is_singular_
    d = X.shape[1]
    np.testing.assert_allclose(model.covariance_, np.cov(X.T, bias=True).reshape(d, d), atol=1e-12)
    assert np.isfinite(model.score_samples(X)).all()
    assert (model.mahalanobis(X) < 100).all()


def test_a_sample_of_a_singular_gaussian_stays_in_its_plane():
    z = np.random.default_rng(0).normal(size=(300, 2))
    X = np.column_stack([1e6 * z[:, 0], np.full(300, 5.0), z[:, 1], 2 * z[:, 1] + 1e-6 * z[:, 0]])
    X[:, 3] = 2 * X[:, 2] + X[:, 0]
    with pytest.warns(CollapsedComponentWarning, match="column 1 is"):
        model = Gaussian().fit(X)
    S = model.sample(50_000, random_state=0)
    assert (S[:, 1] == 5.0).all()
    scale = np.sqrt(np.maximum(model.covariance_.diagonal(), 1e-300))
    np.testing.assert_allclose(
        np.cov(S.T) / np.outer(scale, scale), model.covariance_ / np.outer(scale, scale), atol=0.03
    )
    plane = S[:, 3] - 2 * S[:, 2] - S[:, 0]
    assert np.std(plane) < 1e-6 * scale[3]


def test_the_warning_names_the_column():
    frame = pd.DataFrame({"age": [1.0, 2.0, 4.0], "year": [7.0, 7.0, 7.0]})
    with pytest.warns(CollapsedComponentWarning, match="column 'year' is constant"):
        Gaussian().fit(frame)


@pytest.mark.parametrize("s", [1e-2, 1e-4, 1e-5, 5e-6])
def test_nearly_singular_is_right_or_warned_of(s):
    rng = np.random.default_rng(0)
    z, e = rng.normal(size=(2, 2000))
    model = Gaussian().fit(np.column_stack([z, z + s * e]))  # no warning
    expected = np.linalg.norm(Gaussian().fit(np.column_stack([z, e])).mahalanobis([[1.0, 10.0]]))
    np.testing.assert_allclose(model.mahalanobis([[1.0, 1.0 + 10 * s]]), expected, rtol=1e-2)
    with pytest.warns(CollapsedComponentWarning):
        Gaussian().fit(np.column_stack([z, z + 1e-8 * e]))


def test_the_warning_points_at_the_caller():
    for fit in (lambda: Gaussian().fit(np.ones((5, 2))), lambda: Gaussian().fit_blocks(lambda: [np.ones((5, 2))])):
        with pytest.warns(CollapsedComponentWarning) as caught:
            fit()
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("power", [-1074, -1000, -500, 500, 1000])
def test_weights_of_any_size_count_alike(X, power):
    weights = np.random.default_rng(0).integers(1, 3, size=len(X)).astype(float)
    plain, scaled = (Gaussian().fit(X, sample_weight=w) for w in (weights, np.ldexp(weights, power)))
    assert (scaled.covariance_ == plain.covariance_).all()
    assert (scaled.mean_ == plain.mean_).all()
    assert scaled.weight_ == np.ldexp(plain.weight_, power)


def test_rows_of_weight_zero_are_absent_whatever_they_hold(X):
    far = np.vstack([np.full((300, 2), 1e200), X])
    weights = np.r_[np.zeros(300), np.ones(len(X))]
    model = Gaussian().fit(far, sample_weight=weights)
    np.testing.assert_allclose(model.covariance_, Gaussian().fit(X).covariance_, rtol=1e-12)
    assert len(model.history_["iteration"]) == 1


@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_float32_keeps_in_float64_what_it_cannot_hold(X, scale):
    Y = (X * scale).astype(np.float32)
    model = Gaussian().fit(Y)
    assert model.mean_.dtype == np.float32
    assert model.covariance_.dtype == np.float64
    np.testing.assert_allclose(model.covariance_, np.cov(Y.T.astype(np.float64), bias=True), rtol=1e-12)
    assert 0 < model.ellipse().height < np.inf


def test_weights_beyond_float64_are_reported():
    with pytest.raises(BadData, match="the sum of the sample weights leaves float64"):
        Gaussian().fit(np.eye(3), sample_weight=[1e308, 1e308, 1e308])


def test_weights_that_hide_the_other_rows_are_reported(X):
    """It is not X that is to blame where one row outweighs all others by 600 decades."""
    weights = np.r_[1e300, np.full(len(X) - 1, 1e-300)]
    with pytest.raises(BadData, match=r"the sample weights go from 1e-300 to 1e\+300: beside the heaviest rows"):
        Gaussian().fit(X, sample_weight=weights)
    with pytest.raises(BadData, match="column 0 has a range of"):
        Gaussian().fit(X * 1e-200, sample_weight=np.arange(1.0, len(X) + 1))


def test_a_constant_column_has_no_variance_at_all():
    X = np.column_stack([np.random.default_rng(0).normal(size=10_000), np.full(10_000, 0.1)])
    with pytest.warns(CollapsedComponentWarning):
        model = Gaussian().fit(X)
    assert model.covariance_[1, 1] == 0.0
    assert model.mean_[1] == 0.1


def test_columns_of_very_different_scale_are_healthy():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1e-9, 1.0, 1e9]
    model = Gaussian().fit(X)  # no warning
    same = Gaussian().fit(X / [1e-9, 1.0, 1e9])
    np.testing.assert_allclose(model.mahalanobis(X), same.mahalanobis(X / [1e-9, 1.0, 1e9]), rtol=1e-10)


# ---- blocks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[], [1], [4096], [4095, 4097], [10, 20, 30, 9000], list(range(500, 12_000, 500))])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_give_the_bits_of_one_array(cuts, weighted):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(12_345, 5)), rng.integers(0, 3, size=12_345).astype(float)
    whole = Gaussian().fit(X, sample_weight=weights if weighted else None)

    def blocks():
        for block, w in zip(np.split(X, cuts), np.split(weights, cuts)):
            yield (block, w) if weighted else block

    by_blocks = Gaussian().fit_blocks(blocks)
    assert (by_blocks.mean_ == whole.mean_).all()
    assert (by_blocks.covariance_ == whole.covariance_).all()
    assert by_blocks.weight_ == whole.weight_


def test_blocks_of_a_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(30_000, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)

    def blocks():
        file = np.load(tmp_path / "x.npy", mmap_mode="r")
        return (file[i : i + 7_000] for i in range(0, len(file), 7_000))

    model = Gaussian().fit_blocks(blocks)
    assert model.mean_.dtype == np.float32
    assert (model.covariance_ == Gaussian().fit(X).covariance_).all()


class Once:
    """A callable that hands out one generator again and again."""

    def __init__(self, *blocks):
        self.generator = (block for block in blocks)

    def __call__(self):
        return self.generator


class Shrinking:
    """A callable that has fewer rows the second time, over data that needs two passes."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        X = np.random.default_rng(0).normal(size=(5000, 2))
        X[:300] += 1e9
        weights = np.r_[np.full(300, 1e-30), np.ones(4700)]
        return [(X, weights)] if self.calls < 3 else [(X[:4000], weights[:4000])]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (list, BadData, r"make_blocks\(\) gave no rows"),
        (lambda: [np.zeros((0, 2))], BadData, r"make_blocks\(\) gave no rows"),
        ([np.zeros((2, 2))], InvalidParameter, r"(?s)make_blocks must be a callable.*fit_blocks\(lambda: arrays\)"),
        (None, InvalidParameter, "make_blocks must be a callable"),
        (
            Once(np.eye(2), np.eye(2)),
            InvalidParameter,
            "the same iterator twice, and it was used up. Return a fresh one",
        ),
        (Shrinking(), BadData, "gave 5000 rows at first and 4000 the next time"),
        (lambda: [np.zeros((2, 2)), np.zeros((2, 3))], BadData, r"3 features, but Gaussian is expecting 2"),
        (lambda: [np.zeros((2, 2)), np.full((2, 2), np.nan)], BadData, r"NaN at row 2, column 0"),
        (lambda: [np.float64(3.0)], BadData, "Expected 2D array"),
        (lambda: [[]], BadData, "Expected 2D array"),
        (lambda: [(np.eye(2), [0.0, 0.0])], BadData, "every sample_weight is zero"),
        (lambda: [(np.eye(2), [1.0])], BadData, "one weight for each row"),
        (lambda: [np.eye(2), (np.eye(2), [1.0, -1.0])], BadData, "got -1.0 at row 3"),
        (lambda: [(np.eye(2), ["a", "b"])], BadData, "sample_weight must be real numbers"),
        (lambda: [(np.eye(2), np.zeros((2, 1)))], BadData, "1D array"),
        (lambda: [(np.eye(2), [1.0, 1.0], None)], BadData, "block 0 is a tuple of 3. Give an array, or a pair"),
    ],
)
def test_bad_blocks_are_reported(make, error, message):
    with pytest.raises(error, match=message):
        Gaussian().fit_blocks(make)


def test_a_scalar_weight_serves_a_whole_block():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = Gaussian().fit_blocks(lambda: [(X, 2.0)])
    assert model.weight_ == 60


def test_the_first_block_decides_the_dtype():
    X = np.random.default_rng(0).normal(size=(6000, 2))
    for cut in (100, 5000):
        model = Gaussian().fit_blocks(lambda cut=cut: [X[:cut].astype(np.float32), X[cut:]])
        assert model.mean_.dtype == np.float32


def test_an_error_inside_make_blocks_comes_through():
    def broken():
        yield np.eye(2)
        raise OSError("the disk is gone")

    model = Gaussian()
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit_blocks(broken)
    assert not hasattr(model, "n_features_in_")


# ---- sampling and the ellipse --------------------------------------------------------------------------------------


def test_a_sample_has_the_models_moments_and_a_seed():
    model = Gaussian().fit(np.random.default_rng(0).normal(size=(400, 3)) @ np.triu(np.ones((3, 3))) + 5)
    S = model.sample(200_000, random_state=1)
    assert np.abs((S.mean(axis=0) - model.mean_) / np.sqrt(model.covariance_.diagonal())).max() < 0.01
    np.testing.assert_allclose(np.cov(S.T), model.covariance_, rtol=0.03, atol=0.02)
    assert scipy.stats.kstest(model.mahalanobis(S, squared=True), scipy.stats.chi2(3).cdf).pvalue > 1e-3
    assert (model.sample(10, random_state=1) == S[:10]).all()
    assert (model.sample(10, random_state=2) != S[:10]).any()
    assert (model.sample(10) != model.sample(10)).any()
    model.set_params(random_state=1)
    assert (model.sample(10) == S[:10]).all()
    np.random.seed(5)  # noqa: NPY002 - None listens to it, as in scikit-learn
    model.set_params(random_state=None)
    again = model.sample(4)
    np.random.seed(5)  # noqa: NPY002
    assert (model.sample(4) == again).all()
    assert model.sample(np.int8(100)).shape == (100, 3)
    for generator in (np.random.RandomState, np.random.default_rng):
        assert (model.sample(4, random_state=generator(3)) == model.sample(4, random_state=generator(3))).all()


def test_the_ellipse_is_the_contour():
    model = Gaussian().fit(np.random.default_rng(0).normal(size=(400, 2)) @ [[3.0, 1.0], [0.0, 0.5]] + [2, -1])
    ellipse = model.ellipse(n_std=2.5)
    assert ellipse.width >= ellipse.height
    assert -90 < ellipse.angle <= 90
    np.testing.assert_allclose(model.mahalanobis(ellipse.points(50)), 2.5, rtol=1e-12)


def test_the_ellipse_of_more_columns_is_the_shadow():
    X = np.random.default_rng(0).normal(size=(400, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    model, plane = Gaussian().fit(X), Gaussian().fit(X[:, [3, 1]])
    np.testing.assert_allclose(model.ellipse(axes=(3, 1)).points(9), plane.ellipse().points(9), atol=1e-9)


def test_verbose_shows_each_pass(X, capsys):
    Gaussian(verbose=True).fit(X)
    assert capsys.readouterr().out.startswith("Gaussian: step 1, objective -")
    Gaussian().fit(X)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m: m.sample(0), InvalidParameter, r"n_samples must be >= 1, got 0"),
        (lambda m: m.sample(2.5), InvalidType, r"n_samples must be a whole number, got 2.5"),
        (
            lambda m: m.sample(2, random_state="x"),
            InvalidType,
            "random_state must be None or a whole number or a numpy",
        ),
        (lambda m: m.ellipse(n_std=-1), InvalidParameter, r"n_std must be > 0, got -1"),
        (
            lambda m: m.ellipse(axes=(0, 0)),
            InvalidParameter,
            r"axes must be two different columns of 0…1, got \(0, 0\)",
        ),
        (lambda m: m.ellipse(axes=(0, 5)), InvalidParameter, r"got \(0, 5\)"),
        (lambda m: m.ellipse(axes=1), InvalidParameter, "got 1"),
        (lambda m: m.ellipse(axes=(False, True)), InvalidParameter, "axes must be two different columns"),
        (lambda m: m.ellipse(n_std=np.inf), InvalidParameter, "n_std must be finite, got inf"),
        (
            lambda m: m.set_params(n_jobs="a").score_samples([[0.0, 0.0]]),
            InvalidType,
            "n_jobs must be None or a whole number",
        ),
        (lambda m: m.set_params(n_jobs=10**12).score_samples([[0.0, 0.0]]), InvalidParameter, "n_jobs must be >= "),
        (lambda m: m.score_samples(np.zeros((3, 5))), BadData, "5 features, but Gaussian is expecting 2"),
        (lambda m: Gaussian().fit(np.eye(3)[:, :1]).ellipse(), BadData, "needs at least two columns"),
        (lambda m: Gaussian(verbose=-1).fit(np.eye(2)), InvalidParameter, r"verbose must be >= 0, got -1"),
        (
            lambda m: m.fit([[1.0, 2.0], [3.0, 5.0]], sample_weight=[1j, 2j]),
            BadData,
            "sample_weight must be real numbers",
        ),
    ],
)
def test_bad_calls_are_reported(X, call, error, message):
    with pytest.raises(error, match=message):
        call(Gaussian().fit(X))


def test_a_state_that_json_cannot_hold_is_refused(X):
    model = Gaussian(random_state=np.random.default_rng(0)).fit(X)
    header, _ = model.to_state()
    assert json.loads(json.dumps(header))["parameters"]["random_state"] is None


def test_float32_answers_stay_within_float32():
    """What float64 computes of values near the end of float32 is the largest float32, not infinite."""
    X = np.array([[0.0], [3.4e38]], dtype=np.float32)
    model = Gaussian().fit(X)
    drawn = model.sample(50, random_state=0)
    assert drawn.dtype == np.float32
    assert np.isfinite(drawn).all()
    narrow = Gaussian().fit(np.array([[0.0], [1e-30]], dtype=np.float32))
    assert np.isfinite(narrow.mahalanobis(X, squared=True)).all()
    assert np.isfinite(narrow.score_samples(X)).all()
