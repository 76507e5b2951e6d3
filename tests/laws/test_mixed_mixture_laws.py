"""Laws of MixedMixture: the objective never falls; orders and repetition change nothing; defined answers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from knoll import MixedMixture, load, save
from knoll._common.mixed_table import MixedTable
from knoll.exceptions import BadData, CollapsedComponentWarning, ConvergenceWarning, InvalidParameter

pytestmark = [
    pytest.mark.filterwarnings("ignore::knoll.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::knoll.exceptions.CollapsedComponentWarning"),
]
TYPES = ["full", "tied", "diag", "spherical"]


def table(n=300, p=3, q=3, missing=0.15, seed=0, k=3):
    rng = np.random.default_rng(seed)
    group = rng.integers(k, size=n)
    X = rng.normal(size=(n, p)) + 2.5 * rng.normal(size=(k, p))[group]
    codes = (rng.random((n, q, 1)) >= rng.dirichlet(np.ones(4) * 0.6, size=(k, q))[group].cumsum(-1)[..., :-1]).sum(-1)
    rows = np.column_stack([X, codes.astype(float)])
    rows[rng.random(rows.shape) < missing] = np.nan
    return rows


def fitted(rows, p=3, **options):
    categories = np.arange(rows.shape[1]) >= p
    options = {"random_state": 0, "categorical_features": categories, "max_iter": 40, **options}
    weight = options.pop("sample_weight", None)
    return MixedMixture(options.pop("k", 3), **options).fit(rows, sample_weight=weight)


def parameters(model):
    return [model.weights_, model.means_, model.covariances_, model.level_probabilities_, model.lower_bounds_]


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("missing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("init_params", ["kmeans", "random", "k-means++", "random_from_data"])
def test_objective_never_falls(covariance_type, missing, init_params):
    for seed in range(3):
        rows = table(n=120, missing=missing, seed=seed)
        model = fitted(
            rows, covariance_type=covariance_type, init_params=init_params, reg_covar=0.0, tol=0.0, random_state=seed
        )
        bounds = model.lower_bounds_
        assert (np.diff(bounds) >= -1e-9 * (1 + np.abs(bounds[1:]))).all()


@pytest.mark.parametrize("covariance_type", TYPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_orders_repetition_and_threads_change_no_bit(covariance_type, dtype):
    rng = np.random.default_rng(1)
    rows = table().astype(dtype)
    times = rng.integers(0, 4, size=len(rows))
    model = fitted(rows, covariance_type=covariance_type, sample_weight=times)
    repeated = np.repeat(rows, times, axis=0)
    others = [
        fitted(repeated, covariance_type=covariance_type, n_jobs=3),
        fitted(rng.permutation(repeated), covariance_type=covariance_type, n_jobs=1),
        fitted(np.asfortranarray(repeated), covariance_type=covariance_type),
    ]
    for other in others:
        for a, b in zip(parameters(model), parameters(other), strict=True):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()
        assert other.lower_bound_ == model.lower_bound_
        assert (other.predict(rows) == model.predict(rows)).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_the_order_of_columns_changes_nothing(covariance_type):
    rows = table()
    order = np.array([4, 1, 5, 0, 3, 2])
    model = fitted(rows, covariance_type=covariance_type)
    other = fitted(rows[:, order], covariance_type=covariance_type, categorical_features=order >= 3)
    assert (model.weights_ == other.weights_).all()
    assert (model.lower_bounds_ == other.lower_bounds_).all()
    assert (model.means_[:, order[order < 3]] == other.means_).all()
    np.testing.assert_allclose(model.score_samples(rows), other.score_samples(rows[:, order]), rtol=1e-10)


@pytest.mark.parametrize("covariance_type", TYPES)
def test_a_missing_value_changes_the_density_of_its_own_row_alone(covariance_type):
    rows = table(missing=0.1)
    for options in ({}, {"p": 6}):  # with categories, and with numbers alone
        model = fitted(rows, covariance_type=covariance_type, **options)
        before = model.score_samples(rows)
        other = rows.copy()
        other[7] = np.where(np.arange(6) % 2, other[7], np.nan)
        after = model.score_samples(other)
        changed = np.flatnonzero(before != after)
        assert set(changed) <= {7}
        assert (model.predict(rows) == model.labels_).all()


@pytest.mark.parametrize("covariance_type", TYPES)
def test_rows_and_columns_without_a_value(covariance_type):
    rows = table()
    rows[5] = np.nan
    rows[:, 1] = np.nan
    rows[:, 4] = np.nan
    model = fitted(rows, covariance_type=covariance_type)
    assert model.score_samples(rows)[5] == pytest.approx(0.0, abs=1e-14)
    np.testing.assert_allclose(model.predict_proba(rows)[5], model.weights_, rtol=1e-12)
    assert all(np.isfinite(a).all() for a in parameters(model))
    assert len(model.categories_[1]) == 0
    np.testing.assert_allclose(model.means_[:, 1], 0.0, atol=1e-12)
    filled = model.impute(rows)
    assert np.isnan(filled[:, 4]).all()
    assert not np.isnan(np.delete(filled, 4, axis=1)).any()


def test_columns_without_a_value_change_no_likelihood():
    rows = table()
    empty = np.full((len(rows), 1), np.nan)
    model = fitted(rows, covariance_type="diag")
    wider = fitted(np.column_stack([empty, rows]), p=4, covariance_type="diag")
    np.testing.assert_allclose(
        wider.score_samples(np.column_stack([empty, rows])), model.score_samples(rows), rtol=1e-9
    )


@pytest.mark.parametrize("factor", [2.0**-600, 2.0**-300, 2.0**300, 2.0**450])
@pytest.mark.parametrize("covariance_type", TYPES)
def test_units_do_not_matter(factor, covariance_type):
    rows = table()
    scaled = rows * np.where(np.arange(6) < 3, factor, 1.0)
    model, other = (fitted(r, covariance_type=covariance_type, reg_covar=0.0) for r in (rows, scaled))
    assert (model.labels_ == other.labels_).all()
    np.testing.assert_allclose(model.predict_proba(rows), other.predict_proba(scaled), atol=1e-6)
    seen = (~np.isnan(rows[:, :3])).sum(axis=1)
    np.testing.assert_allclose(
        other.score_samples(scaled) + seen * np.log(factor), model.score_samples(rows), rtol=1e-6, atol=1e-6
    )


def test_frames_arrays_and_typed_tables_are_one():
    rows = table()
    names = np.array(["blue", "green", "red", "white"], dtype=object)
    frame = pd.DataFrame(rows[:, :3], columns=list("abc"))
    for j, name in enumerate("def"):
        codes = rows[:, 3 + j]
        frame[name] = [names[int(v)] if v == v else None for v in codes]
    frame["e"] = frame["e"].astype("category")
    typed = MixedTable(
        rows[:, :3],
        np.where(np.isnan(rows[:, 3:]), -1, rows[:, 3:]).astype(np.int32),
        tuple(names for _ in range(3)),
    )
    models = [
        MixedMixture(3, random_state=0, max_iter=40).fit(frame),
        fitted(rows),
        MixedMixture(3, random_state=0, max_iter=40).fit(typed),
        MixedMixture(3, random_state=0, max_iter=40, categorical_features=["d", "e", "f"]).fit(frame),
    ]
    for model, X in zip(models, (frame, rows, typed, frame), strict=True):
        for a, b in zip(parameters(models[0]), parameters(model), strict=True):
            assert a.tobytes() == b.tobytes()
        assert (model.predict(X) == models[0].labels_).all()
    filled = models[0].impute(frame)
    assert not filled.isna().any().any()
    assert filled["e"].dtype == frame["e"].dtype
    as_typed = models[2].impute(typed)
    assert (as_typed.codes >= 0).all()
    assert (as_typed.levels[0][as_typed.codes[:, 0]] == filled["d"]).all()
    known = frame["d"].notna()
    assert (filled["d"][known] == frame["d"][known]).all()
    assert (filled.columns == frame.columns).all()


def test_a_level_that_the_fit_has_not_seen_is_missing():
    frame = pd.DataFrame({"x": np.arange(40.0), "c": ["a", "b"] * 20})
    model = MixedMixture(2, random_state=0).fit(frame)
    new = pd.DataFrame({"x": [3.0, 3.0], "c": ["never", None]})
    assert model.score_samples(new)[0] == model.score_samples(new)[1]


def test_sample_has_the_shares_of_the_model():
    rows = table(n=600, missing=0.05)
    model = fitted(rows, tol=1e-6)
    X, y = model.sample(40_000, random_state=3)
    assert X.shape == (40_000, 6)
    assert (np.diff(y) >= 0).all()
    np.testing.assert_allclose(np.bincount(y, minlength=3) / len(y), model.weights_, atol=0.01)
    for c in range(3):
        own = X[y == c]
        np.testing.assert_allclose(own[:, :3].mean(axis=0), model.means_[c], atol=0.1)
        for j, theta in enumerate(model.category_probabilities_):
            shares = np.array([(own[:, 3 + j] == level).mean() for level in model.categories_[j]])
            np.testing.assert_allclose(shares, theta[c], atol=0.02)
    assert (model.sample(50, random_state=3)[0] == model.sample(50, random_state=3)[0]).all()


@pytest.mark.parametrize("text", [False, True])
def test_model_files(tmp_path, text):
    rows = table()
    frame = pd.DataFrame(rows).rename(columns=str)
    if text:
        frame["4"] = [f"level {v:g}" if v == v else None for v in frame["4"]]
    model = MixedMixture(3, categorical_features=["3", "4", "5"], random_state=0).fit(frame)
    save(model, tmp_path / "model.knoll")
    again = load(tmp_path / "model.knoll")
    assert again.predict_proba(frame).tobytes() == model.predict_proba(frame).tobytes()
    assert (again.labels_ == model.labels_).all()


def test_criteria():
    rows = table(n=500)
    model = fitted(rows, tol=1e-6)
    weights = np.arange(500.0) % 3
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    for name in ("bic", "aic", "icl", "score"):
        criterion = getattr(model, name)
        assert criterion(rows, sample_weight=weights) == pytest.approx(criterion(repeated), rel=1e-10)
    assert model.icl(rows) >= model.bic(rows)
    free = 3 * 3 * 4 // 2 + 3 * 3 * 1 + 2 + 3 * sum(len(v) - 1 for v in model.categories_)
    assert model.aic(rows) == pytest.approx(-2 * model.score_samples(rows).sum() + 2 * free)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"categorical_features": [9]}, "has the index 9, and X has 6 columns"),
        ({"categorical_features": [True]}, "is a mask of shape"),
        ({"categorical_features": ["age"]}, "X has no column names"),
        ({"categorical_features": [0.5]}, "must be a mask, indices or names"),
        ({"covariance_type": "fixed"}, "covariance_type must be one of 'full'"),
        ({"categorical_prior": 0.0}, "categorical_prior must be > 0"),
        ({"n_components": 1000}, "Take fewer components"),
    ],
)
def test_what_is_wrong_is_named(options, message):
    with pytest.raises((InvalidParameter, BadData), match=message):
        MixedMixture(**{"categorical_features": [3, 4, 5], **options}).fit(table())


def test_names_and_infinities_are_named():
    frame = pd.DataFrame({"x": [1.0, np.inf, 2.0], "c": ["a", "b", "a"]})
    with pytest.raises(BadData, match=r"infinity at row 1, column 'x'"):
        MixedMixture().fit(frame)
    with pytest.raises(InvalidParameter, match=r"'age', which is not a column of X. The columns are 'x', 'c'"):
        MixedMixture(categorical_features=["age"]).fit(frame)
    with pytest.raises(BadData, match=r"'c' of dtype .* not numeric"):
        MixedMixture(categorical_features=["x"]).fit(frame.replace(np.inf, 0.0))


def test_warnings_name_what_happened():
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        MixedMixture(3, categorical_features=[3, 4, 5], max_iter=2, tol=0.0, random_state=0).fit(table())
    rows = np.repeat(table(n=4, missing=0.0), 5, axis=0)
    with pytest.warns(CollapsedComponentWarning, match="collapsed"):
        MixedMixture(4, categorical_features=[3, 4, 5], reg_covar=0.0, random_state=0).fit(rows)


def test_criteria_beyond_float64_are_refused():
    X = table(n=60)
    model = MixedMixture(2, categorical_features=[3, 4, 5], random_state=0).fit(X)
    assert np.isfinite(model.bic(X, np.full(60, 1e250)))  # the sum of the weights alone is 6e251
    with pytest.raises(BadData, match=r"^MixedMixture: .* weights up to 1e\+307 leaves float64. Divide the weights"):
        model.bic(X, np.full(60, 1e307))
    with pytest.raises(InvalidParameter, match=r"^Invalid value for 'n_samples': MixedMixture.sample: n_samples"):
        model.sample(0)


def test_a_spherical_mixture_has_no_unit_where_a_column_is_empty():
    """The empty column kept the unit 1, in which 2^−40 X has no variance."""
    X = np.random.default_rng(0).normal(size=(40, 3)) + 4.0 * np.repeat([[0.0], [1.0]], 20, axis=0)
    X[:, 2] = np.nan
    X[3, 0] = np.nan
    model = MixedMixture(3, covariance_type="spherical", reg_covar=0, init_params="random", random_state=0)
    labels = model.fit(X).labels_
    assert len(np.unique(labels)) > 1
    for power in (-40, -400, 40):
        np.testing.assert_array_equal(model.fit(np.ldexp(X, power)).labels_, labels)


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_the_same_values_have_an_order(seed):
    """Least, largest and bits of 0/1 columns are the same: their order was that of the table."""
    generator = np.random.default_rng(seed)
    X = (generator.random((40, 4)) < 0.5).astype(float)
    X[generator.random(X.shape) < 0.1] = np.nan
    model = MixedMixture(2, covariance_type="diag", init_params="random", random_state=0)
    expected = model.fit(X).lower_bounds_.tolist()
    for _ in range(3):
        assert model.fit(X[:, generator.permutation(4)]).lower_bounds_.tolist() == expected


def test_rows_of_tiny_weight_are_not_lost():
    X = np.array([[0.0, np.nan], [np.nan, 0.0], [1.0, 1.0]])
    model = MixedMixture(2, categorical_features=[0, 1], random_state=0)
    model.fit(X, sample_weight=[1e-200, 1e290, 1e290])
    assert np.isfinite(model.level_probabilities_).all()
    assert np.isfinite(model.score_samples(X)).all()
