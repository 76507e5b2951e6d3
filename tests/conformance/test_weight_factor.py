"""A common factor of the weights, from 1e-300 to 1e300, changes no answer; objectives and heights have its unit."""

from __future__ import annotations

import numpy as np
import pytest

import knoll
from tests.conformance.contract import PARAMETERS, UNWEIGHTED, data, outputs, public_estimators

# What is counted against a number of rows is no share: there min_samples has the unit of the weights.
COUNTING = {"DBSCAN", "DensityTree", "HDBSCAN"}
SHARES = [cls for cls in public_estimators() if cls.__name__ not in COUNTING | UNWEIGHTED]
ANSWERS = ("labels_", "cluster_centers_", "means_", "mean_", "covariance_", "covariances_", "children_", "n_iter_")

X = data(60)
WEIGHTS = np.random.default_rng(3).integers(1, 5, size=60).astype(float)
WEIGHTS[::9] = 0


def fit(cls, weights):
    seeded = {"random_state": 0} if "random_state" in cls().get_params() else {}
    return cls(**{**PARAMETERS.get(cls.__name__, {}), **seeded}).fit(X, sample_weight=weights)


@pytest.mark.parametrize("factor", [2.0**-990, 2.0**-500, 0.125, 8.0, 2.0**500, 2.0**990])
@pytest.mark.parametrize("cls", SHARES, ids=lambda cls: cls.__name__)
def test_a_power_of_two_changes_no_bit(cls, factor):
    plain, scaled = fit(cls, WEIGHTS), fit(cls, WEIGHTS * factor)
    for name in ANSWERS:
        if hasattr(plain, name):
            np.testing.assert_array_equal(getattr(scaled, name), getattr(plain, name))
    mine, others = outputs(plain, X), outputs(scaled, X)
    for name in mine:
        np.testing.assert_array_equal(others[name], mine[name])


@pytest.mark.parametrize("factor", [1e-307, 1e-300, 1e-160, 0.3, 1e160, 1e300])
@pytest.mark.parametrize("cls", SHARES, ids=lambda cls: cls.__name__)
def test_any_factor_changes_rounding_only(cls, factor):
    plain, scaled = fit(cls, WEIGHTS), fit(cls, WEIGHTS * factor)
    for name in ANSWERS:
        if hasattr(plain, name):
            np.testing.assert_allclose(getattr(scaled, name), getattr(plain, name), rtol=1e-9, atol=1e-12)
    for name in ("predict", "predict_proba"):
        if hasattr(plain, name):
            np.testing.assert_allclose(getattr(scaled, name)(X), getattr(plain, name)(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("factor", [2, 8, 1024])
@pytest.mark.parametrize("name", sorted(COUNTING))
def test_counts_have_the_unit_of_the_weights(name, factor):
    cls = getattr(knoll, name)
    options = {"eps": 1.5} if name == "DBSCAN" else {}
    sizes = {"min_cluster_size": 5} if name == "HDBSCAN" else {}
    plain = cls(min_samples=4, **options, **sizes).fit(X, sample_weight=WEIGHTS)
    larger = {size: value * factor for size, value in sizes.items()}
    scaled = cls(min_samples=4 * factor, **options, **larger).fit(X, sample_weight=WEIGHTS * factor)
    for answer in ("labels_", "core_sample_indices_", "order_", "bars_", "core_distances_", "probabilities_"):
        if hasattr(plain, answer):
            np.testing.assert_array_equal(getattr(scaled, answer), getattr(plain, answer))


def test_every_estimator_is_in_one_of_the_tests():
    names = {cls.__name__ for cls in public_estimators()}
    assert names == {cls.__name__ for cls in SHARES} | COUNTING | UNWEIGHTED
