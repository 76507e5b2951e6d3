"""Laws of SpectralClustering: orders, weights, threads, routes, and that predict is labels_."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knoll import SpectralClustering
from knoll.metrics import adjusted_rand_score

AFFINITIES = [
    {"sigma": 0.8},
    {"sigma": 0.8, "zero_diagonal": True},
    {"affinity": "nearest_neighbors", "n_neighbors": 6},
]


def groups(seed, n=90, d=2):
    generator = np.random.default_rng(seed)
    return generator.normal(scale=0.7, size=(n, d)) + 5 * generator.normal(size=(3, d))[np.arange(n) % 3]


def quiet_fit(X, k=3, w=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random groups may fall apart: the laws hold all the same
        return SpectralClustering(k, **{"random_state": 3, **parameters}).fit(X, sample_weight=w)


@pytest.mark.parametrize("parameters", AFFINITIES, ids=str)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 7), scaling=st.sampled_from(["unit", "none", "degree"]))
@settings(max_examples=12, deadline=None)
def test_predict_is_labels(parameters, seed, k, scaling):
    X = groups(seed)
    X[-4:] = X[:4]  # copies
    for assign_labels in ("kmeans", "discretize", "cluster_qr"):
        model = quiet_fit(X, k, row_scaling=scaling, assign_labels=assign_labels, **parameters)
        assert (model.predict(X) == model.labels_).all()
        assert (model.predict(X[::-1][:7]) == model.labels_[::-1][:7]).all()
        assert model.labels_.min() >= 0
        assert model.labels_.max() < k


@pytest.mark.parametrize("parameters", AFFINITIES, ids=str)
@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_no_order_of_the_rows_changes_the_answer(parameters, seed):
    X = groups(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    one, other = quiet_fit(X, **parameters), quiet_fit(X[order], **parameters)
    np.testing.assert_allclose(other.eigenvalues_, one.eigenvalues_, atol=1e-9)
    if one.eigengap_ > 1e-3:  # else there is no one embedding
        assert (other.labels_ == one.labels_[order]).all()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=8, deadline=None)
def test_a_weight_is_repetition(seed):
    X = groups(seed, 60)
    w = np.random.default_rng(seed).integers(0, 4, 60)
    w[:3] = 1
    weighted, repeated = quiet_fit(X, w=w, sigma=1.2), quiet_fit(np.repeat(X, w, axis=0), sigma=1.2)
    np.testing.assert_allclose(weighted.eigenvalues_, repeated.eigenvalues_, atol=1e-9)
    assert weighted.normalized_cut_ == pytest.approx(repeated.normalized_cut_, abs=1e-9)
    if weighted.eigengap_ > 1e-3:
        assert (np.repeat(weighted.labels_, w) == repeated.labels_).all()
        assert (weighted.predict(X) == repeated.predict(X)).all()


@given(seed=st.integers(0, 10**6), power=st.integers(-30, 30))
@settings(max_examples=8, deadline=None)
def test_powers_of_two_are_exact(seed, power):
    X = groups(seed)
    one, other = quiet_fit(X, sigma=1.0), quiet_fit(X * 2.0**power, sigma=2.0**power)
    assert one.embedding_.tobytes() == other.embedding_.tobytes()
    assert (one.labels_ == other.labels_).all()


@given(seed=st.integers(0, 10**6))
@settings(max_examples=5, deadline=None)
def test_routes_give_one_partition_and_threads_the_same_bits(seed):
    X = groups(seed, 600)
    models = [quiet_fit(X, sigma=1.0, operator=route) for route in ("stored", "tiles", "truncated")]
    for model in models[1:]:
        np.testing.assert_allclose(model.eigenvalues_, models[0].eigenvalues_, atol=1e-9)
        if model.eigengap_ > 1e-3 and model.n_connected_components_ == models[0].n_connected_components_:
            assert adjusted_rand_score(model.labels_, models[0].labels_) == 1
    again = quiet_fit(X, sigma=1.0, operator="truncated", n_jobs=3)
    assert again.embedding_.tobytes() == models[2].embedding_.tobytes()


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5))
@settings(max_examples=10, deadline=None)
def test_the_relaxation_bounds_the_discrete_problems(seed, k):
    """Tr ≤ Σλ for both: Ncut ≥ 1 − Σλ/k, and kernel k-means' trace is at most Σλ."""
    X = groups(seed)
    model = quiet_fit(X, k, sigma=1.0)
    if len(np.unique(model.labels_)) == k:
        assert model.normalized_cut_ >= 1 - model.eigenvalues_[:k].sum() / k - 1e-9
        assert model.objective_ <= model.eigenvalues_[:k].sum() + 1e-9
