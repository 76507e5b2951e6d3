"""Numbers near the ends of float64: an answer, or an error that names the column and a remedy; no warning of NumPy."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from knoll.comparison import compare
from knoll.exceptions import BadData, KnollError
from knoll.metrics import adjusted_rand_score
from knoll.models import Preparation

MOST = np.finfo(np.float64).max
EXPONENTS = np.array([-320, -308, -300, -200, -160, -150, -100, -20, 0, 20, 100, 150, 160, 200, 300, 307])


def two(n: int = 40, d: int = 2) -> np.ndarray:
    return np.concatenate([c + np.random.default_rng(c).normal(size=(n, d)) for c in (0, 9)])


def random_table(seed: int) -> np.ndarray:
    """Some rows whose magnitudes differ by table, column, row or cell; also constant columns, copies, far rows."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([2, 3, 10, 20, 25, 50, 120, 200])), int(rng.integers(1, 7))
    X = rng.normal(size=(n, d)) + 6 * rng.integers(0, 3, size=(n, 1))
    if rng.random() < 0.2:
        X = X[rng.integers(0, 3, size=n) % n]
    shape = [(1, 1), (1, d), (n, 1), (n, d)][rng.integers(4)]
    with np.errstate(all="ignore"):
        X = X * 10.0 ** rng.choice(EXPONENTS, size=shape)
        X = X + (10.0 ** rng.choice(EXPONENTS) if rng.random() < 0.2 else 0.0)
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = rng.choice([0.0, 1e300, -1e-300, 5e-324, MOST])
    if rng.random() < 0.2:
        X[rng.integers(n)] = rng.choice([1e300, -1e150, MOST, 1e-300])
    return np.clip(np.nan_to_num(X, posinf=MOST, neginf=-MOST), -MOST, MOST)


def compared(X: np.ndarray, **options):
    """Compare with every warning an error; an answer or a KnollError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            found = compare(X, k=range(1, 4), n_jobs=1, **options)
        except KnollError as error:
            return error
    json.dumps(found.summary(), allow_nan=False)
    assert found.candidates or found.failures
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_table_of_any_magnitudes_has_an_answer_or_an_error_of_ours(seed):
    X = random_table(seed)
    scale = ("standard", "robust", "none", "none")[seed % 4]
    compared(X, scale=scale, methods=None if seed < 12 else ["kmeans", "dbscan"])


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
@pytest.mark.parametrize(
    "unit", [1e-320, 1e-300, 1e-150, 1e150, 1e300, 1e307, [1e300, 1e-300], [1e150, 1.0], [1e-300, 1.0]], ids=str
)
def test_units_at_the_ends_of_float64(unit, scale):
    found = compared(two() * unit, methods=["kmeans", "dbscan"], scale=scale)
    assert found.failures == ()
    assert adjusted_rand_score(found.labels, np.repeat([0, 1], 40)) > 0.9


@pytest.mark.parametrize("power", [-1000, -500, 0, 500, 1015])
@pytest.mark.parametrize("constant", [1.0, 1e25 / 3, 1e200 / 3, -MOST, 5e-324])
def test_the_answer_does_not_depend_on_the_unit(power, constant):
    """Whatever stands in a constant column."""
    rows, methods = two(), ["kmeans", "hdbscan"]
    usual = compare(np.c_[rows, np.zeros(80)], methods=methods)
    found = compare(np.c_[np.ldexp(rows, power), np.full(80, constant)], methods=methods)
    assert found.verdict == usual.verdict == "clusters"
    assert adjusted_rand_score(found.labels, usual.labels) == 1.0
    assert found.confidence == pytest.approx(usual.confidence, abs=1e-6)


def test_a_column_that_leaves_float64_when_scaled_is_named():
    far = np.c_[np.linspace(0, 1, 60), np.r_[np.full(30, -MOST), np.full(30, MOST)]]
    message = (
        r"column 'b' spans more than float64 can hold under scale='standard'\. Leave out .*, or divide the column by"
    )
    shifted = np.c_[far[:, 0], np.r_[np.full(50, MOST), np.full(10, -MOST)]]
    with pytest.raises(BadData, match=message):
        compare(shifted, columns=["a", "b"], scale="standard")
    assert compare(shifted / 1024, columns=["a", "b"], methods=["kmeans"]).candidates
    thin = np.c_[far[:, 0], 1e-10 * far[:, 0]]
    thin[-1, 1] = 1e300
    with pytest.raises(
        BadData, match=r"column 'b' .* under scale='robust'\. Leave out .*, or use scale=\"standard\"\."
    ):
        compare(thin, columns=["a", "b"], scale="robust")
    assert compare(thin, columns=["a", "b"], methods=["kmeans"]).candidates


def test_rows_further_apart_than_float64_holds_are_named():
    with pytest.raises(BadData, match=r"column 'a' spans .* under scale='none'\. .*, or use scale=\"standard\"\."):
        compare([[-0.9 * MOST], [0.2 * MOST]], columns=["a"], methods=["kmeans"], k=[2], scale="none")


@pytest.mark.parametrize("scale", ["standard", "robust", "none"])
def test_medians_and_quartiles_of_the_largest_numbers_are_finite(scale):
    column = np.repeat([[-MOST], [MOST]], 4, axis=0)
    for X in (column, np.abs(column)):
        made = Preparation.fit(X, ["a"], scale=scale)
        assert np.isfinite([*made.center, *made.spread, *made.fill]).all()
        assert Preparation.from_plain(made.plain()) == made
    assert Preparation.fit(np.abs(column), ["a"], scale=scale).fill == (MOST,)


def test_a_half_that_cannot_be_fitted_costs_the_stability_and_not_the_answer(monkeypatch):
    from knoll.comparison.methods import MixtureProposer

    def broken(self, chosen, points, subsample):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(MixtureProposer, "fit", broken)
    found = compare(two(), methods=["gaussian-mixture"], k=[2])
    assert found.failures == ()
    assert found.candidates["gaussian-mixture"].stability is None


@pytest.mark.parametrize(
    ("deviations", "scale"),
    [((1, 1), "common"), ((1, 4.9), "common"), ((1, 5.5), "standard"), ((1, 1, 1), "common"),
     ((1, 1, 1, 1), "standard"), ((1, 0), "common"), ((0, 0), "common"), ((1e-300, 3e-300), "common"),
     ((1e300, 3e300), "common")],
    ids=str,
)  # fmt: skip
def test_auto_takes_a_common_factor_for_few_columns_of_like_deviation(deviations, scale):
    X = np.random.default_rng(0).normal(size=(300, len(deviations))) * deviations + 7 * np.array(deviations)
    made = Preparation.fit(X, [f"x{j}" for j in range(len(deviations))], scale="auto")
    assert made.scale == scale
    scaled = made.apply(X)
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    if scale == "common":
        assert len(set(made.spread)) == 1
        if any(deviations):
            assert (scaled.std(axis=0) ** 2).mean() == pytest.approx(1.0)
    assert Preparation.from_plain(made.plain()) == made
